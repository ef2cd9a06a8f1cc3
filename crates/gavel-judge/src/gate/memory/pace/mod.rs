//! One judge's pace: requests and tokens a minute, as configured, as learned from replies, and as 429s leave of them.
//!
//! Pure in time: every question takes `now`. A call takes its share when it leaves: one request, the tokens of its prompt by
//! estimate, and what the model typically answers; the usage that its reply reports puts that right. It never waits, and it
//! never decides what a refused call does.

mod learned_rate;
mod meter;

use std::time::Duration;

use tokio::time::Instant;

use super::outbox::SharedState;
use super::rule::Rule;
use crate::gate::{Load, PaceLimits, PaceSnapshot, RateReport, TokensUsed};
use learned_rate::{Answered, LearnedRateLimit, SECONDS};
use meter::{MINUTE, Meter, Rate, SlidingWindow, Spread, between};

/// A limit that is said to be used up is looked at again at least so often, whatever its reset says.
const LONGEST_HOLD: Duration = Duration::from_secs(300);
/// What a model is taken to answer before it has: tokens.
const FIRST_ANSWER: u64 = 1_000;
/// What a call is taken to be before there was one: tokens.
const FIRST_PROMPT: u64 = 4_000;
/// A new call counts for one part in so many of what is typical.
const PARTS: u64 = 8;
/// Room that grows is looked at again no sooner than this.
const SHORTEST_LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(in crate::gate) struct Pace {
    /// Of requests, tokens, tokens of prompts and tokens of answers, as [`RateReport::all`] has them.
    meters: [Meter; 4],
    /// What the 429s tell of a limit that nobody states.
    learned_rate: LearnedRateLimit,
    /// What was answered lately.
    answered: SlidingWindow,
    /// A reply said that nothing is left until then.
    held_until: Option<Instant>,
    /// The latest call whose reply was heard, so that an older one's news isn't taken for today's.
    heard: u64,
    taken: u64,
    typical_prompt: Option<u64>,
    typical_answer: Option<u64>,
    /// What prompts are estimated at before they go out.
    typical_estimate: Option<u64>,
    rule: Rule,
    /// When the next call is due, by what all workers let go.
    next_of_all: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct PaceTicket {
    number: u64,
    at: Instant,
    /// When it left by Redis' clock, ms, where all workers let it go.
    there: Option<i64>,
    share: Share,
}

impl PaceTicket {
    /// What it put down: requests, tokens of prompts, tokens of answers.
    pub(super) fn departure(&self) -> [i64; 3] {
        [1, signed(self.share.input), signed(self.share.output)]
    }

    pub(super) fn left_at(&self) -> (Instant, Option<i64>) {
        (self.at, self.there)
    }
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

/// How much of each quantity one call takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    input: u64,
    output: u64,
}

impl Share {
    /// What it takes of each meter.
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
        self.next_of_all = None;
        for meter in &mut self.meters {
            meter.divisor = rule.divisor();
        }
    }

    /// Takes in how the pace stands for all workers.
    pub(super) fn adopt(&mut self, state: &SharedState, now: Instant) {
        for (meter, learned) in self.meters.iter_mut().zip(state.learned) {
            meter.adopt(learned, now);
        }
        self.next_of_all = Some(now + state.next_in);
        let held = now + state.held_for;
        self.held_until = self.held_until.max((held > now).then_some(held));
    }

    /// The others say that the next call is due after this.
    pub(in crate::gate) fn due_in(&mut self, wait: Duration, now: Instant) {
        self.next_of_all = Some(now + wait);
    }

    /// Whether something limits what goes out.
    pub(super) fn is_limited(&self, now: Instant) -> bool {
        let limited = |meter: &Meter| meter.limit(now).is_some();
        self.held(now).is_some() || self.meters.iter().any(limited)
    }

    /// Until when nothing goes out because nothing is left.
    pub(super) fn held(&self, now: Instant) -> Option<Instant> {
        self.held_until.filter(|held| *held > now)
    }

    /// What a call takes of prompts' and answers' tokens.
    pub(super) fn amounts(&self, load: Load) -> (u64, u64) {
        let share = self.share(load);
        (share.input, share.output)
    }

    /// What went out since then, or within the last minute, in its order: requests, tokens of prompts, tokens of answers.
    pub(super) fn went_out(&self, since: Option<Instant>) -> Vec<(Instant, [i64; 3])> {
        let [requests, _, input, output] = &self.meters;
        let requests = requests.went_out(since);
        let requests = requests.map(|(at, amount)| (at, [amount, 0, 0]));
        let input = input.went_out(since);
        let input = input.map(|(at, amount)| (at, [0, amount, 0]));
        let output = output.went_out(since);
        let output = output.map(|(at, amount)| (at, [0, 0, amount]));
        let mut all: Vec<_> = requests.chain(input).chain(output).collect();
        all.sort_by_key(|(at, _)| *at);
        all
    }

    /// Whether a call's tokens matter: only then are they worth an estimate.
    pub(super) fn counts_tokens(&self, now: Instant) -> bool {
        let mut of_tokens = self.meters.iter().skip(1);
        of_tokens.any(|meter| meter.limit(now).is_some())
    }

    /// How long a call must wait; `None`: it may leave now.
    pub(super) fn wait(&self, load: Load, now: Instant) -> Option<Duration> {
        let share = self.share(load);
        let earliest = match self.rule {
            Rule::Alone | Rule::Part { .. } => self.earliest(share, now),
            // The limits are asked for elsewhere; what 429s tell stays each worker's own.
            Rule::Together => self
                .learned_rate
                .rate(now)
                .map_or(now, |rate| self.meters[0].due(1, rate, now)),
        };
        (earliest > now).then(|| earliest - now)
    }

    /// How long the pace holds a call of the usual size back; `None`: not at all.
    pub(super) fn holds_back(&self, now: Instant) -> Option<Duration> {
        let earliest = self.earliest(self.typical_share(), now);
        (earliest > now).then(|| earliest - now)
    }

    /// A call leaves now. `there`: when, by Redis' clock, where all workers let it go.
    pub(super) fn leave(&mut self, load: Load, there: Option<i64>, now: Instant) -> PaceTicket {
        let share = self.share(load);
        let rates = self.rates(now);
        for ((meter, amount), rate) in self.meters.iter_mut().zip(share.amounts()).zip(rates) {
            meter.take(amount, rate, now);
        }
        if share.input > 0 {
            self.typical_estimate = Some(typical(self.typical_estimate, share.input));
        }
        self.taken += 1;
        PaceTicket {
            number: self.taken,
            at: now,
            there,
            share,
        }
    }

    /// A call's reply said what it used; answers how much more of each quantity that is than was put down.
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
        // A call is one request, before and after.
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

    pub(super) fn heard(&mut self, rates: &RateReport, now: Instant) {
        for (meter, report) in self.meters.iter_mut().zip(rates.all()) {
            meter.heard(report, now);
        }
    }

    /// A call's reply said what is left: where that is nothing, no call leaves before it is back.
    pub(super) fn hold(&mut self, ticket: PaceTicket, rates: &RateReport, now: Instant) {
        if ticket.number < self.heard {
            return;
        }
        self.heard = ticket.number;
        let nothing_left = rates.all().into_iter().filter_map(|r| r.nothing_left_for());
        let until = nothing_left.max().map(|wait| now + wait.min(LONGEST_HOLD));
        self.held_until = self.held_until.max(until);
    }

    /// Whether a call is so much larger than is usual here that others would overtake it for as long as they come: they fit
    /// into what a minute's tokens leave, and it doesn't.
    pub(super) fn is_overtaken(&self, load: Load, now: Instant) -> bool {
        let share = self.share(load);
        let usual = Share {
            // Estimate beside estimate: what replies report is less.
            input: self.typical_estimate.unwrap_or(FIRST_PROMPT) / 4 * 5,
            ..share
        };
        self.earliest(share, now) > self.earliest(usual, now)
    }

    pub(super) fn answered(&mut self, ticket: PaceTicket, now: Instant) {
        self.answered.forget(now);
        self.answered.add(now, 1);
        self.learned_rate.answered(ticket.at, now);
    }

    /// A call met a 429; answers whether the lane should pause.
    pub(super) fn throttled(
        &mut self,
        ticket: PaceTicket,
        retry_after: Option<Duration>,
        now: Instant,
    ) -> bool {
        let answered = Answered {
            minute: self.answered.sum_within(MINUTE, now),
            seconds: self.answered.sum_within(SECONDS, now),
        };
        self.learned_rate
            .refused(ticket.at, retry_after, answered, now)
    }

    /// How many calls of the usual size may leave within `span`; `None`: nothing limits them.
    pub(super) fn startable(&self, span: Duration, now: Instant) -> Option<Startable> {
        let share = self.typical_share();
        let limited: Vec<_> = self.limited(share, now).collect();
        if limited.is_empty() && self.held(now).is_none() {
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
        startable.more_in = startable.more_in.max(SHORTEST_LOOK);
        Some(startable)
    }

    /// How far apart calls of this size leave, at least.
    pub(super) fn step(&self, load: Load, now: Instant) -> Duration {
        self.limited(self.share(load), now)
            .map(|limited| limited.step())
            .max()
            .unwrap_or_default()
    }

    /// Whether forgetting it lets nothing out too early.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        let nothing_out = |meter: &Meter| meter.limit(now).is_none() || meter.used(now) == 0;
        self.meters.iter().all(nothing_out)
            && self.learned_rate.rate(now).is_none()
            && self.held(now).is_none()
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
            held_for: self.held(now).map(|held| held - now),
        }
    }

    fn earliest(&self, share: Share, now: Instant) -> Instant {
        let held = self.held_until.max(self.next_of_all);
        let held = held.unwrap_or(now).max(now);
        self.limited(share, now)
            .map(|limited| limited.meter.earliest(limited.amount, limited.rate, now))
            .fold(held, Instant::max)
    }

    /// The quantities that have a limit now, and what a call takes of each.
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

    /// How much of each quantity may go out a minute, where it has a limit.
    fn rates(&self, now: Instant) -> [Option<Rate>; 4] {
        let [requests, tokens, input, output] = &self.meters;
        let of_limit = |meter: &Meter| {
            meter.limit(now).map(|limit| Rate {
                per_minute: limit as f64,
                spread: Spread::WhenScarce,
            })
        };
        // A server that has said 429 is asked evenly, whatever the limit is known by.
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
                .unwrap_or(FIRST_ANSWER)
                .min(load.most_answer_tokens),
        }
    }

    fn typical_share(&self) -> Share {
        Share {
            input: self.typical_prompt.unwrap_or(FIRST_PROMPT),
            output: self.typical_answer.unwrap_or(FIRST_ANSWER),
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
        Some(before) => (before / PARTS)
            .saturating_mul(PARTS - 1)
            .saturating_add(before % PARTS)
            .saturating_add(now / PARTS),
    }
}

#[cfg(test)]
mod tests;
