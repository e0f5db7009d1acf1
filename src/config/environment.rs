//! The environment, read once and then passed on as a value.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::model::nearest;

use super::{ConfigError, SETTINGS};

/// Variables that are read but are no settings.
const OTHER_VARIABLES: &[&str] = &[
    "SKILLVISOR_ADMIN_KEY",
    "SKILLVISOR_ADMIN_KEY_FILE",
    "SKILLVISOR_CA_FILE",
    "SKILLVISOR_CONFIG",
    "SKILLVISOR_KEY",
    "SKILLVISOR_SECRETS_KEY",
    "SKILLVISOR_URL",
];

/// What all our variables start with.
pub(super) const PREFIX: &str = "SKILLVISOR_";

/// The variables of a process.
///
/// No `Debug`: some of them are keys.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    /// Ours, but not text.
    unreadable: Vec<String>,
}

impl Environment {
    /// The variables of this process. The only place that asks the system for them.
    pub fn of_process() -> Self {
        let mut environment = Self::default();
        for (name, value) in std::env::vars_os() {
            let Some(name) = name.to_str() else { continue };
            match value.into_string() {
                Ok(value) => drop(environment.variables.insert(name.to_owned(), value)),
                Err(_) => environment.unreadable.push(name.to_owned()),
            }
        }
        environment
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// The same environment with one variable more, or another value of it.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The value of a variable that holds an absolute path; empty and relative ones do not
    /// count, as the XDG base directory specification has it.
    fn directory(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// Where the data lies when nobody says: the state directory of the service, else the
    /// user's own data directory.
    pub(super) fn default_data_dir(&self) -> Option<PathBuf> {
        // systemd separates several by colons; the first is the one that the unit names first.
        let service = self.get("STATE_DIRECTORY").and_then(|list| list.split(':').next());
        if let Some(path) = service.map(PathBuf::from).filter(|path| path.is_absolute()) {
            return Some(path);
        }
        let base = self.directory("XDG_DATA_HOME");
        let base = base.or_else(|| self.directory("HOME").map(|home| home.join(".local/share")));
        base.map(|base| base.join("skillvisor"))
    }

    /// Refuses variables that start like ours and are none.
    ///
    /// # Errors
    ///
    /// Each of them with the nearest one that exists.
    pub fn check_names(&self) -> Result<(), ConfigError> {
        let settings: Vec<String> = SETTINGS.iter().map(|setting| setting.variable()).collect();
        let known = || settings.iter().map(String::as_str).chain(OTHER_VARIABLES.iter().copied());
        let mut problems = Vec::new();
        for name in self.variables.keys().filter(|name| name.starts_with(PREFIX)) {
            if known().any(|other| other == name) || self.is_service_link(name) {
                continue;
            }
            let meant = nearest(name, known()).unwrap_or_default();
            problems.push(format!("unknown setting {name} in the environment; the nearest known one is {meant}"));
        }
        for name in self.unreadable.iter().filter(|name| name.starts_with(PREFIX)) {
            problems.push(format!("{name} in the environment is not UTF-8"));
        }
        if problems.is_empty() { Ok(()) } else { Err(ConfigError { problems }) }
    }

    /// Whether Kubernetes made this variable: it gives every pod the addresses of every
    /// service, so that one called `skillvisor` looks like a setting
    /// (Kubernetes documentation, "Service", "Environment variables").
    fn is_service_link(&self, name: &str) -> bool {
        let rest = name.strip_prefix(PREFIX).unwrap_or_default();
        let link =
            rest == "PORT" || ["SERVICE_HOST", "SERVICE_PORT", "PORT_"].iter().any(|start| rest.starts_with(start));
        link && self.get("KUBERNETES_SERVICE_HOST").is_some()
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(pairs: [(&str, &str); N]) -> Self {
        let pairs = pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self { variables: pairs.collect(), unreadable: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_variable_is_refused_with_the_nearest_known_one() {
        let environment = Environment::from([("SKILLVISOR_LISTNE", "x"), ("LISTEN", "y"), ("SKILLVISOR_KEY", "z")]);
        let error = environment.check_names().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown setting SKILLVISOR_LISTNE in the environment; the nearest known one is SKILLVISOR_LISTEN"
        );
    }

    #[test]
    fn addresses_that_kubernetes_adds_are_no_settings() {
        let link = ("SKILLVISOR_PORT_80_TCP_ADDR", "10.0.0.1");
        assert!(Environment::from([link]).check_names().is_err());
        assert!(Environment::from([link, ("KUBERNETES_SERVICE_HOST", "10.0.0.2")]).check_names().is_ok());
    }

    #[test]
    fn the_data_directory_is_the_services_or_the_users() {
        let dir = |pairs| Environment::from(pairs).default_data_dir();
        let home = ("HOME", "/home/a");
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(dir([home, ("XDG_DATA_HOME", "/xdg")]), path("/xdg/skillvisor"));
        assert_eq!(dir([home, ("XDG_DATA_HOME", "")]), path("/home/a/.local/share/skillvisor"));
        assert_eq!(dir([home, ("XDG_DATA_HOME", "rel")]), path("/home/a/.local/share/skillvisor"));
        assert_eq!(dir([home, ("STATE_DIRECTORY", "/var/lib/s:/var/lib/t")]), path("/var/lib/s"));
        assert_eq!(Environment::default().default_data_dir(), None);
    }
}
