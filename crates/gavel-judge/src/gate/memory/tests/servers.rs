//! Gate against simulated servers that reject calls at random or beyond an undocumented limit. Paused time.

use std::collections::VecDeque;
use std::time::Duration;

use super::super::*;
use crate::error::ErrorClass;
use crate::gate::CallOutcome;

const JUDGE: &str = "openai-default";
const LATENCY: Duration = Duration::from_millis(100);
const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Good,
    TooMany(Option<Duration>),
    Broken,
}

trait Server: Send {
    fn answer(&mut self, now: Instant) -> Answer;
}

/// Returns 429s and errors at random.
struct Noise {
    random: fastrand::Rng,
    too_many: f64,
    broken: f64,
}

impl Server for Noise {
    fn answer(&mut self, _: Instant) -> Answer {
        let drawn = self.random.f64();
        if drawn < self.too_many {
            Answer::TooMany(Some(Duration::from_secs(1)))
        } else if drawn < self.too_many + self.broken {
            Answer::Broken
        } else {
            Answer::Good
        }
    }
}

/// Sliding window of one minute.
struct Sliding {
    limit: usize,
    retry_after: Option<Duration>,
    served: VecDeque<Instant>,
}

impl Server for Sliding {
    fn answer(&mut self, now: Instant) -> Answer {
        while self.served.front().is_some_and(|at| *at + MINUTE <= now) {
            self.served.pop_front();
        }
        if self.served.len() >= self.limit {
            return Answer::TooMany(self.retry_after);
        }
        self.served.push_back(now);
        Answer::Good
    }
}

/// Token bucket of size `burst` that refills at `per_minute`.
struct Bucket {
    per_minute: f64,
    burst: f64,
    left: f64,
    at: Instant,
}

impl Server for Bucket {
    fn answer(&mut self, now: Instant) -> Answer {
        let grown = (now - self.at).as_secs_f64() * self.per_minute / 60.0;
        self.left = (self.left + grown).min(self.burst);
        self.at = now;
        if self.left < 1.0 {
            return Answer::TooMany(Some(Duration::from_secs(1)));
        }
        self.left -= 1.0;
        Answer::Good
    }
}

struct CallResults {
    good: Vec<Duration>,
    too_many: usize,
}

/// Sends calls with `slots` clients until `jobs` succeed or `span` ends. Retries as judges do.
async fn send_calls(
    slots: usize,
    server: impl Server + 'static,
    jobs: usize,
    span: Duration,
) -> CallResults {
    let gate = Arc::new(Gate::new(GateOptions {
        default_concurrency: 0,
        ..GateOptions::default()
    }));
    let server = Arc::new(Mutex::new(server));
    let results = Arc::new(Mutex::new(CallResults {
        good: Vec::new(),
        too_many: 0,
    }));
    let begun = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..slots {
        let (gate, server, results) = (gate.clone(), server.clone(), results.clone());
        tasks.spawn(async move {
            while begun.elapsed() < span && results.lock().good.len() < jobs {
                let patience = Duration::from_secs(10);
                let permit = match gate.enter(JUDGE, patience, &Load::default).await {
                    Ok(permit) => permit,
                    Err(denial) => {
                        tokio::time::sleep(denial.retry_in.unwrap()).await;
                        continue;
                    }
                };
                let answer = server.lock().answer(Instant::now());
                tokio::time::sleep(LATENCY).await;
                let failed = |class, retry_after| CallOutcome::Failed {
                    class,
                    retry_after,
                    message: String::new(),
                };
                let (outcome, pause) = match answer {
                    Answer::Good => (CallOutcome::Alive, Duration::ZERO),
                    Answer::TooMany(wait) => (
                        failed(ErrorClass::Throttled, wait),
                        wait.unwrap_or(Duration::from_secs(10)),
                    ),
                    Answer::Broken => (failed(ErrorClass::Transient, None), Duration::from_secs(1)),
                };
                gate.report(JUDGE, permit, &outcome.into());
                {
                    let mut results = results.lock();
                    match answer {
                        Answer::Good => results.good.push(begun.elapsed()),
                        Answer::TooMany(_) => results.too_many += 1,
                        Answer::Broken => {}
                    }
                }
                tokio::time::sleep(pause).await;
            }
        });
    }
    tasks.join_all().await;
    Arc::into_inner(results).unwrap().into_inner()
}

#[tokio::test(start_paused = true)]
async fn random_failures_of_30_percent_do_not_slow_calls() {
    for seed in 0..20 {
        let noise = Noise {
            random: fastrand::Rng::with_seed(seed),
            too_many: 0.15,
            broken: 0.15,
        };
        let begun = Instant::now();
        let results = send_calls(96, noise, 1_000, Duration::from_secs(600)).await;
        assert!(results.good.len() >= 1_000);
        let took = begun.elapsed();
        // If early calls are rejected, the lane is slow for some seconds.
        assert!(took < Duration::from_secs(20), "seed {seed}: {took:?}");
    }
}

/// Returns successes of `span` relative to the limit, and 429s per success.
async fn used(server: impl Server + 'static, limit: usize, span: Duration) -> (f64, f64) {
    let results = send_calls(32, server, usize::MAX, span).await;
    let most = limit as f64 * span.as_secs_f64() / 60.0;
    let good = results.good.len() as f64;
    (good / most, results.too_many as f64 / good)
}

#[tokio::test(start_paused = true)]
async fn uses_undocumented_limit_per_minute() {
    for limit in [60, 300, 1_200] {
        for seconds in [Some(1), Some(20), None] {
            let server = Sliding {
                limit,
                retry_after: seconds.map(Duration::from_secs),
                served: VecDeque::new(),
            };
            let (used, refused) = used(server, limit, MINUTE * 10).await;
            // A `Retry-After` of 20 s is obeyed even if capacity is available earlier.
            let least = if seconds == Some(20) { 0.8 } else { 0.9 };
            assert!(used >= least, "{limit}, {seconds:?}: {used}");
            assert!(refused <= 0.15, "{limit}, {seconds:?}: {refused}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn uses_undocumented_limit_per_second() {
    for (limit, burst) in [(300, 5.0), (1_200, 20.0), (6_000, 100.0)] {
        let server = Bucket {
            per_minute: limit as f64,
            burst,
            left: burst,
            at: Instant::now(),
        };
        let (used, refused) = used(server, limit, MINUTE * 10).await;
        assert!(used >= 0.9, "{limit}: {used}");
        assert!(refused <= 0.25, "{limit}: {refused}");
    }
}
