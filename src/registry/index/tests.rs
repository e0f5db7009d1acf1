use crate::model::{Approval, Digest, Grants, Handler, KeyId, Limits, Mode, Schemas, SkillState};

use super::*;

pub(in crate::registry) fn skill(owner: &str, version: &str) -> Skill {
    Skill {
        id: SkillId::generate(),
        owner: owner.parse().unwrap(),
        name: "a".parse().unwrap(),
        version: version.parse().unwrap(),
        description: String::new(),
        handler: Handler::Wasm { digest: Digest::of(b"") },
        schema: Schemas::default(),
        enabled: true,
        mode: Mode::On,
        tags: Vec::new(),
        source_provider: "local".into(),
        source: None,
        public: false,
        approval: Approval::None,
        grants: Grants::default(),
        limits: Limits::DEFAULT,
        frozen_limits: Limits::DEFAULT,
        frozen_network: Vec::new(),
        retry: crate::model::Retry::default(),
        frozen_workspace: crate::model::Access::None,
        frozen_secrets: Some(Vec::new()),
        frozen_skills: Some(Vec::new()),
        idempotent: false,
        reuse: false,
        frozen_reuse: false,
        pinned: Vec::new(),
        functions: Vec::new(),
        imports: Vec::new(),
        warnings: Vec::new(),
        state: SkillState::Ready,
        problem: None,
        registered_by: KeyId::generate(),
        manifest_digest: Digest::of(b""),
        created_at: 0,
        updated_at: 0,
    }
}

#[test]
fn an_owner_with_the_most_versions_gets_no_new_one_and_keeps_what_it_has() {
    let mut index = Index::default();
    for version in ["1.0.0", "1.1.0"] {
        index.require_room(&skill("full", version), 2).unwrap();
        index.put(RegisteredSkill::new(skill("full", version)));
    }
    assert_eq!(index.require_room(&skill("full", "1.2.0"), 2).unwrap_err().code, Code::StorageFull);
    index.require_room(&skill("full", "1.1.0"), 2).unwrap();
    index.require_room(&skill("other", "1.2.0"), 2).unwrap();
}

/// An index with these versions of one skill.
fn with(versions: &[&str]) -> Index {
    let mut index = Index::default();
    for version in versions {
        index.put(RegisteredSkill::new(skill("o", version)));
    }
    index
}

/// What a selector means there.
fn picked(index: &Index, selector: &str) -> Option<String> {
    let (owner, name) = ("o".parse().unwrap(), "a".parse().unwrap());
    index.pick(&owner, &name, &selector.parse().unwrap()).map(|skill| skill.skill.version.to_string())
}

#[test]
fn every_kind_of_range_means_the_highest_version_that_semver_says() {
    let index = with(&[
        "0.0.3",
        "0.0.4",
        "0.1.0",
        "0.1.9",
        "0.2.0",
        "1.0.0",
        "1.2.0",
        "1.2.9",
        "1.10.0",
        "2.0.0",
        "2.1.0-rc.1",
    ]);
    for (selector, version) in [
        ("latest", Some("2.0.0")),
        ("*", Some("2.0.0")),
        ("^1", Some("1.10.0")),
        ("^1.2.3", Some("1.10.0")),
        ("1.2", Some("1.10.0")),
        ("^0", Some("0.2.0")),
        ("^0.1", Some("0.1.9")),
        ("^0.1.2", Some("0.1.9")),
        ("^0.0.3", Some("0.0.3")),
        ("^0.0", Some("0.0.4")),
        ("~1.2", Some("1.2.9")),
        ("~1.2.1", Some("1.2.9")),
        ("~1", Some("1.10.0")),
        ("~0.1.5", Some("0.1.9")),
        (">1.2", Some("2.0.0")),
        (">1.2 <2", Some("1.10.0")),
        (">=1.2, <1.10", Some("1.2.9")),
        ("< 1", Some("0.2.0")),
        ("<=1.2", Some("1.2.9")),
        ("<=1.2.0", Some("1.2.0")),
        ("=1.2.0", Some("1.2.0")),
        ("=1.2", Some("1.2.9")),
        ("1.2.0", Some("1.2.0")),
        ("1.2.1", None),
        ("^3", None),
        (">2", None),
        (">=2.1.0-rc.0", Some("2.1.0-rc.1")),
        ("^2.1.0-rc.1", Some("2.1.0-rc.1")),
        ("2.1.0-rc.1", Some("2.1.0-rc.1")),
        ("stable", None),
    ] {
        assert_eq!(picked(&index, selector).as_deref(), version, "{selector}");
    }
    assert_eq!(picked(&with(&["1.0.0-a", "1.0.0-b"]), "latest").as_deref(), Some("1.0.0-b"));
    assert_eq!(picked(&with(&["1.0.0-a"]), "*"), None);
}

