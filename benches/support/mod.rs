//! Environment of a benchmark: processes over a private database and queue, sessions, clients.

mod judge;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::{Connection as _, Executor as _};
use tokio::process::{Child, Command};
use uuid::Uuid;

pub(crate) use judge::DelayedJudge;

const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(5);

pub(crate) struct Servers {
    database: String,
    redis: String,
}

/// The servers named by the environment; `None` unless both are set.
pub(crate) fn servers() -> Option<Servers> {
    let database = std::env::var("DATABASE_URL")
        .ok()
        .filter(|url| url.starts_with("postgres"))?;
    let redis = std::env::var("REDIS_URL")
        .ok()
        .filter(|url| !url.is_empty())?;
    Some(Servers { database, redis })
}

pub(crate) struct Session {
    pub(crate) id: Uuid,
    /// Start of its conversation.
    pub(crate) mark: String,
}

pub(crate) struct Process {
    child: Child,
}

/// A database, a queue, and the settings of the processes over them.
pub(crate) struct SetUp {
    env: BTreeMap<String, String>,
    dir: tempfile::TempDir,
    server: String,
    database: String,
    api: SocketAddr,
    simulator: SocketAddr,
}

impl SetUp {
    pub(crate) async fn new(servers: &Servers) -> Self {
        let name = format!("gavel_bench_{}", Uuid::now_v7().simple());
        let mut admin = sqlx::PgConnection::connect(&servers.database)
            .await
            .unwrap();
        admin
            .execute(sqlx::AssertSqlSafe(format!("create database {name}")))
            .await
            .unwrap();
        admin.close().await.unwrap();
        let (base, _) = servers.database.rsplit_once('/').unwrap();
        let (api, simulator) = (free_address(), free_address());
        let env = [
            ("DATABASE_URL", format!("{base}/{name}")),
            ("REDIS_URL", servers.redis.clone()),
            ("GAVEL_REDIS_QUEUE", name.clone()),
            ("GAVEL_BIND", api.to_string()),
            ("GAVEL_SIMULATED_URL", format!("http://{simulator}/v1")),
            ("DEFAULT_LLM_PROVIDER", "simulated".to_owned()),
            ("GAVEL_LOG_FILTER", "warn".to_owned()),
        ];
        let env = env
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        let dir = tempfile::tempdir().unwrap();
        let set_up = Self {
            env,
            dir,
            server: servers.database.clone(),
            database: name,
            api,
            simulator,
        };
        let migrated = set_up.command(&["migrate"]).output().await.unwrap();
        assert!(
            migrated.status.success(),
            "{}",
            String::from_utf8_lossy(&migrated.stderr)
        );
        set_up
    }

    /// Makes the processes use this judge instead of the simulator.
    pub(crate) fn use_judge(&mut self, judge: &DelayedJudge) {
        self.env
            .insert("GAVEL_SIMULATED_URL".to_owned(), judge.url());
    }

    /// Makes the processes use this judge, with additional lines in its entry.
    pub(crate) fn use_judge_with(&mut self, judge: &DelayedJudge, more: &str) {
        let path = self.dir.path().join("llm_providers.yaml");
        let entry = format!(
            "simulated:\n  type: openai\n  base_url: {}\n  auth: none\n  model: simulated-bench\n  \
             max_concurrency: 0\n  simulated: true\n{more}",
            judge.url()
        );
        std::fs::write(&path, entry).unwrap();
        let path = path.to_str().unwrap().to_owned();
        self.env.insert("GAVEL_LLM_PROVIDERS".to_owned(), path);
    }

    pub(crate) async fn simulator(&self, latency: Duration) -> Process {
        let port = self.simulator.port().to_string();
        let latency = format!("{}ms", latency.as_millis());
        let process = self.spawn(&["simulate-judge", "--port", &port, "--latency", &latency]);
        answers(self.simulator).await;
        process
    }

    pub(crate) async fn api(&self) -> Process {
        let process = self.spawn(&["serve"]);
        answers(self.api).await;
        process
    }

