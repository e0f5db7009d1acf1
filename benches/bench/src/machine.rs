//! What the numbers were measured on.

use std::fs::{self, File};
use std::io::{Seek, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::workdir::WorkDir;

const PAGE: [u8; 4096] = [7; 4096];
const FSYNC_PAGES: u64 = 100;
const FSYNC_AT_MOST: Duration = Duration::from_secs(2);

pub struct Machine {
    pub cpus: usize,
    pub cpu_model: String,
    pub kernel: String,
    pub memory_bytes: u64,
    pub load_at_start: [f64; 3],
    pub load_at_end: [f64; 3],
    /// How long each flush to the disk of the data directories took, in microseconds.
    fsync_us: Vec<f64>,
}

impl Machine {
    pub fn read(workdir: &WorkDir) -> Result<Self> {
        let load_at_start = load_average()?;
        let cpuinfo = fs::read_to_string("/proc/cpuinfo")?;
        let cpu_model = field(&cpuinfo, "model name").unwrap_or("unknown");
        let meminfo = fs::read_to_string("/proc/meminfo")?;
        let total = field(&meminfo, "MemTotal").and_then(|value| value.split(' ').next());
        Ok(Self {
            cpus: std::thread::available_parallelism()?.get(),
            cpu_model: cpu_model.to_owned(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            memory_bytes: total.unwrap_or("0").parse::<u64>()? * 1024,
            load_at_start,
            load_at_end: load_at_start,
            fsync_us: fsync_times(workdir)?,
        })
    }

    /// Looks again at what may have changed during the run.
    pub fn read_at_end(&mut self, workdir: &WorkDir) -> Result<()> {
        self.load_at_end = load_average()?;
        self.fsync_us.extend(fsync_times(workdir)?);
        Ok(())
    }

    /// Median and p99 of the flushes, in microseconds.
    pub fn fsync_us(&self) -> (f64, f64) {
        let mut times = self.fsync_us.clone();
        times.sort_by(f64::total_cmp);
        (times[times.len() / 2], times[times.len() * 99 / 100])
    }

    pub fn print(&self) {
        println!(
            "machine: {} x {}, {:.1} GiB, Linux {}, load average {:.2}",
            self.cpus,
            self.cpu_model,
            self.memory_bytes as f64 / f64::from(1 << 30),
            self.kernel,
            self.load_at_start[0],
        );
    }

    pub fn json(&self) -> Value {
        json!({
            "cpus": self.cpus,
            "cpuModel": self.cpu_model,
            "memoryBytes": self.memory_bytes,
            "kernel": self.kernel,
            "arch": std::env::consts::ARCH,
            "loadAverage": self.load_at_start,
            "loadAverageAtEnd": self.load_at_end,
        })
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

fn load_average() -> Result<[f64; 3]> {
    let text = fs::read_to_string("/proc/loadavg")?;
    let mut numbers = text.split(' ').map(str::parse::<f64>);
    let mut next = || numbers.next().context("a short /proc/loadavg");
    Ok([next()??, next()??, next()??])
}

/// Flushes one page after the other of a file that has its size already, as SQLite does with
/// its log most of the time.
fn fsync_times(workdir: &WorkDir) -> Result<Vec<f64>> {
    let mut file = File::create(workdir.path().join("fsync"))?;
    for _ in 0..FSYNC_PAGES {
        file.write_all(&PAGE)?;
    }
    file.sync_all()?;
    file.rewind()?;
    let mut times = Vec::new();
    let begin = Instant::now();
    while times.len() < FSYNC_PAGES as usize && begin.elapsed() < FSYNC_AT_MOST {
        let start = Instant::now();
        file.write_all(&PAGE)?;
        file.sync_data()?;
        times.push(start.elapsed().as_nanos() as f64 / 1e3);
    }
    Ok(times)
}

/// Puts this process, which is the load generator, on CPU 1. Servers go to CPU 0.
pub async fn pin_self_to_second_cpu() -> Result<()> {
    let pid = std::process::id().to_string();
    let output = Command::new("taskset")
        .args(["--all-tasks", "--cpu-list", "--pid", "1", &pid])
        .output()
        .await
        .context("--pin needs taskset")?;
    ensure!(output.status.success(), "--pin needs a CPU 0 and a CPU 1");
    Ok(())
}
