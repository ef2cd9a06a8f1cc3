//! What a backlog would use and cost: the questions of a few of its sessions, counted, and what earlier jobs used.
//!
//! Counts of prompts are wide of the mark; where the judge has a history its own counts set them right. Replies from the cache cost
//! nothing, and no estimate counts on them.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::figures::{Range, Seen, float};
use super::holds::{HEARD, slowed, stopped};
use super::{BacklogPlan, Enqueue, EnqueueError, PromptTokens, Terms};
use crate::score::Criteria;
use crate::store::{BrakeTarget, PastRun, StoreError};
use crate::wire::{Estimate, Pace, PaceOf, PlannedJudge, TokensFrom};

/// Earlier jobs whose questions are built again, to hold our count against the judge's.
const HELD_AGAINST: usize = 30;
/// Fewer earlier jobs than this say nothing.
const ENOUGH: usize = 3;
/// What a count is off by that was set right.
const SET_RIGHT: (f64, f64) = (0.95, 1.05);
/// Fewer ends than this are no pace.
const ENDS: i64 = 5;

/// An estimate.
pub(super) struct Estimated {
    pub(super) judges: Vec<PlannedJudge>,
    pub(super) tokens_in: Range,
    pub(super) tokens_out: Range,
    pub(super) cost_usd: Option<Range>,
    pub(super) how: Estimate,
    pub(super) duration_s: Option<f64>,
    pub(super) pace: Option<Pace>,
    pub(super) warnings: Vec<String>,
}

/// What one judge would use.
struct Part {
    tokens_in: Range,
    tokens_out: Range,
    cost_usd: Option<Range>,
    history: u64,
    tokens_in_from: TokensFrom,
    tokens_out_from: TokensFrom,
    pace: Option<Pace>,
}

/// The sessions that are to be judged by one judge.
struct Load<'a> {
    judge: &'a str,
    terms: Terms,
    criteria: Arc<Criteria>,
    /// Some of them.
    sessions: &'a [Uuid],
    /// How many there are.
    all: f64,
    /// How often each.
    times: f64,
}

impl Enqueue {
    /// Estimates what `to_score` sessions would use, by looking at some of them.
    pub(super) async fn estimate(
        &self,
        plan: &BacklogPlan,
        to_score: u64,
        sessions: Vec<Uuid>,
        now: DateTime<Utc>,
    ) -> Result<Estimated, EnqueueError> {
        let criteria = self.stored_criteria(&plan.rules.criteria_hash).await?;
        let mut all = Estimated::nothing(sessions.len() as u64);
        let brakes = self.store.brakes(now).await?;
        let gates = self.store.judges(now - HEARD).await?;
        all.warnings.extend(stopped(&brakes, &BrakeTarget::Queue));
        for judge in &plan.judges {
            let Some(terms) = self.terms.terms(judge) else {
                continue;
            };
            let load = Load {
                judge,
                terms,
                criteria: criteria.clone(),
                sessions: &sessions,
                all: float(to_score),
                times: f64::from(plan.repeats),
            };
            let mut part = self.part(&load, now).await?;
            if let (true, Some(factor)) = (plan.economy, terms.batch_price_factor) {
                part.cost_usd = part.cost_usd.map(|cost| cost.times(factor));
                // Nobody but the provider knows when it answers.
                part.pace = None;
            }
            all.add(judge, terms, part, load.all * load.times);
            let target = BrakeTarget::Judge(judge.clone());
            all.warnings.extend(stopped(&brakes, &target));
            all.warnings.extend(slowed(&gates, judge, now));
            if let Some(fallback) = self.unpriced_fallback(judge) {
                all.warnings.push(format!(
                    "judge {judge:?} falls back to {fallback:?}, which has no price: what that costs isn't known, and no budget holds it"
                ));
            }
        }
        Ok(all)
    }

    async fn part(&self, load: &Load<'_>, now: DateTime<Utc>) -> Result<Part, EnqueueError> {
        let past = self.store.past_runs(load.judge).await?;
        let mut counted = Vec::with_capacity(load.sessions.len());
        for session in load.sessions {
            let tokens = self
                .prompt_tokens(load.judge, *session, &load.criteria)
                .await?;
            counted.extend(tokens);
        }
        let right = self.set_right(load.judge, &past).await?;
        let (counted, tokens_in) = prompts(&counted, right, load.all, load.times);
        let jobs = load.all * load.times;
        let (tokens_out, tokens_out_from) = replies(&past, &load.criteria.hash.0, load.terms, jobs);
        Ok(Part {
            cost_usd: self.cost(load, &counted, tokens_in, tokens_out),
            pace: self
                .pace(
                    load,
                    (tokens_in.expected + tokens_out.expected) / jobs.max(1.0),
                    now,
                )
                .await?,
            tokens_in,
            tokens_out,
            history: past.len() as u64,
            tokens_in_from: right.map_or(TokensFrom::Counted, |_| TokensFrom::History),
            tokens_out_from,
        })
    }

