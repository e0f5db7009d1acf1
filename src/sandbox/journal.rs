//! What a guest says while it runs, kept up to caps and for free until it says something.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::model::{ExecutionId, LogLevel, LogLine, Progress, Said, Saying, Streams, plain};

use super::hub::{Hub, MAX_BYTES, Reader};
use super::printed::{Printed, clean};

/// Most lines of a log.
const MAX_LINES: usize = 1_000;
/// Most bytes of a log's texts.
const MAX_LOG_BYTES: usize = 256 << 10;
/// Most bytes of one message in a log.
const MAX_MESSAGE: usize = 8 << 10;
/// Most bytes of the word for the part that logs.
const MAX_CONTEXT: usize = 128;
/// Most reports of progress that are kept; older ones go.
const MAX_REPORTS: usize = 64;
/// A report within this time of the one before it takes its place, in milliseconds.
const REPORT_EVERY_MS: i64 = 100;
/// Most bytes of a piece of what was printed that is told at the end.
const PIECE: usize = 8 << 10;
/// Most bytes of the message of a report.
const MAX_REPORT: usize = 1024;

/// What one run says and prints. Who follows the run may hear it while it runs; who does not,
/// costs it nothing.
#[derive(Debug, Default)]
pub struct Journal {
    kept: Mutex<Option<Box<Kept>>>,
    printed: [Mutex<Printed>; 2],
    /// Where those hear of it who follow the run, once there was one.
    hub: OnceLock<Arc<Hub>>,
    attempt: AtomicU32,
    /// Whether texts may have a secret in them, which is taken out at the end.
    withheld: AtomicBool,
    /// Whether nothing at all is told before the end, where others may change it.
    kept_back: AtomicBool,
    is_over: AtomicBool,
}

/// One of the two streams that a guest prints to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

#[derive(Debug, Default)]
struct Kept {
    said: Said,
    bytes: usize,
    /// When the newest report began to stand; what comes soon after takes its place.
    reported_at: i64,
    /// Whether the newest report took the place of one and was not told.
    is_untold: bool,
}

impl Journal {
    /// Keeps a line of the log, if there is room.
    pub(super) fn log(&self, (at, level): (i64, LogLevel), (context, message): (&str, &str)) {
        let mut kept = self.kept.lock();
        let kept = kept.get_or_insert_default();
        let left = MAX_LOG_BYTES.saturating_sub(kept.bytes);
        if kept.said.log.len() >= MAX_LINES || left == 0 {
            kept.said.log_truncated = true;
            return;
        }
        let context = plain(context, MAX_CONTEXT.min(left));
        let (message, cut) = clean(message.as_bytes(), MAX_MESSAGE.min(left - context.len()));
        kept.said.log_truncated |= cut;
        kept.bytes += context.len() + message.len();
        let line = LogLine { at, level, context, message };
        if let Some(hub) = self.open_hub() {
            hub.tell(self.attempt(), Saying::Log(line.clone()));
        }
        kept.said.log.push(line);
    }

    /// Keeps a report of progress. What is no number is left out.
    pub(super) fn report(&self, at: i64, (done, total): (f64, Option<f64>), message: &str) {
        if !done.is_finite() {
            return;
        }
        let total = total.filter(|total| total.is_finite());
        let report = Progress { at, done, total, message: plain(message, MAX_REPORT) };
        let mut kept = self.kept.lock();
        let kept = kept.get_or_insert_default();
        let reports = &mut kept.said.progress;
        match reports.last_mut() {
            Some(last) if at < kept.reported_at.saturating_add(REPORT_EVERY_MS) => {
                *last = report;
                kept.is_untold = true;
            }
            _ => {
                self.tell_report(&report);
                kept.is_untold = false;
                if reports.len() == MAX_REPORTS {
                    reports.remove(0);
                }
                reports.push(report);
                kept.reported_at = at;
            }
        }
    }

    /// Begins an attempt. What is `withheld` is told to nobody before the end, where secrets are
    /// taken out.
    pub fn begin(&self, attempt: u32, withheld: bool) {
        self.attempt.store(attempt, Ordering::Relaxed);
        self.withheld.store(withheld, Ordering::Relaxed);
    }

    /// Tells nobody anything in this attempt: interceptors may change it at the end.
    pub fn withhold(&self) {
        self.withheld.store(true, Ordering::Relaxed);
        self.kept_back.store(true, Ordering::Relaxed);
    }

    /// Tells those who follow what was kept back, as it is now.
    pub fn release(&self, streams: &Streams, said: &Said) {
        // Who begins to follow now is told here, and by nobody else.
        let _alone = self.kept.lock();
        let Some(hub) = self.hub.get() else { return };
        for line in &said.log {
            hub.tell(self.attempt(), Saying::Log(line.clone()));
        }
        for report in &said.progress {
            hub.tell(self.attempt(), Saying::Progress(report.clone()));
        }
        for (stream, text) in [(Stream::Stdout, &streams.stdout), (Stream::Stderr, &streams.stderr)] {
            let mut rest = text.as_str();
            while !rest.is_empty() {
                let (piece, more) = rest.split_at(rest.floor_char_boundary(PIECE));
                self.tell_printed(hub, stream, piece.to_owned());
                rest = more;
            }
        }
    }

    /// Keeps what the guest prints, of all of it `cap` bytes at most. Whether all of it was kept.
    pub(super) fn print(&self, stream: Stream, bytes: &[u8], cap: usize) -> bool {
        let mut printed = self.printed[stream as usize].lock();
        printed.keep(bytes, cap);
        if let Some(hub) = self.open_hub() {
            self.tell_printed(hub, stream, printed.news(false));
        }
        !printed.truncated
    }

