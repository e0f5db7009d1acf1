//! `skillvisor test`: the golden cases of a skill folder.

mod case;
mod scratch;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::folder::Folder;
use super::logging;
use super::output::Output;

use self::case::Told;
use self::scratch::Scratch;

/// Run the golden cases of a skill folder
///
/// Each file of DIR/tests/ that ends in .json holds one case or an array of them. The skill is
/// registered with a host that is there for this command alone; each case has an owner, a key and
/// an empty workspace of its own. No server is asked, and nothing is kept. docs/skills.md tells
/// what a case may say.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor test skills/hello
  skillvisor test my-skill --only greets --json

The exit code is 0 if every case passed, 1 if one did not, and 2 if there is none or one cannot be read.")]
pub(super) struct TestArgs {
    /// The skill folder
    #[arg(value_name = "DIR")]
    path: PathBuf,
    /// Only the cases with this in their names
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

pub(super) async fn run(context: &Context, args: &TestArgs) -> Result<Exit, Failure> {
    let folder = Folder::read(&args.path)?;
    let mut cases = case::read(&args.path.join("tests"))?;
    if let Some(only) = &args.only {
        cases.retain(|case| case.name.contains(only.as_str()));
    }
    if cases.is_empty() {
        let detail = format!("{} has no golden case to run", args.path.join("tests").display());
        return Err(Failure::new(Exit::Usage, "no_cases", detail).hint("write one: docs/skills.md, \"Golden cases\""));
    }
    logging::start(crate::config::LogFormat::Text, "error", context.output.has_terminal());
    let scratch = Scratch::open(&folder).await?;
    let mut told = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let result = scratch.run(case, number).await?;
        if !context.output.json {
            tell(context.output, &result)?;
        }
        told.push(result);
    }
    let address = scratch.address.clone();
    scratch.close().await;
    sum_up(context.output, (&args.path, &address), &told)
}

fn tell(output: Output, told: &Told) -> Result<(), Failure> {
    let mark = if told.problem.is_none() { "ok    " } else { "FAILED" };
    output.line(&format!("{mark} {} ({}, {:.1} ms)", told.name, told.file, told.duration_ms))?;
    told.problem.iter().try_for_each(|problem| output.line(&format!("       {}", problem.replace('\n', "\n       "))))
}

fn sum_up(output: Output, (path, address): (&Path, &str), told: &[Told]) -> Result<Exit, Failure> {
    let failed = told.iter().filter(|told| told.problem.is_some()).count();
    let passed = told.len() - failed;
    if output.json {
        let cases: Vec<Value> = told.iter().map(Told::to_json).collect();
        output.json(&json!({ "skill": address, "passed": passed, "failed": failed, "cases": cases }))?;
    } else {
        output.line(&format!("{address} in {}: {passed} passed, {failed} failed", path.display()))?;
    }
    Ok(if failed == 0 { Exit::Success } else { Exit::RunEnded })
}
