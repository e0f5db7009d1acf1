use std::collections::{BTreeMap, BTreeSet};

/// Most lines of a source file.
const MOST_LINES: usize = 400;

/// Which room may use which, as the table in `docs/ARCHITECTURE.md` says.
pub(super) struct Layers(BTreeMap<String, BTreeSet<String>>);

impl Layers {
    /// Reads rows such as ``| `store` | what it is | `model` |``. The last column names rooms,
    /// "nothing", or "all of the above"; "and below" adds what the named rooms may use.
    pub(super) fn from_table(text: &str) -> Self {
        let mut layers: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in text.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            let (room, may) = (quoted(cells[0]).remove(0), cells[cells.len() - 1]);
            let mut used: BTreeSet<String> = quoted(may).into_iter().collect();
            if may == "all of the above" {
                used = layers.keys().cloned().collect();
            } else if let Some((upper, _)) = may.split_once(" and below") {
                used.extend(quoted(upper).iter().flat_map(|room| layers[room].clone()));
            } else {
                assert!(may == "nothing" || !used.is_empty(), "not understood: {line}");
            }
            layers.insert(room, used);
        }
        Self(layers)
    }

    /// Uses of a room that the room of `file` (relative to `src/`) may not use.
    /// `use crate::{` is refused too: one `use` per room, so that each shows.
    pub(super) fn upward_uses(&self, file: &str, text: &str) -> Vec<String> {
        let own = file.split(['/', '.']).next().unwrap_or_default();
        // The crate's root names all of them.
        let Some(allowed) = self.0.get(own) else { return Vec::new() };
        code(text)
            .flat_map(|line| line.match_indices("crate::").map(|(at, found)| &line[at + found.len()..]))
            .map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default())
            .filter(|used| *used != own && !allowed.contains(*used))
            .map(|used| format!("src/{file}: `{own}` may not use `crate::{used}` (docs/ARCHITECTURE.md)"))
            .collect()
    }

    /// Rooms of which the table does not speak, from the names of files relative to `src/`.
    pub(super) fn without_row<'a>(&self, files: impl Iterator<Item = &'a str>) -> Vec<String> {
        let rooms: BTreeSet<_> = files.map(|file| file.split(['/', '.']).next().unwrap_or_default()).collect();
        let unknown = rooms.into_iter().filter(|room| !["lib", "main"].contains(room) && !self.0.contains_key(*room));
        unknown.map(|room| format!("src/{room}: a room without a row in docs/ARCHITECTURE.md")).collect()
    }
}

/// The words between backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The lines that are not comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with("//"))
}

/// Refuses a file of too many lines.
pub(super) fn too_long(file: &str, text: &str) -> Option<String> {
    let lines = text.lines().count();
    (lines > MOST_LINES).then(|| format!("{file}: {lines} lines; at most {MOST_LINES}: a second file is in it"))
}

/// Refuses a file that no `mod` line names: it is not compiled. `read` gives a file's text.
pub(super) fn in_no_mod_list(file: &str, read: impl Fn(&str) -> Option<String>) -> Option<String> {
    let (folder, name) = file.strip_suffix(".rs")?.rsplit_once('/')?;
    let (folder, name) = match name {
        "lib" | "main" => return None,
        "mod" => folder.rsplit_once('/')?,
        _ => (folder, name),
    };
    let mut parents = ["mod.rs", "lib.rs", "main.rs"].iter().map(|door| format!("{folder}/{door}")).collect::<Vec<_>>();
    parents.push(format!("{folder}.rs"));
    let listed = parents.iter().filter_map(|parent| read(parent)).any(|text| {
        let is_it = |line: &str| line.split_whitespace().rev().take(2).eq([&format!("{name};"), "mod"]);
        code(&text).any(is_it)
    });
    (!listed).then(|| format!("{file}: no `mod {name};` names it"))
}

/// Refuses each of `names` that is a word of none of `texts`.
pub(super) fn unnamed<'a>(names: impl Iterator<Item = &'a str>, texts: &[&str]) -> Vec<String> {
    let part = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let words: BTreeSet<_> = texts.iter().flat_map(|text| text.split(|c| !part(c))).collect();
    let names: BTreeSet<_> = names.filter(|name| !words.contains(name)).collect();
    names.into_iter().map(|name| format!("guest `{name}`: no test runs it and no readme shows it")).collect()
}

