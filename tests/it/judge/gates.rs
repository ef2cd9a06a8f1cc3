//! Rules of the gate: in one process, over Redis, and across three processes.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use gavel::judge::ErrorClass;
use gavel::judge::gate::{
    BreakerState, CallEnd, CallOutcome, Denial, Gate, GateOptions, HeldBack, LimitReport, Load,
    PaceLimits, Permit, RateReport, Sharing, Span, TokensUsed, WorkerCounts, shared_gate,
};
use gavel::redis_client::RedisClient;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::redis_server;
use crate::support::wait::eventually;

const JUDGE: &str = "openai-default";
const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(50);

struct Process {
    gate: Arc<Gate>,
    stop: CancellationToken,
    keeping: Option<JoinHandle<()>>,
}

impl Process {
    fn memory(options: GateOptions) -> Self {
        Self {
            gate: Arc::new(Gate::new(options)),
            stop: CancellationToken::new(),
            keeping: None,
        }
    }

    fn redis(url: &str, queue: &str, options: GateOptions) -> Self {
        let stop = CancellationToken::new();
        let client = RedisClient::new(url).unwrap();
        let (gate, keeping) = shared_gate(&client, queue, options, stop.clone());
        Self {
            gate,
            stop,
            keeping: Some(tokio::spawn(keeping)),
        }
    }

    async fn enter(&self, patience: Duration) -> Result<Permit, Denial> {
        self.gate.enter(JUDGE, patience, &Load::default).await
    }

    fn report(&self, permit: Permit, end: &CallEnd) {
        self.gate.report(JUDGE, permit, end);
    }

    async fn meet(&self, end: &CallEnd) {
        let permit = self.enter(SHORT).await.unwrap();
        self.report(permit, end);
        self.settled().await;
    }

    /// Waits until reports have reached the other processes.
    async fn settled(&self) {
        if self.keeping.is_some() {
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
    }

    fn breaker(&self) -> BreakerState {
        self.gate.snapshot()[0].breaker
    }

    fn die(&mut self) {
        if let Some(keeping) = self.keeping.take() {
            keeping.abort();
        }
    }

    async fn leave(mut self) {
        self.stop.cancel();
        if let Some(keeping) = self.keeping.take() {
            keeping.await.unwrap();
        }
    }
}

fn queue() -> String {
    format!("test-{}", Uuid::now_v7().simple())
}

#[expect(
    clippy::print_stderr,
    reason = "whoever runs the tests is told what they leave out"
)]
fn server() -> Option<String> {
    let url = redis_server();
    if url.is_none() {
        eprintln!("REDIS_URL names no Redis: the gate that workers share is not tested");
    }
    url
}

async fn on_both(options: GateOptions, rule: impl AsyncFn(&Process)) {
    rule(&Process::memory(options.clone())).await;
    if let Some(url) = server() {
        let process = Process::redis(&url, &queue(), options);
        rule(&process).await;
        process.leave().await;
    }
}

fn three(url: &str, options: &GateOptions) -> [Process; 3] {
    let queue = queue();
    [(); 3].map(|()| Process::redis(url, &queue, options.clone()))
}

async fn open_for(processes: &[Process; 3]) {
    for at in 0..5 {
        processes[at % 3].meet(&broken()).await;
    }
    let knows = |process: &Process| process.gate.closed(JUDGE).is_some();
    eventually(LONG, "each knows that it is open", || async {
        processes.iter().all(knows).then_some(())
    })
    .await;
}

/// Worker counts: live ones, and live ones without Redis.
fn live(alive: u32, apart: u32) -> WorkerCounts {
    WorkerCounts {
        alive,
        apart: BTreeMap::from([(JUDGE.to_owned(), apart)]),
    }
}

fn cooling(cool_down: Duration) -> GateOptions {
    GateOptions {
        cool_down,
        ..GateOptions::default()
    }
}

fn capped(cap: u32) -> GateOptions {
    GateOptions {
        max_concurrency: BTreeMap::from([(JUDGE.to_owned(), cap)]),
        ..GateOptions::default()
    }
}

fn paced(requests: Option<u64>, tokens: Option<u64>) -> GateOptions {
    let limits = PaceLimits {
        requests_per_minute: requests,
        tokens_per_minute: tokens,
    };
    GateOptions {
        paces: BTreeMap::from([(JUDGE.to_owned(), limits)]),
        ..GateOptions::default()
    }
}

