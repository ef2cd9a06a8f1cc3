//! Pace of one judge: requests and tokens per minute, from the configuration, from replies and from 429s.
//!
//! Pure in time: each method has an argument `now`. A departing call reserves one request, the estimated tokens of its prompt and the
//! typical number of answer tokens. The usage in its reply corrects that. The pace does not wait and does not handle rejected calls.

mod learned_rate;
mod meter;

use std::time::Duration;

use tokio::time::Instant;

use super::outbox::SharedState;
use super::rule::Rule;
use crate::gate::{Load, PaceLimits, PaceSnapshot, RateReport, TokensUsed};
use learned_rate::{LearnedRateLimit, SECONDS, SuccessCounts};
use meter::{MINUTE, Meter, Rate, SlidingWindow, Spread, between};

/// Maximum hold for an exhausted limit, because a reported reset may be wrong.
const MAX_HOLD: Duration = Duration::from_secs(300);
/// Assumed answer tokens before the first reply.
const DEFAULT_ANSWER_TOKENS: u64 = 1_000;
/// Assumed prompt tokens before the first call.
const DEFAULT_PROMPT_TOKENS: u64 = 4_000;
/// Weight of a new call in the typical size is 1/8.
const AVERAGE_OVER: u64 = 8;
/// Minimum interval between checks for growing capacity.
const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(in crate::gate) struct Pace {
    /// Requests, tokens, prompt tokens and answer tokens, in the order of [`RateReport::all`].
    meters: [Meter; 4],
    /// Unreported request limit, estimated from 429s.
    learned_rate: LearnedRateLimit,
    answered: SlidingWindow,
    /// End of the hold after a reply reported an exhausted limit.
    held_until: Option<Instant>,
    /// Latest call with a processed reply. Reports of older calls are ignored as outdated.
    last_reply: u64,
    last_ticket: u64,
    typical_prompt: Option<u64>,
    typical_answer: Option<u64>,
    /// Typical estimate of prompt tokens before departure.
    typical_estimate: Option<u64>,
    rule: Rule,
    /// Due time of the next call according to the pace shared by all workers.
    shared_next: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct PaceTicket {
    number: u64,
    at: Instant,
    /// Departure time on the Redis clock in ms, if shared state admitted the call.
    redis_ms: Option<i64>,
    share: Share,
}

impl PaceTicket {
    /// Returns the reserved requests, prompt tokens and answer tokens.
    pub(super) fn departure(&self) -> [i64; 3] {
        [1, signed(self.share.input), signed(self.share.output)]
    }

    pub(super) fn left_at(&self) -> (Instant, Option<i64>) {
        (self.at, self.redis_ms)
    }
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    input: u64,
    output: u64,
}

impl Share {
    fn amounts(self) -> [u64; 4] {
        let Self { input, output } = self;
        [1, input.saturating_add(output), input, output]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Startable {
    pub(super) calls: usize,
    pub(super) more_in: Duration,
}

impl Pace {
    pub(super) fn new(limits: PaceLimits, rule: Rule) -> Self {
        let limits = [
            limits.requests_per_minute,
            limits.tokens_per_minute,
            None,
            None,
        ];
        let mut pace = Self {
            meters: limits.map(Meter::new),
            ..Self::default()
        };
        pace.follow(rule);
        pace
    }

    pub(super) fn follow(&mut self, rule: Rule) {
        self.rule = rule;
        self.shared_next = None;
        for meter in &mut self.meters {
            meter.divisor = rule.divisor();
        }
    }

    /// Applies the state shared by all workers.
    pub(super) fn adopt(&mut self, state: &SharedState, now: Instant) {
        for (meter, learned) in self.meters.iter_mut().zip(state.learned) {
            meter.adopt(learned, now);
        }
        self.shared_next = Some(now + state.next_in);
        let held = now + state.held_for;
        self.held_until = self.held_until.max((held > now).then_some(held));
    }

    /// Sets the wait until the next call that Redis reported.
    pub(in crate::gate) fn due_in(&mut self, wait: Duration, now: Instant) {
        self.shared_next = Some(now + wait);
    }

    pub(super) fn is_limited(&self, now: Instant) -> bool {
        let limited = |meter: &Meter| meter.limit(now).is_some();
        self.hold_end(now).is_some() || self.meters.iter().any(limited)
    }

    /// Returns the end of a hold for an exhausted limit.
    pub(super) fn hold_end(&self, now: Instant) -> Option<Instant> {
        self.held_until.filter(|held| *held > now)
    }

    pub(super) fn amounts(&self, load: Load) -> (u64, u64) {
        let share = self.share(load);
        (share.input, share.output)
    }

    /// Returns departures since `since`, or of the last minute without it, oldest first: requests, prompt tokens, answer tokens.
    pub(super) fn departures_since(&self, since: Option<Instant>) -> Vec<(Instant, [i64; 3])> {
        let [requests, _, input, output] = &self.meters;
        let requests = requests.departures_since(since);
        let requests = requests.map(|(at, amount)| (at, [amount, 0, 0]));
        let input = input.departures_since(since);
        let input = input.map(|(at, amount)| (at, [0, amount, 0]));
        let output = output.departures_since(since);
        let output = output.map(|(at, amount)| (at, [0, 0, amount]));
        let mut all: Vec<_> = requests.chain(input).chain(output).collect();
        all.sort_by_key(|(at, _)| *at);
        all
    }

    /// Returns whether a token limit exists. Estimates are computed only in that case.
    pub(super) fn counts_tokens(&self, now: Instant) -> bool {
        let mut of_tokens = self.meters.iter().skip(1);
        of_tokens.any(|meter| meter.limit(now).is_some())
    }

    /// Returns the wait of a call, or `None` if it may leave now.
    pub(super) fn wait(&self, load: Load, now: Instant) -> Option<Duration> {
        let share = self.share(load);
        let earliest = match self.rule {
            Rule::Alone | Rule::Part { .. } => self.earliest(share, now),
            // Redis enforces the limits. Estimates from 429s stay local to each worker.
            Rule::Together => self
                .learned_rate
                .rate(now)
                .map_or(now, |rate| self.meters[0].due(1, rate, now)),
        };
        (earliest > now).then(|| earliest - now)
    }

    /// Returns the wait of a call of typical size, or `None` if it may leave now.
    pub(super) fn typical_wait(&self, now: Instant) -> Option<Duration> {
        let earliest = self.earliest(self.typical_share(), now);
        (earliest > now).then(|| earliest - now)
    }

    /// Records a departure. `redis_ms` is its time on the Redis clock if shared state admitted it.
    pub(super) fn leave(&mut self, load: Load, redis_ms: Option<i64>, now: Instant) -> PaceTicket {
        let share = self.share(load);
        let rates = self.rates(now);
        for ((meter, amount), rate) in self.meters.iter_mut().zip(share.amounts()).zip(rates) {
            meter.take(amount, rate, now);
        }
        if share.input > 0 {
            self.typical_estimate = Some(typical(self.typical_estimate, share.input));
        }
        self.last_ticket += 1;
        PaceTicket {
            number: self.last_ticket,
            at: now,
            redis_ms,
            share,
        }
    }

    /// Corrects the reservation by the usage of the reply. Returns usage minus reservation per quantity.
    pub(super) fn settle(
        &mut self,
        ticket: PaceTicket,
        used: TokensUsed,
        now: Instant,
    ) -> [i64; 3] {
        let before = ticket.share;
        let really = Share {
            input: used.input,
            output: used.output,
        };
        let amounts = before.amounts().into_iter().zip(really.amounts());
        // Each call stays one request.
        for (meter, (before, after)) in self.meters.iter_mut().zip(amounts).skip(1) {
            meter.correct(ticket.at, before, after, now);
        }
        self.typical_prompt = Some(typical(self.typical_prompt, used.input));
        self.typical_answer = Some(typical(self.typical_answer, used.output));
        [
            0,
            signed(used.input).saturating_sub(signed(before.input)),
            signed(used.output).saturating_sub(signed(before.output)),
        ]
    }

    pub(super) fn observe(&mut self, rates: &RateReport, now: Instant) {
        for (meter, report) in self.meters.iter_mut().zip(rates.all()) {
            meter.observe(report, now);
        }
    }

    /// Holds calls until the reset if the reply reports an exhausted limit.
    pub(super) fn hold(&mut self, ticket: PaceTicket, rates: &RateReport, now: Instant) {
        if ticket.number < self.last_reply {
            return;
        }
        self.last_reply = ticket.number;
        let nothing_left = rates.all().into_iter().filter_map(|r| r.nothing_left_for());
        let until = nothing_left.max().map(|wait| now + wait.min(MAX_HOLD));
        self.held_until = self.held_until.max(until);
    }

    /// Returns whether a call is much larger than usual. Smaller calls would keep overtaking it, because they fit into the remaining tokens
    /// of the minute and it does not.
    pub(super) fn is_overtaken(&self, load: Load, now: Instant) -> bool {
        let share = self.share(load);
        let usual = Share {
            // Compares estimates, because usage in replies is lower than the estimates.
            input: self.typical_estimate.unwrap_or(DEFAULT_PROMPT_TOKENS) / 4 * 5,
            ..share
        };
        self.earliest(share, now) > self.earliest(usual, now)
    }

    pub(super) fn succeeded(&mut self, ticket: PaceTicket, now: Instant) {
        self.answered.expire(now);
        self.answered.add(now, 1);
        self.learned_rate.succeeded(ticket.at, now);
    }

    /// Records a 429. Returns whether the lane should pause.
    pub(super) fn throttled(
        &mut self,
        ticket: PaceTicket,
        retry_after: Option<Duration>,
        now: Instant,
    ) -> bool {
        let answered = SuccessCounts {
            minute: self.answered.sum_within(MINUTE, now),
            seconds: self.answered.sum_within(SECONDS, now),
        };
        self.learned_rate
            .throttled(ticket.at, retry_after, answered, now)
    }

    /// Returns the number of calls of typical size that may leave within `span`, or `None` without limits.
    pub(super) fn startable(&self, span: Duration, now: Instant) -> Option<Startable> {
        let share = self.typical_share();
        let limited: Vec<_> = self.limited(share, now).collect();
        if limited.is_empty() && self.hold_end(now).is_none() {
            return None;
        }
        let until = now + span;
        let first = self.earliest(share, now);
        if first > until {
            return Some(Startable {
                calls: 0,
                more_in: first - until,
            });
        }
        let mut startable = Startable {
            calls: usize::MAX,
            more_in: span / 4,
        };
        for limited in limited {
            let Limited {
                meter,
                amount,
                rate,
            } = limited;
            let calls = meter.calls_between(amount, rate, first, until);
            startable.calls = startable.calls.min(calls);
            startable.more_in = startable.more_in.max(limited.step());
        }
        startable.more_in = startable.more_in.max(MIN_CHECK_INTERVAL);
        Some(startable)
    }

    /// Returns the minimum interval between calls of this size.
    pub(super) fn step(&self, load: Load, now: Instant) -> Duration {
        self.limited(self.share(load), now)
            .map(|limited| limited.step())
            .max()
            .unwrap_or_default()
    }

    /// Returns whether the pace can be dropped without exceeding a limit.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        let nothing_out = |meter: &Meter| meter.limit(now).is_none() || meter.used(now) == 0;
        self.meters.iter().all(nothing_out)
            && self.learned_rate.rate(now).is_none()
            && self.hold_end(now).is_none()
    }

    pub(super) fn snapshot(&self, now: Instant) -> PaceSnapshot {
        let [requests, tokens, input, output] = &self.meters;
        let rates = self.rates(now);
        PaceSnapshot {
            requests: requests.snapshot(rates[0], now),
            tokens: tokens.snapshot(rates[1], now),
            input_tokens: input.snapshot(rates[2], now),
            output_tokens: output.snapshot(rates[3], now),
            shrunk_for: self.learned_rate.ends_in(now),
            held_for: self.hold_end(now).map(|held| held - now),
        }
    }

    fn earliest(&self, share: Share, now: Instant) -> Instant {
        let held = self.held_until.max(self.shared_next);
        let held = held.unwrap_or(now).max(now);
        self.limited(share, now)
            .map(|limited| limited.meter.earliest(limited.amount, limited.rate, now))
            .fold(held, Instant::max)
    }

    /// Returns the quantities with a limit and the amount of the call.
    fn limited(&self, share: Share, now: Instant) -> impl Iterator<Item = Limited<'_>> {
        let meters = self.meters.iter().zip(share.amounts());
        meters
            .zip(self.rates(now))
            .filter_map(|((meter, amount), rate)| {
                Some(Limited {
                    meter,
                    amount,
                    rate: rate?,
                })
            })
    }

    fn rates(&self, now: Instant) -> [Option<Rate>; 4] {
        let [requests, tokens, input, output] = &self.meters;
        let of_limit = |meter: &Meter| {
            meter.limit(now).map(|limit| Rate {
                per_minute: limit as f64,
                spread: Spread::WhenScarce,
            })
        };
        // After 429s requests are always spaced evenly, also under a configured limit.
        let requests = match (self.learned_rate.rate(now), of_limit(requests)) {
            (None, of_limit) => of_limit,
            (Some(found), of_limit) => Some(Rate {
                per_minute: of_limit.map_or(found, |limit| limit.per_minute.min(found)),
                spread: Spread::Always,
            }),
        };
        [
            requests,
            of_limit(tokens),
            of_limit(input),
            of_limit(output),
        ]
    }

    fn share(&self, load: Load) -> Share {
        Share {
            input: load.prompt_tokens,
            output: self
                .typical_answer
                .unwrap_or(DEFAULT_ANSWER_TOKENS)
                .min(load.most_answer_tokens),
        }
    }

    fn typical_share(&self) -> Share {
        Share {
            input: self.typical_prompt.unwrap_or(DEFAULT_PROMPT_TOKENS),
            output: self.typical_answer.unwrap_or(DEFAULT_ANSWER_TOKENS),
        }
    }
}

struct Limited<'a> {
    meter: &'a Meter,
    amount: u64,
    rate: Rate,
}

impl Limited<'_> {
    fn step(&self) -> Duration {
        between(self.amount, self.rate.per_minute)
    }
}

fn typical(before: Option<u64>, now: u64) -> u64 {
    match before {
        None => now,
        Some(before) => (before / AVERAGE_OVER)
            .saturating_mul(AVERAGE_OVER - 1)
            .saturating_add(before % AVERAGE_OVER)
            .saturating_add(now / AVERAGE_OVER),
    }
}

#[cfg(test)]
mod tests;
