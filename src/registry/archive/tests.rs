use std::io::Write;

use futures_util::StreamExt;
use proptest::prelude::*;
use tempfile::NamedTempFile;

use super::pack::{Item, end, listed, zip};
use super::*;

/// Most bytes of a file in these tests.
const MOST: u64 = 2 << 20;
const SKILL_MD: &str = "---\nname: a\n---\n\n```json skill\n{ \"name\": \"a\", \"version\": \"1.0.0\" }\n```\n";

/// What comes out of an archive: the text and the component.
fn unzipped(archive: &[u8]) -> Result<(String, Vec<u8>), Error> {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(archive).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (manifest, component) = unzip(file.path().to_owned(), MOST);
        let component: Vec<_> = component.map(Result::unwrap).collect().await;
        assert!(component.iter().map(Bytes::len).sum::<usize>() as u64 <= MOST);
        Ok((manifest.await.unwrap()?.skill_md.unwrap(), component.concat()))
    })
}

fn code(archive: &[u8]) -> Code {
    unzipped(archive).unwrap_err().code
}

/// A good archive with one more file.
fn with(more: Item) -> Vec<u8> {
    zip(&[Item::new("SKILL.md", SKILL_MD.as_bytes()), Item::new("a.wasm", b"\0asm"), more])
}

/// A good archive with a file of another name.
fn named(name: &str) -> Vec<u8> {
    with(Item::new(name, b"x"))
}

/// An extra field of this kind.
fn field(kind: u16, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap();
    [&kind.to_le_bytes(), &length.to_le_bytes(), content].concat()
}

/// What follows the content of a file whose sizes follow.
fn sizes(item: &Item) -> Vec<u8> {
    let numbers = [item.crc, item.bytes.len().try_into().unwrap(), item.size];
    [b"PK\x07\x08".to_vec(), numbers.map(u32::to_le_bytes).concat()].concat()
}

fn change(archive: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut changed = archive.to_vec();
    changed[at..at + bytes.len()].copy_from_slice(bytes);
    changed
}

#[test]
fn a_folder_is_read_at_the_top_and_in_one_folder_whatever_else_is_in_it() {
    let skill_md = Item::new("SKILL.md", SKILL_MD.as_bytes());
    let beside = [
        Item::new("references/b.md", b"text"),
        Item::stored("assets/nested.zip", &zip(std::slice::from_ref(&skill_md))),
        Item::stored("tests/", b""),
        Item::new("tests/other.wasm", b"\0asm"),
        Item::stored("scripts/é.sh", b"\0\0\0"),
    ];
    let top = [&[skill_md, Item::stored("a.wasm", b"\0asm1")][..], &beside].concat();
    let expected = (SKILL_MD.to_owned(), b"\0asm1".to_vec());
    assert_eq!(unzipped(&zip(&top)).unwrap(), expected);
    let below = top.iter().map(|item| {
        let name = [b"my-skill/", &item.name[..]].concat();
        Item { local_name: name.clone(), name, ..item.clone() }
    });
    let mut below: Vec<Item> = below.collect();
    below.push(Item::new("__MACOSX/my-skill/._SKILL.md", b"x"));
    assert_eq!(unzipped(&zip(&below)).unwrap(), expected);
    // Sizes may follow the content, and the archive may have a comment.
    let following = Item::new("b", b"b");
    let following = Item { flags: 8, behind: sizes(&following), ..following };
    let mut archive = with(following);
    let at = archive.len() - 2;
    archive[at] = 3;
    archive.extend(b"abc");
    assert!(unzipped(&archive).is_ok());
}

