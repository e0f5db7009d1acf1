//! The flags of `serve`, made from the table of settings.

use std::collections::BTreeMap;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use crate::config::{SETTINGS, Setting};

/// What the flags say, by the setting's name. They are read with the other layers, so that
/// a bad value is told alike wherever it stands.
#[derive(Clone, Debug, Default)]
pub(super) struct SettingFlags {
    /// The values, by the setting's name.
    pub(super) values: BTreeMap<&'static str, String>,
}

/// The settings that have a flag of their own here. `--data-dir` is for every command.
fn flags() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(|setting| setting.name != "data_dir")
}

fn flag(setting: &'static Setting) -> Arg {
    let help = format!("{} [setting: {}] [default: {}]", setting.help, setting.name, setting.default);
    // The parser wants names that live as long as the process, and so do the settings.
    let name: &'static str = setting.flag().leak();
    let flag = Arg::new(setting.name).long(name).value_name(setting.word).help(help).help_heading("Settings");
    if setting.is_switch() { flag.num_args(0..=1).require_equals(true).default_missing_value("true") } else { flag }
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        command.args(flags().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let given =
            flags().filter_map(|setting| Some((setting.name, matches.get_one::<String>(setting.name)?.clone())));
        self.values.extend(given);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<BTreeMap<&'static str, String>, clap::Error> {
        let command = SettingFlags::augment_args(Command::new("serve").no_binary_name(true));
        command.try_get_matches_from(arguments).map(|matches| SettingFlags::from_arg_matches(&matches).unwrap().values)
    }

    #[test]
    fn each_setting_has_a_flag() {
        let values = parse(&["--upload-max-bytes", "5", "--listen=1.2.3.4:5"]).unwrap();
        assert_eq!(values["upload.max_bytes"], "5");
        assert_eq!(values["listen"], "1.2.3.4:5");
        assert_eq!(values.len(), 2);
        assert!(parse(&["--upload-max-byte", "5"]).is_err());
    }

    #[test]
    fn a_switch_needs_no_value() {
        assert_eq!(parse(&["--behind-proxy"]).unwrap()["behind_proxy"], "true");
        assert_eq!(parse(&["--behind-proxy=false"]).unwrap()["behind_proxy"], "false");
        assert!(parse(&[]).unwrap().is_empty());
    }
}