fn alive() -> CallEnd {
    CallOutcome::Alive.into()
}

fn failed(class: ErrorClass, retry_after: Option<u64>) -> CallEnd {
    let outcome = CallOutcome::Failed {
        class,
        retry_after: retry_after.map(Duration::from_secs),
        message: "it said no".to_owned(),
    };
    outcome.into()
}

fn broken() -> CallEnd {
    failed(ErrorClass::Transient, None)
}

fn why(refused: Result<Permit, Denial>) -> Option<HeldBack> {
    refused.err().map(|denial| denial.why)
}

#[tokio::test]
async fn five_failures_in_a_row_open_the_breaker_and_a_probe_decides() {
    let cool_down = Duration::from_millis(500);
    on_both(cooling(cool_down), async |process| {
        for _ in 0..4 {
            process.meet(&broken()).await;
        }
        process.meet(&alive()).await;
        for _ in 0..4 {
            process.meet(&broken()).await;
        }
        assert_eq!(process.gate.closed(JUDGE), None);
        process.meet(&broken()).await;
        assert_eq!(why(process.enter(SHORT).await), Some(HeldBack::BreakerOpen));
        tokio::time::sleep(cool_down).await;
        let probe = process.enter(SHORT).await.unwrap();
        assert!(probe.probe);
        assert_eq!(why(process.enter(SHORT).await), Some(HeldBack::BreakerOpen));
        // A dropped call passes the probe to the next one.
        drop(probe);
        let probe = eventually(LONG, "another call is the probe", || async {
            process.enter(SHORT).await.ok()
        })
        .await;
        assert!(probe.probe);
        process.report(probe, &alive());
        process.settled().await;
        let next = process.enter(SHORT).await.unwrap();
        assert!(!next.probe);
        process.report(next, &alive());
        assert_eq!(process.breaker(), BreakerState::Closed);
    })
    .await;
}

#[tokio::test]
async fn pause_closes_the_lane_and_resume_opens_it() {
    on_both(GateOptions::default(), async |process| {
        process.gate.close(JUDGE, HeldBack::Paused, None);
        assert_eq!(why(process.enter(SHORT).await), Some(HeldBack::Paused));
        assert!(process.gate.room(JUDGE).is_err());
        process.gate.open(JUDGE);
        process.meet(&alive()).await;
    })
    .await;
}

#[tokio::test]
async fn retry_after_closes_the_lane_if_429s_prevail() {
    on_both(GateOptions::default(), async |process| {
        process.meet(&failed(ErrorClass::Throttled, Some(30))).await;
        assert_eq!(why(process.enter(SHORT).await), Some(HeldBack::Throttled));
    })
    .await;
}

#[tokio::test]
async fn token_estimate_of_a_minute_is_corrected_by_the_usage() {
    on_both(paced(None, Some(1_000)), async |process| {
        let load = || Load {
            prompt_tokens: 900,
            most_answer_tokens: 0,
        };
        let permit = process.gate.enter(JUDGE, SHORT, &load).await.unwrap();
        assert_eq!(
            why(process.gate.enter(JUDGE, SHORT, &load).await),
            Some(HeldBack::Paced)
        );
        let used = Some(TokensUsed {
            input: 1,
            output: 0,
        });
        process.report(permit, &CallEnd { used, ..alive() });
        process.settled().await;
        assert!(process.gate.enter(JUDGE, SHORT, &load).await.is_ok());
    })
    .await;
}

#[tokio::test]
async fn no_call_leaves_while_a_reply_reports_an_empty_limit() {
    on_both(GateOptions::default(), async |process| {
        let requests = LimitReport {
            limit: Some(60),
            remaining: Some(0),
            resets_in: Some(Duration::from_secs(40)),
            span: Span::Unsaid,
        };
        let rates = RateReport {
            requests,
            ..RateReport::default()
        };
        process.meet(&CallEnd { rates, ..alive() }).await;
        assert_eq!(why(process.enter(SHORT).await), Some(HeldBack::Paced));
        assert_eq!(process.gate.room(JUDGE).unwrap().starts, Some(0));
    })
    .await;
}

