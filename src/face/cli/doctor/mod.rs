//! `skillvisor doctor`.

mod containers;
mod data_dir;
mod limits;
mod machine;
mod sandbox;
mod server;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;

use crate::config::Settings;
use crate::face::http::Tls;

use crate::host::HostOptions;
use crate::sandbox::THIS_PROGRAM;

use self::limits::Probed;
use self::sandbox::Scratch;
use super::context::Context;
use super::embed::{self, Chosen};
use super::exit::{Exit, Failure};

/// Check settings, data directory, server and machine, and say how to mend what is wrong
///
/// Then small guests ask for more than they may have, each for another limit, on a host of their own in a
/// directory that is gone afterwards. What does not hold is a failure too.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor doctor
  skillvisor doctor --data-dir /var/lib/skillvisor --json")]
pub(super) struct DoctorArgs {
    /// Also show every setting with its value and where that comes from
    #[arg(long)]
    settings: bool,
}

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

/// One check and what it found.
#[derive(Clone, Debug, Serialize)]
struct Check {
    name: &'static str,
    verdict: Verdict,
    /// What was found.
    found: String,
    /// How to mend it.
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Ok, found: found.into(), mend: None }
    }

    fn warn(name: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Warn, found: found.into(), mend: Some(mend.into()) }
    }

    fn fail(name: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { verdict: Verdict::Fail, ..Self::warn(name, found, mend) }
    }
}

pub(super) async fn run(context: &Context, args: &DoctorArgs) -> Result<Exit, Failure> {
    let (settings, mut checks) = match read_settings(context) {
        Ok(settings) => (Some(settings), vec![Check::ok("settings", "all are known and readable")]),
        Err(checks) => (None, checks),
    };
    if let Some(settings) = &settings {
        checks.extend(data_dir::checks(&settings.data_dir));
        checks.push(server::check(&settings.data_dir).await);
        checks.extend(tls(settings));
        checks.push(containers::check(context, settings).await);
    }
    checks.extend(machine::checks());
    let (check, freshness) = sandbox::check().await;
    checks.push(check);
    let probed = probe(settings.as_ref()).await;
    let probed = probed.unwrap_or_else(|failed| {
        checks.push(failed);
        Vec::new()
    });
    if context.output.json {
        let explained = settings.as_ref().map(Settings::explain).unwrap_or_default();
        context
            .output
            .json(&json!({ "checks": checks, "limits": probed, "settings": explained, "freshness": freshness }))?;
    } else {
        tell(context, args, (&checks, &probed), settings.as_ref())?;
    }
    let failed = checks.iter().any(|check| check.verdict == Verdict::Fail) || probed.iter().any(|one| !one.holds);
    Ok(if failed { Exit::RunEnded } else { Exit::Success })
}

/// Whether each limit holds, under these settings if there are some.
async fn probe(settings: Option<&Settings>) -> Result<Vec<Probed>, Check> {
    let scratch = Scratch::new();
    let failed = |why: String| {
        let mend = "see the other checks: memory, address space, and room in the temporary directory";
        Check::fail("limits", format!("cannot be tried here: {why}"), mend)
    };
    let options = match settings {
        Some(settings) => embed::host_options(settings, Chosen::default()).map_err(|error| failed(error.detail))?,
        None => HostOptions::new(scratch.path(), THIS_PROGRAM),
    };
    limits::probe(options, scratch.path()).await.map_err(|error| failed(error.detail))
}

/// Whether the server could speak TLS with the files that are set.
fn tls(settings: &Settings) -> Option<Check> {
    let (cert, key) = (settings.tls_cert.as_ref()?, settings.tls_key.as_ref()?);
    Some(match Tls::load(cert, key) {
        Ok(_) => Check::ok("tls", format!("{} and its key can be used", cert.display())),
        Err(error) => {
            Check::fail("tls", error.to_string(), "put the right files there; a server that runs keeps its own")
        }
    })
}

/// The settings, or each thing that is wrong with them.
fn read_settings(context: &Context) -> Result<Settings, Vec<Check>> {
    let settings = context.settings(&BTreeMap::new()).and_then(|settings| {
        context.environment.admin_key()?;
        Ok(settings)
    });
    let mend = "`skillvisor serve --help` lists every setting and what is allowed";
    settings.map_err(|error| error.problems.into_iter().map(|problem| Check::fail("settings", problem, mend)).collect())
}

fn tell(
    context: &Context,
    args: &DoctorArgs,
    (checks, probed): (&[Check], &[Probed]),
    settings: Option<&Settings>,
) -> Result<(), Failure> {
    let output = context.output;
    let explained = settings.map(Settings::explain).unwrap_or_default();
    let word = |verdict| match verdict {
        Verdict::Ok => "ok",
        Verdict::Warn => "warn",
        Verdict::Fail => "FAIL",
    };
    let rows: Vec<_> =
        checks.iter().map(|check| vec![word(check.verdict).into(), check.name.into(), check.found.clone()]).collect();
    output.full_table(&["", "CHECK", "FOUND"], &rows)?;
    for check in checks {
        if let Some(mend) = &check.mend {
            output.line(&format!("\n{}: {}\n  mend it: {mend}", check.name, check.found))?;
        }
    }
    let word = |probed: &Probed| if probed.holds { "ok" } else { "FAIL" };
    let row = |one: &Probed| {
        vec![word(one).into(), one.limit.into(), one.set.clone(), one.expected.clone(), one.observed.clone()]
    };
    if !probed.is_empty() {
        output.line("")?;
        let rows: Vec<_> = probed.iter().map(row).collect();
        output.full_table(&["", "LIMIT", "SET TO", "EXPECTED", "OBSERVED"], &rows)?;
    }
    let rows: Vec<_> = explained
        .into_iter()
        .filter(|one| args.settings || one.given)
        .map(|one| vec![one.name.to_owned(), one.value, one.source])
        .collect();
    if !rows.is_empty() {
        output.line("")?;
        output.full_table(&["SETTING", "VALUE", "FROM"], &rows)?;
    }
    Ok(())
}
