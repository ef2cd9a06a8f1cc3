//! Signals of a process: the first SIGTERM or SIGINT stops it softly, the second one or the drain timeout stops it
//! hard, SIGHUP reloads. The parts of the process listen to two tokens.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

#[derive(Clone, Copy)]
pub struct Ending<'a> {
    /// Accept no more work, finish running work.
    pub soft: &'a CancellationToken,
    /// Release running work.
    pub hard: &'a CancellationToken,
    /// Time between `soft` and `hard`.
    pub drain: Duration,
    /// Time after `hard` until the work is dropped; `None`: only a third signal drops it.
    pub cut: Option<Duration>,
    /// Called on SIGHUP.
    pub reload: &'a (dyn Fn() + Send + Sync),
}

#[derive(Debug)]
pub struct Ended<T> {
    /// `None` if the work was dropped.
    pub output: Option<T>,
    /// Whether a signal requested the end.
    pub interrupted: bool,
}

/// Signals of this process, received since its creation.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Starts listening. From now on, Ctrl-C doesn't kill the process directly.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Runs `work` to its end and converts signals to tokens. The first signal cancels `soft`. The second one, or
    /// `drain` after `soft` was cancelled by anyone, cancels `hard`. A third one, or `cut` after `hard`, drops the
    /// work. SIGHUP calls `reload`.
    pub async fn guard<T>(
        &mut self,
        ending: Ending<'_>,
        work: impl Future<Output = T>,
    ) -> Ended<T> {
        let Ending {
            soft,
            hard,
            drain,
            cut,
            reload,
        } = ending;
        tokio::pin!(work);
        let mut interrupted = false;
        let (mut deadline, mut last) = (None, None);
        loop {
            let name = tokio::select! {
                output = &mut work => return Ended { output: Some(output), interrupted },
                () = soft.cancelled(), if deadline.is_none() => {
                    deadline = Some(Instant::now() + drain);
                    continue;
                }
                () = at(deadline), if !hard.is_cancelled() => {
                    tracing::warn!(drain_timeout_s = drain.as_secs(), "drain timed out: returning running jobs to the queue");
                    hard.cancel();
                    continue;
                }
                () = hard.cancelled(), if cut.is_some() && last.is_none() => {
                    last = cut.map(|cut| Instant::now() + cut);
                    continue;
                }
                () = at(last) => {
                    tracing::error!("stopping immediately: shutdown is cut short");
                    return Ended { output: None, interrupted };
                }
                _ = self.hang_up.recv() => {
                    reload();
                    continue;
                }
                _ = self.terminate.recv() => "SIGTERM",
                _ = self.interrupt.recv() => "SIGINT",
            };
            interrupted = true;
            if !soft.is_cancelled() {
                tracing::info!(
                    signal = name,
                    "stopping: no new work is accepted, running work may finish"
                );
                soft.cancel();
            } else if !hard.is_cancelled() {
                tracing::warn!(
                    signal = name,
                    "stopping now: running work returns to the queue"
                );
                hard.cancel();
            } else {
                tracing::error!(signal = name, "stopping immediately");
                return Ended {
                    output: None,
                    interrupted,
                };
            }
        }
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAIN: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn slow_drain_is_stopped_hard() {
        let (soft, hard) = (CancellationToken::new(), CancellationToken::new());
        let mut signals = Signals::listen().unwrap();
        let begun = Instant::now();
        let work = async {
            soft.cancel();
            hard.cancelled().await;
            begun.elapsed()
        };
        let ended = signals.guard(ending(&soft, &hard), work).await;
        assert_eq!(ended.output.unwrap().as_secs(), 30);
        assert!(!ended.interrupted, "no signal came");
    }

    #[tokio::test(start_paused = true)]
    async fn hanging_work_is_dropped_after_cut() {
        let (soft, hard) = (CancellationToken::new(), CancellationToken::new());
        let mut signals = Signals::listen().unwrap();
        let begun = Instant::now();
        let ending = Ending {
            cut: Some(Duration::from_secs(10)),
            ..ending(&soft, &hard)
        };
        soft.cancel();
        let ended = signals.guard(ending, std::future::pending::<()>()).await;
        assert_eq!(ended.output, None);
        assert_eq!(begun.elapsed().as_secs(), 40);
    }

    #[tokio::test]
    async fn finished_work_cancels_no_tokens() {
        let (soft, hard) = (CancellationToken::new(), CancellationToken::new());
        let mut signals = Signals::listen().unwrap();
        let ended = signals.guard(ending(&soft, &hard), async { 7 }).await;
        assert_eq!(ended.output, Some(7));
        assert!(!soft.is_cancelled() && !hard.is_cancelled());
    }

    fn ending<'a>(soft: &'a CancellationToken, hard: &'a CancellationToken) -> Ending<'a> {
        Ending {
            soft,
            hard,
            drain: DRAIN,
            cut: None,
            reload: &|| (),
        }
    }
}