#[tokio::test]
async fn one_probe_is_sent_per_cluster() {
    let Some(url) = server() else { return };
    let processes = three(&url, &cooling(Duration::from_millis(700)));
    open_for(&processes).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    let mut asking = tokio::task::JoinSet::new();
    for process in &processes {
        for _ in 0..20 {
            let gate = process.gate.clone();
            asking.spawn(async move { gate.enter(JUDGE, SHORT, &Load::default).await });
        }
    }
    let mut probes: Vec<Permit> = asking.join_all().await.into_iter().flatten().collect();
    assert_eq!(probes.len(), 1);
    let probe = probes.remove(0);
    assert!(probe.probe);
    // Longer than the state poll: the probe stays exclusive while its call is in flight.
    tokio::time::sleep(Duration::from_millis(600)).await;
    for process in &processes {
        assert_eq!(why(process.enter(SHORT).await), Some(HeldBack::BreakerOpen));
    }
    drop(probe);
    eventually(LONG, "another one may probe", || async {
        processes[1]
            .enter(SHORT)
            .await
            .ok()
            .filter(|probe| probe.probe)
    })
    .await;
}

#[tokio::test]
async fn calls_stay_within_the_cap_and_each_process_gets_some() {
    let Some(url) = server() else { return };
    for cap in [1, 7, 64] {
        let processes = three(&url, &capped(cap));
        let out = Arc::new(std::sync::Mutex::new((0_u32, 0_u32)));
        let made = Arc::new(std::sync::Mutex::new([0_u32; 3]));
        let enough = CancellationToken::new();
        let mut calls = tokio::task::JoinSet::new();
        for (number, process) in processes.iter().enumerate() {
            for _ in 0..40 {
                let (gate, out, made) = (process.gate.clone(), out.clone(), made.clone());
                let enough = enough.clone();
                calls.spawn(async move {
                    while !enough.is_cancelled() {
                        let patience = Duration::from_secs(3);
                        let Ok(permit) = gate.enter(JUDGE, patience, &Load::default).await else {
                            continue;
                        };
                        {
                            let mut out = out.lock().unwrap();
                            out.0 += 1;
                            out.1 = out.1.max(out.0);
                        }
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        out.lock().unwrap().0 -= 1;
                        gate.report(JUDGE, permit, &CallOutcome::Alive.into());
                        made.lock().unwrap()[number] += 1;
                    }
                });
            }
        }
        // With one slot, each process has its turn of 2 s.
        eventually(LONG, "each process makes calls", || async {
            let made = *made.lock().unwrap();
            (made.iter().sum::<u32>() >= 300 && !made.contains(&0)).then_some(())
        })
        .await;
        enough.cancel();
        calls.join_all().await;
        let most = out.lock().unwrap().1;
        assert!(most <= cap, "{most} of {cap}");
        if cap == 64 {
            assert_eq!(most, cap, "all slots are used");
        }
    }
}

#[tokio::test]
async fn crashed_process_releases_slots_and_probe_within_a_lease() {
    let Some(url) = server() else { return };
    let options = GateOptions {
        lease: Duration::from_secs(2),
        ..capped(2)
    };
    let mut processes = three(&url, &options);
    let first = processes[0].enter(LONG).await.unwrap();
    let second = processes[0].enter(LONG).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(why(processes[1].enter(SHORT).await), Some(HeldBack::Busy));
    processes[0].die();
    let begun = Instant::now();
    let third = processes[1].enter(LONG).await;
    assert!(third.is_ok(), "{:?}", third.err());
    assert!(begun.elapsed() < Duration::from_secs(8));
    drop((first, second));
}

#[tokio::test]
async fn leaving_process_releases_all_it_reserved() {
    let Some(url) = server() else { return };
    let [one, two, three] = three(&url, &capped(1));
    drop(one.enter(LONG).await.unwrap());
    one.leave().await;
    let begun = Instant::now();
    let slot = two.enter(LONG).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5));
    drop(slot);
    two.leave().await;
    three.leave().await;
}

#[tokio::test]
async fn leaving_process_releases_the_probe_of_a_hanging_call() {
    let Some(url) = server() else { return };
    let processes = three(&url, &cooling(Duration::from_millis(500)));
    open_for(&processes).await;
    let hangs = eventually(LONG, "one call is the probe", || async {
        processes[0].enter(SHORT).await.ok()
    })
    .await;
    assert!(hangs.probe);
    let [one, two, three] = processes;
    one.leave().await;
    let next = eventually(LONG, "another one may probe", || async {
        two.enter(SHORT).await.ok()
    })
    .await;
    assert!(next.probe);
    drop((hangs, next));
    two.leave().await;
    three.leave().await;
}