#[test]
fn a_folder_that_is_no_skill_is_refused_by_what_is_missing() {
    let (skill_md, component) = (Item::new("SKILL.md", SKILL_MD.as_bytes()), Item::new("a.wasm", b"\0asm"));
    let text = |text: &str| Item::new("SKILL.md", text.as_bytes());
    let of = |items: &[&Item]| code(&zip(&items.iter().map(|item| (*item).clone()).collect::<Vec<_>>()));
    assert_eq!(of(&[]), Code::InvalidManifest);
    assert_eq!(of(&[&component]), Code::InvalidManifest);
    assert_eq!(of(&[&skill_md]), Code::InvalidComponent);
    assert_eq!(of(&[&skill_md, &component, &Item::new("b.wasm", b"\0asm")]), Code::InvalidComponent);
    assert_eq!(of(&[&Item::new("x/y/SKILL.md", b""), &component]), Code::InvalidManifest);
    assert_eq!(of(&[&Item::new("x/SKILL.md", b""), &component]), Code::InvalidManifest);
    assert_eq!(of(&[&text("# a"), &component]), Code::InvalidManifest);
    assert_eq!(of(&[&text(&SKILL_MD.repeat(2)), &component]), Code::InvalidManifest);
    assert_eq!(of(&[&text("```json skill\n[]\n```"), &component]), Code::Malformed);
    assert_eq!(of(&[&Item::new("SKILL.md", b"\xff"), &component]), Code::InvalidManifest);
    assert_eq!(of(&[&text(&"a".repeat(600 << 10)), &component]), Code::TooLarge);
    // Without code and without a manifest it is the handler `instructions`.
    let error = unzipped(&zip(&[text("# a")])).unwrap_err();
    assert_eq!((error.code, error.fields[0].pointer.as_str()), (Code::NotSupported, "/handler"));
    let docker = text("```json skill\n{ \"name\": \"a\", \"version\": \"1.0.0\", \"handler\": \"docker://a\" }\n```");
    assert_eq!(of(&[&docker]), Code::NotSupported);
}

#[test]
fn names_that_lead_elsewhere_or_meet_are_refused() {
    let long = "a/".repeat(600);
    for name in [
        "",
        "/",
        "/etc/passwd",
        "../a",
        "a/../b",
        "a/..",
        "..",
        ".",
        "a//b",
        "./a",
        "a\\b",
        "..\\a",
        "c:a",
        "c:\\a",
        "a\0b",
        "a\nb",
        "a\u{202e}b",
        "\\\\host\\share",
        "a/./b",
        &long,
        &"a/".repeat(65),
        &"a".repeat(256),
    ] {
        assert_eq!(code(&named(name)), Code::Malformed, "{name:?}");
    }
    // The same file on some disk: as it is, by case, by Unicode form; and a file that is a folder.
    for name in
        ["SKILL.md", "a.wasm", "skill.md", "Skill.MD", "A.WASM", "a.wasm/", "a.wasm/b", "ａ.wasm", "SKILL.md/x/y"]
    {
        assert_eq!(code(&named(name)), Code::Malformed, "{name:?}");
    }
    let composed = [Item::new("SKILL.md", SKILL_MD.as_bytes()), Item::new("é", b""), Item::new("e\u{301}", b"")];
    assert_eq!(code(&zip(&composed)), Code::Malformed);
    for name in ["a/b..c/d", "a/.hidden", "...", "a b", "日本/é"] {
        assert!(unzipped(&named(name)).is_ok(), "{name:?}");
    }
    assert_eq!(code(&with(Item { name: vec![0xff], local_name: vec![0xff], ..Item::new("", b"") })), Code::Malformed);
}

#[test]
fn an_entry_that_is_not_what_the_list_says_is_refused() {
    let item = Item::new("b", b"some content");
    let lies = [
        Item { crc: 1, ..item.clone() },
        Item { size: 11, ..item.clone() },
        Item { size: 13, ..item.clone() },
        Item { bytes: item.bytes[..8].to_vec(), ..item.clone() },
        Item { bytes: [&item.bytes[..], b"more"].concat(), ..item.clone() },
        Item { bytes: vec![0xff; 20], ..item.clone() },
        Item { local_name: b"c".to_vec(), ..item.clone() },
        // Encrypted, in three ways.
        Item { flags: 1, ..item.clone() },
        Item { flags: 1 << 6 | 1, ..item.clone() },
        Item { flags: 1 << 13, ..item.clone() },
        // Compressed in other ways; stored with two sizes.
        Item { method: 9, ..item.clone() },
        Item { method: 12, ..item.clone() },
        Item { method: 99, ..item.clone() },
        Item { method: 0, ..item.clone() },
        // A link, a pipe, a device; a folder with content.
        Item { mode: 0o120_777, ..item.clone() },
        Item { mode: 0o010_644, ..item.clone() },
        Item { mode: 0o060_644, ..item.clone() },
        Item::stored("b/", b"x"),
        // Bytes that belong to no file.
        Item { behind: vec![0], ..item.clone() },
        Item { behind: vec![0; 16], ..item.clone() },
        Item { flags: 8, ..item.clone() },
        Item { flags: 8, behind: vec![0; 40], ..item.clone() },
    ];
    for (at, lie) in lies.into_iter().enumerate() {
        assert_eq!(code(&with(lie)), Code::Malformed, "{at}");
    }
    assert!(unzipped(&with(item)).is_ok());
}

