//! `skillvisor sandbox`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::{parse_bytes, parse_duration};
use crate::host::containers;
use crate::sandbox::{SandboxConfig, SandboxResult, SandboxRunner};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::signals::Signals;

/// Run a command in a container image, without a skill around it
#[derive(clap::Subcommand)]
pub(super) enum SandboxCommand {
    Run(RunArgs),
}

/// Run a command in an image on this machine, under the limits of container skills
///
/// It asks the container engine of this machine and no server, and writes no audit. The image must be
/// on the list (setting containers.allowed_images) and on the machine (`skillvisor images pull`).
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  skillvisor sandbox run alpine:3.20 -- ls -l /workspace
  skillvisor sandbox run --memory 64MiB --timeout 5s --json alpine:3.20 -- sh -c 'echo $HOME'")]
pub(super) struct RunArgs {
    /// Share of one processor in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 100)]
    cpu: u64,
    /// Memory, with its unit
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    memory: String,
    /// Most time, with its unit
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    timeout: String,
    /// Give it a network; refused, as long as there is none that is held to rules
    #[arg(long)]
    network: bool,
    /// With =false, /workspace can be written, and is gone afterwards
    #[arg(long, value_name = "true|false", default_value_t = true, num_args = 0..=1, default_missing_value = "true",
          require_equals = true, action = clap::ArgAction::Set)]
    read_only: bool,
    /// A variable
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// The image
    image: String,
    /// The command; without one, the image's own
    #[arg(last = true, value_name = "ARGV")]
    command: Vec<String>,
}

impl RunArgs {
    fn config(&self) -> Result<SandboxConfig, Failure> {
        let memory = parse_bytes(&self.memory).map(|bytes| bytes >> 20).filter(|mib| *mib > 0);
        let memory =
            memory.ok_or_else(|| Failure::usage("--memory must be a size of a MiB or more, such as 256MiB"))?;
        let timeout = parse_duration(&self.timeout).filter(|time| *time > Duration::ZERO);
        let timeout = timeout.ok_or_else(|| Failure::usage("--timeout must be a time with a unit, such as 30s"))?;
        Ok(SandboxConfig {
            cpu_limit: self.cpu,
            memory_limit: memory,
            timeout,
            network_enabled: self.network,
            read_only: self.read_only,
            id: None,
        })
    }

    fn env(&self) -> Result<BTreeMap<String, String>, Failure> {
        let pair = |text: &String| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        let pairs: Option<_> = self.env.iter().map(pair).collect();
        pairs.ok_or_else(|| Failure::usage("--env must be NAME=VALUE"))
    }
}

/// A directory that is gone again at the end.
pub(super) struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What runs containers on this machine, as the settings say.
pub(super) fn runner(context: &Context) -> Result<(SandboxRunner, Scratch), Failure> {
    let settings = context.settings(&BTreeMap::new())?;
    let scratch = Scratch(std::env::temp_dir().join(format!("skillvisor-sandbox-{}", uuid::Uuid::now_v7())));
    Ok((containers(&scratch.0, settings.containers()).runner(), scratch))
}

pub(super) async fn run(context: &Context, command: &SandboxCommand) -> Result<Exit, Failure> {
    let SandboxCommand::Run(args) = command;
    let (config, env) = (args.config()?, args.env()?);
    let (runner, _scratch) = runner(context)?;
    let mut signals = Signals::new()?;
    let mut running = std::pin::pin!(runner.run(&args.image, &args.command, &env, config));
    let result = tokio::select! {
        result = &mut running => result?,
        () = signals.next() => {
            // Whoever is in a hurry signals again.
            tokio::select! {
                _ = async { runner.kill_all().await; running.await } => {}
                () = signals.next() => {}
            }
            return Err(Failure::silent(Exit::Interrupted));
        }
    };
    tell(context, &result)
}

fn tell(context: &Context, result: &SandboxResult) -> Result<Exit, Failure> {
    let output = context.output;
    if output.json {
        output.json(&serde_json::to_value(result).map_err(|error| Failure::internal(error.to_string()))?)?;
    } else {
        output.raw(result.stdout.as_bytes())?;
        if !result.stderr.is_empty() {
            output.note(result.stderr.trim_end());
        }
        if result.killed {
            output.note(&format!("ended after {} ms (--timeout)", result.duration_ms));
        } else if result.out_of_memory {
            output.note("ended by the system: it wanted more than its memory (--memory)");
        }
    }
    Ok(if result.exit_code == Some(0) { Exit::Success } else { Exit::RunEnded })
}