#[tokio::test]
async fn breaker_stays_open_after_redis_loses_its_keys() {
    let Some(url) = server() else { return };
    let queue = queue();
    let processes =
        [(); 3].map(|()| Process::redis(&url, &queue, cooling(Duration::from_secs(60))));
    open_for(&processes).await;
    let client = redis::Client::open(url.as_str()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let key = |name: &str| format!("{{gavel:{queue}:gate:{JUDGE}}}:{name}");
    let mut forgets = redis::cmd("DEL");
    forgets.arg(key("state")).arg(key("members"));
    let gone: i64 = forgets.query_async(&mut connection).await.unwrap();
    assert_eq!(gone, 2);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        for process in &processes {
            assert_eq!(why(process.enter(SHORT).await), Some(HeldBack::BreakerOpen));
        }
        processes[0].settled().await;
    }
    let mut look = redis::cmd("HGET");
    look.arg(key("state")).arg("breaker");
    let breaker: String = look.query_async(&mut connection).await.unwrap();
    assert_eq!(breaker, "o", "whoever starts now hears of it");
}

#[tokio::test]
async fn three_processes_share_one_pace() {
    let Some(url) = server() else { return };
    let processes = three(&url, &paced(Some(615), None));
    let begun = Instant::now();
    let mut calls = tokio::task::JoinSet::new();
    for process in &processes {
        for _ in 0..10 {
            let gate = process.gate.clone();
            calls.spawn(async move {
                let mut left = Vec::new();
                while begun.elapsed() < Duration::from_secs(5) {
                    if let Ok(permit) = gate.enter(JUDGE, LONG, &Load::default).await {
                        left.push(begun.elapsed());
                        gate.report(JUDGE, permit, &CallOutcome::Alive.into());
                    }
                }
                left
            });
        }
    }
    let mut left: Vec<Duration> = calls.join_all().await.into_iter().flatten().collect();
    left.retain(|at| *at < Duration::from_secs(5));
    assert!((45..=52).contains(&left.len()), "{} in 5 s", left.len());
}

#[tokio::test]
async fn limits_in_a_reply_apply_to_all_processes() {
    let Some(url) = server() else { return };
    let processes = three(&url, &GateOptions::default());
    let requests = LimitReport {
        limit: Some(60),
        remaining: Some(30),
        resets_in: Some(Duration::from_secs(30)),
        span: Span::Unsaid,
    };
    let rates = RateReport {
        requests,
        ..RateReport::default()
    };
    processes[0].meet(&CallEnd { rates, ..alive() }).await;
    processes[2].meet(&alive()).await;
    let learned = processes[2].gate.snapshot()[0].pace.requests.learned;
    assert_eq!(learned, Some(60));
    processes[1]
        .meet(&failed(ErrorClass::Throttled, Some(30)))
        .await;
    eventually(LONG, "a Retry-After is heard of", || async {
        let denial = processes[2].gate.closed(JUDGE)?;
        (denial.why == HeldBack::Throttled).then_some(())
    })
    .await;
}

struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(port: Option<u16>) -> Option<Self> {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = port.unwrap_or(free.local_addr().unwrap().port());
        drop(free);
        let child = Command::new("redis-server")
            .args(["--save", "", "--bind", "127.0.0.1", "--port"])
            .arg(port.to_string())
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        Some(Self { child, port })
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[tokio::test]
async fn without_redis_each_process_uses_its_share_and_reports_it() {
    let Some(_) = server() else { return };
    let Some(server) = Server::start(None) else {
        return;
    };
    let port = server.port;
    let processes = three(&server.url(), &capped(6));
    eventually(LONG, "they share it", || async {
        let _held = processes[0].enter(LONG).await.ok()?;
        (processes[0].gate.snapshot()[0].sharing == Sharing::Together).then_some(())
    })
    .await;
    for process in &processes {
        process.gate.live_workers(live(3, 0));
    }
    drop(server);
    eventually(LONG, "each has its part", || async {
        let _held = processes[0].enter(LONG).await.ok()?;
        let sharing = processes[0].gate.snapshot()[0].sharing;
        (sharing == Sharing::Part { workers: 3 }).then_some(())
    })
    .await;
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(processes[0].enter(LONG).await.unwrap());
    }
    assert_eq!(why(processes[0].enter(SHORT).await), Some(HeldBack::Busy));
    let _server = Server::start(Some(port)).unwrap();
    eventually(LONG, "they share it again", || async {
        let _third = processes[0].enter(Duration::from_secs(2)).await.ok()?;
        (processes[0].gate.snapshot()[0].sharing == Sharing::Together).then_some(())
    })
    .await;
    drop(held);
}