    /// Starts a worker, and waits until it is registered.
    pub(crate) async fn worker(&self, concurrency: usize) -> Process {
        let process = self.spawn(&["worker", "--concurrency", &concurrency.to_string()]);
        let registered = "select count(*) from workers";
        self.until("a worker is registered", registered, 1, PATIENCE)
            .await;
        process
    }

    /// Stores sessions with this number of characters.
    pub(crate) async fn put_sessions(
        &self,
        count: usize,
        characters: usize,
        clients: usize,
    ) -> Vec<Session> {
        let sessions: Vec<Session> = (0..count)
            .map(|_| {
                let id = Uuid::now_v7();
                Session {
                    id,
                    mark: format!("mark-{}", id.simple()),
                }
            })
            .collect();
        let client = client();
        concurrently(clients, &sessions, |session| {
            let request = client
                .put(format!(
                    "http://{}/api/v1/sessions/{}",
                    self.api, session.id
                ))
                .json(&body(&session.mark, characters));
            async move { assert!(request.send().await.unwrap().status().is_success()) }
        })
        .await;
        sessions
    }

    /// Stores sessions labelled `backlog` without the API, which would take minutes.
    pub(crate) async fn seed_sessions(&self, count: i64, characters: usize) {
        let line = "10:04:11 kubelet: Liveness probe failed: Get http://10.1.2.3:8080/healthz: connection refused ";
        let output = line.repeat(characters / line.len() + 1);
        let mut db = sqlx::PgConnection::connect(&self.env["DATABASE_URL"])
            .await
            .unwrap();
        sqlx::query(
            "insert into alert_sessions (session_id, source, status, alert_type, agent, alert_type_lower, agent_lower,
                alert_data, conversation, message_count, final_analysis, tools, tags, started_at, completed_at,
                created_at, updated_at, listed_at, content_hash, revision)
             select gen_random_uuid(), 'bench', 'completed', 'PodCrashLooping', 'kubernetes-agent', 'podcrashlooping',
                'kubernetes-agent', '{\"alert\":\"PodCrashLooping\"}',
                json_build_array(
                    json_build_object('role', 'user', 'content', 'case ' || n || ': a pod restarts again and again'),
                    json_build_object('role', 'tool', 'tool_name', 'kubectl-logs', 'content', $2))::text,
                2, 'the probe begins before the process listens', '[\"kubectl-logs\"]', '[\"backlog\"]',
                at - interval '5 minutes', at, at, at, at, md5(n::text), 1
             from (select n, now() - n * interval '1 minute' as at from generate_series(1, $1) n) numbered",
        )
        .bind(count)
        .bind(output)
        .execute(&mut db)
        .await
        .unwrap();
        db.execute("analyze alert_sessions").await.unwrap();
        db.close().await.unwrap();
    }

    /// Stores three years of sessions, scores and jobs without the API, most of the older half under earlier criteria, and
    /// updates the database's statistics. `criteria_hash` is the API's current one.
    pub(crate) async fn seed_history(&self, sessions: i64, criteria_hash: &str) {
        let text = include_str!("history.sql")
            .replace("$N", &sessions.to_string())
            .replace("$CRITERIA", criteria_hash);
        let mut db = sqlx::PgConnection::connect(&self.env["DATABASE_URL"])
            .await
            .unwrap();
        db.execute(sqlx::AssertSqlSafe(text)).await.unwrap();
        db.execute("vacuum analyze").await.unwrap();
        db.close().await.unwrap();
    }

    /// Keeps the database and returns its address.
    pub(crate) fn keep(self) -> String {
        self.env["DATABASE_URL"].clone()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.api)
    }

    pub(crate) fn score_url(&self, session: &Session) -> String {
        format!(
            "http://{}/api/v1/scoring/sessions/{}/score",
            self.api, session.id
        )
    }

    /// Waits until all posted jobs have ended. Reads one row at a time, because counting thousands of rows 200 times a
    /// second would use a fifth of a core.
    pub(crate) async fn until_finished(&self) {
        self.until_finished_within(PATIENCE).await;
    }

    /// The same with this timeout.
    pub(crate) async fn until_finished_within(&self, patience: Duration) {
        let none_is_left = "select count(*) from (select 1) as one
             where not exists (select from scoring_jobs where finished_at is null)";
        self.until("the jobs end", none_is_left, 1, patience).await;
    }

    pub(crate) async fn number(&self, query: &'static str) -> i64 {
        let mut db = sqlx::PgConnection::connect(&self.env["DATABASE_URL"])
            .await
            .unwrap();
        let number = sqlx::query_scalar(query).fetch_one(&mut db).await.unwrap();
        db.close().await.unwrap();
        number
    }

    pub(crate) async fn until_rolled_up(&self) {
        let none_is_left =
            "select count(*) from (select 1) as one where not exists (select from dirty_days)";
        let patience = Duration::from_secs(1_800);
        self.until("days are folded", none_is_left, 1, patience)
            .await;
    }

    pub(crate) async fn text(&self, query: &'static str) -> String {
        let mut db = sqlx::PgConnection::connect(&self.env["DATABASE_URL"])
            .await
            .unwrap();
        let text = sqlx::query_scalar(query).fetch_one(&mut db).await.unwrap();
        db.close().await.unwrap();
        text
    }

    pub(crate) async fn until_expanded(&self, items: i64) {
        let stored = "select count(*) from scoring_jobs where batch_id is not null";
        self.until("the batch is expanded", stored, items, PATIENCE)
            .await;
    }

    /// Changes rows in ways that clients can't, for example their age.
    pub(crate) async fn execute(&self, statement: &'static str) {
        let mut db = sqlx::PgConnection::connect(&self.env["DATABASE_URL"])
            .await
            .unwrap();
        db.execute(statement).await.unwrap();
        db.close().await.unwrap();
    }

    /// The same for one row's id.
    pub(crate) async fn number_of(&self, query: &'static str, id: Uuid) -> i64 {
        let mut db = sqlx::PgConnection::connect(&self.env["DATABASE_URL"])
            .await
            .unwrap();
        let number = sqlx::query_scalar(query)
            .bind(id)
            .fetch_one(&mut db)
            .await
            .unwrap();
        db.close().await.unwrap();
        number
    }

    pub(crate) async fn remove(self) {
        let mut admin = sqlx::PgConnection::connect(&self.server).await.unwrap();
        let drop = format!("drop database {} with (force)", self.database);
        admin.execute(sqlx::AssertSqlSafe(drop)).await.unwrap();
        admin.close().await.unwrap();
    }

    async fn until(&self, what: &str, query: &'static str, at_least: i64, patience: Duration) {
        let mut db = sqlx::PgConnection::connect(&self.env["DATABASE_URL"])
            .await
            .unwrap();
        let begun = Instant::now();
        loop {
            let number: i64 = sqlx::query_scalar(query).fetch_one(&mut db).await.unwrap();
            if number >= at_least {
                break;
            }
            assert!(
                begun.elapsed() < patience,
                "{what}: {number} of {at_least}; logs in {:?}",
                self.dir.path()
            );
            tokio::time::sleep(LOOK).await;
        }
        db.close().await.unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command
            .args(args)
            .env_clear()
            .envs(&self.env)
            .current_dir(self.dir.path());
        command.stdin(Stdio::null()).kill_on_drop(true);
        // Allows comparing the allocator's settings.
        command.envs(std::env::vars().filter(|(name, _)| name.starts_with("MALLOC_")));
        command
    }

    fn spawn(&self, args: &[&str]) -> Process {
        let log = self.dir.path().join(format!("{}.log", args[0]));
        let out = std::fs::File::options()
            .create(true)
            .append(true)
            .open(log)
            .unwrap();
        let mut command = self.command(args);
        command.stdout(out.try_clone().unwrap()).stderr(out);
        Process {
            child: command.spawn().unwrap(),
        }
    }
}