/// Refuses references of a Markdown file to what is not there: the targets of links, and words
/// that begin with a folder of this repository.
pub(super) fn dead_references(file: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    const FOLDERS: [&str; 10] =
        [".ci/", "benches/", "docs/", "examples/", "guest-examples/", "scripts/", "skills/", "src/", "tests/", "wit/"];
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let from_here = |path: &str| exists(path) || exists(&format!("{folder}/{path}"));
    let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    let links = links.filter(|link| !link.is_empty() && !link.contains(':'));
    let end = |c: char| c.is_whitespace() || "`\"'(),;:|<>[]#".contains(c);
    let words = text.split(end).map(|word| word.trim_start_matches(['@', '.', '/']).trim_end_matches('.'));
    let words = words.filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)));
    // What is built, and patterns, are not in the repository.
    let words = words.filter(|word| !word.contains("/target") && !word.contains(['*', '{', '…']));
    let dead = links.chain(words).filter(|path| !from_here(path));
    let dead: BTreeSet<_> = dead.map(|path| format!("{file}: names `{path}`, which does not exist")).collect();
    dead.into_iter().collect()
}

/// Refuses what must not stay: unfinished code, and paths of the machine it was written on.
pub(super) fn leftovers(file: &str, text: &str, checkout: &str) -> Vec<String> {
    // Written in two parts, so that this file does not find itself.
    let macros = [concat!("to", "do!"), concat!("unimple", "mented!"), concat!("db", "g!")];
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME")];
    let homes = [concat!("/ro", "ot/"), concat!("/Us", "ers/"), concat!("/ho", "me/")];
    let is_rust = file.ends_with(".rs");
    // A made-up home is an example; a real one has more than one letter.
    let is_home = |line: &str, home: &str| {
        let mut users = line.split(home).skip(1).filter_map(|rest| rest.split(['/', '"']).next());
        users.any(|user| user.len() > 1)
    };
    let finding = |(at, line): (usize, &str)| {
        let mut words = macros.iter().filter(|_| is_rust).chain(&marks);
        let word = words.find(|word| line.contains(**word)).copied();
        let path = homes.into_iter().find(|home| is_home(line, home));
        let path = path.or_else(|| line.contains(checkout).then_some("the path of this checkout"));
        word.or(path).map(|what| format!("{file}:{}: {what}", at + 1))
    };
    text.lines().enumerate().filter_map(finding).collect()
}

