//! How far something is: a bar on a terminal, a plain line every 15 s elsewhere. Always on stderr.

use std::io::{IsTerminal as _, stderr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::output;

/// How often a plain line is written.
const EVERY: Duration = Duration::from_secs(15);

/// Counts what is done of a known number of things.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    plain: Mutex<Plain>,
    what: &'static str,
    total: u64,
}

struct Plain {
    done: u64,
    failed: u64,
    said: Instant,
}

impl Progress {
    /// Begins at 0 of `total`; `what` is what is counted, such as `sessions`.
    pub(super) fn new(what: &'static str, total: usize) -> Self {
        let total = u64::try_from(total).unwrap_or(u64::MAX);
        let style = ProgressStyle::with_template(
            "{bar:30} {pos}/{len} {msg} {elapsed_precise} (left: {eta})",
        );
        let bar = match style {
            Ok(style) if stderr().is_terminal() && total > 1 => {
                let bar = ProgressBar::new(total).with_style(style).with_message(what);
                bar.enable_steady_tick(Duration::from_millis(200));
                Some(bar)
            }
            Ok(_) | Err(_) => None,
        };
        Self {
            bar,
            plain: Mutex::new(Plain {
                done: 0,
                failed: 0,
                said: Instant::now(),
            }),
            what,
            total,
        }
    }

    /// One more is done, well or not.
    pub(super) fn one(&self, well: bool) {
        let mut plain = self.lock();
        plain.done += 1;
        plain.failed += u64::from(!well);
        if let Some(bar) = &self.bar {
            bar.set_position(plain.done);
            if plain.failed > 0 {
                bar.set_message(format!("{} ({} not scored)", self.what, plain.failed));
            }
        }
        drop(plain);
        self.still();
    }

    /// Says something beside the bar.
    pub(super) fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::note(text)),
            None => output::note(text),
        }
    }

    /// Writes a plain line if the last one is old enough. Call it from time to time.
    pub(super) fn still(&self) {
        let mut plain = self.lock();
        if self.bar.is_none() && plain.said.elapsed() >= EVERY {
            plain.said = Instant::now();
            output::note(&format!(
                "{} of {} {} done, {} not scored",
                plain.done, self.total, self.what, plain.failed
            ));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Plain> {
        match self.plain.lock() {
            Ok(plain) => plain,
            Err(poisoned) => poisoned.into_inner(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
