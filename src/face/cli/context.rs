//! What every command has: its global flags, the environment, and where it prints.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::config::{ConfigError, Environment, Layers, SYSTEM_CONFIG_FILE, Settings, read_secret};
use crate::model::Secret;
use crate::secrets::{KeySource, SealingKey};

use super::embed::Chosen;
use super::exit::Failure;
use super::output::Output;

/// Flags that every command takes.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(super) struct Global {
    /// Print JSON as the API has it
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Server to talk to, instead of the one on this machine [env: SKILLVISOR_URL]
    #[arg(long, global = true, value_name = "URL")]
    pub(super) url: Option<String>,
    /// File that holds the key; without it, SKILLVISOR_KEY has the key itself
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) key_file: Option<PathBuf>,
    /// Certificates (PEM) of authorities to trust besides the system's [env: SKILLVISOR_CA_FILE]
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) ca_file: Option<PathBuf>,
    /// Directory of everything that is kept [env: SKILLVISOR_DATA_DIR]
    #[arg(long, global = true, value_name = "PATH")]
    pub(super) data_dir: Option<PathBuf>,
    /// Settings file [env: SKILLVISOR_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
}

/// What a command works with.
pub(super) struct Context {
    /// The global flags.
    pub(super) global: Global,
    /// The environment.
    pub(super) environment: Environment,
    /// Where to print.
    pub(super) output: Output,
}

impl Context {
    /// The settings, with `flags` on top.
    pub(super) fn settings(&self, flags: &BTreeMap<&'static str, String>) -> Result<Settings, ConfigError> {
        let mut flags = flags.clone();
        if let Some(dir) = &self.global.data_dir {
            let text = dir.to_str().ok_or_else(|| ConfigError::new("data_dir (--data-dir): must be UTF-8"))?;
            flags.insert("data_dir", text.to_owned());
        }
        Settings::load(&Layers {
            flags: &flags,
            config_file: self.global.config.as_deref(),
            environment: &self.environment,
            system_file: Path::new(SYSTEM_CONFIG_FILE),
        })
    }

    /// The keys that the operator chose, for a host in this process.
    pub(super) fn chosen(&self, settings: &Settings) -> Result<Chosen, Failure> {
        let given = self.environment.get("SKILLVISOR_SECRETS_KEY");
        let secrets_key = match (&settings.secrets_key_file, given) {
            (None, None) => None,
            (Some(_), Some(_)) => {
                let detail = "SKILLVISOR_SECRETS_KEY and secrets.key_file are both set; keep one of them";
                return Err(Failure::usage(detail));
            }
            (Some(path), None) => Some(KeySource::File(path.clone())),
            (None, Some(text)) => {
                let key = SealingKey::parse(text);
                let key = key.map_err(|why| Failure::usage(format!("the key in SKILLVISOR_SECRETS_KEY {why}")))?;
                Some(KeySource::Given(key))
            }
        };
        Ok(Chosen { admin_key: self.environment.admin_key()?, secrets_key })
    }

    /// The URL that somebody gave.
    pub(super) fn given_url(&self) -> Option<&str> {
        self.global.url.as_deref().or_else(|| self.environment.get("SKILLVISOR_URL"))
    }

    /// The authorities that somebody trusts besides the system's.
    pub(super) fn ca_file(&self) -> Option<PathBuf> {
        self.global.ca_file.clone().or_else(|| self.environment.get("SKILLVISOR_CA_FILE").map(PathBuf::from))
    }

    /// The key that somebody gave: never as an argument, where every user of the machine
    /// could read it.
    pub(super) fn given_key(&self) -> Result<Option<Secret>, Failure> {
        if let Some(path) = &self.global.key_file {
            return read_secret(path).map(Some).map_err(|why| Failure::usage(format!("--key-file: {why}")));
        }
        let key = self.environment.get("SKILLVISOR_KEY").map(Secret::new).transpose();
        key.map_err(|why| Failure::usage(format!("the key in SKILLVISOR_KEY {why}")))
    }
}

#[cfg(test)]
mod tests {
    use super::super::exit::Exit;
    use super::*;

    fn context(global: Global, environment: Environment) -> Context {
        Context { global, environment, output: Output::of_process(false) }
    }

    #[test]
    fn a_flag_beats_the_environment() {
        let environment = Environment::from([("SKILLVISOR_URL", "http://e"), ("SKILLVISOR_KEY", "from-environment")]);
        let with = context(Global::default(), environment.clone());
        assert_eq!(with.given_url(), Some("http://e"));
        assert_eq!(with.given_key().unwrap().unwrap().reveal(), "from-environment");

        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        std::fs::write(&file, "from-file\n").unwrap();
        let global = Global { url: Some("http://f".into()), key_file: Some(file), ..Global::default() };
        let with = context(global, environment);
        assert_eq!(with.given_url(), Some("http://f"));
        assert_eq!(with.given_key().unwrap().unwrap().reveal(), "from-file");
    }

    #[test]
    fn a_bad_key_is_told_without_showing_it() {
        let with = context(Global::default(), Environment::from([("SKILLVISOR_KEY", "two words")]));
        let failure = with.given_key().unwrap_err();
        assert!(!failure.to_text().contains("two words"), "{}", failure.to_text());
    }

    #[test]
    fn a_key_for_secrets_comes_from_one_place_and_is_not_shown_when_it_is_wrong() {
        let digits = "0f".repeat(32);
        let chosen = |pairs| {
            let context = context(Global::default(), Environment::from(pairs));
            context.chosen(&context.settings(&BTreeMap::new()).unwrap())
        };
        let [home, key] = [("HOME", "/d"), ("SKILLVISOR_SECRETS_KEY", digits.as_str())];
        let file = ("SKILLVISOR_SECRETS_KEY_FILE", "/f");
        assert!(matches!(chosen([home, key]).unwrap().secrets_key, Some(KeySource::Given(_))));
        assert!(
            matches!(chosen([home, file]).unwrap().secrets_key, Some(KeySource::File(path)) if path == Path::new("/f"))
        );
        let both = context(Global::default(), Environment::from([home, key, file]));
        assert_eq!(both.chosen(&both.settings(&BTreeMap::new()).unwrap()).err().unwrap().exit, Exit::Usage);
        let wrong = chosen([home, ("SKILLVISOR_SECRETS_KEY", "f00dcafe")]).err().unwrap();
        assert!(!wrong.to_text().contains("f00dcafe"), "{}", wrong.to_text());
    }

    #[test]
    fn the_data_directory_flag_is_a_setting() {
        let global = Global { data_dir: Some("/d".into()), ..Global::default() };
        let with = context(global, Environment::from([("SKILLVISOR_DATA_DIR", "/e")]));
        assert_eq!(with.settings(&BTreeMap::new()).unwrap().data_dir, Path::new("/d"));
    }
}