/// Refuses SQL, its driver, the engine and the HTTP framework outside their rooms.
pub(super) fn strays(file: &str, text: &str) -> Vec<String> {
    const SQL: [&str; 7] =
        ["SELECT ", "INSERT INTO", "INSERT OR", "DELETE FROM", "CREATE TABLE", "PRAGMA ", "ALTER TABLE"];
    let rules: [(&str, &[&str]); 5] = [
        ("src/store/", &SQL),
        ("src/store/", &["rusqlite"]),
        ("src/sandbox/wasm/", &["wasmtime::", "wasmtime_wasi"]),
        ("src/face/http/", &["axum::", "tower_http::", "utoipa"]),
        // The server's side and the client's.
        ("src/face/http/ src/egress/", &["hyper::", "hyper_util::"]),
    ];
    if !file.starts_with("src/") {
        return Vec::new();
    }
    let foreign = rules.iter().filter(|(rooms, _)| !rooms.split(' ').any(|room| file.starts_with(room)));
    let found = foreign.flat_map(|(room, words)| {
        let used = words.iter().filter(|word| code(text).any(|line| line.contains(**word)));
        used.map(move |word| format!("{file}: `{}` belongs into {room} only", word.trim()))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
| room | what it is | may use |
|---|---|---|
| `model` | words | nothing |
| `files` | files | nothing |
| `store` | rows | `model` |
| `access` | keys | `store` and below, `files` |
| `registry` | skills | `store`, `access` and below |
| `host` | all | all of the above |
| `config` | settings | `model` |";

    #[test]
    fn a_use_of_a_room_that_is_not_lower_is_found() {
        let layers = Layers::from_table(TABLE);
        let uses = |file, text| layers.upward_uses(file, text).len();
        assert_eq!(uses("registry/mod.rs", "use crate::model::Key;\nuse crate::store::Store;"), 0);
        assert_eq!(uses("host.rs", "use crate::registry::Registry;"), 0);
        assert_eq!(uses("access.rs", "use crate::files;\nuse crate::model::Key;"), 0);
        assert_eq!(uses("store/keys.rs", "use crate::registry::Registry;"), 1);
        assert_eq!(uses("config/mod.rs", "fn f(_: crate::store::Store, _: crate::model::Key) {}"), 1);
        assert_eq!(uses("model/key.rs", "use crate::{store, host};"), 1);
        assert_eq!(uses("model/key.rs", "/// See [`crate::store`].\nuse crate::model::Key;"), 0);
        assert_eq!(layers.without_row(["lib.rs", "store/a.rs", "cron/mod.rs"].into_iter()).len(), 1);
    }

    #[test]
    fn a_long_file_is_found() {
        assert_eq!(too_long("a.rs", &"x\n".repeat(400)), None);
        assert!(too_long("a.rs", &"x\n".repeat(401)).is_some());
    }

    #[test]
    fn a_file_without_a_mod_line_is_found() {
        let read = |parent: &str| match parent {
            "tests/it/main.rs" => Some("/// Keys.\nmod keys;\n// mod gone;\n".to_owned()),
            "src/lib.rs" => Some("pub mod store;\n".to_owned()),
            "src/host.rs" => Some("mod library;\n".to_owned()),
            _ => None,
        };
        for good in ["tests/it/keys.rs", "tests/it/main.rs", "src/lib.rs", "src/store/mod.rs", "src/host/library.rs"] {
            assert_eq!(in_no_mod_list(good, read), None, "{good}");
        }
        for bad in ["tests/it/gone.rs", "tests/it/ey.rs", "src/store/keys.rs", "src/model/mod.rs"] {
            assert!(in_no_mod_list(bad, read).is_some(), "{bad}");
        }
    }

    #[test]
    fn a_guest_that_nobody_names_is_found() {
        let texts = ["host.with(\"spin\")", "`word-count` counts"];
        assert_eq!(unnamed(["spin", "word-count"].into_iter(), &texts), Vec::<String>::new());
        assert_eq!(unnamed(["spi", "count", "trap"].into_iter(), &texts).len(), 3);
    }

    #[test]
    fn a_reference_to_nothing_is_found() {
        let exists = |path: &str| ["docs/a.md", "scripts/test", "docs", "wit"].contains(&path.trim_end_matches('/'));
        let dead = |text: &str| dead_references("docs/b.md", text, exists).len();
        assert_eq!(
            dead("[a](a.md) [b](docs/a.md#part) [c](#here) [d](https://a.example/x) `scripts/test` in wit/."),
            0
        );
        assert_eq!(dead("[a](c.md)"), 1);
        assert_eq!(dead("run `scripts/tset --all`, see ./src/none.rs"), 2);
        assert_eq!(dead("guest-examples/target/guests/x.wasm src/*/mod.rs"), 0);
    }

    #[test]
    fn what_must_not_stay_is_found() {
        let left = |file, text: &str| leftovers(file, text, "/some/check/out").len();
        for bad in [
            concat!("    to", "do!()"),
            concat!("db", "g!(x)"),
            concat!("unimple", "mented!(\"x\")"),
            concat!("// FIX", "ME: later"),
            concat!("\"/ho", "me/ada/x\""),
            concat!("/ro", "ot/.cargo"),
            "include!(\"/some/check/out/x.rs\")",
        ] {
            assert_eq!(left("a.rs", bad), 1, "{bad}");
        }
        assert_eq!(left("a.rs", concat!("a\nlet home = \"/ho", "me/a/x\";\n")), 0);
        assert_eq!(left("a.md", concat!("to", "do! is a macro")), 0);
    }

    #[test]
    fn a_library_outside_its_room_is_found() {
        assert_eq!(strays("src/store/keys.rs", "use rusqlite::Row; // \nquery(\"SELECT 1\")").len(), 0);
        assert_eq!(strays("src/host.rs", "query(\"SELECT 1\")").len(), 1);
        assert_eq!(strays("src/access/mod.rs", "fn f(c: &rusqlite::Connection)").len(), 1);
        assert_eq!(strays("src/executor/mod.rs", "use wasmtime::Engine;\nuse axum::Json;").len(), 2);
        assert_eq!(strays("src/model/key.rs", "/// As rusqlite does.").len(), 0);
        assert_eq!(strays("tests/it/a.rs", "use rusqlite::Row;").len(), 0);
    }
}