/// The measured binary: this build's, or `GAVEL_BENCH_BINARY`, so that two builds can be compared in alternation on a
/// machine with varying speed.
fn binary() -> PathBuf {
    std::env::var_os("GAVEL_BENCH_BINARY").map_or_else(
        || Path::new(env!("CARGO_BIN_EXE_gavel")).to_owned(),
        PathBuf::from,
    )
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) resident_mb: f64,
    pub(crate) peak_mb: f64,
}

/// Current and peak memory of a process.
pub(crate) fn memory_of(process: &Process) -> Memory {
    let pid = process.child.id().expect("it runs");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let read = |name: &str| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap();
        let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().unwrap();
        kib * 1_024.0 / 1e6
    };
    Memory {
        resident_mb: read("VmRSS:"),
        peak_mb: read("VmHWM:"),
    }
}

/// Memory of Redis for all its users, MB of 10^6 bytes.
pub(crate) async fn redis_mb(servers: &Servers) -> f64 {
    let client = redis::Client::open(servers.redis.as_str()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let info: String = redis::cmd("INFO")
        .arg("memory")
        .query_async(&mut connection)
        .await
        .unwrap();
    let used = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"))
        .unwrap();
    used.trim().parse::<f64>().unwrap() / 1e6
}

/// Writes results to the folder of all benchmarks, with the time and the machine.
pub(crate) fn write_results(file: &str, figures: &serde_json::Value) {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let measured_at = std::time::UNIX_EPOCH.elapsed().map_or(0, |t| t.as_secs());
    let document = json!({
        "measured_at": measured_at, "version": env!("CARGO_PKG_VERSION"), "cores": cores,
        "profile": if cfg!(debug_assertions) { "debug" } else { "optimized" }, "figures": figures,
    });
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/figures");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(file);
    std::fs::write(&path, serde_json::to_string_pretty(&document).unwrap()).unwrap();
    println!("\nwritten to {}", path.display());
}

/// Processor time used by a process, seconds. Unlike elapsed time it is meaningful on a busy machine.
pub(crate) fn cpu_of(process: &Process) -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let pid = process.child.id().expect("it runs");
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    // utime and stime: fields 14 and 15 of the line, 12 and 13 after the name.
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.map(|text| text.parse::<f64>().unwrap()).sum::<f64>() / TICKS_PER_SECOND
}