#[test]
fn what_waits_for_approval_is_passed_over_unless_nothing_else_fits() {
    let mut index = with(&["1.0.0", "1.1.0"]);
    for version in ["1.2.0", "2.0.0"] {
        let waiting = Skill { approval: Approval::Pending, ..skill("o", version) };
        index.put(RegisteredSkill::new(waiting));
    }
    let expected = [("latest", "1.1.0"), ("^1", "1.1.0"), ("1.2.0", "1.2.0"), ("^2", "2.0.0")];
    for (selector, version) in expected {
        assert_eq!(picked(&index, selector).as_deref(), Some(version), "{selector}");
    }
}

#[test]
fn an_alias_means_what_it_was_last_pointed_to_and_stands_on_that_version() {
    let mut index = with(&["1.0.0", "1.1.0"]);
    let alias: Alias = "stable".parse().unwrap();
    let record = |version: &str| AliasRecord {
        owner: "o".parse().unwrap(),
        name: "a".parse().unwrap(),
        alias: "stable".parse().unwrap(),
        version: version.parse().unwrap(),
    };
    for version in ["1.1.0", "1.0.0"] {
        index.put_alias(record(version));
        assert_eq!(picked(&index, "stable").as_deref(), Some(version));
        assert_eq!(index.aliases_of(&skill("o", version)), std::slice::from_ref(&alias));
    }
    assert!(index.aliases_of(&skill("o", "1.1.0")).is_empty());
    assert!(index.aliases_of(&skill("other", "1.0.0")).is_empty());
    let gone = record("1.0.0");
    index.remove_alias(&gone.owner, &gone.name, &alias);
    assert_eq!(picked(&index, "stable"), None);
}

/// What SemVer says of one comparator, written down apart from the library that the index uses: the
/// first version that fits and the first that does no more, as numbers that sort like versions.
fn bounds(op: &str, parts: &[u64]) -> (u64, u64) {
    let number = |major: u64, minor: u64, patch: u64| (major * 100 + minor) * 100 + patch;
    let [major, minor, patch] = [0, 1, 2].map(|at| parts.get(at).copied().unwrap_or(0));
    let low = number(major, minor, patch);
    // The next one that differs in the last part that is given.
    let next = match parts.len() {
        1 => number(major + 1, 0, 0),
        2 => number(major, minor + 1, 0),
        _ => low + 1,
    };
    let caret = match (major, parts.len()) {
        (0, 2) => number(0, minor + 1, 0),
        (0, 3) if minor > 0 => number(0, minor + 1, 0),
        (0, 3) => low + 1,
        _ => number(major + 1, 0, 0),
    };
    let tilde = if parts.len() == 1 { next } else { number(major, minor + 1, 0) };
    match op {
        "^" | "" => (low, caret),
        "~" => (low, tilde),
        ">" => (next, u64::MAX),
        ">=" => (low, u64::MAX),
        "<" => (0, low),
        "<=" => (0, next),
        "=" => (low, next),
        _ => unreachable!(),
    }
}

fn comparator() -> impl proptest::strategy::Strategy<Value = (&'static str, Vec<u64>)> {
    use proptest::prelude::*;
    let op = prop::sample::select(vec!["^", "~", ">", ">=", "<", "<=", "="]);
    (op, prop::collection::vec(0_u64..4, 1..=3))
}

proptest::proptest! {
    #[test]
    fn of_any_versions_a_range_means_the_highest_that_is_within_all_its_bounds(
        versions in proptest::collection::btree_set((0_u64..4, 0_u64..4, 0_u64..4), 1..24),
        range in proptest::collection::vec(comparator(), 1..=2), spaced in proptest::bool::ANY,
    ) {
        let texts: Vec<_> = versions.iter().map(|(a, b, c)| format!("{a}.{b}.{c}")).collect();
        // Higher than all of them, and only for those who ask for it.
        let before = texts.iter().map(|text| format!("{text}-rc.1"));
        let all: Vec<_> = texts.iter().cloned().chain(before).collect();
        let index = with(&all.iter().map(String::as_str).collect::<Vec<_>>());
        let words = range.iter().map(|(op, parts)| {
            let parts: Vec<_> = parts.iter().map(u64::to_string).collect();
            format!("{op}{}", parts.join("."))
        });
        let selector = words.collect::<Vec<_>>().join(if spaced { " " } else { ", " });
        let bounds: Vec<_> = range.iter().map(|(op, parts)| bounds(op, parts)).collect();
        let fits = |(a, b, c): &(u64, u64, u64)| {
            let number = (a * 100 + b) * 100 + c;
            bounds.iter().all(|(low, high)| (*low..*high).contains(&number))
        };
        let expected = versions.iter().rev().find(|version| fits(version)).map(|(a, b, c)| format!("{a}.{b}.{c}"));
        proptest::prop_assert_eq!(picked(&index, &selector), expected, "{}", selector);
    }
}
