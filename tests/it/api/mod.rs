//! API over real HTTP and a real store. No worker runs: tests set up states through the store.

mod analytics;
mod answers;
mod auth;
mod bad_input;
mod batch_items;
mod batch_reports;
mod batches;
mod calibration;
mod connections;
mod costs;
mod criteria_compare;
#[path = "../dashboard/mod.rs"]
mod dashboard;
mod deleting;
mod document;
mod events;
mod exports;
mod fakes;
mod holds;
mod idempotency;
mod imports;
mod jobs;
mod lists;
mod memory;
mod new_job;
mod operate;
mod pages;
mod panels;
mod post_score;
mod ratings;
mod read_score;
mod rescore;
mod schema;
mod session_files;
mod webhooks;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gavel::api::{ApiParts, Leaving, Pages, SpendingCaps, Streams, Tokens, router, serve};
use gavel::clock::{Clock, SystemClock};
use gavel::config::{AuthSettings, HttpSettings, ProxySettings};
use gavel::enqueue::{Enqueue, EnqueueParts, ScorableStatus};
use gavel::events::{Announcer, Feed, announcer};
use gavel::history::imports::{HistoryOptions, Imports};
use gavel::history::tarsy::Address;
use gavel::job::{
    Failure, FailureClass, Job, JobId, Kind, NewJob, Priority, Purpose, Usage, Wait, WaitReason,
};
use gavel::memory::MemoryBudget;
use gavel::score::Criteria;
use gavel::score::session::{AlternativeApproach, Flag, MissingTool, SessionScore};
use gavel::store::{
    Accepted, Ending, Fence, Heartbeat, NewEvaluation, NewSessionScore, Record, Recorded, Store,
};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::support::client::score_path;
use crate::support::{TestStore, sqlite};
use fakes::{Condition, Pushed};

struct Setup {
    http: HttpSettings,
    memory: MemoryBudget,
    auth: AuthSettings,
    criteria: Value,
    bind: Option<SocketAddr>,
    judges: gavel::api::JudgeNames,
    tarsy: Option<&'static str>,
    score_only: ScorableStatus,
    caps: SpendingCaps,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            http: HttpSettings {
                max_connections: 768,
                header_timeout_s: 20,
                idle_timeout_s: 75,
                body_timeout_s: 30,
                max_body_bytes: 8 << 20,
                max_batch_bytes: 32 << 20,
                max_json_depth: 64,
                max_wait_s: 60,
                score_query_wait_s: 150,
                max_streams: 2,
                drain_delay_s: 0,
                allowed_hosts: Vec::new(),
                trusted_proxies: vec!["127.0.0.0/8".to_owned(), "::1/128".to_owned()],
            },
            memory: MemoryBudget::new(512 << 20),
            auth: AuthSettings {
                tokens: Vec::new(),
                tokens_file: String::new(),
                insecure_no_auth: false,
                sign_in_hours: 12,
                proxy: ProxySettings {
                    groups_header: "X-Forwarded-Groups".to_owned(),
                    groups: Vec::new(),
                },
            },
            criteria: criteria("judge-a", "Judge it."),
            bind: None,
            judges: Arc::new(|| ["judge-a", "judge-b", "no-key"].map(str::to_owned).to_vec()),
            tarsy: Some("https://tarsy.example.com"),
            score_only: ScorableStatus::Ended,
            caps: SpendingCaps::default(),
        }
    }
}

fn criteria(judge: &str, opening: &str) -> Value {
    json!({
        "scoring": { "enabled": true, "llm_provider": judge },
        "judge_prompt": format!("{opening} {{{{SESSION_CONVERSATION}}}} {{{{ALERT_DATA}}}} {{{{OUTPUT_SCHEMA}}}}"),
    })
}

fn imports(store: Arc<Store>, tarsy: Option<&str>) -> Arc<Imports> {
    let options = HistoryOptions {
        base: tarsy.map(|url| Address::parse(url).unwrap()),
        token: None,
        requests_per_second: 2.0,
        timeout: Duration::from_secs(1),
        max_retries: 0,
        first_delay: Duration::ZERO,
        stale_after: Duration::from_secs(5),
    };
    Imports::new(store, Arc::new(SystemClock), options)
}

