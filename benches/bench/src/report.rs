//! The table and the JSON.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::machine::Machine;
use crate::options::Options;
use crate::peers;
use crate::probes::Probes;
use crate::rounds::{Measured, Turn, median};
use crate::variants::Variants;

pub struct Report<'a> {
    pub options: &'a Options,
    pub machine: &'a Machine,
    pub variants: &'a Variants,
    pub measured: &'a [Measured],
    pub probes: &'a Probes,
}

impl Report<'_> {
    pub fn print(&self) {
        println!(
            "\n{:<22}{:>8}{:>15}{:>9}{:>9}{:>9}{:>8}{:>9}{:>8}",
            "variant", "rps", "min..max", "p50 ms", "p99 ms", "cpu us", "/bare", "full/it", "errors"
        );
        for measured in self.measured {
            self.print_row(measured);
        }
        println!("\n{}", self.settings_line());
        let (fsync, p99) = self.machine.fsync_us();
        println!("fsync of the data directory's disk: median {fsync:.0} us, p99 {p99:.0} us");
        let peers = peers::versions(self.options);
        println!("peers: {}", peers.as_deref().unwrap_or("none installed"));
        for (name, command) in self.commands() {
            println!("  {name}: {command}");
        }
        for skipped in &self.variants.skipped {
            println!("skipped: {}: {}", skipped.name, skipped.reason);
        }
        for (name, reason) in &self.probes.failed {
            println!("probe failed: {name}: {reason}");
        }
        self.print_first_errors();
    }

    fn print_row(&self, measured: &Measured) {
        let rps = measured.turns.iter().map(|turn| turn.rps);
        let least = rps.clone().fold(f64::MAX, f64::min);
        let most = rps.fold(0.0, f64::max);
        let times = self.full_ratio(measured);
        let times = times.map_or("-".to_owned(), |times| format!("{times:.2}"));
        println!(
            "{:<22}{:>8.0}{:>15}{:>9.2}{:>9.2}{:>9.1}{:>8.3}{:>9}{:>8}",
            measured.name,
            measured.median(|turn| turn.rps),
            format!("{least:.0}..{most:.0}"),
            measured.median(|turn| turn.p50_ms),
            measured.median(|turn| turn.p99_ms),
            measured.median(|turn| turn.cpu_us_per_request),
            median(measured.ratios(self.bare())),
            times,
            measured.errors(),
        );
    }

    fn print_first_errors(&self) {
        for measured in self.measured {
            let first = measured.turns.iter().find_map(|turn| turn.first_error.as_ref());
            if let Some(error) = first {
                println!("errors of {}, the first: {error}", measured.name);
            }
        }
    }

    fn settings_line(&self) -> String {
        let options = self.options;
        format!(
            "settings: {} rounds of {:?}, warm-up {:?}, {} connections, {}; load average {:.2} to {:.2}",
            options.rounds,
            options.turn,
            options.warm_up,
            options.connections,
            if options.pin { "pinned" } else { "not pinned" },
            self.machine.load_at_start[0],
            self.machine.load_at_end[0],
        )
    }

    /// The variants always begin with `bare`.
    fn bare(&self) -> &Measured {
        &self.measured[0]
    }

    /// How many times the throughput of `measured` the product has.
    fn full_ratio(&self, measured: &Measured) -> Option<f64> {
        let full = self.measured.iter().find(|other| other.name == "full")?;
        Some(median(full.ratios(measured)))
    }

    fn commands(&self) -> impl Iterator<Item = (&str, &str)> {
        let targets = self.variants.targets.iter();
        targets.map(|target| (target.name, &*target.server.command))
    }

    pub fn write(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.json())?;
        let out = &self.options.out;
        fs::write(out, text + "\n").with_context(|| format!("cannot write {}", out.display()))?;
        println!("written: {}", out.display());
        Ok(())
    }

    fn json(&self) -> Value {
        let options = self.options;
        let skipped = self.variants.skipped.iter();
        let skipped = skipped.map(|skipped| json!({ "name": skipped.name, "reason": skipped.reason }));
        let failed = self.probes.failed.iter();
        let failed = failed.map(|(name, reason)| json!({ "name": name, "reason": reason }));
        let (fsync, fsync_p99) = self.machine.fsync_us();
        json!({
            "results": self.measured.iter().map(|one| self.result(one)).collect::<Vec<_>>(),
            "skipped": skipped.collect::<Vec<_>>(),
            "probes": self.probes.found,
            "failedProbes": failed.collect::<Vec<_>>(),
            "machine": self.machine.json(),
            "fsyncUs": rounded(fsync),
            "fsyncP99Us": rounded(fsync_p99),
            "settings": {
                "rounds": options.rounds,
                "seconds": options.turn.as_secs_f64(),
                "warmUpSeconds": options.warm_up.as_secs_f64(),
                "connections": options.connections,
                "pinned": options.pin,
                "quick": options.quick,
                "peers": peers::versions(options),
                "commands": self.commands().collect::<std::collections::BTreeMap<_, _>>(),
            },
        })
    }

    fn result(&self, measured: &Measured) -> Value {
        let ratios = measured.ratios(self.bare());
        let turns = measured.turns.iter().zip(&ratios);
        json!({
            "name": measured.name,
            "rps": rounded(measured.median(|turn| turn.rps)),
            "p50Ms": rounded(measured.median(|turn| turn.p50_ms)),
            "p99Ms": rounded(measured.median(|turn| turn.p99_ms)),
            "ratioToBare": rounded(median(ratios.clone())),
            "fullRatio": self.full_ratio(measured).map(rounded),
            "cpuUsPerRequest": rounded(measured.median(|turn| turn.cpu_us_per_request)),
            "errors": measured.errors(),
            "rounds": turns.map(|(turn, ratio)| turn_json(turn, *ratio)).collect::<Vec<_>>(),
        })
    }

    /// Numbers with errors in them are no numbers.
    pub fn fail_on_errors(&self) -> Result<()> {
        let errors: u64 = self.measured.iter().map(Measured::errors).sum();
        ensure!(errors == 0, "{errors} requests had a wrong answer");
        let failed = &self.probes.failed;
        ensure!(failed.is_empty(), "{} probes failed", failed.len());
        let mut skipped = self.variants.skipped.iter();
        ensure!(skipped.all(|one| one.name != "full"), "the host was not measured");
        Ok(())
    }
}

fn turn_json(turn: &Turn, ratio: f64) -> Value {
    json!({
        "rps": rounded(turn.rps),
        "p50Ms": rounded(turn.p50_ms),
        "p99Ms": rounded(turn.p99_ms),
        "ratioToBare": rounded(ratio),
        "cpuUsPerRequest": rounded(turn.cpu_us_per_request),
        "requests": turn.requests,
        "errors": turn.errors,
    })
}

/// To four decimals: more would be noise.
pub fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