#[test]
fn what_is_said_of_a_file_a_second_time_must_be_the_same() {
    let item = Item { flags: 8, ..Item::new("b", b"some content") };
    let sizes = sizes(&item);
    let (crc, rest) = (&sizes[4..8], &sizes[8..]);
    let long = [&rest[..4], &[0; 4], &rest[4..], &[0; 4]].concat();
    let behind = |bytes: &[u8]| with(Item { behind: bytes.to_vec(), ..item.clone() });
    let good = [sizes.clone(), sizes[4..].to_vec(), [b"PK\x07\x08", crc, &long].concat(), [crc, &long].concat()];
    for good in good {
        assert!(unzipped(&behind(&good)).is_ok(), "{good:?}");
        for at in 0..good.len() {
            let bad = change(&good, at, &[good[at] ^ 1]);
            assert_eq!(code(&behind(&bad)), Code::Malformed, "{at} of {}", good.len());
        }
    }
    // A name in UTF-8, in the list or before the content: with the checksum of the other one.
    let item = Item::new("b", b"some content");
    let mut crc = flate2::Crc::new();
    crc.update(b"b");
    let named = |name: &[u8], crc: u32| field(0x7075, &[&[1], &crc.to_le_bytes()[..], name].concat());
    let other = field(0x5455, &[0; 5]);
    for (extra, is_good) in [
        (named(b"b", crc.sum()), true),
        ([&other[..], &named(b"b", crc.sum()), &[0; 3]].concat(), true),
        (named(b"c", crc.sum()), false),
        (named(b"b", 0), false),
        ([named(b"b", crc.sum()), named(b"SKILL.md", crc.sum())].concat(), false),
        (field(0x7075, b""), false),
        (vec![0x75, 0x70, 9, 0, 1], false),
        ([&other[..], b"x"].concat(), false),
    ] {
        for item in [Item { extra: extra.clone(), ..item.clone() }, Item { local_extra: extra.clone(), ..item.clone() }]
        {
            assert_eq!(unzipped(&with(item)).is_ok(), is_good, "{extra:?}");
        }
    }
    // Whether the name is UTF-8.
    assert!(unzipped(&with(Item { flags: 1 << 11, ..item.clone() })).is_ok());
    assert_eq!(code(&with(Item { local_flags: 1 << 11, ..item.clone() })), Code::Malformed);
    // Sizes that stand in an extra field before the content only.
    for (compressed, is_good) in [(item.bytes.len() as u64, true), (1, false)] {
        let sizes = [12, compressed].map(u64::to_le_bytes).concat();
        let archive = zip(&[Item { local_extra: field(1, &sizes), ..Item::new("b", b"some content") }]);
        let elsewhere = change(&archive, 18, &[0xff; 8]);
        let skill = unzipped(&elsewhere).unwrap_err();
        assert_eq!(skill.code == Code::InvalidManifest, is_good, "{skill:?}");
    }
}

#[test]
fn sizes_that_are_elsewhere_before_the_content_and_follow_it_too_are_not_three_different_ones() {
    let item = Item { flags: 8, ..Item::new("b", b"some content") };
    let real = item.bytes.len() as u64;
    let field_of =
        |numbers: &[u64]| field(1, &numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>());
    for (local_extra, is_good) in [
        (vec![], true),
        (field_of(&[0, 0]), true),
        (field_of(&[12, real]), true),
        (field_of(&[12, real + 1]), false),
        (field_of(&[13, real]), false),
        (field_of(&[1 << 40, 1 << 40]), false),
        (field_of(&[12]), false),
        ([field_of(&[0, 0]), field_of(&[13, real])].concat(), false),
    ] {
        let behind = sizes(&item);
        let archive = zip(&[Item { local_extra: local_extra.clone(), behind, ..item.clone() }]);
        // The sizes in the header before the content.
        let elsewhere = unzipped(&change(&archive, 18, &[0xff; 8])).unwrap_err();
        assert_eq!(elsewhere.code == Code::InvalidManifest, is_good, "{local_extra:?}: {elsewhere:?}");
    }
}

