//! The only place that prints. Data goes to stdout, everything else to stderr.

use std::io::{ErrorKind, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use super::exit::{Exit, Failure};
use super::json_text;
use super::table;

/// Where a command's results go, and in which form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    /// Whether programs read it.
    pub(super) json: bool,
    stdout_is_terminal: bool,
    stderr_is_terminal: bool,
}

impl Output {
    /// The streams of this process.
    pub(super) fn of_process(json: bool) -> Self {
        Self {
            json,
            stdout_is_terminal: std::io::stdout().is_terminal(),
            stderr_is_terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Whether somebody sees stderr as it comes.
    pub(super) fn has_terminal(&self) -> bool {
        self.stderr_is_terminal
    }

    /// One line of data, or several.
    pub(super) fn line(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = std::io::stdout().lock();
        let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.write_all(b"\n"));
        written.and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
            // The reader has enough, as `head` has; that is no failure.
            ErrorKind::BrokenPipe => Failure::silent(Exit::Success),
            _ => Failure::internal(format!("cannot write to stdout: {error}")),
        })
    }

    /// A JSON text: laid out on a terminal, as it is elsewhere.
    pub(super) fn json_text(&self, text: &str) -> Result<(), Failure> {
        let text = text.trim_end();
        if self.stdout_is_terminal { self.line(&json_text::pretty(text)) } else { self.line(text) }
    }

    /// A JSON value.
    pub(super) fn json(&self, value: &Value) -> Result<(), Failure> {
        self.json_text(&value.to_string())
    }

    /// A table; cells are shortened on a terminal only.
    pub(super) fn table(&self, header: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
        let widest = if self.stdout_is_terminal { 60 } else { usize::MAX };
        self.line(&table::render(header, rows, widest))
    }

    /// A table whose cells are never shortened.
    pub(super) fn full_table(&self, header: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
        self.line(&table::render(header, rows, usize::MAX))
    }

    /// Something for people, beside the data. Lost if nobody can read it.
    pub(super) fn note(&self, text: &str) {
        let mut stderr = std::io::stderr().lock();
        drop(stderr.write_all(text.as_bytes()).and_then(|()| stderr.write_all(b"\n")));
    }

    /// A piece of text beside the data, which may end in the middle of a line.
    pub(super) fn piece(&self, text: &str) {
        let mut stderr = std::io::stderr().lock();
        drop(stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()));
    }

    /// Tells a failure: for people on stderr, and as a problem object on stdout if programs read.
    pub(super) fn failure(&self, failure: &Failure) {
        if failure.told {
            return;
        }
        self.note(&failure.to_text());
        if self.json {
            drop(self.json(&failure.to_problem()));
        }
    }

    /// Text that is data in itself, such as a completion script.
    pub(super) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        self.line(String::from_utf8_lossy(bytes).trim_end())
    }

    /// Bytes as they are.
    pub(super) fn raw(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
            ErrorKind::BrokenPipe => Failure::silent(Exit::Success),
            _ => Failure::internal(format!("cannot write to stdout: {error}")),
        })
    }

    /// A bar for `total` bytes, which only a terminal shows.
    pub(super) fn bar(&self, total: u64) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(Some(total), self.target());
        let style = ProgressStyle::with_template("{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec}");
        bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }

    /// A sign that something goes on, and for how long it has; only a terminal shows it.
    pub(super) fn spinner(&self, message: String) -> ProgressBar {
        let spinner = ProgressBar::with_draw_target(None, self.target()).with_message(message);
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
        let spinner = spinner.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        spinner.enable_steady_tick(Duration::from_millis(100));
        spinner
    }

    fn target(&self) -> ProgressDrawTarget {
        if self.stderr_is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() }
    }
}
