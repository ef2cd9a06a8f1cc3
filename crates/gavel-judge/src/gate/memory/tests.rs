mod servers;

use tokio::time::advance;

use super::*;
use crate::error::ErrorClass;
use crate::gate::{BreakerState, CallOutcome, LastError, PaceLimits, TokensUsed};

const NOW: Duration = Duration::ZERO;
const JUDGE: &str = "openai-default";

fn no_load() -> Load {
    Load::default()
}

fn gate() -> Gate {
    Gate::new(GateOptions::default())
}

fn failed(class: ErrorClass, retry_after: Option<u64>) -> CallEnd {
    let outcome = CallOutcome::Failed {
        class,
        retry_after: retry_after.map(Duration::from_secs),
        message: "it said no".to_owned(),
    };
    outcome.into()
}

fn alive() -> CallEnd {
    CallOutcome::Alive.into()
}

async fn meet(gate: &Gate, outcome: &CallEnd) {
    let permit = gate.enter(JUDGE, NOW, &no_load).await.unwrap();
    gate.report(JUDGE, permit, outcome);
}

async fn enter_denied(gate: &Gate) -> Denial {
    gate.enter(JUDGE, NOW, &no_load).await.err().unwrap()
}

fn closed_for(why: HeldBack, seconds: u64) -> Denial {
    Denial {
        why,
        retry_in: Some(Duration::from_secs(seconds)),
    }
}

#[tokio::test(start_paused = true)]
async fn breaker_affects_only_its_judge() {
    let gate = gate();
    for _ in 0..5 {
        meet(&gate, &failed(ErrorClass::Transient, None)).await;
    }
    assert_eq!(
        enter_denied(&gate).await,
        closed_for(HeldBack::BreakerOpen, 30)
    );
    assert!(gate.enter("other", NOW, &no_load).await.is_ok());
}

