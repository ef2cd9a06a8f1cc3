use proptest::prelude::*;

use super::*;
use crate::gate::{LimitReport, Span};

const MINUTE: Duration = Duration::from_secs(60);

fn limits(requests: Option<u64>, tokens: Option<u64>) -> Pace {
    let limits = PaceLimits {
        requests_per_minute: requests,
        tokens_per_minute: tokens,
    };
    Pace::new(limits, Rule::Alone)
}

impl Pace {
    fn take(&mut self, load: Load, now: Instant) -> Result<PaceTicket, Duration> {
        match self.wait(load, now) {
            Some(wait) => Err(wait),
            None => Ok(self.leave(load, None, now)),
        }
    }
}

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn prompt(tokens: u64) -> Load {
    Load {
        prompt_tokens: tokens,
        most_answer_tokens: 0,
    }
}

/// Sends calls as early as allowed from `begin` for `span`. Returns their times.
fn saturate(pace: &mut Pace, load: Load, begin: Instant, span: Duration) -> Vec<Instant> {
    let (mut now, mut left) = (begin, Vec::new());
    while now < begin + span {
        match pace.take(load, now) {
            Ok(_) => left.push(now),
            Err(wait) => {
                assert!(!wait.is_zero(), "a wait without end");
                now += wait;
            }
        }
    }
    left
}

/// Returns the maximum number of times in any minute.
fn most_in_a_minute(times: &[Instant]) -> usize {
    let within = |from: &Instant| {
        let times = times.iter();
        times
            .filter(|at| **at >= *from && **at < *from + MINUTE)
            .count()
    };
    times.iter().map(within).max().unwrap_or(0)
}

fn report(limit: u64, remaining: u64, reset: f64) -> RateReport {
    RateReport {
        requests: LimitReport {
            limit: Some(limit),
            remaining: Some(remaining),
            resets_in: Some(secs(reset)),
            span: Span::Unsaid,
        },
        ..RateReport::default()
    }
}

#[test]
fn keeps_limit_per_minute_and_uses_95_percent() {
    for limit in [1_u64, 7, 60, 600, 2_000] {
        let begin = Instant::now();
        let span = MINUTE * 4;
        let left = saturate(&mut limits(Some(limit), None), Load::default(), begin, span);
        assert!(most_in_a_minute(&left) as u64 <= limit, "{limit}");
        // Network latency varies from 0 to 1 s.
        let mut random = fastrand::Rng::with_seed(limit);
        let mut seen: Vec<Instant> = left.iter().map(|at| *at + secs(random.f64())).collect();
        seen.sort();
        assert!(most_in_a_minute(&seen) as u64 <= limit, "{limit}");
        let most = span.as_secs_f64() / 60.0 * limit as f64;
        assert!(left.len() as f64 >= 0.95 * most, "{limit}: {}", left.len());
    }
}

#[test]
fn spaces_calls_evenly_within_seconds() {
    let left = saturate(
        &mut limits(Some(60), None),
        Load::default(),
        Instant::now(),
        MINUTE,
    );
    for pair in left.windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_millis(999));
    }
    let left = saturate(
        &mut limits(Some(6_000), None),
        Load::default(),
        Instant::now(),
        secs(3.0),
    );
    for from in &left {
        let in_a_second = left
            .iter()
            .filter(|at| *at >= from && **at < *from + secs(1.0));
        assert!(
            in_a_second.count() <= 110,
            "a tenth more than a sixtieth of 6,000"
        );
    }
}

#[test]
fn late_call_does_not_delay_the_next() {
    let (mut pace, begin) = (limits(Some(60), None), Instant::now());
    let mut now = begin;
    for _ in 0..100 {
        while let Err(wait) = pace.take(Load::default(), now) {
            // Timers and schedulers are late.
            now += wait + Duration::from_millis(15);
        }
    }
    assert!(now - begin <= secs(99.0 * 60.0 / 57.0), "{:?}", now - begin);
}