#[tokio::test]
async fn calls_during_a_redis_outage_delay_no_call_after_it() {
    let Some(_) = server() else { return };
    for options in [paced(Some(600), None), paced(None, Some(600))] {
        let Some(server) = Server::start(None) else {
            return;
        };
        let port = server.port;
        let process = Process::redis(&server.url(), &queue(), options);
        let one = || Load {
            prompt_tokens: 1,
            most_answer_tokens: 0,
        };
        let goes = async |patience: Duration| {
            let permit = process.gate.enter(JUDGE, patience, &one).await.ok()?;
            process.report(permit, &alive());
            Some(process.gate.snapshot()[0].sharing)
        };
        eventually(LONG, "it is together", || async {
            (goes(LONG).await? == Sharing::Together).then_some(())
        })
        .await;
        drop(server);
        eventually(LONG, "it goes by its part", || async {
            (goes(LONG).await? == Sharing::Part { workers: 1 }).then_some(())
        })
        .await;
        // Calls for four seconds.
        for _ in 0..40 {
            assert!(goes(LONG).await.is_some());
        }
        let _server = Server::start(Some(port)).unwrap();
        eventually(LONG, "it is back", || async {
            (process.gate.snapshot()[0].sharing == Sharing::Together).then_some(())
        })
        .await;
        for _ in 0..10 {
            assert!(goes(Duration::from_secs(1)).await.is_some());
        }
    }
}

#[tokio::test]
async fn use_before_a_redis_outage_of_others_delays_no_call() {
    let Some(url) = server() else { return };
    let process = Process::redis(&url, &queue(), paced(None, Some(600)));
    let of = |tokens| {
        move || Load {
            prompt_tokens: tokens,
            most_answer_tokens: 0,
        }
    };
    let first = process.gate.enter(JUDGE, LONG, &of(330)).await;
    process.report(first.unwrap(), &alive());
    process.gate.live_workers(live(2, 1));
    let refused = process.gate.enter(JUDGE, SHORT, &of(30)).await;
    let wait = refused.err().unwrap().retry_in.unwrap();
    // The interval of the pace for the first call, rather than the minute after which its use expires.
    assert!(wait < Duration::from_secs(40), "{wait:?}");
    process.leave().await;
}

#[tokio::test]
async fn idle_worker_sees_that_the_breaker_opened() {
    let Some(url) = server() else { return };
    let [busy, idle, _] = three(&url, &GateOptions::default());
    idle.gate.close(JUDGE, HeldBack::Exhausted, None);
    idle.gate.open(JUDGE);
    for _ in 0..5 {
        busy.meet(&broken()).await;
    }
    eventually(LONG, "it hears of it", || async {
        (idle.breaker() == BreakerState::Open).then_some(())
    })
    .await;
}

#[tokio::test]
async fn failures_of_one_worker_wait_for_the_results_of_others() {
    let Some(url) = server() else { return };
    let [failing, answered, _] = three(&url, &GateOptions::default());
    let knows = |failures, state| {
        let failing = &failing;
        eventually(LONG, "it hears how the lane stands", move || async move {
            let lane = failing.gate.snapshot().remove(0);
            (lane.failures_in_row == failures && lane.breaker == state).then_some(())
        })
    };
    // Concurrent, so that they are reported together.
    let fails = async || {
        let mut out = Vec::new();
        for _ in 0..5 {
            out.push(failing.enter(LONG).await.unwrap());
        }
        for permit in out {
            failing.report(permit, &broken());
        }
    };
    // It has the lane, and reports no result of it.
    failing.gate.close(JUDGE, HeldBack::Exhausted, None);
    failing.gate.open(JUDGE);
    let out = answered.enter(SHORT).await.unwrap();
    // Reports of these include that the previous call is still in flight.
    answered.meet(&broken()).await;
    knows(1, BreakerState::Closed).await;
    answered.meet(&alive()).await;
    knows(0, BreakerState::Closed).await;
    fails().await;
    knows(5, BreakerState::Closed).await;
    answered.report(out, &alive());
    knows(0, BreakerState::Closed).await;
    // No other process has a call in flight, so the report isn't delayed.
    fails().await;
    knows(5, BreakerState::Open).await;
}

