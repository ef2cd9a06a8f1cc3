//! Progress on stderr: a bar on a terminal, otherwise a line every 15 s.

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, stderr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::output;

const EVERY: Duration = Duration::from_secs(15);

/// Counts finished items of a total, which may grow.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    plain: Mutex<Plain>,
    what: &'static str,
}

struct Plain {
    done: u64,
    failed: u64,
    total: u64,
    /// Additional text, such as the cost.
    beside: String,
    /// Reason why the service is currently unavailable.
    away: Option<String>,
    said: Instant,
    /// Keys of [`Progress::print_once`].
    once: BTreeSet<String>,
}

impl Progress {
    /// Starts at 0 of `total`; `what` names the items, such as `sessions`.
    pub(super) fn new(what: &'static str, total: usize) -> Self {
        let total = u64::try_from(total).unwrap_or(u64::MAX);
        let template = "{bar:30} {pos}/{len} {msg} {elapsed_precise} (left: {eta})";
        let bar = (total > 1).then(|| bar(what, template)).flatten();
        if let Some(bar) = &bar {
            bar.set_length(total);
        }
        Self::with_bar(what, total, bar)
    }

    /// Starts at 0 of an unknown total, which [`Progress::at`] sets.
    pub(super) fn growing(what: &'static str) -> Self {
        let bar = bar(what, "{bar:30} {pos}/{len} {msg} {elapsed_precise}");
        Self::with_bar(what, 0, bar)
    }

    fn with_bar(what: &'static str, total: u64, bar: Option<ProgressBar>) -> Self {
        Self {
            bar,
            plain: Mutex::new(Plain {
                done: 0,
                failed: 0,
                total,
                beside: String::new(),
                away: None,
                said: Instant::now(),
                once: BTreeSet::new(),
            }),
            what,
        }
    }

    /// Sets the numbers of finished, failed and all items; `beside` is additional text.
    pub(super) fn at(&self, [done, failed, total]: [u64; 3], beside: &str) {
        let mut plain = self.lock();
        (plain.done, plain.failed, plain.total) = (done, failed, total);
        beside.clone_into(&mut plain.beside);
        self.moved(&plain);
        drop(plain);
        self.print_if_due();
    }

    pub(super) fn one(&self, well: bool) {
        let mut plain = self.lock();
        plain.done += 1;
        plain.failed += u64::from(!well);
        self.moved(&plain);
        drop(plain);
        self.print_if_due();
    }

    fn moved(&self, plain: &Plain) {
        let Some(bar) = &self.bar else {
            return;
        };
        bar.set_length(plain.total);
        bar.set_position(plain.done);
        let failed = match plain.failed {
            0 => String::new(),
            failed => format!(" ({failed} failed)"),
        };
        let beside = match plain.beside.as_str() {
            "" => String::new(),
            beside => format!("; {beside}"),
        };
        bar.set_message(format!("{}{failed}{beside}", self.what));
    }

    pub(super) fn println(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::note(text)),
            None => output::note(text),
        }
    }

    /// Prints a text once per `key`.
    pub(super) fn print_once(&self, key: &str, text: &str) {
        if self.lock().once.insert(key.to_owned()) {
            self.println(text);
        }
    }

    /// Prints that the service is unavailable and the duration of retries, once until [`Progress::back`].
    pub(super) fn away(&self, why: &str, budget: Duration) {
        let mut plain = self.lock();
        if plain.away.is_some() {
            return;
        }
        plain.away = Some(why.to_owned());
        drop(plain);
        self.println(&format!(
            "the service is unavailable ({why}): retrying for up to {} s",
            budget.as_secs()
        ));
    }

    pub(super) fn back(&self) {
        self.lock().away = None;
    }

    /// Prints a line if the last one is old enough. Call it regularly.
    pub(super) fn print_if_due(&self) {
        let mut plain = self.lock();
        if self.bar.is_none() && plain.said.elapsed() >= EVERY {
            plain.said = Instant::now();
            let (done, failed, total) = (plain.done, plain.failed, plain.total);
            let beside = match (&plain.away, plain.beside.as_str()) {
                (Some(_), _) => "; the service is unavailable".to_owned(),
                (None, "") => String::new(),
                (None, beside) => format!("; {beside}"),
            };
            output::note(&format!(
                "{done} of {total} {} done, {failed} failed{beside}",
                self.what
            ));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Plain> {
        let plain = self.plain.lock();
        plain.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates a bar on a terminal, otherwise `None`.
fn bar(what: &'static str, template: &str) -> Option<ProgressBar> {
    let style = ProgressStyle::with_template(template).ok()?;
    stderr().is_terminal().then(|| {
        let bar = ProgressBar::new(0).with_style(style).with_message(what);
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    })
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