struct Server {
    base: String,
    client: reqwest::Client,
    db: TestStore,
    enqueue: Arc<Enqueue>,
    queue: Arc<Pushed>,
    health: Arc<Condition>,
    events: Announcer,
    feed: Arc<Feed>,
    streams: Streams,
    stopping: CancellationToken,
    worker_id: Uuid,
    _tasks: JoinSet<()>,
}

impl Server {
    async fn over(db: TestStore) -> Self {
        Self::start(db, Setup::default()).await
    }

    async fn with(setup: Setup) -> Self {
        Self::start(sqlite().await, setup).await
    }

    async fn start(db: TestStore, setup: Setup) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let bound = listener.local_addr().unwrap();
        let (queue, health) = (Arc::new(Pushed::default()), Arc::new(Condition::default()));
        let (feed, stopping) = (Arc::new(Feed::new()), CancellationToken::new());
        let (events, announcing) = announcer(
            feed.clone(),
            Arc::new(SystemClock),
            CancellationToken::new(),
        );
        let streams = Streams::new(feed.clone(), setup.http.max_streams, stopping.clone());
        let (enqueue, pushing) = Enqueue::new(
            EnqueueParts {
                store: db.store.clone(),
                queue: queue.clone(),
                clock: Arc::new(SystemClock),
                events: events.clone(),
                providers: fakes::providers(),
                history: None,
            },
            crate::support::criteria::current(&setup.criteria),
            setup.score_only,
            CancellationToken::new(),
        );
        let pages = gavel::dashboard::pages(gavel::dashboard::About {
            clock: Arc::new(SystemClock),
            settings: Vec::new(),
        });
        let parts = ApiParts {
            store: db.store.clone(),
            enqueue: enqueue.clone(),
            imports: imports(db.store.clone(), setup.tarsy),
            clock: Arc::new(SystemClock),
            http: setup.http,
            auth: setup.auth,
            tokens: Tokens::default(),
            health: health.clone(),
            metrics: Some(Arc::new(|| "gavel_up 1\n".to_owned())),
            judges: setup.judges,
            fallback_of: Arc::new(|judge| (judge == "judge-a").then(|| "judge-b".to_owned())),
            caps: setup.caps,
            max_wait: Duration::from_secs(86_400),
            events: events.clone(),
            streams: streams.clone(),
            keyed: TaskTracker::new(),
            memory: setup.memory,
            bind: setup.bind.unwrap_or(bound),
        };
        let leaving = Leaving {
            draining: CancellationToken::new(),
            answers_on: Duration::ZERO,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(pushing);
        tasks.spawn(announcing);
        tasks.spawn(async move { serve(listener, parts, pages, leaving).await.unwrap() });
        Self {
            base: format!("http://{bound}"),
            client: reqwest::Client::builder()
                .no_proxy()
                .redirect(reqwest::redirect::Policy::none())
                .build()
                .unwrap(),
            db,
            enqueue,
            queue,
            health,
            events,
            feed,
            streams,
            stopping,
            worker_id: Uuid::now_v7(),
            _tasks: tasks,
        }
    }

