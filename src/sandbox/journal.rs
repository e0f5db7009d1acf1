//! What a guest says while it runs, kept up to caps and for free until it says something.

use parking_lot::Mutex;

use crate::model::{LogLevel, LogLine, Progress, Said, plain};

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
/// Most bytes of the message of a report.
const MAX_REPORT: usize = 1024;

/// The log and the progress of one run. Who follows the run may look while it runs.
#[derive(Debug, Default)]
pub struct Journal(Mutex<Option<Box<Kept>>>);

#[derive(Debug, Default)]
struct Kept {
    said: Said,
    bytes: usize,
    /// When the newest report began to stand; what comes soon after takes its place.
    reported_at: i64,
}

impl Journal {
    /// Keeps a line of the log, if there is room; `clean` makes a text fit to be shown, cut at so
    /// many bytes.
    pub(super) fn log(
        &self,
        (at, level): (i64, LogLevel),
        (context, message): (&str, &str),
        clean: fn(&[u8], usize) -> (String, bool),
    ) {
        let mut kept = self.0.lock();
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
        kept.said.log.push(LogLine { at, level, context, message });
    }

    /// Keeps a report of progress. What is no number is left out.
    pub(super) fn report(&self, at: i64, (done, total): (f64, Option<f64>), message: &str) {
        if !done.is_finite() {
            return;
        }
        let total = total.filter(|total| total.is_finite());
        let report = Progress { at, done, total, message: plain(message, MAX_REPORT) };
        let mut kept = self.0.lock();
        let kept = kept.get_or_insert_default();
        let reports = &mut kept.said.progress;
        match reports.last_mut() {
            Some(last) if at < kept.reported_at.saturating_add(REPORT_EVERY_MS) => *last = report,
            _ => {
                if reports.len() == MAX_REPORTS {
                    reports.remove(0);
                }
                reports.push(report);
                kept.reported_at = at;
            }
        }
    }

    /// What was said until now.
    pub fn so_far(&self) -> Said {
        self.0.lock().as_ref().map(|kept| kept.said.clone()).unwrap_or_default()
    }

    /// What was said, at the end.
    pub(super) fn take(&self) -> Said {
        self.0.lock().take().map(|kept| kept.said).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(bytes: &[u8], cap: usize) -> (String, bool) {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(cap)]).into_owned();
        (text, bytes.len() > cap)
    }

    #[test]
    fn a_log_is_kept_up_to_its_caps_and_says_when_it_was_cut() {
        let journal = Journal::default();
        journal.log((1, LogLevel::Warn), ("a\u{1b}b", "m"), raw);
        assert!(!journal.so_far().log_truncated);
        let long = "x".repeat(MAX_MESSAGE * 2);
        for _ in 0..2 * MAX_LINES {
            journal.log((2, LogLevel::Info), ("c", &long), raw);
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
        assert_eq!(journal.so_far().progress.iter().map(|report| report.done).collect::<Vec<_>>(), [49.0]);
        for at in 1..=1_000 {
            journal.report(at * REPORT_EVERY_MS, (1.0, Some(f64::NAN)), "n");
        }
        journal.report(i64::MAX, (f64::INFINITY, None), "");
        let reports = journal.take().progress;
        assert_eq!((reports.len(), reports[MAX_REPORTS - 1].at), (MAX_REPORTS, 1_000 * REPORT_EVERY_MS));
        assert_eq!(reports[0].total, None);
    }
}