#[test]
fn an_archive_that_other_readers_would_read_differently_is_refused() {
    let good = named("b");
    let last = good.len() - 22;
    let list = u32::from_le_bytes(good[last + 16..last + 20].try_into().unwrap()) as usize;
    for (what, bad) in [
        ("nothing", Vec::new()),
        ("no zip", b"\0asm".repeat(100)),
        ("something before", [b"x", &good[..]].concat()),
        ("something behind", [&good[..], b"x"].concat()),
        ("something between list and end", [&good[..last], b"x", &good[last..]].concat()),
        ("cut", good[..good.len() - 1].to_vec()),
        ("two archives", [&good[..], &good[..]].concat()),
        ("fewer files than there are", change(&good, last + 8, &[2, 0, 2, 0])),
        ("more files than there are", change(&good, last + 8, &[4, 0, 4, 0])),
        ("several parts", change(&good, last + 4, &[1, 0, 1, 0])),
        ("a list elsewhere", change(&good, last + 16, &[0; 4])),
        ("zip64 by its list", change(&good, last + 16, &[0xff; 4])),
        ("zip64 by its count", change(&good, last + 8, &[0xff; 4])),
        ("zip64 by a size", change(&good, list + 20, &[0xff; 8])),
        ("a file beyond the end", change(&good, list + 42, &[0, 0, 0, 0x7f])),
        ("a file in another part", change(&good, list + 34, &[1])),
        ("one file twice", change(&good, list + 46 + 8 + 42, &[0; 4])),
    ] {
        assert_eq!(code(&bad), Code::Malformed, "{what}");
    }
}

#[test]
fn bombs_are_refused_before_they_go_off() {
    let zeros = vec![0; 3 << 20];
    let bomb = Item::new("b", &zeros);
    assert!(bomb.bytes.len() * 200 < zeros.len());
    assert_eq!(code(&with(bomb.clone())), Code::TooLarge);
    // One that says it is small.
    assert_eq!(code(&with(Item { size: 10, ..bomb.clone() })), Code::Malformed);
    // A component that is too large, and files that are too large together.
    let stored = Item::stored("b.wasm", &zeros);
    assert_eq!(code(&zip(&[Item::new("SKILL.md", SKILL_MD.as_bytes()), stored.clone()])), Code::TooLarge);
    assert_eq!(code(&zip(&[Item::stored("c", &zeros), stored])), Code::TooLarge);
    // Too many files, and a list that is said to be longer than it is.
    let many: Vec<_> = (0..1001).map(|n| Item::stored(&n.to_string(), b"")).collect();
    assert_eq!(code(&zip(&many)), Code::TooLarge);
    assert_eq!(code(&end(1, u32::MAX - 1, 0)), Code::TooLarge);
    // A file whose content is another file with its header: both are right by themselves.
    let inner = zip(&[Item::stored("b", b"inner")]);
    let inner = inner[..30 + 1 + 5].to_vec();
    let outer = zip(&[Item::stored("a", &inner)]);
    let start = 30 + 1 + inner.len();
    let list = [listed(&Item::stored("a", &inner), 0), listed(&Item::stored("b", b"inner"), 31)].concat();
    let over = [&outer[..start], &list, &end(2, list.len().try_into().unwrap(), start.try_into().unwrap())].concat();
    assert!(unzipped(&over).unwrap_err().detail.contains("overlap"));
    // Entries that share all of their content.
    let one = zip(&[Item::new("a", &zeros[..1 << 20])]);
    let list_start = u32::from_le_bytes(one[one.len() - 6..one.len() - 2].try_into().unwrap());
    let item = Item::new("a", &zeros[..1 << 20]);
    let list = listed(&item, 0).repeat(100);
    let end = end(100, list.len().try_into().unwrap(), list_start);
    assert_eq!(code(&[&one[..list_start as usize], &list, &end].concat()), Code::Malformed);
}

proptest! {
    #[test]
    fn a_damaged_archive_gives_what_was_in_it_or_a_refusal(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..4), 1..6),
    ) {
        let content: Vec<u8> = (0..20_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let good = zip(&[
            Item::new("SKILL.md", SKILL_MD.as_bytes()),
            Item::new("a.wasm", &content),
            Item::stored("references/b", b"text"),
        ]);
        let mut bad = good.clone();
        // Mostly in the records, which are less than the content.
        for (place, byte, how) in changes {
            let tail = bad.len().saturating_sub(300);
            let at = if how == 0 { place.index(bad.len()) } else { tail + place.index(bad.len() - tail) };
            match how {
                3 => drop(bad.splice(at..at, [byte])),
                2 if bad.len() > 100 => drop(bad.remove(at)),
                _ => bad[at] = byte,
            }
        }
        match unzipped(&bad) {
            Ok((text, component)) => {
                prop_assert_eq!(text, SKILL_MD);
                prop_assert!(component == content);
            }
            Err(error) => prop_assert!(
                [Code::Malformed, Code::TooLarge, Code::InvalidManifest, Code::InvalidComponent].contains(&error.code),
                "{:?}", error
            ),
        }
    }
}
