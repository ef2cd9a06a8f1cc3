//! Estimates tokens and cost of a backlog: mean prompt tokens of a sample, times the number of sessions and the price.
//!
//! Replies are assumed as long as the judge's last ones. Cached replies and retries are ignored.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::judge_facts::{assumed_reply_tokens, is_priced, prompt_tokens};
use super::{BacklogPlan, Enqueue, EnqueueError};
use crate::judge::JudgeSpec;
use crate::memory::lower_thread_priority;
use crate::score::Criteria;
use crate::store::{Hold, HoldTarget, JudgeRow, StoreError};
use crate::wire::{CostRange, Estimate, Pace, PaceOf, PlannedJudge, TokenRange};

/// Relative error of a plan's numbers, in both directions.
const OFF: f64 = 0.25;
/// Minimum finished jobs for a measured rate.
const ENDS: i64 = 5;

/// Estimate with warnings.
pub(super) struct Estimated {
    pub(super) judges: Vec<PlannedJudge>,
    pub(super) tokens_in: f64,
    pub(super) tokens_out: f64,
    pub(super) cost_usd: Option<f64>,
    pub(super) how: Estimate,
    pub(super) duration_s: Option<f64>,
    pub(super) pace: Option<Pace>,
    pub(super) warnings: Vec<String>,
}

/// Mean usage of one judge per session of the sample.
struct Each {
    tokens_in: f64,
    tokens_out: f64,
    /// `None`: no price, or no prompt of the sample fits.
    cost_usd: Option<f64>,
    /// Earlier jobs whose replies were counted.
    history: u64,
}

pub(super) fn tokens(expected: f64) -> TokenRange {
    TokenRange {
        expected: whole(expected),
        low: whole(expected * (1.0 - OFF)),
        high: whole(expected * (1.0 + OFF)),
    }
}

pub(super) fn cost(expected: f64) -> CostRange {
    CostRange {
        expected,
        low: expected * (1.0 - OFF),
        high: expected * (1.0 + OFF),
    }
}

impl Enqueue {
    pub(super) async fn estimate(
        &self,
        plan: &BacklogPlan,
        to_score: u64,
        sample: Vec<Uuid>,
        now: DateTime<Utc>,
    ) -> Result<Estimated, EnqueueError> {
        let criteria = self.stored_criteria(&plan.rules.criteria_hash).await?;
        let jobs = float(to_score) * f64::from(plan.repeats);
        let holds = self.store.holds().list(now).await?;
        let gates = self.store.judges().list().await?;
        let mut all = Estimated::nothing(sample.len() as u64);
        all.warnings.extend(stopped(&holds, &HoldTarget::Queue));
        for judge in &plan.judges {
            let Ok(spec) = self.providers.spec(judge) else {
                continue;
            };
            let mut each = self.each(&spec, &criteria, &sample).await?;
            let mut pace = self.pace(&spec, &each, now).await?;
            if let (true, Some(factor)) = (plan.economy, spec.batch_price_factor()) {
                each.cost_usd = each.cost_usd.map(|cost| cost * factor);
                // With a batch endpoint, the provider determines the duration.
                pace = None;
            }
            all.add(&spec, &each, pace, jobs);
            let target = HoldTarget::Judge(judge.clone());
            all.warnings.extend(stopped(&holds, &target));
            all.warnings.extend(slowed(&gates, judge, now));
            if let Some(fallback) = self.unpriced_fallback(judge) {
                all.warnings.push(format!(
                    "judge {judge:?} falls back to {fallback:?}, which has no price: its cost is unknown, and no budget limits it"
                ));
            }
        }
        Ok(all)
    }

    async fn each(
        &self,
        judge: &JudgeSpec,
        criteria: &Arc<Criteria>,
        sample: &[Uuid],
    ) -> Result<Each, EnqueueError> {
        let replies = self.store.judges().past_replies(judge.name()).await?;
        let assumed = || assumed_reply_tokens(judge);
        let tokens_out = replies.mean_tokens.unwrap_or_else(assumed);
        let (mut counted, mut tokens_in, mut cost) = (0.0, 0.0, Some(0.0));
        for session in sample {
            let Some(tokens) = self.prompt_tokens(judge, *session, criteria).await? else {
                continue;
            };
            counted += 1.0;
            tokens_in += float(tokens);
            // Priced separately, because long prompts may have another price.
            let call = judge.cost_usd(signed(tokens), signed(whole(tokens_out)));
            cost = cost.zip(call).map(|(sum, call)| sum + call);
        }
        let mean = |sum: f64| if counted > 0.0 { sum / counted } else { 0.0 };
        let known = is_priced(judge) && (counted > 0.0 || sample.is_empty());
        Ok(Each {
            tokens_in: mean(tokens_in),
            tokens_out,
            cost_usd: cost.filter(|_| known).map(mean),
            history: replies.jobs,
        })
    }

    /// Returns the approximate prompt tokens of a session; `None`: deleted, or the prompt doesn't fit.
    async fn prompt_tokens(
        &self,
        judge: &JudgeSpec,
        session_id: Uuid,
        criteria: &Arc<Criteria>,
    ) -> Result<Option<u64>, EnqueueError> {
        let Some(session) = self.store.sessions().get(session_id).await? else {
            return Ok(None);
        };
        let (judge, criteria) = (judge.clone(), criteria.clone());
        // Counting megabytes is slow.
        let counting = tokio::task::spawn_blocking(move || {
            lower_thread_priority();
            prompt_tokens(&judge, &session.into_request(), &criteria)
        });
        Ok(counting.await.ok().flatten())
    }

