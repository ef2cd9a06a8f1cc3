//! Service with data of each kind, created the same way on each run: `gavel up` as a process over SQLite with a
//! concurrency of one job. The wall clock of each process advances only between requests.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use chrono::{NaiveDateTime, TimeDelta};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::mask::Mask;
use crate::support::client::{Api, PATIENCE, id_of};
use crate::support::home::{Home, JUDGE, built_in};
use crate::support::judge_server::{Call, JudgeServer, Reply, good_reply};
use crate::support::process::{self, Process, clock_at, free_address};
use crate::support::wait::eventually;

/// Time at which sessions are scored.
const FIRST_DAY: &str = "2030-03-01T09:00:00";
/// Time at which suites run and sessions are rescored.
const SECOND_DAY: &str = "2030-03-03T15:30:00";
/// Time at which tests read the data.
pub(crate) const LAST_DAY: &str = "2030-03-05T12:00:00";

pub(crate) struct Output {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn gavel(dir: &Path, env: &[(String, String)], args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gavel"));
    let environment = env.iter().map(|(name, value)| (name, value));
    command.args(args).env_clear().envs(environment);
    let output = command.current_dir(dir).stdin(Stdio::null()).output();
    let output = output.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Output {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Frozen wall clock, set by the test through a file that processes read (libfaketime).
pub(crate) struct Clock {
    file: PathBuf,
    time: NaiveDateTime,
}

impl Clock {
    /// Creates a clock in a folder; `None` without libfaketime.
    pub(crate) fn at(dir: &Path, time: &str) -> Option<Self> {
        clock_at("+0")?;
        let mut clock = Self {
            file: dir.join("time"),
            time: NaiveDateTime::default(),
        };
        clock.set(time);
        Some(clock)
    }

    fn set(&mut self, time: &str) {
        self.time = time.parse().unwrap();
        self.write();
    }

    /// Advances by one second, less than the heartbeat timeout of a worker.
    fn tick(&mut self) {
        self.time += TimeDelta::seconds(1);
        self.write();
    }

    fn write(&self) {
        let new = self.file.with_extension("new");
        std::fs::write(&new, self.time.format("%F %T").to_string()).unwrap();
        std::fs::rename(&new, &self.file).unwrap();
    }

    pub(crate) fn env(&self) -> Vec<(String, String)> {
        let mut env = clock_at("+0").unwrap();
        env.remove("FAKETIME");
        let file = self.file.display().to_string();
        let more = [
            ("FAKETIME_TIMESTAMP_FILE", file.as_str()),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("TZ", "UTC"),
        ];
        env.extend(more.map(|(name, value)| (name.to_owned(), value.to_owned())));
        env.into_iter().collect()
    }
}

#[derive(Default)]
pub(crate) struct Stored {
    /// Scored; the first one under two versions of the criteria.
    pub(crate) sessions: Vec<Uuid>,
    /// From `examples/sessions`: two scored, one in progress, one not scored.
    pub(crate) samples: Vec<Uuid>,
    /// The first session's scores, oldest first.
    pub(crate) scores: [Uuid; 2],
    pub(crate) current: String,
    pub(crate) other: String,
    pub(crate) rescore: Uuid,
    pub(crate) preview: Uuid,
    pub(crate) before: Uuid,
    pub(crate) after: Uuid,
    pub(crate) metrics: Uuid,
    pub(crate) qas: Uuid,
    pub(crate) unfinished: Uuid,
    pub(crate) failed: Uuid,
    pub(crate) failed_job: Uuid,
    pub(crate) waiting: Uuid,
    pub(crate) waiting_job: Uuid,
}

pub(crate) struct Service {
    pub(crate) api: Api,
    pub(crate) judge: JudgeServer,
    pub(crate) stored: Stored,
    home: Home,
    clock: Clock,
    up: Option<Process>,
}

impl Service {
    /// Starts a service with all data; `None` without libfaketime.
    pub(crate) async fn start() -> Option<Self> {
        let mut service = Self::empty(FIRST_DAY, &[]).await?;
        service.score_sessions().await;
        service.restart(SECOND_DAY, 1).await;
        service.score_anew().await;
        service.run_suites().await;
        service.restart(LAST_DAY, 2).await;
        service.leave_unfinished().await;
        Some(service)
    }

    /// Starts a service without data; `None` without libfaketime.
    pub(crate) async fn empty(time: &str, settings: &[(&str, &str)]) -> Option<Self> {
        let mut home = Home::embedded();
        let clock = Clock::at(home.dir(), time)?;
        let judge = JudgeServer::start(Reply::Refusal).await;
        judge.rule(reply);
        // A pending call must not time out before everything is read, even on a slow machine.
        home.judge_at(&judge.url("w"), "  timeout_s: 900\n");
        home.set("GAVEL_LOG_FILTER", "warn");
        let data = home.dir().join("data");
        home.set("GAVEL_DATA_DIR", data.display());
        for (name, value) in settings {
            home.set(name, value);
        }
        let mut service = Self {
            api: Api::new("127.0.0.1:1"),
            judge,
            stored: Stored::default(),
            home,
            clock,
            up: None,
        };
        service.restart(time, 1).await;
        Some(service)
    }

    async fn restart(&mut self, time: &str, concurrency: usize) {
        if let Some(mut up) = self.up.take() {
            up.stop().await;
        }
        let address = free_address();
        self.home.set("GAVEL_BIND", address);
        self.home.set("GAVEL_WORKER_CONCURRENCY", concurrency);
        self.api = Api::new(&address.to_string());
        let mut env = self.home.env().clone();
        self.clock.set(time);
        env.extend(self.clock.env());
        let command = process::gavel(&env, &["up"]);
        self.up = Some(Process::spawn("up", self.home.dir(), command));
        let api = &self.api;
        eventually(PATIENCE, "the service is ready", || async {
            let answer = api.try_send("GET", "/readyz", None, &[]).await?;
            (answer.status == 200).then_some(())
        })
        .await;
    }

    pub(crate) async fn stop(mut self) {
        self.judge.release();
        self.up.take().unwrap().stop().await;
    }

    pub(crate) fn mask(&self) -> Mask {
        let base = self.api.base();
        let (_, address) = base.rsplit_once('/').unwrap();
        let up = self.up.as_ref().unwrap().pid();
        // Times from the monotonic clock depend on the duration of the test.
        Mask::default()
            .text(address, "127.0.0.1:8080")
            .text(self.home.dir().display().to_string(), "/home/gavel")
            .text(self.judge.url("w"), "http://judge.example/w")
            .pattern(&format!(r"[\w.-]+:{up}\b"), "host:1")
            .pattern(r"\b[0-9a-f]{8}…[0-9a-f]{4}\b", "id…")
            .pattern(r"\b\d+ ms\b", "0 ms")
            .pattern(
                r#"("(?:used_last_minute|latency_ms|p\d+_ms)":\s*)[\d.]+"#,
                "${1}0",
            )
            .pattern(r#"("last_error_at":\s*")[^"]+"#, "${1}time")
            // The breaker reports a failure after one or more moves of the clock.
            .pattern(
                r#"datetime="2030-03-05T1[12]:\d\d:\d\dZ" title="[^"]*"(>just now)"#,
                r#"datetime="2030-03-05T12:00:00Z" title="2030-03-05 12:00 UTC"${1}"#,
            )
            .pattern(r"(last error: [^(]+\()[^)]+", "${1}time")
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        let mut env = self.clock.env();
        env.push(("GAVEL_SERVER".to_owned(), self.api.base().to_owned()));
        gavel(&self.work_dir(), &env, args)
    }

    pub(crate) fn clock_env(&self) -> Vec<(String, String)> {
        self.clock.env()
    }

    pub(crate) fn work_dir(&self) -> PathBuf {
        let dir = self.home.dir().join("work");
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    async fn post(&mut self, path: &str, body: Value) -> Value {
        self.clock.tick();
        let answer = self.api.post_json(path, body).await;
        assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
        answer.body
    }

    /// Stores a session under an id that is the same on each run.
    async fn put(&self, number: usize, session: Value) -> Uuid {
        let id: Uuid = format!("{number:08x}-0000-4000-8000-00000000{number:04x}")
            .parse()
            .unwrap();
        let path = format!("/api/v1/sessions/{id}");
        let answer = self.api.send("PUT", &path, Some(session), &[]).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        id
    }

    async fn score(&mut self, session: Uuid) {
        self.clock.tick();
        self.api.ask(session).await.expect(202);
        self.api.scored(session).await;
    }

    async fn batch_ended(&self, batch: Uuid) {
        eventually(PATIENCE, "the batch ends", || async {
            let path = format!("/api/v1/batches/{batch}");
            let found = self.api.try_send("GET", &path, None, &[]).await?;
            (found.body["state"] == "completed").then_some(())
        })
        .await;
    }

    async fn score_sessions(&mut self) {
        let examples = [
            "crypto-miner-binary",
            "unexpected-egress-hostile",
            "dns-latency-in-progress",
            "certificate-not-renewed",
        ];
        for (number, name) in examples.into_iter().enumerate() {
            let text = std::fs::read_to_string(built_in(&format!("examples/sessions/{name}.json")));
            let mut body: Value = serde_json::from_str(&text.unwrap()).unwrap();
            body.as_object_mut().unwrap().remove("session_id");
            let id = self.put(number + 1, body).await;
            self.stored.samples.push(id);
        }
        let totals = [
            78, 91, 82, 64, 70, 55, 41, 88, 76, 69, 73, 80, 62, 48, 93, 77, 66, 71, 84, 59, 74, 81,
        ];
        let alerts = ["PodCrashLooping", "NodeNotReady", "CertificateExpiry"];
        for (n, total) in totals.into_iter().enumerate() {
            let tag = if n % 7 == 0 { "shop" } else { "platform" };
            let session = session(total, 28 - n, alerts[n % alerts.len()], tag);
            let id = self.put(n + 16, session).await;
            self.stored.sessions.push(id);
        }
        let scored = [&self.stored.samples[..2], &self.stored.sessions].concat();
        for id in scored {
            self.score(id).await;
        }
    }

    /// Scores some sessions under other criteria, previews them, and adds ratings.
    async fn score_anew(&mut self) {
        let file = built_in("config/criteria/session_outcome_first.yaml");
        let text = std::fs::read_to_string(file).unwrap();
        let text = text.replace("${DEFAULT_LLM_PROVIDER}", JUDGE);
        let file = self.work_dir().join("outcome-first.yaml");
        std::fs::write(&file, text).unwrap();
        let added = self.run(&["criteria", "add", "outcome-first.yaml", "--json"]);
        let added: Value = serde_json::from_str(&added.stdout).unwrap();
        let other = added["criteria_hash"].as_str().unwrap().to_owned();
        let filter = json!({"tag": "shop"});
        for (name, purpose) in [("Try it out", "preview"), ("Outcome first", "score")] {
            let body =
                json!({"name": name, "filter": filter, "criteria_hash": other, "purpose": purpose});
            let batch = id_of(&self.post("/api/v1/rescore", body).await["batch_id"]);
            self.batch_ended(batch).await;
            match purpose {
                "score" => self.stored.rescore = batch,
                _ => self.stored.preview = batch,
            }
        }
        let first = self.stored.sessions[0];
        let history = self.api.history(first).await;
        let of = |hash: bool| {
            let found = history
                .iter()
                .find(|score| (score["criteria_hash"] == *other) == hash);
            found.unwrap()
        };
        self.stored.scores = [false, true].map(|hash| id_of(&of(hash)["score_id"]));
        self.stored.current = of(false)["criteria_hash"].as_str().unwrap().to_owned();
        self.stored.other = other;
        for (id, given) in self.stored.sessions.clone().into_iter().zip([
            json!({"rating": "near_perfect", "by": "ann"}),
            json!({"total": 60, "by": "ben", "comment": "The node was never looked at."}),
            json!({"rating": "good", "by": "ann"}),
            json!({"rating": "weak", "by": "carol", "comment": "guesswork"}),
        ]) {
            let score = self.api.scored(id).await["score_id"].clone();
            let path = format!("/api/v1/scores/{}/ratings", score.as_str().unwrap());
            self.post(&path, given).await;
        }
    }

    async fn suite(&mut self, kind: &str, name: &str, items: &[Value]) -> Uuid {
        let suite = json!({"kind": kind, "name": name, "items": items});
        id_of(&self.post("/api/v1/batches", suite).await["batch_id"])
    }

    /// Runs a suite of each kind, one of them in two versions.
    async fn run_suites(&mut self) {
        let cases = lines("examples/queries/kql-suite.jsonl");
        let mut later = cases.clone();
        later[0]["generated_kql"] = json!("SecurityEvent | take 10");
        later[0]["generated_results"] = json!([]);
        later[3]["generated_kql"] = later[3]["expected_kql"].clone();
        later[3]["generated_columns"] = later[3]["expected_columns"].clone();
        later[3]["generated_results"] = later[3]["expected_results"].clone();
        let metrics = lines("examples/metrics/cases.jsonl");
        self.stored.before = self.suite("query", "Nightly KQL", &cases).await;
        self.batch_ended(self.stored.before).await;
        self.stored.after = self.suite("query", "Pull request 481", &later).await;
        self.batch_ended(self.stored.after).await;
        self.stored.metrics = self.suite("sql_metrics", "SQL of the week", &metrics).await;
        self.batch_ended(self.stored.metrics).await;
        self.stored.qas = self.suite("qas", "Questions", &answered_questions()).await;
        self.batch_ended(self.stored.qas).await;
    }

    async fn leave_unfinished(&mut self) {
        let mut open = lines("examples/queries/kql-suite.jsonl")[..4].to_vec();
        open[1]["prompt"] = json!("Which requests run forever?");
        self.stored.unfinished = self.suite("query", "Pull request 482", &open).await;
        eventually(PATIENCE, "all items but one have ended", || async {
            let path = format!("/api/v1/batches/{}", self.stored.unfinished);
            let found = self.api.try_send("GET", &path, None, &[]).await?;
            let counts = &found.body["counts"];
            (counts["running"] == 1 && counts["succeeded"] == 3).then_some(())
        })
        .await;
        let mut found = Vec::new();
        for (n, (about, state)) in [
            ("Leaked credentials of a customer", "failed"),
            ("Try again in an hour", "waiting"),
        ]
        .into_iter()
        .enumerate()
        {
            let mut body = session(60, 1, "RequestStuck", "platform");
            body["conversation"][0]["content"] = json!(about);
            self.clock.tick();
            let session = self.put(n + 64, body).await;
            let job = id_of(&self.api.ask(session).await.expect(202)["job_id"]);
            self.api
                .job_until(job, state, |job| job["state"] == state)
                .await;
            found.push((session, job));
        }
        eventually(
            PATIENCE,
            "the worker has published the judge's last error",
            || async {
                let row = self.api.judge(JUDGE).await?;
                let error = row["gates"][0]["last_error"].as_str()?;
                error.contains("429").then_some(())
            },
        )
        .await;
        (self.stored.failed, self.stored.failed_job) = found[0];
        (self.stored.waiting, self.stored.waiting_job) = found[1];
    }
}

pub(crate) fn lines(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(built_in(path)).unwrap();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Questions of the examples with the replies of the example agent, as payloads.
pub(crate) fn answered_questions() -> Vec<Value> {
    let mut questions = answered_suite();
    for question in &mut questions {
        for (name, field) in [("id", "test_id"), ("agent", "agent_used")] {
            question[field] = question[name].take();
            question.as_object_mut().unwrap().shift_remove(name);
        }
    }
    questions
}

pub(crate) fn answered_suite() -> Vec<Value> {
    let read = |path: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(built_in(path)).unwrap()).unwrap()
    };
    let answers = read("examples/agents/answers.json");
    let mut questions = read("examples/qas/questions.json")["questions"].take();
    let questions = questions.as_array_mut().unwrap();
    for question in questions.iter_mut() {
        let answer = answers[question["question"].as_str().unwrap()].clone();
        question["generated_sql"] = answer["sql"].clone();
        question["actual_results"] = answer["results"].clone();
        question["success"] = json!(answer["success"].as_bool().unwrap_or(false));
        if answer["error"].is_string() {
            question["error"] = answer["error"].clone();
        }
    }
    questions.clone()
}

/// Marker in prompts, followed by the total of the session.
const POD: &str = "-7d9f4-";

/// Session that ended on a day of February 2030 and will get this total.
fn session(total: u8, day: usize, alert_type: &str, tag: &str) -> Value {
    let pod = format!("cart{POD}{total:02}");
    let at = |minute: u8| format!("2030-02-{day:02}T10:{minute:02}:00Z");
    json!({
        "status": "completed", "alert_type": alert_type, "agent": "kubernetes-agent", "author": "alertmanager",
        "alert_data": {"alert": alert_type, "pod": pod, "namespace": "shop", "severity": "critical"},
        "conversation": [
            {"role": "user", "content": format!("{alert_type}: pod {pod} restarts again and again."), "at": at(1)},
            {"role": "assistant", "content": "I read its logs.", "tool_name": "kubectl.logs", "at": at(2)},
            {"role": "tool", "content": "OOMKilled", "tool_name": "kubectl.logs", "at": at(2)},
            {"role": "assistant", "content": "## Cause\n\nThe container is **out of memory**: its limit is `256Mi`.\n\n- the heap grows by 4 MiB a minute\n- nothing else runs on the node", "at": at(3)},
        ],
        "final_analysis": "The container is **out of memory**: its limit of `256Mi` is below what the heap needs. Raise it.",
        "tools": ["kubectl.get", "kubectl.logs", "prometheus.query"], "tags": [tag],
        "started_at": at(0), "completed_at": at(5),
    })
}

/// Judge reply: the total in a session's pod name, a fixed score for cases, and some failures.
fn reply(call: &Call) -> Reply {
    let prompt = call.prompt();
    if prompt.contains("run forever") {
        return Reply::held(50);
    }
    if prompt.contains("credentials of") || prompt.contains("outside Germany") {
        return Reply::Refusal;
    }
    if prompt.contains("in an hour") {
        return Reply::throttled(3_600);
    }
    let fields = &call.body["response_format"]["json_schema"]["schema"]["properties"];
    if fields["label"].is_object() {
        let text = "Both read the same table, but the generated query lacks a condition.";
        return Reply::Content(json!({"reasoning": text, "label": "partial"}).to_string());
    }
    if !fields["score_breakdown"].is_object() {
        let score = if prompt.contains("SEM0260") {
            0.3
        } else {
            0.85
        };
        let name = if fields["explanation"].is_object() {
            "explanation"
        } else {
            "reasoning"
        };
        let text = "The tables and the time range are the same. The generated query **groups differently**.";
        return Reply::Content(json!({name: text, "score": score}).to_string());
    }
    let total = prompt.split_once(POD);
    let total = total.and_then(|(_, after)| after.get(..2)?.parse::<u8>().ok());
    let total = total.unwrap_or(71);
    let is_other = fields["score_breakdown"]["properties"]["outcome"].is_object();
    let total = if is_other { total - 13 } else { total };
    let mut reply = good_reply(total, &call.body);
    reply["score_reasoning"] = json!(
        "**logical_flow**: the agent listed the pods before it read their logs.\n\n**consistency**: the analysis calls the cause \
         *certain*; there is one `OOMKilled` line.\n\n- the limit of `256Mi` was never compared with the memory in use"
    );
    reply["missing_tools"] = json!([
        {"tool_name": "kubectl.events", "rationale": "It names the probe that failed."},
        {"tool_name": if total > 70 { "prometheus.query_range" } else { "node.journal" }, "rationale": "It has the memory of the hours before."},
    ]);
    Reply::Content(reply.to_string())
}
