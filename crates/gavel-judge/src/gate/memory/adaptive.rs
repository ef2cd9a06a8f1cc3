//! Learns how many concurrent calls a judge answers in time, from its timeouts.
//!
//! A server that takes one call after the other answers the last of many too late, and each of them costs it as much as one that is
//! read. So where such calls come together, half as many go out, and then one more at a time: later and later where that was too many
//! again.

use tokio::time::Instant;

/// One outcome counts for one part in so many of the share of late ones.
const PARTS: f64 = 16.0;
/// One late call among many is chance; two of the last few aren't.
const PREVAILS: f64 = 0.1;
/// What was found again so often is tried no later than before.
const MOST_MET: u32 = 6;

#[derive(Debug, Default)]
pub(super) struct AdaptiveConcurrency {
    /// The share of late calls among the last ones.
    late: f64,
    found: Option<LimitEstimate>,
}

#[derive(Debug, Clone, Copy)]
struct LimitEstimate {
    most: f64,
    /// How many were out when it was too many.
    too_many: u32,
    /// Calls that left before say nothing of it.
    at: Instant,
    met: u32,
    /// Whether a call was answered that left since.
    answers: bool,
}

impl AdaptiveConcurrency {
    /// The most calls at once; `None`: nothing is known against more.
    pub(super) fn most(&self) -> Option<usize> {
        self.found.map(|found| found.most as usize)
    }

    pub(super) fn is_full(&self, out: u32) -> bool {
        self.most().is_some_and(|most| out as usize >= most)
    }

    /// A call that left at `sent` was answered.
    pub(super) fn answered(&mut self, sent: Instant) {
        self.late -= self.late / PARTS;
        let Some(found) = self.found.as_mut().filter(|found| sent >= found.at) else {
            return;
        };
        found.answers = true;
        found.most += 1.0 / (found.most * f64::from(1 << found.met));
        // Far beyond what was too many: the server isn't what it was.
        if found.most > 2.0 * f64::from(found.too_many) {
            self.found = None;
        }
    }

    /// A call that left at `sent` wasn't answered in time, while `out` were out, itself included; the most from now on, if that is fewer.
    pub(super) fn late(&mut self, sent: Instant, out: u32, now: Instant) -> Option<usize> {
        // Those that were out together count once.
        if self.found.is_some_and(|found| sent < found.at) {
            return None;
        }
        self.late += (1.0 - self.late) / PARTS;
        if self.late < PREVAILS {
            return None;
        }
        self.late = 0.0;
        // A server that has yet to get through what it was sent before answers nothing; that is no more than the limit that was found.
        let (met, too_many) = match self.found {
            None => (0, out),
            Some(found) if found.answers => (found.met + 1, out),
            Some(found) => (found.met, found.too_many),
        };
        self.found = Some(LimitEstimate {
            most: f64::from((out / 2).max(1)),
            too_many,
            at: now,
            met: met.min(MOST_MET),
            answers: false,
        });
        self.most()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A server that takes a second for each call, one after the other, and a client that gives each of them `patience` s: how many of
    /// `calls` were late, and the most at once in the end.
    fn run(calls: u32, at_once: u32, patience: u64) -> (u32, Option<usize>) {
        let (start, mut adaptive) = (Instant::now(), AdaptiveConcurrency::default());
        let (mut now, mut free, mut late, mut left) = (start, start, 0, calls);
        // When each was sent, and when its answer comes.
        let mut out: std::collections::VecDeque<(Instant, Instant)> = Default::default();
        while left > 0 || !out.is_empty() {
            while left > 0 && (out.len() as u32) < at_once && !adaptive.is_full(out.len() as u32) {
                free = free.max(now) + Duration::from_secs(1);
                out.push_back((now, free));
                left -= 1;
            }
            let Some((sent, answer)) = out.front().copied() else {
                break;
            };
            let deadline = sent + Duration::from_secs(patience);
            now = now.max(answer.min(deadline));
            match answer <= deadline {
                true => adaptive.answered(sent),
                false => {
                    late += 1;
                    adaptive.late(sent, out.len() as u32, now);
                }
            }
            out.pop_front();
        }
        (late, adaptive.most())
    }

    #[tokio::test(start_paused = true)]
    async fn a_serial_server_is_asked_as_much_at_once_as_it_answers_in_time() {
        let (late, most) = run(2_000, 64, 10);
        assert!(late < 250, "{late} of 2000 were late");
        assert!(most.unwrap() <= 12, "{most:?}");
        assert_eq!(run(2_000, 8, 10), (0, None), "in time, as it is");
    }

    #[tokio::test(start_paused = true)]
    async fn one_late_call_among_many_slows_nothing_down() {
        let (now, mut adaptive) = (Instant::now(), AdaptiveConcurrency::default());
        for call in 0..500 {
            match call % 20 {
                0 => assert_eq!(adaptive.late(now, 64, now), None),
                _ => adaptive.answered(now),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_were_out_together_count_once_and_a_server_that_recovers_is_free() {
        let (start, mut adaptive) = (Instant::now(), AdaptiveConcurrency::default());
        let later = start + Duration::from_secs(60);
        assert_eq!(adaptive.late(start, 8, later), None);
        assert_eq!(adaptive.late(start, 8, later), Some(4));
        for _ in 0..6 {
            assert_eq!(adaptive.late(start, 6, later), None);
            adaptive.answered(start);
        }
        assert_eq!(adaptive.most(), Some(4));
        let mut answers = 0;
        while adaptive.most().is_some() {
            adaptive.answered(later + Duration::from_secs(1));
            answers += 1;
        }
        assert!(answers < 200, "{answers} answers");
    }
}
