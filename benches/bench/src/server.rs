//! A server under test: a child process that is killed when dropped.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command as Std, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{sleep, timeout};

use crate::options::Options;
use crate::workdir::WorkDir;

const READY_WITHIN: Duration = Duration::from_secs(60);
/// What the kernel counts CPU time in for user space (`USER_HZ`): 100 a second.
const TICK: Duration = Duration::from_millis(10);

/// How a server is started and how it tells where it listens.
pub struct Launch {
    pub name: &'static str,
    pub program: PathBuf,
    pub args: Vec<String>,
    pub variables: Vec<(&'static str, &'static str)>,
    pub ready: Ready,
}

pub enum Ready {
    /// A line on its standard output names the address.
    Line(fn(&str) -> Option<SocketAddr>),
    /// It was told the address and accepts connections once it is ready.
    Address(SocketAddr),
}

pub struct Server {
    /// Killed when dropped.
    _child: Child,
    pid: u32,
    pub address: SocketAddr,
    /// The command line, with paths relative to the checkout.
    pub command: String,
}

impl Server {
    /// Starts it with next to no environment, so that no setting of the user's gets in.
    pub async fn start(launch: Launch, options: &Options, workdir: &WorkDir) -> Result<Self> {
        let log = workdir.path().join(format!("{}.log", launch.name));
        let mut command = command(&launch, options);
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", workdir.folder("home")?)
            .envs(launch.variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?);
        let mut child = Command::from(command)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", launch.program.display()))?;
        let pid = child.id().context("it ended at once")?;
        let stdout = child.stdout.take().context("no standard output")?;
        let address = timeout(READY_WITHIN, ready(&mut child, &launch.ready, stdout))
            .await
            .unwrap_or_else(|_| bail!("not ready within {READY_WITHIN:?}"))
            .with_context(|| last_words(&log))?;
        Ok(Self { _child: child, pid, address, command: shown(&launch, &options.root) })
    }

    /// CPU time used so far, by it and by those of its children that have ended.
    pub fn cpu_time(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).context("the server has gone")?;
        let (_, after_name) = stat.rsplit_once(')').context("a short stat")?;
        // After the name come the fields from the third on; the four wanted are 14 to 17.
        let ticks = after_name.split_whitespace().skip(11).take(4);
        let ticks: u32 = ticks.map(|field| field.parse().unwrap_or(0)).sum();
        Ok(TICK * ticks)
    }
}

fn command(launch: &Launch, options: &Options) -> Std {
    if !options.pin {
        let mut command = Std::new(&launch.program);
        command.args(&launch.args);
        return command;
    }
    // `taskset` becomes the server: the process stays the same.
    let mut command = Std::new("taskset");
    command.args(["--cpu-list", "0"]);
    command.arg(&launch.program).args(&launch.args);
    command
}

fn shown(launch: &Launch, root: &Path) -> String {
    let root = format!("{}/", root.display());
    let variables = launch.variables.iter();
    let mut words: Vec<String> = variables.map(|(name, value)| format!("{name}={value}")).collect();
    words.push(launch.program.display().to_string());
    words.extend(launch.args.iter().cloned());
    words.join(" ").replace(&root, "")
}

async fn ready(child: &mut Child, ready: &Ready, stdout: ChildStdout) -> Result<SocketAddr> {
    let mut lines = BufReader::new(stdout).lines();
    let address = match ready {
        Ready::Address(address) => {
            connects(child, *address).await?;
            *address
        }
        Ready::Line(parse) => loop {
            let line = lines.next_line().await?;
            let line = line.context("it ended before it was ready")?;
            if let Some(address) = parse(&line) {
                break address;
            }
        },
    };
    // Read on, so that it never waits for room to print.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Ok(address)
}

async fn connects(child: &mut Child, address: SocketAddr) -> Result<()> {
    while TcpStream::connect(address).await.is_err() {
        if let Some(status) = child.try_wait()? {
            bail!("it ended before it was ready: {status}");
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// The first line that a server said about why it does not start.
fn last_words(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let line = text.lines().find(|line| !line.trim().is_empty());
    line.unwrap_or("it said nothing").trim().to_owned()
}

/// An address that nobody listens on at the moment.
pub async fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0").await?.local_addr()?)
}
