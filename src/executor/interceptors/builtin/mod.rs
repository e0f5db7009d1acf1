//! Interceptors that the host brings along: a table, and one file for each.

mod log;
mod policy;
mod redaction;
mod texts;

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::model::{Code, Error, plain};

use super::contract::Interceptor;

pub(super) use self::redaction::without_secrets;

/// Makes a builtin that is set to this.
type Make = fn(Map<String, Value>) -> Result<Arc<dyn Interceptor>, Error>;

/// A row of the table.
pub(super) struct Builtin {
    /// Its name.
    pub(super) name: &'static str,
    /// Makes one that is set to this.
    pub(super) make: Make,
}

/// Every builtin interceptor. Add yours here.
pub(super) const BUILTINS: &[Builtin] = &[
    Builtin { name: "structured-log", make: log::make },
    Builtin { name: "argument-policy", make: policy::make },
    Builtin { name: "redaction", make: redaction::make },
];

/// The builtin of this name, set to `config`.
///
/// # Errors
///
/// `invalid_args` for a name that there is not, or a setting that cannot be.
pub(super) fn make(name: &str, config: Map<String, Value>) -> Result<Arc<dyn Interceptor>, Error> {
    let found = BUILTINS.iter().find(|builtin| builtin.name == name);
    let found = found.ok_or_else(|| {
        let names: Vec<_> = BUILTINS.iter().map(|builtin| builtin.name).collect();
        Error::at(Code::InvalidArgs, "/builtin", format!("must be one of {}", names.join(", ")))
    })?;
    (found.make)(config)
}

/// Reads the settings of a builtin.
fn settings<T: DeserializeOwned>(config: Map<String, Value>) -> Result<T, Error> {
    serde_json::from_value(Value::Object(config)).map_err(|error| wrong(&error.to_string()))
}

fn wrong(why: &str) -> Error {
    Error::at(Code::InvalidArgs, "/config", plain(why, 300))
}
