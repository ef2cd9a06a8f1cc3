//! Data folder: demo, score, sessions, migrate, and the lock.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use uuid::Uuid;
use wiremock::ResponseTemplate;

use super::doctor::{asking, judge};
use super::{Run, Sandbox};
use crate::support::client::Api;

const NOBODY: &str = "127.0.0.1:0";

pub(super) struct Running(pub(super) Child);

impl Running {
    /// Starts a command and waits for its listening message; returns its address.
    pub(super) fn start(place: &Sandbox, args: &[&str], sign: &str) -> (Self, String) {
        let mut child = place.command(args).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines
            .by_ref()
            .map_while(Result::ok)
            .find(|line| line.contains(sign))
            .expect("it says where it listens");
        // Drains the pipe, so that the process doesn't block on it.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let address = line.split("http://").nth(1).unwrap();
        let address = address.split(['/', ' ']).next().unwrap().to_owned();
        (Self(child), format!("http://{address}"))
    }

    pub(super) fn stop(mut self, signal: &str) -> Option<i32> {
        let pid = self.0.id().to_string();
        let sent = std::process::Command::new("kill")
            .args([signal, &pid])
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(sent.success());
        self.0.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn place_with_judge() -> (Sandbox, Running) {
    let place = Sandbox::new();
    let (simulator, url) = Running::start(
        &place,
        &["simulate-judge", "--port", "0"],
        "simulated judge on",
    );
    let place = place
        .with("DEFAULT_LLM_PROVIDER", "simulated")
        .with("GAVEL_SIMULATED_URL", &format!("{url}/v1"));
    (place, simulator)
}

pub(super) fn session(id: Uuid, status: &str) -> String {
    json!({
        "session_id": id,
        "status": status,
        "alert_type": "PodCrashLooping",
        "alert_data": {"namespace": "shop"},
        "conversation": [{"role": "user", "content": "Investigate the alert."}],
        "final_analysis": "OOMKilled.",
    })
    .to_string()
}

#[test]
fn demo_scores_the_examples_and_marks_them_as_simulated() {
    let place = Sandbox::new();
    let args = ["demo", "--exit", "--bind", NOBODY];
    let first = place.run(&args).ends(0).says("7 of them new");
    let first = first
        .prints("SIMULATED")
        .prints("PodCrashLooping")
        .prints("session-not-completed")
        .prints("not_completed")
        .prints("Open http://127.0.0.1:")
        .prints("curl -s http://127.0.0.1:");
    assert!(!first.err.contains(" INFO "), "{}", first.err);
    let place = place.with("DEFAULT_LLM_PROVIDER", "openai-default");
    let second = place.run(&args).ends(0).says("0 of them new");
    let second = second.says("use --judge NAME for a real one");
    let table = |run: &Run| run.out.split("***").next().unwrap().to_owned();
    assert_eq!(
        table(&first),
        table(&second),
        "a second run shows the same scores"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_key_ends_demo_and_score_with_the_remedy() {
    let refusal =
        json!({ "error": { "message": "Incorrect API key provided.", "code": "invalid_api_key" } });
    let server = judge(ResponseTemplate::new(401).set_body_json(refusal)).await;
    let place = asking(&server);
    let args = ["demo", "--judge", "openai-default", "--bind", NOBODY];
    let run = place.run(&args).ends(3).says("omit --judge");
    let run = run.prints("Incorrect").prints("OPENAI_API_KEY");
    assert!(!run.out.contains("Open http"), "{}", run.out);
    assert!(!run.out.contains("provided.."), "{}", run.out);
    // The first call finds that the judge rejects the key; the second waits for an operator.
    for _ in 0..2 {
        place.write("session.json", &session(Uuid::now_v7(), "completed"));
        drop(place.run(&["score", "session.json"]).ends(3));
    }
}

#[test]
fn unknown_judge_is_rejected_before_the_demo_stores_data() {
    let place = Sandbox::new();
    let args = ["demo", "--judge", "openai-defualt", "--bind", NOBODY];
    drop(place.run(&args).ends(2).says("openai-defualt"));
    let listed = |what: &str| {
        let listed = place.run(&[what, "list", "--data-dir", "gavel-demo", "--json"]);
        listed.json()["items"].as_array().unwrap().clone()
    };
    assert_eq!(listed("sessions"), Vec::<Value>::new());
    let built_in = listed("criteria");
    assert!(!built_in.is_empty());
    assert!(
        built_in
            .iter()
            .all(|version| version["created_at"].is_null()),
        "{built_in:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn demo_calls_the_named_judge_and_invents_no_scores() {
    let reply = |points: u64| {
        let score = json!({
            "total_score": points * 4,
            "score_breakdown": {"logical_flow": points, "consistency": points, "tool_relevance": points, "synthesis_quality": points},
            "score_reasoning": "The agent read pods and events in order, yet it opened no earlier log, so that its cause stays a guess.",
            "missing_tools": [],
            "alternative_approaches": [],
        });
        let message =
            json!({ "message": { "content": score.to_string() }, "finish_reason": "stop" });
        ResponseTemplate::new(200).set_body_json(json!({
            "model": "m", "choices": [message], "usage": { "prompt_tokens": 9, "completion_tokens": 9 },
        }))
    };
    let demo = ["demo", "--exit", "--bind", NOBODY];
    let server = judge(reply(17)).await;
    let place = asking(&server);
    let first = ["--judge", "openai-default"];
    let real = place.run(&[&demo[..], &first].concat()).ends(0);
    let real = real.prints(" 68 ");
    assert!(!real.out.contains("SIMULATED"), "{}", real.out);
    let simulated = place.run(&demo).ends(0).prints(" 68 ");
    assert!(!simulated.out.contains("SIMULATED"), "{}", simulated.out);
    server.reset().await;
    wiremock::Mock::given(wiremock::matchers::any())
        .respond_with(reply(18))
        .mount(&server)
        .await;
    let other = ["--judge", "openai-default:another-model"];
    drop(
        place
            .run(&[&demo[..], &other].concat())
            .ends(0)
            .prints(" 72 "),
    );
}

#[test]
fn demo_reports_its_end_by_signal() {
    use std::io::Read as _;

    let place = Sandbox::new();
    let child = place.command(&["demo", "--bind", NOBODY]).spawn().unwrap();
    let mut demo = Running(child);
    let out = BufReader::new(demo.0.stdout.take().unwrap());
    let mut lines = out.lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "Ctrl-C or SIGTERM ends the demo."));
    let mut err = demo.0.stderr.take().unwrap();
    assert_eq!(demo.stop("-TERM"), Some(0));
    let mut said = String::new();
    err.read_to_string(&mut said).unwrap();
    assert!(said.contains("the data stays in ./gavel-demo"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn up_with_a_simulated_judge_scores_and_accepts_criteria() {
    let place = Sandbox::new();
    let args = ["up", "--simulate", "--bind", NOBODY];
    let (up, url) = Running::start(&place, &args, "listening on");
    place.write("session.json", &session(Uuid::now_v7(), "completed"));
    let score = ["score", "session.json", "--json", "--server", &url];
    let scored = place.run(&score).ends(0).says(&format!("store: {url}"));
    assert_eq!(scored.json()["items"][0]["score"]["simulated"], true);
    let place = place.with("DEFAULT_LLM_PROVIDER", "simulated");
    let file = crate::support::home::built_in("config/criteria/session_outcome_first.yaml");
    let add = ["criteria", "add", file.to_str().unwrap(), "--server", &url];
    let hash = place.run(&add).ends(0).out.trim().to_owned();
    let by = ["--criteria-hash", &hash, "--force"];
    let again = place.run(&[&score[..], &by].concat()).ends(0).json();
    assert_eq!(again["items"][0]["score"]["criteria_hash"], hash.as_str());
    let api = Api::new(url.trim_start_matches("http://"));
    let current = format!("/api/v1/scoring/criteria/{hash}/current");
    let made = api.post(&current).await.expect(200);
    assert_eq!(made["is_current"], true, "{made}");
    // Criteria of a real judge would call the real one.
    let real = place.with("DEFAULT_LLM_PROVIDER", "openai-default");
    let hash = real.run(&add).ends(0).out.trim().to_owned();
    let current = format!("/api/v1/scoring/criteria/{hash}/current");
    let refused = api.post(&current).await.expect(503).to_string();
    assert!(refused.contains("openai-default"), "{refused}");
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn demo_uses_a_real_judge_despite_simulated_current_criteria() {
    let server = judge(ResponseTemplate::new(401)).await;
    let place = asking(&server).with("DEFAULT_LLM_PROVIDER", "simulated");
    let folder = ["--data-dir", "gavel-demo"];
    let args = [&["up", "--simulate", "--bind", NOBODY], &folder[..]].concat();
    let (up, url) = Running::start(&place, &args, "listening on");
    let file = crate::support::home::built_in("config/criteria/session_outcome_first.yaml");
    let add = ["criteria", "add", file.to_str().unwrap(), "--server", &url];
    let hash = place.run(&add).ends(0).out.trim().to_owned();
    let api = Api::new(url.trim_start_matches("http://"));
    let current = format!("/api/v1/scoring/criteria/{hash}/current");
    api.post(&current).await.expect(200);
    assert_eq!(up.stop("-TERM"), Some(0));
    // The key is rejected, so the real judge was called.
    let demo = [
        "demo",
        "--exit",
        "--judge",
        "openai-default",
        "--bind",
        NOBODY,
    ];
    drop(place.run(&demo).ends(3).prints("OPENAI_API_KEY"));
    // Another default judge wouldn't help, because these criteria name a judge.
    place.write("session.json", &session(Uuid::now_v7(), "completed"));
    let place = place.with("DEFAULT_LLM_PROVIDER", "openai-default");
    let score = [&["score", "session.json"], &folder[..]].concat();
    let refused = place.run(&score).ends(2).says(&format!("/criteria/{hash}"));
    assert!(
        !refused.err.contains("or set DEFAULT_LLM_PROVIDER="),
        "{}",
        refused.err
    );
}

#[test]
fn demo_names_the_flag_when_its_port_is_in_use() {
    let taken = std::net::TcpListener::bind(NOBODY).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    Sandbox::new()
        .run(&["demo", "--exit", "--bind", &address])
        .ends(2)
        .says(&address)
        .says("--bind");
}

#[test]
fn simulated_judge_scores_without_key_or_server() {
    let place = Sandbox::new();
    place.write("session.json", &session(Uuid::now_v7(), "completed"));
    let score = ["score", "session.json", "--simulate", "--json"];
    let scored = place.run(&score).ends(0).json();
    assert_eq!(scored["items"][0]["score"]["simulated"], true, "{scored}");
    let beside = [&score[..], &["--server", "http://127.0.0.1:1"]].concat();
    place
        .run(&beside)
        .ends(2)
        .says("--simulate uses a judge in this process");
    place.run(&["batches", "list"]).ends(0).prints("none");
}

#[test]
fn failed_job_is_retried_and_shown() {
    let place = Sandbox::new();
    let malformed = ["simulate-judge", "--port", "0", "--fault", "malformed=1"];
    let (_simulator, url) = Running::start(&place, &malformed, "simulated judge on");
    let place = place
        .with("DEFAULT_LLM_PROVIDER", "simulated")
        .with("GAVEL_SIMULATED_URL", &format!("{url}/v1"));
    place.write("session.json", &session(Uuid::now_v7(), "completed"));
    place.run(&["score", "session.json"]).ends(3);
    let failed = place.run(&["jobs", "list", "--state", "failed", "--json"]);
    let failed = failed.ends(0).json();
    let id = failed["items"][0]["job_id"].as_str().unwrap().to_owned();
    let retried = place.run(&["jobs", "retry", &id, "--json"]).ends(0).json();
    assert_eq!(retried["job_id"], id.as_str(), "{retried}");
    assert_eq!(retried["state"], "queued", "{retried}");
}

#[test]
fn score_without_a_server_shows_the_existing_score() {
    let (place, simulator) = place_with_judge();
    let id = Uuid::now_v7();
    place.write("session.json", &session(id, "completed"));
    let run = place.run(&["score", "session.json", "--json"]).ends(0);
    let scored = run.json();
    let score = &scored["items"][0]["score"];
    assert_eq!(scored["items"][0]["outcome"], "scored", "{scored}");
    assert_eq!(score["simulated"], true);
    drop(simulator);
    // The judge has stopped: only a stored score can be returned.
    let again = place
        .run(&["score", &id.to_string(), "--json"])
        .ends(0)
        .json();
    assert_eq!(again["items"][0]["score"]["score_id"], score["score_id"]);
    place
        .run(&["score", &id.to_string()])
        .ends(0)
        .prints("SIMULATED")
        .prints(&id.to_string());
    let listed = place.run(&["sessions", "list", "--json"]).ends(0).json();
    assert_eq!(
        listed["items"][0]["score"]["total_score"],
        score["total_score"]
    );
    let jobs = place
        .run(&["jobs", "list", "--state", "succeeded", "--json"])
        .ends(0)
        .json();
    let job = jobs["items"][0]["job_id"].as_str().unwrap();
    let shown = place
        .run(&["jobs", "show", job, "--calls", "--json"])
        .ends(0)
        .json();
    assert_eq!(shown["calls"].as_array().unwrap().len(), 1, "{shown}");
}

#[test]
fn second_criteria_file_scores_next_to_the_first() {
    let (place, _simulator) = place_with_judge();
    let second = include_str!("../../../config/criteria/session_outcome_first.yaml");
    place.write("second.yaml", second);
    let id = Uuid::now_v7();
    place.write("session.json", &session(id, "completed"));
    place.run(&["score", "session.json"]).ends(0);
    let added = place.run(&["criteria", "add", "second.yaml", "--json"]);
    let added = added.ends(0).json();
    let hash = added["criteria_hash"].as_str().unwrap();
    let args = ["score", "--criteria-hash", hash, "--json", &id.to_string()];
    let scored = place.run(&args).ends(0).json();
    let score = &scored["items"][0]["score"];
    assert_eq!(score["criteria_hash"], hash, "{scored}");
    assert_eq!(score["is_current_criteria"], false);
    assert_eq!(score["score_breakdown"].as_object().unwrap().len(), 5);
}

#[test]
fn agent_tasks_are_imported_from_a_folder_and_scored() {
    let (place, _simulator) = place_with_judge();
    std::fs::create_dir(place.path().join("runs")).unwrap();
    let run = |id: &str| {
        json!({"id": id, "messages": [
            {"role": "user", "content": "Write the release notes."},
            {"role": "assistant", "content": "Written."},
        ]})
        .to_string()
    };
    place.write("runs/a.json", &run("a"));
    place.write("runs/b.jsonl", &format!("{}\n{}\n", run("b"), run("c")));
    place.write("runs/README.md", "no session");
    let imported = place.run(&["sessions", "import", "runs", "--json"]);
    assert_eq!(imported.ends(0).json()["new"], 3);
    place.write("runs/d.json", "{\"messages\": [7]}");
    place.write("runs/log.eval", "PK\u{3}\u{4}");
    place.write("runs/e.json", &run("e"));
    let partly = place.run(&["sessions", "import", "runs", "--json"]);
    let partly = partly.ends(2).says("d.json: /messages/0: is no message");
    let counts = partly.says("log.eval: is a ZIP archive").json();
    assert_eq!((&counts["new"], &counts["failed"]), (&json!(1), &json!(2)));

    let task = include_str!("../../../config/criteria/session_task.yaml");
    place.write("task.yaml", task);
    let added = place.run(&["criteria", "add", "task.yaml", "--json"]);
    let added = added.ends(0).json();
    let hash = added["criteria_hash"].as_str().unwrap();
    let listed = place.run(&["sessions", "list", "--json"]).ends(0).json();
    let id = listed["items"][0]["session_id"].as_str().unwrap();
    let scored = place.run(&["score", "--criteria-hash", hash, "--json", id]);
    let score = &scored.ends(0).json()["items"][0]["score"];
    assert!(
        score["score_breakdown"]["task_completion"].is_number(),
        "{score}"
    );
}

#[test]
fn scoring_without_a_judge_is_exit_2_with_the_remedy() {
    let place = Sandbox::new();
    place.write("session.json", &session(Uuid::now_v7(), "completed"));
    place
        .run(&["score", "session.json"])
        .ends(2)
        .says("OPENAI_API_KEY");
}

#[test]
fn invalid_session_file_is_exit_2_and_stores_no_session() {
    let place = Sandbox::new();
    let good = session(Uuid::now_v7(), "completed");
    place.write(
        "sessions.jsonl",
        &format!("{good}\n{{\"status\": \"done\"}}\n"),
    );
    place
        .run(&["sessions", "import", "sessions.jsonl"])
        .ends(2)
        .says("sessions.jsonl: line 2");
    assert!(!place.path().join("gavel-data").exists());
    place.write("sessions.jsonl", &good);
    let import = ["sessions", "import", "sessions.jsonl", "--json"];
    assert_eq!(place.run(&import).ends(0).json()["new"], 1);
    assert_eq!(place.run(&import).ends(0).json()["unchanged"], 1);
}

#[test]
fn reading_commands_create_no_data_folder_and_name_remedies() {
    let place = Sandbox::new();
    for args in [&["jobs", "list"][..], &["sessions", "list"], &["migrate"]] {
        let run = place.run(args).ends(2);
        assert!(run.err.contains("DATABASE_URL"), "{args:?}: {}", run.err);
    }
    assert!(!place.path().join("gavel-data").exists());
}

#[test]
fn up_serves_and_locks_its_data_folder_until_stopped() {
    let (place, _simulator) = place_with_judge();
    let (up, url) = Running::start(&place, &["up", "--bind", NOBODY], "listening on");
    place
        .run(&["healthcheck", "--server", &url])
        .ends(0)
        .prints("ok");
    place
        .run(&["healthcheck", "--ready", "--server", &url])
        .ends(0);
    place.run(&["jobs", "list"]).ends(2).says("--server");
    place
        .run(&["up", "--bind", NOBODY])
        .ends(2)
        .says("in use by another gavel process");
    let id = Uuid::now_v7();
    place.write("session.json", &session(id, "completed"));
    let scored = place
        .run(&["score", "session.json", "--json", "--server", &url])
        .ends(0)
        .json();
    assert_eq!(scored["items"][0]["score"]["session_id"], json!(id));
    place.run(&["queue", "pause", "--server", &url]).ends(0);
    place
        .run(&["queue", "status", "--server", &url])
        .ends(0)
        .prints("paused")
        .prints("1 succeeded");
    let again = id.to_string();
    let score = [
        "score", &again, "--force", "--wait", "0", "--json", "--server", &url,
    ];
    // The worker sees a pause within a second.
    let waits = (0..50).map(|_| place.run(&score));
    let waits = waits.into_iter().find(|run| run.code != Some(0)).unwrap();
    assert_eq!(waits.ends(3).json()["items"][0]["outcome"], "unfinished");
    place.run(&["queue", "resume", "--server", &url]).ends(0);
    place
        .run(&["judges", "list", "--server", &url])
        .ends(0)
        .prints("simulated");
    place
        .run(&["criteria", "current", "--server", &url])
        .ends(0)
        .prints("simulated");
    let list = place.run(&["criteria", "list", "--server", &url]).ends(0);
    let widest = list.out.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{}", list.out);
    let known = place.run(&["score", &again, "--server", &url]).ends(0);
    drop(known.prints(&format!("page  {url}/sessions/{id}")));
    let doctor = place.run(&["doctor", "--server", &url]).ends(0);
    drop(
        doctor
            .prints("ok     service http")
            .prints("ok     judge simulated: available")
            .prints("ok     workers: 1 alive"),
    );
    assert_eq!(up.stop("-TERM"), Some(0), "a signal is no failure");
    place.run(&["jobs", "list"]).ends(0);
}

#[test]
fn up_without_a_judge_starts_and_names_the_setting() {
    let place = Sandbox::new();
    let (up, url) = Running::start(&place, &["up", "--bind", NOBODY], "listening on");
    let ready = place.run(&["healthcheck", "--ready", "--server", &url]);
    assert_eq!(ready.code, Some(0), "{}", ready.err);
    assert_eq!(up.stop("-INT"), Some(0));
}

#[test]
fn migrations_of_the_data_folder_are_reverted_and_reapplied() {
    let place = Sandbox::new();
    place.write("session.json", &session(Uuid::now_v7(), "completed"));
    let imported = place.run(&["sessions", "import", "session.json"]).ends(0);
    drop(imported.says("store: data folder ./gavel-data"));
    let migrate = |more: &[&str]| place.run(&[&["migrate"], more].concat()).ends(0);
    let now = migrate(&[]).prints("no change, at version ").out;
    let now = now.trim().rsplit(' ').next().unwrap();
    drop(migrate(&["--revert", "1"]).prints(&format!("; reverted {now}")));
    place.run(&["migrate", "--revert", "0"]).ends(2);
    drop(migrate(&[]).prints(&format!(" to {now}; applied {now}")));
    place.run(&["sessions", "list"]).ends(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_rows_are_counted_and_pruned_and_session_is_deleted() {
    let (place, _simulator) = place_with_judge();
    let [old, young] = [Uuid::now_v7(), Uuid::now_v7()];
    for id in [old, young] {
        place.write("session.json", &session(id, "completed"));
        drop(place.run(&["score", "session.json"]).ends(0));
    }
    for (args, says) in [
        (["--jobs", "--older-than", "12h"].as_slice(), "1d or more"),
        (&["--older-than", "30d"], "--jobs"),
        (&["--jobs"], "--older-than"),
    ] {
        drop(place.run(&[&["prune"], args].concat()).ends(2).says(says));
    }
    let prune = [
        "prune",
        "--jobs",
        "--sessions",
        "--calls",
        "--older-than",
        "30d",
        "--json",
    ];
    let prune = |more: &[&str]| place.run(&[&prune[..], more].concat()).ends(0).json();
    let counts =
        |pruned: &Value| ["jobs", "sessions", "calls"].map(|kind| pruned[kind].as_u64().unwrap());
    assert_eq!(counts(&prune(&[])), [0, 0, 0]);
    let url = format!(
        "sqlite://{}",
        place.path().join("gavel-data/gavel.db").display()
    );
    let aged = "update scoring_jobs set finished_at = '2020' || substr(finished_at, 5)
            where job_id = (select job_id from scoring_jobs order by job_id limit 1);
        update judge_calls set called_at = '2020' || substr(called_at, 5)";
    crate::support::execute(&url, aged).await.unwrap();
    assert_eq!(counts(&prune(&["--dry-run"])), [1, 0, 1]);
    assert_eq!(counts(&prune(&[])), [1, 0, 0], "it went with its job");
    assert_eq!(counts(&prune(&["--dry-run"])), [0, 0, 0]);

    let many = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 30)
        insert into judge_calls (call_id, job_id, judge, model, called_at, latency_us, tokens_in, tokens_in_cached, tokens_out)
        select randomblob(16), randomblob(16), 'a', 'm', '2020-01-01T00:00:00.000000+00:00', 1, 1, 0, 1 from n";
    crate::support::execute(&url, many).await.unwrap();
    assert_eq!(counts(&prune(&["--dry-run"])), [0, 0, 30]);
    let most = ["prune", "--calls", "--older-than", "30d", "--json"];
    drop(place.run(&most).ends(2).says("--more-than-half"));
    assert_eq!(counts(&prune(&["--dry-run"])), [0, 0, 30]);
    assert_eq!(counts(&prune(&["--more-than-half"])), [0, 0, 30]);

    let delete = ["sessions", "delete", &young.to_string()];
    drop(place.run(&delete).ends(0).prints("is deleted"));
    drop(place.run(&delete).ends(2).says("is unknown"));
    let listed = place.run(&["sessions", "list", "--json"]).ends(0).json();
    let ids: Vec<&str> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["session_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, [old.to_string()]);
}