    /// Looks at what was printed so far.
    pub(super) fn printed<T>(&self, stream: Stream, look: impl FnOnce(&Printed) -> T) -> T {
        look(&self.printed[stream as usize].lock())
    }

    /// What was printed, at the end of an attempt, clean and `cap` bytes at most, and whether
    /// that is not all.
    pub(super) fn take_printed(&self, stream: Stream, cap: usize) -> (String, bool) {
        let mut printed = std::mem::take(&mut *self.printed[stream as usize].lock());
        if let Some(hub) = self.open_hub() {
            self.tell_printed(hub, stream, printed.news(true));
        }
        let (text, cut) = clean(&printed.bytes, cap);
        (text, printed.truncated || cut)
    }

    /// What was said, at the end of an attempt.
    pub(super) fn take(&self) -> Said {
        let Some(kept) = self.kept.lock().take() else { return Said::default() };
        if let Some(last) = kept.said.progress.last().filter(|_| kept.is_untold) {
            self.tell_report(last);
        }
        kept.said
    }

    /// Follows the run, from what it has said in this attempt on; of that, what came up to number
    /// `after` is known.
    pub fn follow(&self, after: u64) -> Reader {
        // Nothing is said meanwhile: it would be told twice or not at all.
        let mut kept = self.kept.lock();
        let mut printed = self.printed.each_ref().map(Mutex::lock);
        let hub = self.hub.get_or_init(|| {
            let hub = Arc::new(Hub::default());
            let [stdout, stderr] = &mut printed;
            if !self.withheld.load(Ordering::Relaxed) {
                self.tell_kept(&hub, kept.as_deref_mut());
                self.tell_printed_before(&hub, Stream::Stdout, stdout);
                self.tell_printed_before(&hub, Stream::Stderr, stderr);
            }
            if self.is_over.load(Ordering::Relaxed) {
                hub.end();
            }
            hub
        });
        Reader::new(Arc::clone(hub), after)
    }

    /// Tells those who follow that the run is on record.
    pub fn opened(&self, id: ExecutionId) {
        if let Some(hub) = self.hub.get() {
            hub.open(id);
        }
    }

    /// Tells those who follow that there is no more.
    pub fn end(&self) {
        // Who begins to follow now sees either this or what is told here.
        let _alone = self.kept.lock();
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(hub) = self.hub.get() {
            hub.end();
        }
    }

    /// Where texts are told, if somebody follows and they may be told.
    fn open_hub(&self) -> Option<&Hub> {
        let hub = self.hub.get()?;
        (!self.withheld.load(Ordering::Relaxed)).then_some(&**hub)
    }

    fn attempt(&self) -> u32 {
        self.attempt.load(Ordering::Relaxed)
    }

    fn tell_report(&self, report: &Progress) {
        let Some(hub) = self.hub.get() else { return };
        if self.kept_back.load(Ordering::Relaxed) {
            return;
        }
        let withheld = self.withheld.load(Ordering::Relaxed);
        let message = if withheld { String::new() } else { report.message.clone() };
        hub.tell(self.attempt(), Saying::Progress(Progress { message, ..report.clone() }));
    }

    fn tell_printed(&self, hub: &Hub, stream: Stream, text: String) {
        if text.is_empty() {
            return;
        }
        let said = match stream {
            Stream::Stdout => Saying::Stdout(text),
            Stream::Stderr => Saying::Stderr(text),
        };
        hub.tell(self.attempt(), said);
    }

    fn tell_kept(&self, hub: &Hub, kept: Option<&mut Kept>) {
        let Some(kept) = kept else { return };
        kept.is_untold = false;
        for line in &kept.said.log {
            hub.tell(self.attempt(), Saying::Log(line.clone()));
        }
        for report in &kept.said.progress {
            hub.tell(self.attempt(), Saying::Progress(report.clone()));
        }
    }

    fn tell_printed_before(&self, hub: &Hub, stream: Stream, printed: &mut Printed) {
        if printed.skip_to(MAX_BYTES / 2) {
            hub.skip();
        }
        self.tell_printed(hub, stream, printed.news(false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_kept_up_to_its_caps_and_says_when_it_was_cut() {
        let journal = Journal::default();
        journal.log((1, LogLevel::Warn), ("a\u{1b}b", "m"));
        let long = "x".repeat(MAX_MESSAGE * 2);
        for _ in 0..2 * MAX_LINES {
            journal.log((2, LogLevel::Info), ("c", &long));
        }
        let said = journal.take();
        assert_eq!((said.log[0].context.as_str(), said.log[0].message.as_str()), ("ab", "m"));
        let bytes: usize = said.log.iter().map(|line| line.context.len() + line.message.len()).sum();
        assert!(said.log_truncated && bytes <= MAX_LOG_BYTES && said.log.len() <= MAX_LINES, "{bytes}");
        assert_eq!(journal.take(), Said::default());
    }

    #[test]
    fn reports_that_come_too_fast_take_each_others_place_and_old_ones_go() {
        let journal = Journal::default();
        for step in 0..50_u32 {
            journal.report(7, (f64::from(step), None), "");
        }
        assert_eq!(journal.take().progress.iter().map(|report| report.done).collect::<Vec<_>>(), [49.0]);
        for at in 1..=1_000 {
            journal.report(at * REPORT_EVERY_MS, (1.0, Some(f64::NAN)), "n");
        }
        journal.report(i64::MAX, (f64::INFINITY, None), "");
        let reports = journal.take().progress;
        assert_eq!((reports.len(), reports[MAX_REPORTS - 1].at), (MAX_REPORTS, 1_000 * REPORT_EVERY_MS));
        assert_eq!(reports[0].total, None);
    }
}
