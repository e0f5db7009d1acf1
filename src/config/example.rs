//! `config.example.toml`.

use std::fmt::Write as _;

use super::{SETTINGS, Setting};

const HEAD: &str = "\
# Settings of skillvisor, each with its default. This file is made from the table in
# src/config/table.rs; a test keeps the two alike.
#
# Read from --config FILE, else $SKILLVISOR_CONFIG, else skillvisor.toml in the data
# directory, else /etc/skillvisor/skillvisor.toml. A variable goes before this file, a flag
# of `skillvisor serve` before both: upload.max_bytes is SKILLVISOR_UPLOAD_MAX_BYTES and
# --upload-max-bytes. Unknown names and bad values stop the start.
#
# Sizes are bytes or have a unit (64MiB), times have a unit (90s, 30m, 24h, 7d), and
# relative paths start from this file.
";

/// The commented example file, made from the table.
pub fn example_toml() -> String {
    let mut text = String::from(HEAD);
    let section = |setting: &Setting| setting.name.split_once('.').map(|(section, _)| section);
    let mut sections: Vec<Option<&str>> = vec![None];
    for setting in SETTINGS {
        let section = section(setting);
        if !sections.contains(&section) {
            sections.push(section);
        }
    }
    for wanted in sections {
        if let Some(name) = wanted {
            let _ = write!(text, "\n[{name}]\n");
        }
        for setting in SETTINGS.iter().filter(|setting| section(setting) == wanted) {
            write_setting(&mut text, setting);
        }
    }
    text
}

/// The help as comment lines, and the setting itself, commented out.
fn write_setting(text: &mut String, setting: &Setting) {
    text.push('\n');
    let mut line = String::from("#");
    for word in setting.help.split(' ') {
        if line.len() + 1 + word.len() > 90 {
            let _ = writeln!(text, "{line}");
            line = String::from("#");
        }
        let _ = write!(line, " {word}");
    }
    let key = setting.name.rsplit('.').next().unwrap_or(setting.name);
    let _ = write!(text, "{line}\n# {key} = {}\n", value(setting));
}

/// The default as TOML.
fn value(setting: &Setting) -> String {
    let default = if setting.default.is_empty() { "/var/lib/skillvisor" } else { setting.default };
    let bare = default.parse::<u64>().is_ok() || default.parse::<bool>().is_ok();
    if bare { default.to_owned() } else { format!("\"{default}\"") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::super::{Environment, Layers, Settings};
    use super::*;

    /// To renew the file: `UPDATE=1 cargo test --lib config::example`.
    #[test]
    fn the_example_in_the_repository_is_up_to_date() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("config.example.toml");
        if Environment::of_process().get("UPDATE").is_some() {
            std::fs::write(&file, example_toml()).unwrap();
        }
        let have = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(have, example_toml(), "UPDATE=1 cargo test --lib config::example renews it");
    }

    #[test]
    fn the_example_with_its_comments_taken_away_is_the_default() {
        let is_setting = |line: &&str| line.starts_with('[') || line.starts_with("# ") && line.contains(" = ");
        let example = example_toml();
        let lines: Vec<&str> = example.lines().filter(is_setting).map(|line| line.trim_start_matches("# ")).collect();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("s.toml");
        std::fs::write(&file, lines.join("\n")).unwrap();
        let load = |config_file| {
            Settings::load(&Layers {
                flags: &BTreeMap::new(),
                config_file,
                environment: &Environment::from([("STATE_DIRECTORY", "/var/lib/skillvisor")]),
                system_file: Path::new("/nonexistent/s.toml"),
            })
            .unwrap()
        };
        let values = |settings: Settings| settings.explain().into_iter().map(|one| one.value).collect::<Vec<_>>();
        let example = load(Some(&file));
        assert!(example.explain().iter().all(|one| one.given));
        assert_eq!(values(example), values(load(None)));
    }
}
