//! `limits.cpuPercent`: a guest that may have less than a whole processor.
//!
//! A guest gives way at each tick of a millisecond. One that has had its share by then goes on only
//! when as much time has passed as makes it no more than that; until then it holds no thread. The
//! clock goes on: deadlines and cancelling do not wait for it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::time::Sleep;

/// The percentage from which on nobody is slowed: a guest has one thread at a time.
const WHOLE: u64 = 100;
/// Time without work that a guest may make up for: timers come late, and who waited for an
/// answer may be quick with it.
const CREDIT: Duration = Duration::from_millis(20);

/// A guest's work at its pace.
pub(super) struct Paced<'a, F> {
    work: Pin<&'a mut F>,
    pace: Option<Pace>,
}

/// Who is slowed, and until when.
struct Pace {
    account: Account,
    pause: Option<Pin<Box<Sleep>>>,
}

/// What a guest has used of its share.
struct Account {
    percent: u64,
    /// When it will have had no more than its share.
    even: Instant,
}

impl Account {
    fn new(percent: u64, now: Instant) -> Self {
        Self { percent: percent.max(1), even: now }
    }

    /// Takes work into account, and gives the time of the next, if that is not at once.
    fn worked(&mut self, from: Instant, to: Instant) -> Option<Instant> {
        let earliest = from.checked_sub(CREDIT).unwrap_or(from);
        let spent = u64::try_from(to.duration_since(from).as_micros()).unwrap_or(u64::MAX);
        let cost = Duration::from_micros(spent.saturating_mul(WHOLE) / self.percent);
        self.even = self.even.max(earliest) + cost;
        (self.even > to).then_some(self.even)
    }
}

impl<'a, F: Future> Paced<'a, F> {
    /// The work, slowed to so many percent of a processor.
    pub(super) fn new(percent: u64, work: Pin<&'a mut F>) -> Self {
        let slow = percent < WHOLE;
        let pace = slow.then(|| Pace { account: Account::new(percent, Instant::now()), pause: None });
        Self { work, pace }
    }
}

impl<F: Future> Future for Paced<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Self { work, pace } = &mut *self;
        let Some(pace) = pace else { return work.as_mut().poll(cx) };
        if let Some(pause) = &mut pace.pause {
            std::task::ready!(pause.as_mut().poll(cx));
            pace.pause = None;
        }
        let from = Instant::now();
        let polled = work.as_mut().poll(cx);
        if polled.is_ready() {
            return polled;
        }
        if let Some(next) = pace.account.worked(from, Instant::now()) {
            let mut pause = Box::pin(tokio::time::sleep_until(next.into()));
            // It has come already, or it wakes this task.
            if pause.as_mut().poll(cx).is_pending() {
                pace.pause = Some(pause);
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn who_works_on_and_on_has_its_share_and_no_more() {
        let begin = Instant::now();
        for percent in [1, 10, 50, 99] {
            let mut account = Account::new(percent, begin);
            let (mut now, mut worked) = (begin, Duration::ZERO);
            while now < begin + ms(100_000) {
                let to = now + ms(1);
                worked += ms(1);
                now = account.worked(now, to).unwrap_or(to);
            }
            let share = worked.as_secs_f64() / (now - begin).as_secs_f64() * 100.0;
            #[expect(clippy::cast_precision_loss, reason = "a small number")]
            let percent = percent as f64;
            assert!((share - percent).abs() < percent / 50.0, "{share} of {percent}");
        }
    }

    #[test]
    fn a_timer_that_comes_late_is_made_up_for_and_a_long_wait_is_not() {
        let begin = Instant::now() + ms(1000);
        let mut account = Account::new(10, begin);
        assert_eq!(account.worked(begin, begin + ms(1)), Some(begin + ms(10)));
        assert_eq!(account.worked(begin + ms(14), begin + ms(15)), Some(begin + ms(20)));
        let late = begin + ms(60_000);
        assert_eq!(account.worked(late, late + ms(1)), None, "so much is its credit");
        assert_eq!(account.worked(late + ms(1), late + ms(5)), Some(late + ms(30)));
    }

    #[tokio::test]
    async fn the_work_is_done_whatever_its_pace() {
        for percent in [1, 100] {
            let mut work = pin!(async {
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                7
            });
            assert_eq!(Paced::new(percent, work.as_mut()).await, 7);
        }
    }
}