    fn store(&self) -> &Store {
        &self.db.store
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    fn get(&self, path: &str) -> RequestBuilder {
        self.request(Method::GET, path)
    }

    fn post(&self, path: &str) -> RequestBuilder {
        self.request(Method::POST, path)
    }

    async fn json_of(&self, path: &str) -> Value {
        json_of(self.get(path).send().await.unwrap(), 200).await
    }

    /// Stores a session that has ended; returns its id.
    async fn session(&self) -> Uuid {
        self.session_with(json!({})).await
    }

    /// Stores an ended session with these fields replaced.
    async fn session_with(&self, fields: Value) -> Uuid {
        let id = Uuid::now_v7();
        let mut body = session_body();
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        let put = self
            .request(Method::PUT, &format!("/api/v1/sessions/{id}"))
            .json(&body);
        json_of(put.send().await.unwrap(), 201).await;
        id
    }

    /// Posts without a body; returns the response body, which must have this status.
    async fn posted(&self, path: &str, status: u16) -> Value {
        json_of(self.post(path).send().await.unwrap(), status).await
    }

    async fn text_of(&self, path: &str) -> String {
        let answer = self.get(path).send().await.unwrap();
        answer.text().await.unwrap()
    }

    async fn ask(&self, session: Uuid) -> Response {
        self.post(&score_path(session)).send().await.unwrap()
    }

    async fn request_score_with(&self, session: Uuid, body: Value) -> Response {
        let asked = self.post(&score_path(session)).json(&body);
        asked.send().await.unwrap()
    }

    async fn force(&self, session: Uuid) -> Response {
        self.request_score_with(session, json!({ "force_rescore": true }))
            .await
    }

    async fn queued_session(&self) -> (Uuid, JobId) {
        let session = self.session().await;
        (session, self.queued(session).await)
    }

    async fn queued(&self, session: Uuid) -> JobId {
        let body = json_of(self.ask(session).await, 202).await;
        job_id(&body)
    }

    async fn job(&self, id: JobId) -> Job {
        self.store().jobs().get(id).await.unwrap().unwrap()
    }

    /// Records a heartbeat of the worker that runs the tests' jobs.
    async fn heartbeat(&self) {
        let beat = crate::support::beat(self.worker_id, "test");
        crate::support::heartbeat(self.store(), &beat).await;
    }

    async fn claim(&self, id: JobId) -> Job {
        self.heartbeat().await;
        let claimed = self
            .store()
            .jobs()
            .claim(&[id], self.worker_id, SystemClock.now())
            .await
            .unwrap();
        assert_eq!(claimed.len(), 1, "job {id} could not be claimed");
        claimed.into_iter().next().unwrap()
    }

    async fn record(&self, job: &Job, ending: Ending) {
        let record = Record {
            fence: Fence {
                job_id: job.job_id,
                claim_no: job.claim_no,
                worker_id: self.worker_id,
            },
            ending,
            retries: 1,
            usage: Usage {
                tokens_in: 1_200,
                tokens_out: 300,
                cost_usd: Some(0.25),
            },
            at: SystemClock.now(),
        };
        let define = format!(
            "insert into scoring_criteria_definitions (criteria_hash, kind, criteria_content, created_at)
             values ('{}', 'session', '{{}}', '2026-01-01T00:00:00.000000+00:00') on conflict do nothing",
            job.criteria_hash
        );
        crate::support::execute(&self.db.url, define.leak())
            .await
            .unwrap();
        let ticket = self.store().jobs().record(record).await.unwrap();
        assert_eq!(ticket.committed().await.unwrap(), Recorded::Applied);
    }

    async fn evaluated(&self, job: &Job, score: NewEvaluation, result: Value) {
        let ending = Ending::Evaluated {
            score: Box::new(score),
            result,
            failure: None,
        };
        self.record(job, ending).await;
    }

    async fn succeed(&self, id: JobId, total: u8) -> Uuid {
        self.succeed_with(id, session_score(total)).await
    }

    async fn succeed_with(&self, id: JobId, score: SessionScore) -> Uuid {
        let job = self.claim(id).await;
        let total = score.total_score;
        let score = NewSessionScore {
            score_id: Uuid::now_v7(),
            session_id: job.subject_id.unwrap(),
            criteria_hash: job.criteria_hash.clone(),
            purpose: job.purpose,
            score,
            triggered_by: job.triggered_by.clone(),
        };
        let score_id = score.score_id;
        let result = json!({ "total_score": total });
        self.record(
            &job,
            Ending::Scored {
                score: Box::new(score),
                result,
            },
        )
        .await;
        score_id
    }

    async fn fail(&self, id: JobId) {
        let job = self.claim(id).await;
        let failure = Failure {
            class: FailureClass::Unparsable,
            message: "the reply was not what the schema asks for".to_owned(),
        };
        self.record(&job, Ending::Failed(failure)).await;
    }

    async fn make_wait(&self, id: JobId) {
        let job = self.claim(id).await;
        let until = SystemClock.now() + chrono::Duration::seconds(30);
        let wait = Wait {
            reason: WaitReason::BreakerOpen,
            until: Some(until),
        };
        self.record(
            &job,
            Ending::Waiting {
                wait,
                due_at: until,
            },
        )
        .await;
    }

    async fn scored(&self, total: u8) -> (Uuid, Uuid) {
        let session = self.session().await;
        let job = self.queued(session).await;
        (session, self.succeed(job, total).await)
    }

    fn new_bulk(&self, session: Uuid) -> NewJob {
        let options = crate::support::in_bulk("batch");
        NewJob {
            criteria_hash: self.enqueue.current_criteria().hash.0.clone(),
            ..NewJob::of_session(session, "judge-a".to_owned(), options, SystemClock.now())
        }
    }

    async fn bulk(&self, session: Uuid) -> JobId {
        let job = self.new_bulk(session);
        let id = job.job_id;
        assert_eq!(
            self.store().jobs().accept(job).await.unwrap(),
            Accepted::New
        );
        id
    }

    async fn other_criteria(&self) -> String {
        let body = criteria("judge-b", "Judge it otherwise.");
        let added = self
            .post("/api/v1/scoring/criteria")
            .json(&body)
            .send()
            .await
            .unwrap();
        let body: Value = added.json().await.unwrap();
        body["criteria_hash"].as_str().unwrap().to_owned()
    }
}

fn session_body() -> Value {
    json!({
        "status": "completed",
        "alert_type": "PodCrashLooping",
        "agent": "kube-agent",
        "alert_data": { "pod": "web-1" },
        "conversation": [
            { "role": "user", "content": "Pod web-1 restarts." },
            { "role": "assistant", "content": "I read its log.", "tool_name": "logs.get" },
        ],
        "final_analysis": "Out of memory.",
        "tools": ["logs.get"],
        "tags": ["prod"],
        "started_at": "2026-01-02T03:04:05Z",
        "completed_at": "2026-01-02T03:14:05Z",
    })
}

fn session_score(total: u8) -> SessionScore {
    SessionScore {
        total_score: total,
        score_breakdown: serde_json::from_value(
            json!({ "note": "late", "consistency": 12.0, "logical_flow": 20.5 }),
        )
        .unwrap(),
        score_reasoning: "It stopped early.".to_owned(),
        missing_tools: vec![MissingTool {
            tool_name: "metrics.query".to_owned(),
            rationale: "Memory over time.".to_owned(),
        }],
        alternative_approaches: vec![AlternativeApproach {
            name: "Events first".to_owned(),
            description: "Ask for events before logs.".to_owned(),
            steps: vec!["events.list".to_owned(), "logs.get".to_owned()],
        }],
        flags: vec![Flag::TotalNotSum],
        judge_provider: "judge-a".to_owned(),
        judge_model: "model-1".to_owned(),
        simulated: false,
    }
}

/// Grades of a real judge for a case with this total; the pass threshold is 0.9.
fn evaluation(job: &Job, total: Option<f64>) -> NewEvaluation {
    NewEvaluation {
        score_id: Uuid::now_v7(),
        kind: job.kind,
        batch: job.batch,
        criteria_hash: job.criteria_hash.clone(),
        total,
        passed: total.map(|total| total >= 0.9),
        threshold: Some(0.9),
        components: json!({ "schema_match": 1.0 }),
        error: None,
        simulated: false,
    }
}

fn job_id(body: &Value) -> JobId {
    body["job_id"].as_str().unwrap().parse().unwrap()
}

async fn json_of(response: Response, status: u16) -> Value {
    let got = response.status();
    let path = response.url().path().to_owned();
    let text = response.text().await.unwrap();
    assert_eq!(got.as_u16(), status, "{text}");
    let body = serde_json::from_str(&text).unwrap();
    schema::check_answer(&path, status, &body);
    body
}

/// Returns a problem document, which must have this status and type.
async fn problem_of(response: Response, status: u16, slug: &str) -> Value {
    let media = header(&response, "content-type");
    let path = response.url().path().to_owned();
    let id = header(&response, "x-request-id");
    let body = json_of(response, status).await;
    assert_eq!(media.as_deref(), Some("application/problem+json"), "{body}");
    assert_eq!(body["type"], format!("urn:gavel:problem:{slug}"), "{body}");
    assert_eq!(body["status"], status, "{body}");
    assert_eq!(body["instance"], path, "{body}");
    assert_eq!(body["request_id"].as_str(), id.as_deref(), "{body}");
    assert!(
        !body["title"].as_str().unwrap().is_empty() && !body["detail"].as_str().unwrap().is_empty()
    );
    body
}

fn header(response: &Response, name: &str) -> Option<String> {
    let value = response.headers().get(name)?;
    Some(value.to_str().unwrap().to_owned())
}

fn pointers(problem: &Value) -> Vec<&str> {
    let errors = problem["errors"].as_array().unwrap();
    errors
        .iter()
        .map(|error| error["pointer"].as_str().unwrap())
        .collect()
}

fn keys(body: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = body
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    keys
}

fn sorted<const N: usize>(mut names: [&str; N]) -> Vec<&str> {
    names.sort_unstable();
    names.to_vec()
}

const OK: StatusCode = StatusCode::OK;
