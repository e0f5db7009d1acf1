//! Loads the host and what one might use instead of it, in turns, and reports.
//!
//! `scripts/bench` builds what this needs and starts it; `docs/benchmarks.md` says what is
//! measured and what the JSON holds.

mod client;
mod fairness;
mod histogram;
mod http;
mod load;
mod machine;
mod options;
mod peers;
mod powers;
mod probes;
mod product;
mod report;
mod rounds;
mod server;
mod variants;
mod workdir;

use std::process::ExitCode;

use anyhow::{Result, bail};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;

use crate::machine::Machine;
use crate::options::Options;
use crate::report::Report;
use crate::workdir::WorkDir;

/// One thread: the servers get what is left of the cores.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match LocalSet::new().run_until(run_or_stop()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Ends at a signal, too: dropping the run kills its servers and removes its files.
async fn run_or_stop() -> Result<()> {
    let Some(options) = Options::from_args(std::env::args().skip(1))? else {
        print!("{}", options::HELP);
        return Ok(());
    };
    if options.check {
        return Ok(());
    }
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::select! {
        result = run(&options) => result,
        _ = interrupt.recv() => bail!("interrupted"),
        _ = terminate.recv() => bail!("terminated"),
        _ = hangup.recv() => bail!("the terminal went away"),
    }
}

async fn run(options: &Options) -> Result<()> {
    let workdir = WorkDir::create(options)?;
    let mut machine = Machine::read(&workdir)?;
    machine.print();
    if options.pin {
        machine::pin_self_to_second_cpu().await?;
    }
    let variants = variants::start(options, &workdir).await?;
    let measured = rounds::measure(options, &variants.targets).await?;
    let probes = probes::run(options, &variants, &workdir).await?;
    machine.read_at_end(&workdir)?;
    let report = Report { options, machine: &machine, variants: &variants, measured: &measured, probes: &probes };
    report.print();
    report.write()?;
    report.fail_on_errors()
}