#[test]
fn corrects_reserved_tokens_by_actual_usage() {
    let (mut pace, begin) = (limits(None, Some(10_000)), Instant::now());
    assert!(pace.counts_tokens(begin));
    let first = pace.take(prompt(4_000), begin).unwrap();
    let wait = pace.wait(prompt(4_000), begin).unwrap();
    assert!(wait > secs(24.0) && wait < secs(25.0), "{wait:?}");
    let used = TokensUsed {
        input: 1_000,
        output: 500,
    };
    pace.settle(first, used, begin);
    let wait = pace.wait(prompt(4_000), begin).unwrap();
    assert!(wait > secs(9.0) && wait < secs(10.0), "{wait:?}");
    assert_eq!(pace.snapshot(begin).tokens.used, 1_500);
    // Typical answer tokens are reserved from now on, up to the cap.
    let load = Load {
        prompt_tokens: 0,
        most_answer_tokens: 200,
    };
    assert_eq!(pace.share(load).output, 200);
    let load = Load {
        most_answer_tokens: 9_000,
        ..load
    };
    assert_eq!(pace.share(load).output, 500);
}

#[test]
fn keeps_token_limit_per_minute() {
    for size in [90, 300, 700] {
        let left = saturate(
            &mut limits(None, Some(1_000)),
            prompt(size),
            Instant::now(),
            MINUTE * 5,
        );
        let most = most_in_a_minute(&left) as u64 * size;
        assert!(most <= 1_000, "{size}: {most}");
    }
}

#[test]
fn call_above_the_limit_leaves_in_an_empty_window() {
    let (mut pace, begin) = (limits(None, Some(1_000)), Instant::now());
    assert!(pace.take(prompt(50_000), begin).is_ok());
    let wait = pace.wait(prompt(10), begin).unwrap();
    assert!(wait > secs(60.0) && wait < secs(62.0), "{wait:?}");
    let later = begin + wait;
    assert!(pace.take(prompt(10), later).is_ok());
    let wait = pace.wait(prompt(50_000), later).unwrap();
    assert!(
        wait > secs(60.0) && wait < secs(62.0),
        "it waits to be alone: {wait:?}"
    );
}

#[test]
fn lower_learned_limit_applies_until_it_expires() {
    let (mut pace, begin) = (limits(Some(60), None), Instant::now());
    pace.take(Load::default(), begin).unwrap();
    pace.observe(&report(30, 29, 2.0), begin);
    assert_eq!(pace.snapshot(begin).requests.limit, Some(30));
    pace.observe(&report(600, 500, 10.0), begin);
    let requests = pace.snapshot(begin).requests;
    assert_eq!((requests.limit, requests.learned), (Some(60), Some(600)));
    pace.observe(&report(30, 29, 2.0), begin);
    // A quota per day and one per second.
    pace.observe(&report(200, 199, 432.0), begin);
    pace.observe(&report(10, 9, 0.1), begin);
    assert_eq!(pace.snapshot(begin).requests.limit, Some(30));
    let later = begin + Duration::from_secs(601);
    assert_eq!(pace.snapshot(later).requests.limit, Some(60));
}

#[test]
fn learned_limit_spaces_calls_after_half_is_used() {
    let (mut pace, begin) = (limits(None, None), Instant::now());
    pace.take(Load::default(), begin).unwrap();
    assert_eq!(pace.startable(secs(0.5), begin), None);
    pace.observe(&report(60, 59, 1.0), begin);
    pace.observe(&report(60, 58, 2.0), begin);
    for _ in 1..30 {
        pace.take(Load::default(), begin).unwrap();
    }
    let wait = pace.wait(Load::default(), begin).unwrap();
    assert!(wait > secs(0.9) && wait < secs(1.1), "{wait:?}");
    let left = saturate(&mut pace, Load::default(), begin + secs(0.1), MINUTE * 2);
    assert!(most_in_a_minute(&left) <= 60);
    assert!(left.iter().filter(|at| **at < begin + MINUTE).count() <= 30);
}

#[test]
fn exhausted_limit_holds_calls_until_reset() {
    let (mut pace, begin) = (limits(None, None), Instant::now());
    let old = pace.take(Load::default(), begin).unwrap();
    let new = pace.take(Load::default(), begin).unwrap();
    pace.hold(new, &report(60, 0, 20.0), begin);
    assert_eq!(pace.wait(Load::default(), begin), Some(secs(20.0)));
    let startable = pace.startable(secs(0.5), begin).unwrap();
    assert_eq!((startable.calls, startable.more_in), (0, secs(19.5)));
    // Report of an older call.
    pace.hold(old, &report(60, 0, 50.0), begin);
    let snapshot = pace.snapshot(begin);
    assert_eq!(
        (snapshot.held_for, snapshot.shrunk_for),
        (Some(secs(20.0)), None)
    );
    assert!(pace.take(Load::default(), begin + secs(20.0)).is_ok());
}

