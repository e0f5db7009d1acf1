//! What holds for settings from every place: no panic, a value that is refused is named with its
//! setting, and sizes and times are what was written.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use crate::model::Secret;

use super::{Environment, Layers, SETTINGS, Setting, Settings, parse_bytes, parse_duration};

fn setting() -> impl Strategy<Value = Setting> {
    prop::sample::select(SETTINGS)
}

/// What people write as a value, right or wrong.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{1,25} ?([kKmMgGtT]?i?[bB])?",
        "([0-9]{1,12}(ms|s|m|h|d|w)){1,3}",
        "(true|false|none|on|auto|json|text|info|debug|skillvisor=warn)",
        "[0-9.]{1,12}:[0-9]{1,6}",
        "/[a-z/]{0,12}",
        any::<String>(),
    ]
}

/// The settings, read from these layers.
fn load(flags: &[(&'static str, &str)], environment: &Environment, file: Option<&Path>) -> Result<Settings, String> {
    let flags: BTreeMap<_, _> = flags.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    let nowhere = Path::new("/nonexistent");
    Settings::load(&Layers { flags: &flags, config_file: file, environment, system_file: nowhere })
        .map_err(|error| error.to_string())
}

fn home() -> Environment {
    Environment::from([("HOME", "/nonexistent")])
}

proptest! {
    #[test]
    fn a_size_is_its_number_times_its_unit(number in any::<u64>(), text in any::<String>()) {
        for (unit, factor) in [("", 1), ("KB", 1000), ("MiB", 1 << 20), ("TiB", 1 << 40)] {
            prop_assert_eq!(parse_bytes(&format!("{number}{unit}")), number.checked_mul(factor));
            prop_assert_eq!(parse_bytes(&format!(" {number} {unit} ")), number.checked_mul(factor));
        }
        let _ = parse_bytes(&text);
    }

    #[test]
    fn a_time_is_the_sum_of_its_parts(hours in 0_u64..1 << 40, seconds in any::<u32>(), text in any::<String>()) {
        let ms = hours * 3_600_000 + u64::from(seconds) * 1000;
        prop_assert_eq!(parse_duration(&format!("{hours}h{seconds}s")), Some(Duration::from_millis(ms)));
        prop_assert_eq!(parse_duration(&format!("{}w", u64::MAX / 604_800_000 + 1)), None);
        let _ = parse_duration(&text);
    }

    #[test]
    fn a_value_that_is_refused_is_named_wherever_it_stands(setting in setting(), value in value()) {
        prop_assume!(!value.contains('\0'));
        let flag = load(&[(setting.name, &value)], &home(), None);
        let variable = load(&[], &home().with(&setting.variable(), &value), None);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("skillvisor.toml");
        std::fs::write(&path, format!("{} = {}", setting.name, toml::Value::from(value.as_str()))).unwrap();
        let file = load(&[], &home(), Some(&path));
        // `rules` may speak of several settings; the first part of the name is in each of them.
        let section = setting.name.split('.').next().unwrap();
        for error in [flag.as_ref().err(), variable.as_ref().err(), file.as_ref().err()].into_iter().flatten() {
            prop_assert!(error.contains(section), "{setting:?} {value:?}: {error}");
        }
        prop_assert_eq!(flag.is_ok(), variable.is_ok());
    }

    #[test]
    fn a_file_of_any_text_is_read_or_refused(text in any::<String>(), key in "[a-z_.]{1,12}", number in any::<i64>()) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("skillvisor.toml");
        for text in [text, format!("{key} = {number}"), format!("[{key}]\nx = [{number}]")] {
            std::fs::write(&path, text).unwrap();
            let _ = load(&[], &home(), Some(&path));
        }
    }

    #[test]
    fn a_variable_that_is_none_of_ours_is_named(name in "ZZ[A-Z_]{1,20}", value in any::<String>()) {
        let name = format!("SKILLVISOR_{name}");
        let error = load(&[], &home().with(&name, &value), None).unwrap_err();
        prop_assert!(error.contains(&name), "{error}");
    }

    #[test]
    fn a_key_is_visible_ascii_or_refused(text in any::<String>()) {
        if let Ok(secret) = Secret::new(&text) {
            prop_assert!(secret.reveal().bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(format!("{secret:?}"), "Secret([hidden])".to_owned());
        }
    }
}