#[tokio::test]
async fn workers_with_redis_leave_a_share_to_those_without() {
    let Some(url) = server() else { return };
    let process = Process::redis(&url, &queue(), capped(6));
    let held = std::sync::Mutex::new(Vec::new());
    for _ in 0..6 {
        let permit = process.enter(LONG).await.unwrap();
        held.lock().unwrap().push(permit);
    }
    process.gate.live_workers(live(3, 1));
    // Calls in flight above the share are given back as they end.
    let refused = eventually(LONG, "two thirds are shared", || async {
        held.lock().unwrap().truncate(4);
        match process.enter(Duration::from_secs(2)).await {
            Ok(permit) => held.lock().unwrap().push(permit),
            refused => return why(refused),
        }
        None
    })
    .await;
    assert_eq!(refused, HeldBack::Busy);
    process.gate.live_workers(live(3, 0));
    let more = [
        process.enter(LONG).await.unwrap(),
        process.enter(LONG).await.unwrap(),
    ];
    assert_eq!(why(process.enter(SHORT).await), Some(HeldBack::Busy));
    drop((held, more));
    process.leave().await;
}

#[tokio::test]
async fn probe_without_a_reporter_leaves_the_lane_open_to_others() {
    let Some(_) = server() else { return };
    let Some(server) = Server::start(None) else {
        return;
    };
    let cool_down = Duration::from_millis(500);
    let processes = three(&server.url(), &cooling(cool_down));
    for process in &processes {
        process.gate.live_workers(live(3, 0));
        eventually(LONG, "they share it", || async {
            let _held = process.enter(LONG).await.ok()?;
            (process.gate.snapshot()[0].sharing == Sharing::Together).then_some(())
        })
        .await;
    }
    open_for(&processes).await;
    let hangs = eventually(LONG, "one call is the probe", || async {
        processes[1].enter(SHORT).await.ok()
    })
    .await;
    assert!(hangs.probe);
    eventually(LONG, "the others know of it", || async {
        // Each request returns the current state.
        let _ = processes[2].enter(SHORT).await;
        (processes[2].breaker() == BreakerState::HalfOpen).then_some(())
    })
    .await;
    drop(server);
    let own = eventually(LONG, "each probes for itself", || async {
        processes[2].enter(SHORT).await.ok()
    })
    .await;
    assert!(own.probe);
    drop(hangs);
}

#[tokio::test]
async fn redis_clock_jump_backwards_closes_no_lane() {
    let Some(url) = server() else { return };
    let queue = queue();
    let process = Process::redis(&url, &queue, GateOptions::default());
    process.meet(&alive()).await;
    process.leave().await;
    // State left by a server with a clock an hour ahead: its breaker has just opened.
    let ahead = "local now = redis.call('TIME')[1] * 1000 + 3600000
        redis.call('HSET', KEYS[1], 'seen', now, 'breaker', 'o', 'until', now + 30000)";
    let mut connection = redis::Client::open(url.as_str())
        .unwrap()
        .get_multiplexed_async_connection()
        .await
        .unwrap();
    let key = format!("{{gavel:{queue}:gate:{JUDGE}}}:state");
    let script = redis::Script::new(ahead);
    let () = script.key(key).invoke_async(&mut connection).await.unwrap();
    let process = Process::redis(&url, &queue, GateOptions::default());
    // Via Redis; otherwise it would use its local state.
    eventually(LONG, "it goes by what Redis says", || async {
        let _asked = process.enter(SHORT).await;
        (process.gate.snapshot()[0].sharing == Sharing::Together).then_some(())
    })
    .await;
    process.settled().await;
    assert_eq!(process.breaker(), BreakerState::Closed);
    let permit = process.enter(SHORT).await.unwrap();
    assert!(!permit.probe);
}