#[test]
fn invalid_limit_reports_do_not_block_calls() {
    let begin = Instant::now();
    for rates in [
        report(0, 0, 3_600.0),
        report(u64::MAX, 0, 1e9),
        report(1, 0, 7.0 * 86_400.0),
        report(5, u64::MAX, 30.0),
        report(60, 0, 0.0),
    ] {
        let mut pace = limits(None, None);
        let call = pace.take(Load::default(), begin).unwrap();
        pace.observe(&rates, begin);
        pace.hold(call, &rates, begin);
        let wait = pace.wait(Load::default(), begin).unwrap_or_default();
        assert!(wait <= MAX_HOLD, "{rates:?}: {wait:?}");
        assert!(
            pace.take(Load::default(), begin + wait).is_ok(),
            "{rates:?}"
        );
    }
}

/// Returns a pace after 60 replies and then only 429s, with the time of the last.
fn saturated(configured: Option<u64>) -> (Pace, Instant) {
    let (mut pace, begin) = (limits(configured, None), Instant::now());
    let mut now = begin;
    let mut take = |pace: &mut Pace| loop {
        match pace.take(Load::default(), now) {
            Ok(call) => return (call, now),
            Err(wait) => now += wait,
        }
    };
    let calls: Vec<_> = (0..84).map(|_| take(&mut pace)).collect();
    let (_, now) = calls[83];
    for (call, _) in &calls[..60] {
        pace.succeeded(*call, now);
    }
    for (call, _) in &calls[60..] {
        pace.throttled(*call, None, now);
    }
    (pace, now)
}

#[test]
fn frequent_429s_slow_to_the_successful_rate() {
    for configured in [None, Some(6_000)] {
        let (mut pace, now) = saturated(configured);
        assert_eq!(pace.snapshot(now).requests.limit, Some(60));
        let left = saturate(&mut pace, Load::default(), now, secs(10.0));
        assert!((9..=11).contains(&left.len()), "{}", left.len());
    }
}

#[test]
fn successes_lift_the_estimate_within_seconds() {
    let (mut pace, now) = saturated(None);
    let call = pace.take(Load::default(), now + secs(2.0)).unwrap();
    pace.succeeded(call, now + secs(2.0));
    let rate = |pace: &Pace, at: f64| pace.snapshot(now + secs(at)).requests.limit;
    assert_eq!(rate(&pace, 2.5), Some(60));
    assert_eq!(rate(&pace, 5.0), Some(240));
    assert_eq!(pace.snapshot(now + secs(5.0)).shrunk_for, Some(secs(4.0)));
    assert_eq!(rate(&pace, 9.1), None);
}

#[test]
fn persistent_limit_is_probed_after_a_minute() {
    let (mut pace, now) = saturated(None);
    let call = pace.take(Load::default(), now + secs(10.0)).unwrap();
    pace.throttled(call, None, now + secs(10.0));
    let call = pace.take(Load::default(), now + secs(60.0)).unwrap();
    pace.succeeded(call, now + secs(60.0));
    let rate = |pace: &Pace, at: f64| pace.snapshot(now + secs(at)).requests.limit;
    assert_eq!(rate(&pace, 119.0), Some(60));
    assert_eq!(rate(&pace, 124.0), Some(120));
}

#[test]
fn one_429_in_six_does_not_slow_calls() {
    let mut random = fastrand::Rng::with_seed(7);
    let (mut pace, mut now) = (limits(None, None), Instant::now());
    let mut prevailed = 0;
    for _ in 0..100_000 {
        now += secs(0.002);
        let call = pace.take(Load::default(), now).unwrap();
        match random.f64() < 1.0 / 6.0 {
            true => prevailed += u32::from(pace.throttled(call, Some(secs(1.0)), now)),
            false => pace.succeeded(call, now),
        }
    }
    assert_eq!(pace.snapshot(now).requests.limit, None);
    assert!(prevailed < 10, "{prevailed}");
}