#[derive(Clone, Default)]
struct LogLines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl LogLines {
    fn with(&self, text: &str) -> Vec<String> {
        let log = String::from_utf8(self.0.lock().clone()).unwrap();
        let lines = log.lines().filter(|line| line.contains(text));
        lines.map(str::to_owned).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn logs_opening_breaker_once_with_error() {
    let (gate, log) = (gate(), LogLines::default());
    let writer = log.clone();
    let lines = tracing_subscriber::fmt().with_ansi(false);
    let lines = lines.with_writer(move || writer.clone()).finish();
    let _logging = tracing::subscriber::set_default(lines);
    for _ in 0..5 {
        assert!(log.with("breaker").is_empty());
        meet(&gate, &failed(ErrorClass::Transient, None)).await;
    }
    let opened = log.with("breaker opened");
    assert_eq!(opened.len(), 1, "{opened:?}");
    for part in ["WARN", JUDGE, "failures_in_row=5", "error=\"it said no\""] {
        assert!(opened[0].contains(part), "{part}: {opened:?}");
    }

    advance(Duration::from_secs(30)).await;
    meet(&gate, &failed(ErrorClass::Transient, None)).await;
    assert_eq!(log.with("breaker").len(), 1, "a failed probe is no news");
    advance(Duration::from_secs(30)).await;
    meet(&gate, &alive()).await;
    assert_eq!(log.with("breaker closed").len(), 1);

    // Failures of other workers also open it here.
    let opened_elsewhere = SharedState {
        breaker: BreakerState::Open,
        failures: 5,
        opens_in: Duration::from_secs(30),
        ..open_lane(1_000_000, 1)
    };
    gate.with_lane(JUDGE, |lane, now| lane.adopt(&opened_elsewhere, now, now));
    assert_eq!(log.with("breaker opened").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn closed_consumes_no_probe() {
    let gate = gate();
    for _ in 0..5 {
        meet(&gate, &failed(ErrorClass::Transient, None)).await;
    }
    advance(Duration::from_secs(30)).await;
    assert_eq!(gate.closed(JUDGE), None);
    assert_eq!(gate.closed(JUDGE), None);
    let probe = gate.enter(JUDGE, NOW, &no_load).await.unwrap();
    assert!(probe.probe);
    assert_eq!(gate.closed(JUDGE).unwrap().why, HeldBack::BreakerOpen);
    assert_eq!(gate.snapshot()[0].breaker, BreakerState::HalfOpen);
    gate.report(JUDGE, probe, &alive());
    assert!(!gate.enter(JUDGE, NOW, &no_load).await.unwrap().probe);
}

#[tokio::test(start_paused = true)]
async fn dropped_permit_frees_slot_and_returns_probe() {
    let gate = gate();
    for _ in 0..5 {
        meet(&gate, &failed(ErrorClass::Transient, None)).await;
    }
    advance(Duration::from_secs(30)).await;
    let probe = gate.enter(JUDGE, NOW, &no_load).await.unwrap();
    assert_eq!(gate.snapshot()[0].in_flight, 1);
    drop(probe);
    assert_eq!(gate.snapshot()[0].in_flight, 0);
    assert!(gate.enter(JUDGE, NOW, &no_load).await.unwrap().probe);
}

#[tokio::test(start_paused = true)]
async fn throttled_probe_closes_breaker_and_throttles_lane() {
    let gate = gate();
    for _ in 0..5 {
        meet(&gate, &failed(ErrorClass::Transient, None)).await;
    }
    advance(Duration::from_secs(30)).await;
    meet(&gate, &failed(ErrorClass::Throttled, Some(20))).await;
    assert_eq!(
        gate.closed(JUDGE),
        Some(closed_for(HeldBack::Throttled, 20))
    );
}

#[tokio::test(start_paused = true)]
async fn throttle_obeys_retry_after_or_doubles_until_success() {
    let gate = gate();
    meet(&gate, &failed(ErrorClass::Throttled, Some(3))).await;
    assert_eq!(gate.closed(JUDGE), Some(closed_for(HeldBack::Throttled, 3)));
    advance(Duration::from_secs(3)).await;
    for pause in [10, 20, 40, 80, 160, 300, 300] {
        meet(&gate, &failed(ErrorClass::Throttled, None)).await;
        assert_eq!(
            gate.closed(JUDGE),
            Some(closed_for(HeldBack::Throttled, pause))
        );
        advance(Duration::from_secs(pause)).await;
    }
    meet(&gate, &alive()).await;
    meet(&gate, &failed(ErrorClass::Throttled, None)).await;
    assert_eq!(
        gate.closed(JUDGE),
        Some(closed_for(HeldBack::Throttled, 10))
    );
}

#[tokio::test(start_paused = true)]
async fn burst_of_429s_doubles_pause_once() {
    let gate = gate();
    let mut burst = Vec::new();
    for _ in 0..6 {
        burst.push(gate.enter(JUDGE, NOW, &no_load).await.unwrap());
    }
    for permit in burst {
        gate.report(JUDGE, permit, &failed(ErrorClass::Throttled, None));
    }
    assert_eq!(
        gate.closed(JUDGE),
        Some(closed_for(HeldBack::Throttled, 10))
    );
    assert_eq!(gate.snapshot()[0].breaker, BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn exhausted_judge_stays_closed_and_is_reported_once() {
    let gate = gate();
    let first = gate.enter(JUDGE, NOW, &no_load).await.unwrap();
    let second = gate.enter(JUDGE, NOW, &no_load).await.unwrap();
    gate.report(JUDGE, first, &failed(ErrorClass::Exhausted, None));
    gate.report(JUDGE, second, &failed(ErrorClass::Exhausted, None));
    let closure = Closure {
        judge: JUDGE.to_owned(),
        why: HeldBack::Exhausted,
        message: "it said no".to_owned(),
        reopens_in: None,
    };
    assert_eq!(gate.take_closures(), [closure]);
    assert_eq!(gate.take_closures(), []);
    advance(Duration::from_secs(86_400)).await;
    let denial = Denial {
        why: HeldBack::Exhausted,
        retry_in: None,
    };
    assert_eq!(enter_denied(&gate).await, denial);
    gate.open(JUDGE);
    assert_eq!(gate.closed(JUDGE), None);
}

#[tokio::test(start_paused = true)]
async fn reported_reset_reopens_exhausted_judge() {
    let gate = gate();
    meet(&gate, &failed(ErrorClass::Exhausted, Some(60))).await;
    assert_eq!(
        gate.closed(JUDGE),
        Some(closed_for(HeldBack::Exhausted, 60))
    );
    advance(Duration::from_secs(60)).await;
    assert_eq!(gate.closed(JUDGE), None);
}

#[tokio::test(start_paused = true)]
async fn open_does_not_change_breaker_and_throttle() {
    let gate = gate();
    meet(&gate, &failed(ErrorClass::Throttled, Some(60))).await;
    gate.close(JUDGE, HeldBack::Paused, None);
    assert_eq!(gate.closed(JUDGE).unwrap().why, HeldBack::Paused);
    gate.open(JUDGE);
    assert_eq!(
        gate.closed(JUDGE),
        Some(closed_for(HeldBack::Throttled, 60))
    );
}

#[tokio::test(start_paused = true)]
async fn rejected_key_does_not_replace_a_pause() {
    let gate = gate();
    let in_flight = gate.enter(JUDGE, NOW, &no_load).await.unwrap();
    gate.close(JUDGE, HeldBack::Paused, None);
    gate.report(JUDGE, in_flight, &failed(ErrorClass::Misconfigured, None));
    assert_eq!(gate.closed(JUDGE).unwrap().why, HeldBack::Paused);
    assert_eq!(gate.take_closures()[0].why, HeldBack::Misconfigured);
}

#[tokio::test(start_paused = true)]
async fn other_errors_do_not_close_the_lane() {
    let gate = gate();
    for class in [
        ErrorClass::Rejected,
        ErrorClass::Refused,
        ErrorClass::TooLarge,
        ErrorClass::Capability,
        ErrorClass::Truncated,
        ErrorClass::Unparsable,
    ] {
        meet(&gate, &failed(class, None)).await;
    }
    assert_eq!(gate.closed(JUDGE), None);
    assert_eq!(gate.snapshot()[0].failures_in_row, 0);
    assert_eq!(
        gate.snapshot()[0]
            .last_error
            .as_ref()
            .map(|error| error.message.as_str()),
        Some("it said no")
    );
}

#[tokio::test(start_paused = true)]
async fn keeps_last_error_after_success() {
    let gate = gate();
    meet(&gate, &failed(ErrorClass::Transient, None)).await;
    tokio::time::advance(Duration::from_secs(90)).await;
    meet(&gate, &alive()).await;
    let snapshot = &gate.snapshot()[0];
    assert_eq!(snapshot.failures_in_row, 0);
    let error = LastError {
        message: "it said no".to_owned(),
        ago: Duration::from_secs(90),
    };
    assert_eq!(snapshot.last_error, Some(error));
}

#[tokio::test(start_paused = true)]
async fn limits_concurrency_and_waits_for_a_slot() {
    let gate = Arc::new(Gate::new(GateOptions {
        max_concurrency: BTreeMap::from([(JUDGE.to_owned(), 1)]),
        ..GateOptions::default()
    }));
    let held = gate.enter(JUDGE, NOW, &no_load).await.unwrap();
    let denial = gate.enter(JUDGE, Duration::from_secs(10), &no_load).await;
    assert_eq!(denial.err().unwrap(), closed_for(HeldBack::Busy, 5));
    assert_eq!(gate.closed(JUDGE), None);
    let waiting = tokio::spawn({
        let gate = Arc::clone(&gate);
        async move {
            gate.enter(JUDGE, Duration::from_secs(10), &no_load)
                .await
                .is_ok()
        }
    });
    advance(Duration::from_secs(9)).await;
    gate.report(JUDGE, held, &alive());
    assert!(waiting.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn entry_cap_applies_per_model_and_zero_means_no_cap() {
    let gate = Gate::new(GateOptions {
        max_concurrency: BTreeMap::from([("capped".to_owned(), 1), ("free".to_owned(), 0)]),
        ..GateOptions::default()
    });
    let _held = gate.enter("capped:a", NOW, &no_load).await.unwrap();
    assert!(gate.enter("capped:a", NOW, &no_load).await.is_err());
    assert!(gate.enter("capped:b", NOW, &no_load).await.is_ok());
    let mut all = Vec::new();
    for _ in 0..1_000 {
        all.push(gate.enter("free", NOW, &no_load).await.unwrap());
    }
    assert_eq!(gate.snapshot().last().unwrap().in_flight, 1_000);
}

#[tokio::test(start_paused = true)]
async fn drops_idle_lanes() {
    let gate = gate();
    gate.close("kept", HeldBack::Paused, None);
    for model in 0..3_000 {
        drop(
            gate.enter(&format!("any:{model}"), NOW, &no_load)
                .await
                .unwrap(),
        );
    }
    assert!(gate.snapshot().len() <= MAX_LANES);
    assert_eq!(gate.closed("kept").unwrap().why, HeldBack::Paused);
}

fn paced_at(requests: u64) -> Arc<Gate> {
    let limits = PaceLimits {
        requests_per_minute: Some(requests),
        tokens_per_minute: None,
    };
    Arc::new(Gate::new(GateOptions {
        paces: BTreeMap::from([(JUDGE.to_owned(), limits)]),
        ..GateOptions::default()
    }))
}

#[tokio::test(start_paused = true)]
async fn waiting_calls_leave_in_order() {
    let gate = paced_at(60);
    let order = Arc::new(Mutex::new(Vec::new()));
    let begun = Instant::now();
    let mut waiting = Vec::new();
    for number in 0..6 {
        let (gate, order) = (Arc::clone(&gate), Arc::clone(&order));
        waiting.push(tokio::spawn(async move {
            let permit = gate
                .enter(JUDGE, Duration::from_secs(10), &no_load)
                .await
                .unwrap();
            order.lock().push((number, begun.elapsed().as_secs()));
            gate.report(JUDGE, permit, &alive());
        }));
        tokio::task::yield_now().await;
    }
    for call in waiting {
        call.await.unwrap();
    }
    let expected: Vec<_> = (0..6).map(|n| (n, n)).collect();
    assert_eq!(*order.lock(), expected);
}

#[tokio::test(start_paused = true)]
async fn denies_immediately_if_wait_exceeds_timeout() {
    let gate = paced_at(6);
    drop(gate.enter(JUDGE, NOW, &no_load).await.unwrap());
    let begun = Instant::now();
    let denial = enter_denied(&gate).await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(denial.why, HeldBack::Paced);
    let wait = denial.retry_in.unwrap();
    assert!(
        wait > Duration::from_secs(10) && wait < Duration::from_secs(11),
        "{wait:?}"
    );
    // The lane stays open, and the snapshot shows the pace.
    assert_eq!(gate.closed(JUDGE), None);
    assert_eq!(
        gate.snapshot()[0].closed.as_ref().unwrap().why,
        HeldBack::Paced
    );
    advance(wait).await;
    assert!(gate.enter(JUDGE, NOW, &no_load).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn cancelled_wait_does_not_delay_others() {
    let gate = paced_at(60);
    drop(gate.enter(JUDGE, NOW, &no_load).await.unwrap());
    let patient = Duration::from_secs(10);
    let gone = tokio::spawn({
        let gate = Arc::clone(&gate);
        async move { gate.enter(JUDGE, patient, &no_load).await.is_ok() }
    });
    tokio::task::yield_now().await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    let begun = Instant::now();
    assert!(gate.enter(JUDGE, patient, &no_load).await.is_ok());
    assert!(begun.elapsed() < Duration::from_secs(2));
}

fn counting_tokens() -> Arc<Gate> {
    let limits = PaceLimits {
        requests_per_minute: None,
        tokens_per_minute: Some(10_000),
    };
    Arc::new(Gate::new(GateOptions {
        paces: BTreeMap::from([(JUDGE.to_owned(), limits)]),
        ..GateOptions::default()
    }))
}

/// Makes one call with `tokens` prompt tokens and a timeout of 10 s.
async fn make_call(gate: &Gate, tokens: u64) -> Result<(), Denial> {
    let load = move || Load {
        prompt_tokens: tokens,
        most_answer_tokens: 0,
    };
    let permit = gate.enter(JUDGE, Duration::from_secs(10), &load).await?;
    let used = Some(TokensUsed {
        input: tokens,
        output: 0,
    });
    gate.report(JUDGE, permit, &CallEnd { used, ..alive() });
    Ok(())
}

/// Retries until the call leaves.
async fn retry_until_sent(gate: &Gate, tokens: u64) {
    while let Err(denial) = make_call(gate, tokens).await {
        tokio::time::sleep(denial.retry_in.unwrap()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn small_calls_do_not_starve_a_large_call() {
    let gate = counting_tokens();
    let mut small = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let gate = Arc::clone(&gate);
        small.spawn(async move {
            loop {
                retry_until_sent(&gate, 1_000).await;
            }
        });
    }
    tokio::time::sleep(Duration::from_secs(120)).await;
    for size in [8_000, 30_000] {
        // A call above the limit waits for an empty minute.
        let departures_since = retry_until_sent(&gate, size);
        let within = tokio::time::timeout(Duration::from_secs(150), departures_since).await;
        assert!(within.is_ok(), "{size}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_large_call_waits_beyond_its_timeout() {
    let gate = counting_tokens();
    for _ in 0..9 {
        make_call(&gate, 1_000).await.unwrap();
    }
    let stays = tokio::spawn({
        let gate = Arc::clone(&gate);
        async move { make_call(&gate, 8_000).await }
    });
    // By now a small call could leave.
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(gate.room(JUDGE).unwrap().starts, Some(0));
    let begun = Instant::now();
    assert_eq!(
        make_call(&gate, 8_000).await.unwrap_err().why,
        HeldBack::Paced
    );
    assert_eq!(begun.elapsed(), Duration::ZERO);
    stays.abort();
    assert!(stays.await.unwrap_err().is_cancelled());
    assert_eq!(gate.room(JUDGE).unwrap().starts, Some(1));
    make_call(&gate, 8_000).await.unwrap();
    assert!(begun.elapsed() > Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn closing_lane_denies_waiting_calls() {
    let gate = paced_at(60);
    drop(gate.enter(JUDGE, NOW, &no_load).await.unwrap());
    let waiting = tokio::spawn({
        let gate = Arc::clone(&gate);
        async move {
            gate.enter(JUDGE, Duration::from_secs(10), &no_load)
                .await
                .err()
        }
    });
    tokio::task::yield_now().await;
    gate.close(JUDGE, HeldBack::Paused, None);
    assert_eq!(waiting.await.unwrap().unwrap().why, HeldBack::Paused);
}

#[tokio::test(start_paused = true)]
async fn room_counts_calls_in_flight_and_starts() {
    let gate = paced_at(60);
    let room = gate.room(JUDGE).unwrap();
    assert_eq!(
        (room.in_flight, room.cap, room.starts),
        (0, Some(64), Some(1))
    );
    assert!(gate.snapshot().is_empty(), "asking makes no lane");
    let held = gate.enter(JUDGE, NOW, &no_load).await.unwrap();
    let room = gate.room(JUDGE).unwrap();
    assert_eq!((room.in_flight, room.starts), (1, Some(0)));
    assert_eq!(room.more_in, Some(Duration::from_millis(500)));
    drop(held);
    let free = gate.room("other").unwrap();
    assert_eq!((free.starts, free.more_in), (None, None));
    gate.close(JUDGE, HeldBack::Paused, None);
    assert_eq!(gate.room(JUDGE).unwrap_err().why, HeldBack::Paused);
}

#[tokio::test(start_paused = true)]
async fn entry_pace_applies_per_model() {
    let gate = paced_at(60);
    let [a, b] = ["a", "b"].map(|model| format!("{JUDGE}:{model}"));
    assert!(gate.enter(&a, NOW, &no_load).await.is_ok());
    assert_eq!(
        gate.enter(&a, NOW, &no_load).await.err().unwrap().why,
        HeldBack::Paced
    );
    assert!(gate.enter(&b, NOW, &no_load).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn timeouts_reduce_concurrency() {
    let gate = gate();
    let mut out = Vec::new();
    for _ in 0..8 {
        out.push(gate.enter(JUDGE, NOW, &no_load).await.unwrap());
    }
    advance(Duration::from_secs(60)).await;
    for permit in out.drain(..2) {
        let late = CallOutcome::Late("did not answer within 60 s".to_owned());
        gate.report(JUDGE, permit, &late.into());
    }
    assert_eq!(gate.room(JUDGE).unwrap().cap, Some(3));
    assert_eq!(gate.snapshot()[0].failures_in_row, 2);
    assert_eq!(enter_denied(&gate).await, closed_for(HeldBack::Paced, 1));
    out.clear();
    for _ in 0..3 {
        out.push(gate.enter(JUDGE, NOW, &no_load).await.unwrap());
    }
    assert_eq!(enter_denied(&gate).await, closed_for(HeldBack::Paced, 1));
}

/// Returns the shared state of an open lane without limits.
fn open_lane(now_ms: i64, born: i64) -> SharedState {
    SharedState {
        now_ms,
        born,
        breaker: BreakerState::Closed,
        failures: 0,
        opens_in: NOW,
        throttled_for: NOW,
        held_for: NOW,
        next_in: NOW,
        learned: [None; 4],
        slots: 0,
        allowed: 0,
        free: 0,
    }
}

/// Returns the calls of a report: time, is correction, requests, input and output tokens.
fn reported_calls(report: &[String]) -> Vec<Vec<i64>> {
    let calls = report[7..].chunks(5);
    let figures = |call: &[String]| call.iter().map(|figure| figure.parse().unwrap()).collect();
    calls.map(figures).collect()
}

#[tokio::test(start_paused = true)]
async fn reports_failures_immediately_and_replies_with_poll() {
    let gate = Gate::new(GateOptions {
        default_concurrency: 0,
        ..GateOptions::default()
    });
    gate.with_lane(JUDGE, |lane, now| {
        lane.follow(Rule::Together);
        lane.adopt(&open_lane(1_000_000, 1), now, now);
    });
    let more_than_was_put_down = CallEnd {
        used: Some(TokensUsed {
            input: 1_000_000,
            output: 1_000_000,
        }),
        ..alive()
    };
    let message = || gate.with_lane(JUDGE, LaneGate::message);
    for _ in 0..40 {
        meet(&gate, &more_than_was_put_down).await;
        assert_eq!(message(), None);
        advance(Duration::from_millis(1)).await;
    }
    meet(&gate, &failed(ErrorClass::Transient, None)).await;
    let report = message().unwrap().report;
    assert_eq!(report[0], "af");
    let told = reported_calls(&report);
    let of = |kind| told.iter().filter(move |call| call[1] == kind);
    assert_eq!(of(0).map(|call| call[2]).sum::<i64>(), 41, "{told:?}");
    assert_eq!((of(0).count(), of(1).count()), (1, 1), "{told:?}");
    assert_eq!(message(), None);
    gate.with_lane(JUDGE, |lane, now| {
        let failing = SharedState {
            failures: 1,
            ..open_lane(1_001_000, 1)
        };
        lane.adopt(&failing, now, now);
    });
    meet(&gate, &alive()).await;
    assert_eq!(message().unwrap().report[0], "a", "others count failures");
    gate.with_lane(JUDGE, |lane, now| {
        lane.adopt(&open_lane(1_002_000, 1), now, now);
    });
    meet(&gate, &alive()).await;
    assert_eq!(message(), None);
    advance(Duration::from_secs(2)).await;
    assert_eq!(message().unwrap().report[0], "a");
}

#[tokio::test(start_paused = true)]
async fn reports_each_call_once_after_redis_lost_state() {
    let gate = paced_at(600);
    gate.with_lane(JUDGE, |lane, now| {
        lane.follow(Rule::Together);
        lane.adopt(&open_lane(1_000_000, 1), now, now);
    });
    for _ in 0..2 {
        meet(&gate, &alive()).await;
        advance(Duration::from_secs(1)).await;
    }
    gate.with_lane(JUDGE, |lane, now| {
        // The report is lost together with the state.
        let _ = lane.message(now);
        lane.follow(Rule::Part { workers: 1 });
    });
    for _ in 0..3 {
        meet(&gate, &alive()).await;
        advance(Duration::from_secs(1)).await;
    }
    let told = gate.with_lane(JUDGE, |lane, now| {
        lane.follow(Rule::Together);
        lane.adopt(&open_lane(1_010_000, 2), now, now);
        lane.message(now).unwrap().report
    });
    let requests = reported_calls(&told)
        .iter()
        .map(|call| call[2])
        .sum::<i64>();
    assert_eq!(requests, 5, "{told:?}");
}
