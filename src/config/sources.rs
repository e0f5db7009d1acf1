//! The four places that a setting can come from, one over the other.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::{ConfigError, Environment, SETTINGS, Settings, file, rules};

/// The configuration of a machine, read when its data directory has none.
pub const SYSTEM_CONFIG_FILE: &str = "/etc/skillvisor/skillvisor.toml";

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A flag, with its dashes.
    Flag(String),
    /// A variable.
    Variable(String),
    /// A file.
    File(PathBuf),
    /// Nobody gave one.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => f.write_str(name),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value as it was written, and where.
#[derive(Clone, Debug)]
pub(super) struct Given {
    /// The value.
    pub(super) text: String,
    /// The place.
    pub(super) source: Source,
}

impl Given {
    /// A value that nobody gave.
    pub(super) fn by_default(text: &str) -> Self {
        Self { text: text.to_owned(), source: Source::Default }
    }

    /// What relative paths in it start from.
    pub(super) fn base(&self) -> &Path {
        match &self.source {
            Source::File(path) => path.parent().unwrap_or(Path::new("")),
            _ => Path::new(""),
        }
    }
}

/// What settings are made from.
pub struct Layers<'a> {
    /// Values of flags, by the setting's name.
    pub flags: &'a BTreeMap<&'static str, String>,
    /// The file that `--config` names.
    pub config_file: Option<&'a Path>,
    /// The environment.
    pub environment: &'a Environment,
    /// The machine's own file: [`SYSTEM_CONFIG_FILE`] but for tests.
    pub system_file: &'a Path,
}

impl Settings {
    /// Puts the layers together.
    ///
    /// # Errors
    ///
    /// Everything that is unknown, cannot be read, or does not go together.
    pub fn load(layers: &Layers<'_>) -> Result<Self, ConfigError> {
        let mut problems = Vec::new();
        collect(layers.environment.check_names(), &mut problems);
        let given = layers.gather(&mut problems);
        let settings = collect(Self::read(given), &mut problems);
        match settings {
            Some(settings) if problems.is_empty() => rules::check(settings),
            _ => Err(ConfigError { problems }),
        }
    }
}

impl Layers<'_> {
    /// One value for each setting, from the highest layer that has one.
    fn gather(&self, problems: &mut Vec<String>) -> BTreeMap<&'static str, Given> {
        let mut given = self.defaults(problems);
        let above = self.flags_and_variables();
        if let Some(path) = self.file(&above, &given) {
            given.extend(collect(file::read(&path), problems).unwrap_or_default());
        }
        given.extend(above);
        given
    }

    /// What is in force when nobody says anything.
    fn defaults(&self, problems: &mut Vec<String>) -> BTreeMap<&'static str, Given> {
        let mut given: BTreeMap<_, _> =
            SETTINGS.iter().map(|setting| (setting.name, Given::by_default(setting.default))).collect();
        match self.environment.default_data_dir().as_deref().map(Path::to_str) {
            Some(Some(path)) => drop(given.insert("data_dir", Given::by_default(path))),
            Some(None) => problems.push("data_dir: the default is not UTF-8; give another with --data-dir".to_owned()),
            // Only wrong if no other layer has it; the empty text says so when it is read.
            None => {}
        }
        given
    }

    /// What stands above the file.
    fn flags_and_variables(&self) -> BTreeMap<&'static str, Given> {
        let mut given = BTreeMap::new();
        for setting in SETTINGS {
            let variable = setting.variable();
            if let Some(text) = self.environment.get(&variable) {
                given.insert(setting.name, Given { text: text.to_owned(), source: Source::Variable(variable) });
            }
            if let Some(text) = self.flags.get(setting.name) {
                let source = Source::Flag(format!("--{}", setting.flag()));
                given.insert(setting.name, Given { text: text.clone(), source });
            }
        }
        given
    }

    /// The file to read: the one that was named, which must exist; else the data
    /// directory's; else the machine's.
    fn file(&self, above: &BTreeMap<&'static str, Given>, defaults: &BTreeMap<&'static str, Given>) -> Option<PathBuf> {
        if let Some(path) = self.config_file {
            return Some(path.to_owned());
        }
        if let Some(path) = self.environment.get("SKILLVISOR_CONFIG") {
            return Some(PathBuf::from(path));
        }
        let data_dir = above.get("data_dir").or_else(|| defaults.get("data_dir"))?;
        let own = Path::new(&data_dir.text).join("skillvisor.toml");
        let own = Some(own).filter(|path| !data_dir.text.is_empty() && path.exists());
        own.or_else(|| self.system_file.exists().then(|| self.system_file.to_owned()))
    }
}