    async fn stored_criteria(&self, hash: &str) -> Result<Arc<Criteria>, EnqueueError> {
        let current = self.current_criteria();
        if current.hash.0 == hash {
            return Ok(current);
        }
        let content = self.store.criteria().content(hash).await?;
        let content = content.ok_or_else(|| EnqueueError::UnknownCriteria(hash.to_owned()))?;
        let criteria = Criteria::from_value(&content).map_err(|error| StoreError::Unexpected {
            attempted: "reading a stored criteria definition",
            reason: error.to_string(),
        })?;
        Ok(Arc::new(criteria))
    }

    /// Returns the rate at which the judge's jobs finish, or which its limits allow.
    async fn pace(
        &self,
        judge: &JudgeSpec,
        each: &Each,
        now: DateTime<Utc>,
    ) -> Result<Option<Pace>, EnqueueError> {
        let lately = self.store.judges().recent_pace(judge.name(), now).await?;
        if let (true, Some(jobs_per_s)) = (lately.jobs >= ENDS, lately.per_s) {
            return Ok(Some(Pace {
                jobs_per_s,
                of: PaceOf::Lately,
            }));
        }
        let tokens_each = (each.tokens_in + each.tokens_out).max(1.0);
        let limits = self.providers.paces().remove(judge.entry_name());
        let limits = limits.unwrap_or_default();
        let requests = limits.requests_per_minute.map(float);
        let by_tokens = limits
            .tokens_per_minute
            .map(|tokens| float(tokens) / tokens_each);
        let slowest = requests.into_iter().chain(by_tokens).reduce(f64::min);
        Ok(slowest.map(|per_minute| Pace {
            jobs_per_s: per_minute / 60.0,
            of: PaceOf::Limits,
        }))
    }
}

impl Estimated {
    fn nothing(sampled_sessions: u64) -> Self {
        Self {
            judges: Vec::new(),
            tokens_in: 0.0,
            tokens_out: 0.0,
            cost_usd: Some(0.0),
            how: Estimate {
                sampled_sessions,
                history_jobs: 0,
            },
            duration_s: Some(0.0),
            pace: None,
            warnings: Vec::new(),
        }
    }

    fn add(&mut self, spec: &JudgeSpec, each: &Each, pace: Option<Pace>, jobs: f64) {
        let (judge, priced) = (spec.name(), is_priced(spec));
        self.judges.push(PlannedJudge {
            judge: judge.to_owned(),
            priced,
        });
        self.tokens_in += each.tokens_in * jobs;
        self.tokens_out += each.tokens_out * jobs;
        let costs = self.cost_usd.zip(each.cost_usd);
        self.cost_usd = costs.map(|(sum, each)| sum + each * jobs);
        self.how.history_jobs += each.history;
        let duration = pace.map(|pace| jobs / pace.jobs_per_s);
        let slower = self.pace.zip(pace);
        if slower.is_none_or(|(slowest, pace)| pace.jobs_per_s < slowest.jobs_per_s) {
            self.pace = pace;
        }
        // Judges work in parallel, so the slowest determines the duration.
        self.duration_s = self.duration_s.zip(duration).map(|(a, b)| a.max(b));
        let warnings = [
            (
                !priced,
                "has no price: its cost is unknown, and no budget limits it (prices in llm_providers.yaml)",
            ),
            (
                priced && each.cost_usd.is_none(),
                "accepts no counted prompt (no session of the sample fits): the cost of the others is unknown",
            ),
            (
                spec.simulated(),
                "is simulated: its scores don't reflect the work",
            ),
            (
                each.history == 0 && jobs > 0.0,
                "has scored no session yet: the length of its replies is assumed",
            ),
        ];
        let holding = warnings.into_iter().filter(|(holds, _)| *holds);
        self.warnings
            .extend(holding.map(|(_, says)| format!("judge {judge:?} {says}")));
    }
}

/// Returns a warning about a pause or closure. The duration starts once it ends.
fn stopped(holds: &[Hold], target: &HoldTarget) -> Option<String> {
    let hold = holds.iter().find(|hold| hold.target == *target)?;
    Some(format!(
        "{}; no job starts before that ends, and the time counts from then",
        hold.in_words()
    ))
}

/// Returns a warning about a judge that is slowed down at present.
fn slowed(gates: &[JudgeRow], judge: &str, now: DateTime<Utc>) -> Option<String> {
    let is_slowed = |gate: &JudgeRow| {
        let shrunk = gate.pace.as_ref().and_then(|pace| pace.shrunk_until);
        matches!(gate.breaker.as_str(), "open" | "half_open")
            || shrunk.is_some_and(|until| until > now)
    };
    let mut own = gates.iter().filter(|gate| gate.name == judge);
    own.any(is_slowed).then(|| {
        format!("judge {judge:?} fails or rate-limits (429), so it is called less often for now: it may take longer than estimated")
    })
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of sessions and tokens, far below 2^53"
)]
fn float(count: u64) -> f64 {
    count as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at least 0, and far below 2^53"
)]
fn whole(figure: f64) -> u64 {
    figure.max(0.0).round() as u64
}

fn signed(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}
