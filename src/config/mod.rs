//! Settings: flag, then environment, then file, then default; the same name everywhere.
//!
//! [`SETTINGS`] is the one table. From it come the flags of `serve`, the variables
//! `SKILLVISOR_…`, the names in `skillvisor.toml`, `config.example.toml` and the typed
//! [`Settings`]. What is unknown or cannot be read stops the start: no value is ever
//! replaced by a default behind its owner's back.

mod environment;
mod example;
mod file;
mod kinds;
mod lists;
mod rules;
mod secret;
mod sources;
mod table;

#[cfg(test)]
mod properties;

use std::fmt;

pub use self::environment::Environment;
pub use self::example::example_toml;
pub use self::kinds::{LogFormat, parse_bytes, parse_duration};
pub use self::secret::read_secret;
pub use self::sources::{Layers, SYSTEM_CONFIG_FILE};
pub use self::table::{SETTINGS, Setting, Settings};

/// Everything that is wrong with the settings, found in one go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// One sentence for each thing, with its setting, value and source.
    pub problems: Vec<String>,
}

impl ConfigError {
    /// One problem.
    pub fn new(problem: impl Into<String>) -> Self {
        Self { problems: vec![problem.into()] }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

impl std::error::Error for ConfigError {}

/// One setting as it is in force, for people.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Explained {
    /// Its name.
    pub name: &'static str,
    /// Its value, as it was written.
    pub value: String,
    /// Where the value came from.
    pub source: String,
    /// Whether somebody gave it.
    pub given: bool,
}