#[test]
fn startable_matches_upcoming_departures() {
    let (mut pace, begin) = (limits(Some(6_000), None), Instant::now());
    let startable = pace.startable(secs(0.5), begin).unwrap();
    assert!((48..=50).contains(&startable.calls), "{startable:?}");
    assert_eq!(startable.more_in, secs(0.125));
    pace.take(Load::default(), begin).unwrap();

    let mut slow = limits(Some(60), None);
    assert_eq!(slow.startable(secs(0.5), begin).unwrap().calls, 1);
    slow.take(Load::default(), begin).unwrap();
    let startable = slow.startable(secs(0.5), begin).unwrap();
    assert_eq!((startable.calls, startable.more_in), (0, secs(0.5)));
    let soon = slow
        .startable(secs(0.5), begin + startable.more_in)
        .unwrap();
    assert_eq!(soon.calls, 1);
}

#[test]
fn unlimited_pace_has_no_wait_and_is_idle() {
    let (mut pace, begin) = (limits(None, None), Instant::now());
    for _ in 0..10_000 {
        pace.take(prompt(100_000), begin).unwrap();
    }
    assert!(!pace.counts_tokens(begin));
    assert!(pace.is_idle(begin));
    assert_eq!(pace.snapshot(begin).requests.used, 10_000);
    let mut limited = limits(Some(60), None);
    limited.take(Load::default(), begin).unwrap();
    assert!(!limited.is_idle(begin));
    assert!(limited.is_idle(begin + secs(62.0)));
}

#[derive(Debug, Clone)]
enum Event {
    /// Milliseconds that pass.
    Passes(u64),
    /// Number of calls that try to leave.
    Calls(u8),
    /// Limit, remaining requests and reset in ms of a reply.
    Says(u64, u64, u64),
    Throttled,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..20_000_u64).prop_map(Event::Passes),
        6 => (1..40_u8).prop_map(Event::Calls),
        1 => (0..200_u64, 0..200_u64, 0..100_000_u64).prop_map(|(l, r, ms)| Event::Says(l, r, ms)),
        1 => Just(Event::Throttled),
    ]
}

proptest! {
    #[test]
    fn random_events_keep_limit_in_any_minute(
        limit in 1..120_u64,
        events in prop::collection::vec(event(), 1..200),
    ) {
        let (mut pace, mut now) = (limits(Some(limit), None), Instant::now());
        let (mut left, mut calls) = (Vec::new(), Vec::new());
        for event in events {
            match event {
                Event::Passes(ms) => now += Duration::from_millis(ms),
                Event::Calls(count) => for _ in 0..count {
                    if let Ok(call) = pace.take(Load::default(), now) {
                        left.push(now);
                        calls.push(call);
                    }
                },
                Event::Says(limit, remaining, ms) => if let Some(call) = calls.last() {
                    let rates = report(limit, remaining, ms as f64 / 1e3);
                        pace.observe(&rates, now);
                        pace.hold(*call, &rates, now);
                },
                Event::Throttled => if let Some(call) = calls.pop() {
                    pace.throttled(call, None, now);
                },
            }
        }
        prop_assert!(most_in_a_minute(&left) as u64 <= limit);
        // Any report allows a call within minutes.
        prop_assert!(pace.wait(Load::default(), now).unwrap_or_default() <= MAX_HOLD);
    }

    #[test]
    fn random_sizes_keep_token_limit_in_any_minute(
        sizes in prop::collection::vec((1..400_u64, 0..8_000_u64), 1..120),
    ) {
        let (mut pace, mut now) = (limits(None, Some(1_000)), Instant::now());
        let mut left: Vec<(Instant, u64)> = Vec::new();
        for (size, ms) in sizes {
            now += Duration::from_millis(ms);
            if pace.take(prompt(size), now).is_ok() {
                left.push((now, size));
            }
        }
        for (from, _) in &left {
            let within = left.iter().filter(|(at, _)| at >= from && *at < *from + MINUTE);
            let sum: u64 = within.map(|(_, size)| size).sum();
            prop_assert!(sum <= 1_000, "{sum}");
        }
    }
}