/// The value, or its problems put to the others.
fn collect<T>(result: Result<T, ConfigError>, problems: &mut Vec<String>) -> Option<T> {
    result.map_err(|error| problems.extend(error.problems)).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    struct Case {
        flags: BTreeMap<&'static str, String>,
        home: tempfile::TempDir,
        variables: Vec<(&'static str, String)>,
        config: Option<PathBuf>,
    }

    impl Case {
        fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            Self { flags: BTreeMap::new(), home, variables: Vec::new(), config: None }
        }

        fn flag(mut self, name: &'static str, value: &str) -> Self {
            self.flags.insert(name, value.to_owned());
            self
        }

        fn variable(mut self, name: &'static str, value: &str) -> Self {
            self.variables.push((name, value.to_owned()));
            self
        }

        fn file(self, path: &str, text: &str) -> Self {
            let path = self.home.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
            self
        }

        fn load(&self) -> Result<Settings, ConfigError> {
            let home = self.home.path().to_str().unwrap();
            let mut environment = Environment::from([("HOME", home)]);
            for (name, value) in &self.variables {
                environment = environment.with(name, value);
            }
            let system_file = self.home.path().join("etc/skillvisor.toml");
            Settings::load(&Layers {
                flags: &self.flags,
                config_file: self.config.as_deref(),
                environment: &environment,
                system_file: &system_file,
            })
        }

        fn problem(&self) -> String {
            let problem = self.load().unwrap_err().to_string();
            problem.replace(self.home.path().to_str().unwrap(), "HOME")
        }
    }

    const OWN: &str = ".local/share/skillvisor/skillvisor.toml";

    #[test]
    fn the_defaults_are_readable() {
        let case = Case::new();
        let settings = case.load().unwrap();
        assert_eq!(settings.listen.to_string(), "127.0.0.1:20128");
        assert_eq!(settings.data_dir, case.home.path().join(".local/share/skillvisor"));
        assert_eq!(settings.upload_max_bytes, 64 << 20);
        assert_eq!(settings.compile_timeout, Duration::from_secs(120));
        assert_eq!(settings.retention_results, Duration::from_secs(86_400));
        assert_eq!((settings.metrics_listen, settings.behind_proxy), (None, false));
        assert!(settings.explain().iter().all(|one| !one.given && one.source == "default"));
    }

    #[test]
    fn a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default() {
        let case = Case::new().file(OWN, "[queue]\nhost = 1\nper_owner = 1\n[concurrency]\nhost = 1\n");
        let case = case.variable("SKILLVISOR_QUEUE_PER_OWNER", "2").variable("SKILLVISOR_CONCURRENCY_HOST", "2");
        let settings = case.flag("concurrency.host", "3").load().unwrap();
        assert_eq!((settings.queue_host, settings.queue_per_owner, settings.concurrency_host), (1, 2, 3));
        assert_eq!(settings.source("concurrency.host"), "--concurrency-host");
        assert_eq!(settings.source("queue.per_owner"), "environment variable SKILLVISOR_QUEUE_PER_OWNER");
        assert!(settings.source("queue.host").ends_with("skillvisor/skillvisor.toml"));
    }

    #[test]
    fn the_named_file_beats_the_data_directorys_which_beats_the_machines() {
        let case = Case::new().file("etc/skillvisor.toml", "queue.host = 1");
        assert_eq!(case.load().unwrap().queue_host, 1);
        let case = case.file(OWN, "queue.host = 2").file("named.toml", "queue.host = 3");
        assert_eq!(case.load().unwrap().queue_host, 2);
        let named = case.home.path().join("named.toml");
        let case = case.variable("SKILLVISOR_CONFIG", named.to_str().unwrap());
        assert_eq!(case.load().unwrap().queue_host, 3);
        let case =
            Case { config: Some(case.home.path().join("flag.toml")), ..case }.file("flag.toml", "queue.host = 4");
        assert_eq!(case.load().unwrap().queue_host, 4);
    }

    #[test]
    fn a_named_file_that_is_not_there_stops_the_start() {
        let case = Case::new().variable("SKILLVISOR_CONFIG", "/nonexistent/s.toml");
        assert!(case.problem().starts_with("cannot read /nonexistent/s.toml"), "{}", case.problem());
    }

    #[test]
    fn a_bad_value_names_setting_value_source_and_what_is_allowed() {
        let case = Case::new().variable("SKILLVISOR_UPLOAD_MAX_BYTES", "lots").file(OWN, "[queue]\nhost = 0\n");
        insta::assert_snapshot!(case.flag("metrics.listen", "9").problem(), @r#"
        metrics.listen = "9" (--metrics-listen): must be an IP address and a port, such as 127.0.0.1:20128 or [::1]:20128, or none
        upload.max_bytes = "lots" (environment variable SKILLVISOR_UPLOAD_MAX_BYTES): must be a size above zero, in bytes or with a unit, such as 67108864 or 64MiB
        queue.host = "0" (file HOME/.local/share/skillvisor/skillvisor.toml): must be a whole number from 1 to 1000000
        "#);
    }

    #[test]
    fn unknown_names_are_refused_wherever_they_stand() {
        let case = Case::new().variable("SKILLVISOR_LISTNE", "x").file(OWN, "[uplod]\nmax_bytes = 1\n");
        insta::assert_snapshot!(case.problem(), @r"
        unknown setting SKILLVISOR_LISTNE in the environment; the nearest known one is SKILLVISOR_LISTEN
        unknown setting uplod.max_bytes in HOME/.local/share/skillvisor/skillvisor.toml; the nearest known one is upload.max_bytes
        ");
    }

    #[test]
    fn paths_in_a_file_start_from_the_file() {
        let case = Case::new().file(OWN, "tls.cert = \"c.pem\"\ntls.key = \"/k.pem\"");
        let settings = case.load().unwrap();
        assert_eq!(settings.tls_cert, Some(case.home.path().join(".local/share/skillvisor/c.pem")));
        assert_eq!(settings.tls_key, Some(PathBuf::from("/k.pem")));
    }

    #[test]
    fn without_a_home_the_data_directory_must_be_given() {
        let flags = BTreeMap::new();
        let none = Path::new("/nonexistent");
        let environment = Environment::default();
        let layers = Layers { flags: &flags, config_file: None, environment: &environment, system_file: none };
        let problem = Settings::load(&layers).unwrap_err().to_string();
        assert!(problem.starts_with("data_dir = \"\" (default): must be a path"), "{problem}");
        let environment = Environment::from([("SKILLVISOR_DATA_DIR", "/d")]);
        assert!(Settings::load(&Layers { environment: &environment, ..layers }).is_ok());
    }
}