pub(crate) fn client() -> reqwest::Client {
    // Already set for a second client of this process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .timeout(PATIENCE)
        .build()
        .unwrap()
}

/// Runs `act` for each item with this concurrency.
pub(crate) async fn concurrently<'a, T, F, Fut>(clients: usize, items: &'a [T], act: F)
where
    F: Fn(&'a T) -> Fut,
    Fut: Future<Output = ()>,
{
    let next = AtomicUsize::new(0);
    let (next, act) = (&next, &act);
    let each = (0..clients).map(|_| async move {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            act(item).await;
        }
    });
    futures::future::join_all(each).await;
}

fn body(mark: &str, characters: usize) -> serde_json::Value {
    let line = "10:04:11 kubelet: Liveness probe failed: Get http://10.1.2.3:8080/healthz: connection refused\n";
    let output = line.repeat(characters / line.len() + 1);
    json!({
        "status": "completed",
        "alert_type": "PodCrashLooping",
        "agent": "kubernetes-agent",
        "alert_data": { "alert": "PodCrashLooping", "severity": "critical" },
        "conversation": [
            { "role": "user", "content": format!("{mark} A pod restarts again and again.") },
            { "role": "tool", "tool_name": "kubectl-logs", "content": output },
            { "role": "assistant", "content": "The liveness probe fails: the process doesn't listen yet." },
        ],
        "final_analysis": "The probe starts before the process listens.",
        "tools": ["kubectl-get", "kubectl-logs"],
    })
}

fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

async fn answers(address: SocketAddr) {
    let begun = Instant::now();
    while tokio::net::TcpStream::connect(address).await.is_err() {
        assert!(
            begun.elapsed() < PATIENCE,
            "no process listens on {address}"
        );
        tokio::time::sleep(LOOK).await;
    }
}
