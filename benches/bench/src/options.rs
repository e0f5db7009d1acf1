//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::variants::NAMES;

pub const HELP: &str = "\
Usage: scripts/bench [options]

  --rounds N         rounds; in each, every variant has its turn       [default: 5]
  --seconds S        length of a turn                                  [default: 3]
  --connections C    keep-alive connections                            [default: 32]
  --out FILE         where the JSON goes      [default: benches/target/bench.json]
  --only NAME,...    some of: bare full full-one-commit full-no-audit spawn
                     wasmtime-serve wasmtime-serve-tuned wassette probes fairness
                     (`bare` is always measured: the ratios need it)
  --binary FILE      measure this build of the host, such as that of scripts/package
  --quick            2 rounds of 0.5 s: only to see that everything runs
  --pin              servers on CPU 0, generator on CPU 1
";

/// What to run and how long.
pub struct Options {
    /// The checkout.
    pub root: PathBuf,
    /// The program to measure, if not the one of the checkout's release build.
    pub binary: Option<PathBuf>,
    pub rounds: usize,
    pub turn: Duration,
    pub warm_up: Duration,
    pub connections: usize,
    pub out: PathBuf,
    pub only: Option<Vec<String>>,
    pub quick: bool,
    pub pin: bool,
    /// Only read the options: `scripts/bench` asks before it builds for minutes.
    pub check: bool,
}

impl Options {
    /// `None` if only the help was asked for.
    pub fn from_args(mut args: impl Iterator<Item = String>) -> Result<Option<Self>> {
        let mut options = Self::defaults();
        let mut out = None;
        let (mut rounds, mut seconds) = (None, None);
        while let Some(flag) = args.next() {
            let mut value = || args.next().with_context(|| format!("{flag} needs a value"));
            match flag.as_str() {
                "--rounds" => rounds = Some(value()?.parse().context("--rounds")?),
                "--seconds" => seconds = Some(value()?.parse().context("--seconds")?),
                "--connections" => options.connections = value()?.parse().context(flag)?,
                "--out" => out = Some(PathBuf::from(value()?)),
                "--only" => options.only = Some(names(&value()?)?),
                "--root" => options.root = PathBuf::from(value()?),
                "--binary" => options.binary = Some(PathBuf::from(value()?)),
                "--quick" => options.quick = true,
                "--pin" => options.pin = true,
                "--check-options" => options.check = true,
                "-h" | "--help" => return Ok(None),
                _ => bail!("unknown option `{flag}`\n\n{HELP}"),
            }
        }
        let (quick_rounds, quick_seconds) = if options.quick { (2, 0.5) } else { (5, 3.0) };
        options.rounds = rounds.unwrap_or(quick_rounds);
        options.turn = Duration::try_from_secs_f64(seconds.unwrap_or(quick_seconds))?;
        options.warm_up = Duration::from_secs_f64(if options.quick { 0.2 } else { 1.0 });
        options.out = out.unwrap_or_else(|| options.root.join("benches/target/bench.json"));
        ensure!(options.rounds > 0, "--rounds must be at least 1");
        ensure!(options.connections > 0, "--connections must be at least 1");
        ensure!(!options.turn.is_zero(), "--seconds must be more than 0");
        Ok(Some(options))
    }

    fn defaults() -> Self {
        Self {
            root: PathBuf::from("."),
            binary: None,
            rounds: 0,
            turn: Duration::ZERO,
            warm_up: Duration::ZERO,
            connections: 32,
            out: PathBuf::new(),
            only: None,
            quick: false,
            pin: false,
            check: false,
        }
    }

    /// The host to measure.
    pub fn host(&self) -> PathBuf {
        self.binary.clone().unwrap_or_else(|| self.root.join("target/release/skillvisor"))
    }

    /// Whether `name` is to be run. The probes and `fairness` need `full`, and all ratios `bare`.
    pub fn wants(&self, name: &str) -> bool {
        let Some(only) = &self.only else { return true };
        let listed = |name: &str| only.iter().any(|listed| listed == name);
        name == "bare" || listed(name) || name == "full" && (listed("probes") || listed("fairness"))
    }
}

fn names(list: &str) -> Result<Vec<String>> {
    let names: Vec<String> = list.split(',').map(str::to_owned).collect();
    for name in &names {
        let known = name == "probes" || name == "fairness" || NAMES.contains(&name.as_str());
        ensure!(known, "--only knows no `{name}`\n\n{HELP}");
    }
    Ok(names)
}