    /// Each session's price for itself: long prompts may have another one.
    fn cost(
        &self,
        load: &Load<'_>,
        counted: &[f64],
        tokens_in: Range,
        tokens_out: Range,
    ) -> Option<Range> {
        let jobs = load.all * load.times;
        if jobs <= 0.0 {
            return load.terms.priced.then(Range::default);
        }
        // None of the prompts that were looked at fits, which says nothing of the others.
        if counted.is_empty() {
            return None;
        }
        let sum = |tokens: f64, replies: f64| -> Option<f64> {
            let factor = tokens / tokens_in.expected.max(1.0);
            let each = counted.iter().map(|prompt| {
                self.terms
                    .cost_usd(load.judge, prompt * factor, replies / jobs)
            });
            let sum: f64 = each.sum::<Option<f64>>()?;
            Some(sum / float(counted.len() as u64) * jobs)
        };
        Some(Range {
            expected: sum(tokens_in.expected, tokens_out.expected)?,
            low: sum(tokens_in.low, tokens_out.low)?,
            high: sum(tokens_in.high, tokens_out.high)?,
        })
    }

    /// How many times our count the judge itself counted in its last jobs; `None`: too few to tell.
    async fn set_right(&self, judge: &str, past: &[PastRun]) -> Result<Option<f64>, EnqueueError> {
        let (mut ours, mut theirs, mut runs) = (0.0, 0.0, 0);
        let mut known: HashMap<&str, Arc<Criteria>> = HashMap::new();
        for run in past.iter().filter(|run| run.at_once).take(HELD_AGAINST) {
            let hash = run.criteria_hash.as_str();
            let criteria = match known.get(hash) {
                Some(criteria) => criteria.clone(),
                None => self.stored_criteria(hash).await?,
            };
            known.insert(hash, criteria.clone());
            if let Some(tokens) = self.prompt_tokens(judge, run.session_id, &criteria).await? {
                ours += tokens.about;
                theirs += float(run.tokens_in.unsigned_abs());
                runs += 1;
            }
        }
        Ok((runs >= ENOUGH && ours > 0.0).then(|| theirs / ours))
    }

    /// How many tokens a judge is sent about a session. `None`: it is gone, or doesn't fit.
    async fn prompt_tokens(
        &self,
        judge: &str,
        session_id: Uuid,
        criteria: &Arc<Criteria>,
    ) -> Result<Option<PromptTokens>, EnqueueError> {
        let Some(session) = self.store.session(session_id).await? else {
            return Ok(None);
        };
        let (terms, criteria, judge) = (self.terms.clone(), criteria.clone(), judge.to_owned());
        // A conversation of megabytes takes a while.
        let counting = tokio::task::spawn_blocking(move || {
            terms.prompt_tokens(&judge, &session.into_request(), &criteria)
        });
        Ok(counting.await.ok().flatten())
    }

    async fn stored_criteria(&self, hash: &str) -> Result<Arc<Criteria>, EnqueueError> {
        let current = self.current_criteria();
        if current.hash.0 == hash {
            return Ok(current);
        }
        let content = self.store.criteria_content(hash).await?;
        let content = content.ok_or_else(|| EnqueueError::UnknownCriteria(hash.to_owned()))?;
        let criteria = Criteria::from_value(&content).map_err(|error| StoreError::Unexpected {
            attempted: "reading a stored criteria definition",
            reason: error.to_string(),
        })?;
        Ok(Arc::new(criteria))
    }

    /// How fast the judge's jobs end, or may by its limits, of so many tokens each.
    async fn pace(
        &self,
        load: &Load<'_>,
        tokens_each: f64,
        now: DateTime<Utc>,
    ) -> Result<Option<Pace>, EnqueueError> {
        let lately = self.store.recent_pace(load.judge, now).await?;
        if let (true, Some(jobs_per_s)) = (lately.jobs >= ENDS, lately.per_s) {
            return Ok(Some(Pace {
                jobs_per_s,
                of: PaceOf::Lately,
            }));
        }
        let requests = load.terms.requests_per_minute.map(float);
        let tokens = load.terms.tokens_per_minute.map(float);
        let by_tokens = tokens.map(|tokens| tokens / tokens_each.max(1.0));
        let slowest = requests.into_iter().chain(by_tokens).reduce(f64::min);
        Ok(slowest.map(|per_minute| Pace {
            jobs_per_s: per_minute / 60.0,
            of: PaceOf::Limits,
        }))
    }
}

