//! Progress on stderr: a bar on a terminal, otherwise a line every 15 s.

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, stderr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::output;
use crate::client::{Client, ClientError};

/// Duration of retries while the service is unavailable.
pub(super) const OUTAGE_TIMEOUT: Duration = Duration::from_secs(60);
const PRINT_INTERVAL: Duration = Duration::from_secs(15);

/// Counts finished items of a total, which may grow.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    state: Mutex<State>,
    /// Name of the items, such as `sessions`.
    items: &'static str,
}

struct State {
    /// Numbers of finished, failed and all items.
    counts: [u64; 3],
    /// Additional text, such as the cost.
    detail: String,
    is_unavailable: bool,
    printed_at: Instant,
    /// Keys of [`Progress::print_once`].
    once: BTreeSet<String>,
}

impl Progress {
    /// Starts at 0 of `total`.
    pub(super) fn new(items: &'static str, total: usize) -> Arc<Self> {
        let template = "{bar:30} {pos}/{len} {msg} {elapsed_precise} (left: {eta})";
        let bar = (total > 1).then(|| bar(items, template)).flatten();
        if let Some(bar) = &bar {
            bar.set_length(total as u64);
        }
        Self::with_bar(items, total as u64, bar)
    }

    /// Starts at 0 of an unknown total, which [`Progress::at`] sets.
    pub(super) fn growing(items: &'static str) -> Arc<Self> {
        let bar = bar(items, "{bar:30} {pos}/{len} {msg} {elapsed_precise}");
        Self::with_bar(items, 0, bar)
    }

    fn with_bar(items: &'static str, total: u64, bar: Option<ProgressBar>) -> Arc<Self> {
        let state = Mutex::new(State {
            counts: [0, 0, total],
            detail: String::new(),
            is_unavailable: false,
            printed_at: Instant::now(),
            once: BTreeSet::new(),
        });
        Arc::new(Self { bar, state, items })
    }

    /// Sets the numbers of finished, failed and all items; `detail` is additional text.
    pub(super) fn at(&self, counts: [u64; 3], detail: &str) {
        let mut state = self.lock();
        state.counts = counts;
        detail.clone_into(&mut state.detail);
        self.update(state);
    }

    pub(super) fn one(&self, succeeded: bool) {
        let mut state = self.lock();
        let [done, failed, total] = state.counts;
        state.counts = [done + 1, failed + u64::from(!succeeded), total];
        self.update(state);
    }

    fn update(&self, state: MutexGuard<'_, State>) {
        let ([done, failed, total], items) = (state.counts, self.items);
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_position(done);
            let failed = match failed {
                0 => String::new(),
                failed => format!(" ({failed} failed)"),
            };
            bar.set_message(format!("{items}{failed}{}", after_semicolon(&state.detail)));
        }
        drop(state);
        self.print_if_due();
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

    /// Returns a client that repeats requests for `budget` while the service is unavailable. The progress shows the reason, once an outage.
    pub(super) fn retrying(self: &Arc<Self>, client: &Client, budget: Duration) -> Client {
        let progress = Arc::clone(self);
        let observe = move |error: Option<&ClientError>| progress.observe(error, budget);
        client.retrying(budget, Arc::new(observe))
    }

    fn observe(&self, error: Option<&ClientError>, budget: Duration) {
        match error {
            None => self.lock().is_unavailable = false,
            // The service is available and still processes an earlier attempt of this request.
            Some(error) if error.problem() == Some("idempotency-key-in-use") => {}
            Some(error) => {
                let was_unavailable = std::mem::replace(&mut self.lock().is_unavailable, true);
                if !was_unavailable {
                    self.println(&format!(
                        "the service is unavailable ({error}): retrying for up to {} s",
                        budget.as_secs()
                    ));
                }
            }
        }
        self.print_if_due();
    }

    /// Prints a line if the last one is old enough. Call it regularly.
    pub(super) fn print_if_due(&self) {
        let mut state = self.lock();
        if self.bar.is_none() && state.printed_at.elapsed() >= PRINT_INTERVAL {
            state.printed_at = Instant::now();
            let [done, failed, total] = state.counts;
            let detail = match state.is_unavailable {
                true => "the service is unavailable",
                false => &state.detail,
            };
            let (items, detail) = (self.items, after_semicolon(detail));
            output::note(&format!(
                "{done} of {total} {items} done, {failed} failed{detail}"
            ));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let state = self.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

fn after_semicolon(text: &str) -> String {
    match text {
        "" => String::new(),
        text => format!("; {text}"),
    }
}

/// Creates a bar on a terminal, otherwise `None`.
fn bar(items: &'static str, template: &str) -> Option<ProgressBar> {
    let style = ProgressStyle::with_template(template).ok()?;
    stderr().is_terminal().then(|| {
        let bar = ProgressBar::new(0).with_style(style).with_message(items);
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
