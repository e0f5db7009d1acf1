//! Whether each limit holds on this machine: a host of its own, in a directory that is gone again,
//! under the settings of this one, where small guests ask for more than they may have.

mod admission;
mod guests;
mod storage;

use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::access::NewKey;
use crate::host::{Host, HostOptions};
use crate::model::{
    Access, Caller, Ceilings, Error, Execution, ExecutionRequest, Grants, LimitsPatch, OwnerId, SkillState, StrictJson,
};
use crate::registry::Manifest;

/// How long a probe may take to be compiled, in looks of 20 ms.
const LOOKS: usize = 3000;

/// One limit, and what came of asking for more.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Probed {
    /// Its name in manifests, keys or settings.
    pub(super) limit: &'static str,
    /// What it was set to.
    pub(super) set: String,
    /// What should come.
    pub(super) expected: String,
    /// What came.
    pub(super) observed: String,
    /// Whether it holds.
    pub(super) holds: bool,
}

/// A guest, and what it asks for.
#[derive(Clone, Copy)]
struct Guest {
    name: &'static str,
    text: &'static str,
}

macro_rules! guest {
    ($constant:ident, $name:literal) => {
        const $constant: Guest = Guest { name: $name, text: include_str!(concat!("probes/", $name, ".wat")) };
    };
}

guest!(SPIN, "spin");
guest!(GROW, "grow");
guest!(RECURSE, "recurse");
guest!(FLOOD, "flood");
guest!(ONCE, "once");
guest!(FILL, "fill");
guest!(MANY, "many");
guest!(KEEP, "keep");
guest!(FETCH, "fetch");

/// What the probes work with.
struct Bench {
    host: Host,
    admin: Caller,
}

/// Tries every limit in `scratch`, an empty directory, under these options.
///
/// # Errors
///
/// If no host can be had here.
pub(super) async fn probe(mut options: HostOptions, scratch: &Path) -> Result<Vec<Probed>, Error> {
    options.data_dir = scratch.join("data");
    options.admin_key = None;
    options.secrets_key = None;
    admission::tighten(&mut options);
    let host = Host::open(options).await?;
    let bench = Bench { admin: host.admin()?, host };
    let probed = all(&bench).await;
    bench.host.close().await;
    probed
}

async fn all(bench: &Bench) -> Result<Vec<Probed>, Error> {
    let mut probed = guests::probe(bench).await?;
    probed.extend(storage::probe(bench).await?);
    probed.extend(admission::probe(bench).await?);
    Ok(probed)
}

impl Bench {
    /// A key of a new owner with these ceilings.
    async fn key(&self, ceilings: Ceilings) -> Result<Caller, Error> {
        let new = NewKey { name: "probe".into(), ceilings, ..NewKey::default() };
        let (_, secret) = self.host.access.create(&self.admin, new).await?;
        self.host.caller(&secret)
    }

    /// Registers a guest with these grants for everybody, and waits until it can run.
    async fn register(&self, guest: Guest, grants: Grants) -> Result<(), Error> {
        let owner = Some(OwnerId::system());
        let manifest = Manifest { owner, ..manifest(guest, grants) };
        self.host.register(&self.admin, manifest, bytes(guest)?).await?;
        for _ in 0..LOOKS {
            let skill = self.host.get(&self.admin, &guest.name.parse()?)?;
            match skill.skill.state {
                SkillState::Compiling => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
                SkillState::Ready => return Ok(()),
                _ => break,
            }
        }
        let detail = format!("the probe {} cannot be compiled on this machine", guest.name);
        Err(Error::new(crate::model::Code::Unavailable, detail))
    }

    /// Runs a guest that was registered.
    async fn run(&self, caller: &Caller, guest: Guest, limits: LimitsPatch) -> Result<Execution, Error> {
        self.host.execute(caller.clone(), request(guest, limits)?).await
    }
}

fn request(guest: Guest, limits: LimitsPatch) -> Result<ExecutionRequest, Error> {
    let args = StrictJson::from(Value::Object(serde_json::Map::new()));
    Ok(ExecutionRequest { limits, ..ExecutionRequest::new(guest.name.parse()?, args) })
}

fn manifest(guest: Guest, grants: Grants) -> Manifest {
    Manifest { name: Some(guest.name.into()), version: Some("1.0.0".into()), grants, ..Manifest::default() }
}

fn bytes(guest: Guest) -> Result<Vec<u8>, Error> {
    wat::parse_str(guest.text).map_err(Error::internal)
}

/// A grant of the owner's files.
fn files() -> Grants {
    Grants { workspace: Access::Write, ..Grants::default() }
}

/// How a run ended, in a few words.
fn outcome(ran: &Result<Execution, Error>) -> String {
    match ran {
        Ok(execution) => match &execution.error {
            Some(error) => error.code.to_string(),
            None => execution.status.to_string(),
        },
        Err(error) => format!("refused: {}", error.code),
    }
}

/// What is said of a limit where the outcome must be this word, and `also` must hold.
fn row(
    limit: &'static str,
    set: impl Into<String>,
    expected: &str,
    (observed, also): (String, Option<(String, bool)>),
) -> Probed {
    let is_it = observed == expected;
    let (more, holds) = also.unwrap_or((String::new(), true));
    Probed {
        limit,
        set: set.into(),
        expected: expected.to_owned(),
        observed: if more.is_empty() { observed } else { format!("{observed}, {more}") },
        holds: is_it && holds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_probe_is_a_webassembly_binary() {
        for guest in [SPIN, GROW, RECURSE, FLOOD, ONCE, FILL, MANY, KEEP, FETCH] {
            let bytes = bytes(guest).unwrap();
            let mut features = wasmparser::WasmFeatures::default();
            features.remove(wasmparser::WasmFeatures::THREADS);
            let checked = wasmparser::Validator::new_with_features(features).validate_all(&bytes);
            assert!(checked.is_ok(), "{}: {:?}", guest.name, checked.err());
        }
    }

    #[test]
    fn a_limit_holds_where_the_word_is_right_and_what_else_was_seen() {
        let held = |word: &str, also| row("fuel", "5", "out_of_fuel", (word.to_owned(), also)).holds;
        assert!(held("out_of_fuel", None) && held("out_of_fuel", Some(("used 5".into(), true))));
        assert!(!held("success", None) && !held("out_of_fuel", Some(("used 7".into(), false))));
    }
}