/// The tokens of prompts, each and of `all` sessions, each of them asked about `times` times: with what the judge itself counted as many
/// times as we did, or by our count alone, which may be further off.
fn prompts(
    counted: &[PromptTokens],
    right: Option<f64>,
    all: f64,
    times: f64,
) -> (Vec<f64>, Range) {
    let each = |which: fn(&PromptTokens) -> f64| -> Vec<f64> {
        let tokens = counted.iter().map(which);
        tokens.map(|tokens| tokens * right.unwrap_or(1.0)).collect()
    };
    let sum = |each: &[f64]| Seen::of(each).sum_over(all, times);
    let about = each(|tokens| tokens.about);
    let range = sum(&about);
    let range = match right {
        Some(_) => range.widened(SET_RIGHT),
        None => Range {
            expected: range.expected,
            low: sum(&each(|tokens| tokens.least)).low,
            high: sum(&each(|tokens| tokens.most)).high,
        },
    };
    (about, range)
}

/// The tokens of replies: as earlier ones of the same criteria, else of any, else as assumed.
fn replies(past: &[PastRun], hash: &str, terms: Terms, jobs: f64) -> (Range, TokensFrom) {
    let tokens = |run: &PastRun| float(run.tokens_out.unsigned_abs());
    let same: Vec<f64> = past
        .iter()
        .filter(|run| run.criteria_hash == hash)
        .map(tokens)
        .collect();
    if same.len() >= ENOUGH {
        return (Seen::of(&same).sum_of_others(jobs), TokensFrom::History);
    }
    let any: Vec<f64> = past.iter().map(tokens).collect();
    if any.len() >= ENOUGH {
        return (Seen::of(&any).sum_of_others(jobs), TokensFrom::History);
    }
    let (about, least, most) = terms.reply_tokens;
    let range = Range {
        expected: about * jobs,
        low: least * jobs,
        high: most * jobs,
    };
    (range, TokensFrom::Assumed)
}

impl Estimated {
    fn nothing(sampled_sessions: u64) -> Self {
        Self {
            judges: Vec::new(),
            tokens_in: Range::default(),
            tokens_out: Range::default(),
            cost_usd: Some(Range::default()),
            how: Estimate {
                sampled_sessions,
                history_jobs: 0,
                tokens_in: TokensFrom::History,
                tokens_out: TokensFrom::History,
            },
            duration_s: Some(0.0),
            pace: None,
            warnings: Vec::new(),
        }
    }

    fn add(&mut self, judge: &str, terms: Terms, part: Part, jobs: f64) {
        self.judges.push(PlannedJudge {
            judge: judge.to_owned(),
            priced: terms.priced,
        });
        self.tokens_in = self.tokens_in.add(part.tokens_in);
        self.tokens_out = self.tokens_out.add(part.tokens_out);
        let costs = self.cost_usd.zip(part.cost_usd);
        self.cost_usd = costs.map(|(sum, part)| sum.add(part));
        self.how.history_jobs += part.history;
        self.how.tokens_in = weaker(self.how.tokens_in, part.tokens_in_from);
        self.how.tokens_out = weaker(self.how.tokens_out, part.tokens_out_from);
        let duration = part.pace.map(|pace| jobs / pace.jobs_per_s);
        let slower = self.pace.zip(part.pace);
        if slower.is_none_or(|(slowest, pace)| pace.jobs_per_s < slowest.jobs_per_s) {
            self.pace = part.pace;
        }
        // Judges work beside each other: the slowest is the last.
        self.duration_s = self.duration_s.zip(duration).map(|(a, b)| a.max(b));
        if !terms.priced {
            self.warnings.push(format!(
                "judge {judge:?} has no price: what it costs isn't known, and no budget holds it (prices in llm_providers.yaml)"
            ));
        }
        if terms.priced && part.cost_usd.is_none() {
            self.warnings.push(format!(
                "none of the sessions that were looked at fits judge {judge:?}: what the others cost isn't known"
            ));
        }
        if terms.simulated {
            let warning =
                format!("judge {judge:?} is simulated: its scores say nothing of the work");
            self.warnings.push(warning);
        }
        if part.tokens_out_from == TokensFrom::Assumed && jobs > 0.0 {
            self.warnings.push(format!(
                "no session that judge {judge:?} scored before was found: how long its replies are is assumed"
            ));
        }
    }
}

/// The one that says less.
fn weaker(one: TokensFrom, other: TokensFrom) -> TokensFrom {
    match (one, other) {
        (TokensFrom::Assumed, _) | (_, TokensFrom::Assumed) => TokensFrom::Assumed,
        (TokensFrom::Counted, _) | (_, TokensFrom::Counted) => TokensFrom::Counted,
        (TokensFrom::History, TokensFrom::History) => TokensFrom::History,
    }
}
