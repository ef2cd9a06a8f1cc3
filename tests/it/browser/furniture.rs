//! Data of the showroom: sessions, suites and their judge.

use chrono::{Duration as Span, Utc};
use uuid::Uuid;

use super::showroom::{Sessions, Showroom, Suites};
use super::*;
use crate::support::client::id_of;
use crate::support::home::{JUDGE, built_in};
use crate::support::judge_server::{Call, Reply, good_reply};

/// Marker of totals in session texts.
const POD: &str = "-7d9f4-";

/// Judge: sessions get the total in their pod's name, and less under other criteria.
pub(super) fn judge(call: &Call) -> Reply {
    let prompt = call.prompt();
    if prompt.contains("forever") {
        return Reply::held(50);
    }
    if prompt.contains("credentials of") || prompt.contains("outside Germany") {
        return Reply::Refusal;
    }
    if prompt.contains("in an hour") {
        return Reply::throttled(3_600);
    }
    let schema = &call.body["response_format"]["json_schema"]["schema"];
    if schema["properties"]["label"].is_object() {
        let said = "Both ask the same table, but the generated query leaves out a condition.";
        return Reply::Content(json!({"reasoning": said, "label": "partial"}).to_string());
    }
    if !schema["properties"]["score_breakdown"].is_object() {
        let score = if prompt.contains("SEM0260") {
            0.3
        } else {
            0.85
        };
        let said = "The tables and the time range are the same. The generated query **groups differently**, so that its rows say less than was asked for.";
        return Reply::Content(json!({"reasoning": said, "score": score}).to_string());
    }
    let total = prompt
        .split_once(POD)
        .and_then(|(_, after)| after.get(..2)?.parse::<u8>().ok())
        .unwrap_or(71);
    let dimensions = schema["properties"]["score_breakdown"]["properties"].as_object();
    let is_other = dimensions.is_some_and(|names| names.contains_key("outcome"));
    let total = total.saturating_sub(if is_other { 13 } else { 0 });
    let mut reply = good_reply(total, &call.body);
    if !is_other {
        // Four dimensions of 25 each; the last gets the rest.
        let part = total / 4;
        let parts = [part + 3, part, part - 2];
        let left = total - parts.iter().sum::<u8>();
        let names = [
            "logical_flow",
            "consistency",
            "tool_relevance",
            "synthesis_quality",
        ];
        for (name, points) in names.iter().zip(parts.into_iter().chain([left])) {
            reply["score_breakdown"][name] = json!(points.min(25));
        }
        let sum: u64 = names
            .iter()
            .filter_map(|name| reply["score_breakdown"][name].as_u64())
            .sum();
        reply["total_score"] = json!(sum);
    }
    reply["score_reasoning"] = json!(REASONING);
    reply["missing_tools"] = json!([
        {"tool_name": "kubectl.events", "rationale": "It would have named the probe that failed, minutes before the first restart."},
        {"tool_name": if total > 70 { "prometheus.query_range" } else { "node.journal" }, "rationale": "The memory of the hours before was never looked at."},
    ]);
    Reply::Content(reply.to_string())
}

const REASONING: &str = "**logical_flow**: the agent listed the pods before it read their logs, which is the right order, but it \
    never asked for earlier restarts, although the alert names the time of the first one.\n\n**consistency**: the analysis calls \
    the cause *certain*; what was seen is one `OOMKilled` line.\n\n- the limit of `256Mi` was never compared with what was used\n\
    - nobody asked whether the node was short of memory\n\n**synthesis_quality**: the advice to raise the limit treats the symptom.";

/// Session that finished some hours ago and gets this total.
fn session(total: u8, hours: i64, alert_type: &str, tag: &str) -> Value {
    let pod = format!("cart{POD}{total:02}");
    let ended = Utc::now() - Span::hours(hours);
    json!({
        "status": "completed", "alert_type": alert_type, "agent": "kubernetes-agent", "author": "alertmanager",
        "alert_data": {"alert": alert_type, "pod": pod, "namespace": "shop", "severity": "critical"},
        "conversation": [
            {"role": "user", "content": format!("{alert_type}: pod {pod} restarts again and again."), "at": ended - Span::minutes(4)},
            {"role": "assistant", "content": "I look at its logs.", "tool_name": "kubectl.logs", "at": ended - Span::minutes(3)},
            {"role": "tool", "content": "OOMKilled", "tool_name": "kubectl.logs", "at": ended - Span::minutes(3)},
            {"role": "assistant", "content": "## Cause\n\nThe container is **out of memory**: its limit is `256Mi`.\n\n- the heap grows by 4 MiB a minute\n- nothing else runs on the node", "at": ended - Span::minutes(2)},
        ],
        "final_analysis": "The container is **out of memory**: its limit of `256Mi` is below what the heap needs. Raise it, and look for the leak.",
        "tools": ["kubectl.get", "kubectl.logs", "prometheus.query"], "tags": [tag],
        "started_at": ended - Span::minutes(5), "completed_at": ended,
    })
}

impl Showroom {
    async fn post(&self, path: &str, body: Value) -> Value {
        let answer = self.site.api.post_json(path, body).await;
        assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
        answer.body
    }

    /// Stores a session under a random id, distinguishable by its prefix.
    async fn put(&self, session: Value) -> Uuid {
        let id = Uuid::new_v4();
        let path = format!("/api/v1/sessions/{id}");
        let answer = self.site.api.send("PUT", &path, Some(session), &[]).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        id
    }

    async fn ended(&self, batch: Uuid) {
        eventually(PATIENCE, "the batch ends", || async {
            let path = format!("/api/v1/batches/{batch}");
            let found = self.site.api.try_send("GET", &path, None, &[]).await?;
            (found.body["state"] == "completed").then_some(())
        })
        .await;
    }

    pub(super) async fn sessions(&self) -> Sessions {
        let api = &self.site.api;
        let samples = self.samples().await;
        let totals = [
            78, 91, 82, 64, 70, 55, 41, 88, 76, 69, 73, 80, 62, 48, 93, 77, 66, 71, 84, 59, 74, 81,
            67, 72, 86, 58, 79, 61, 75, 70,
        ];
        let alerts = [
            "PodCrashLooping",
            "NodeNotReady",
            "CertificateExpiry",
            "HighErrorRate",
        ];
        let mut ids = Vec::new();
        for ((n, total), alert) in (0_i64..).zip(totals).zip(alerts.into_iter().cycle()) {
            let tag = if n % 4 == 0 { "shop" } else { "platform" };
            ids.push(self.put(session(total, 5 + n * 10, alert, tag)).await);
        }
        for id in ids.iter().chain(&samples[..3]) {
            api.ask(*id).await.expect(202);
        }
        for id in ids.iter().chain(&samples[..3]) {
            api.scored(*id).await;
        }
        let other = self.other_criteria().await;
        let again =
            json!({"name": "Outcome first", "filter": {"tag": "shop"}, "criteria_hash": other});
        let backlog = id_of(&self.post("/api/v1/rescore", again).await["batch_id"]);
        self.ended(backlog).await;
        for (id, given) in ids.iter().zip([
            json!({"rating": "near_perfect", "by": "ann"}),
            json!({"total": 60, "by": "ben", "comment": "The node was never looked at, and yet the analysis speaks of it with certainty."}),
            json!({"rating": "good", "by": "ann"}),
            json!({"rating": "weak", "by": "carol", "comment": "guesswork"}),
        ]) {
            let score = api.scored(*id).await["score_id"].clone();
            let path = format!("/api/v1/scores/{}/ratings", score.as_str().unwrap());
            self.post(&path, given).await;
        }
        let history = api.history(ids[0]).await;
        let replaced = [&history[1], &history[0]].map(|score| id_of(&score["score_id"]));
        let current = history[1]["criteria_hash"].as_str().unwrap().to_owned();
        Sessions {
            scored: samples[0],
            unscored: samples[4],
            at_work: samples[3],
            replaced,
            backlog,
            current,
            other,
            ..Sessions::default()
        }
    }

    /// Example sessions: three are scored, one is in progress, the rest aren't scored.
    async fn samples(&self) -> Vec<Uuid> {
        let names = [
            "crypto-miner-binary",
            "service-account-token",
            "unexpected-egress-hostile",
            "dns-latency-in-progress",
            "certificate-not-renewed",
            "disk-pressure-timed-out",
        ];
        let mut ids = Vec::new();
        for name in names {
            let file = built_in(&format!("examples/sessions/{name}.json"));
            let text = std::fs::read_to_string(file).unwrap();
            let mut body: Value = serde_json::from_str(&text).unwrap();
            body.as_object_mut().unwrap().remove("session_id");
            ids.push(self.put(body).await);
        }
        ids
    }

    async fn other_criteria(&self) -> String {
        let file = built_in("config/criteria/session_outcome_first.yaml");
        let text = std::fs::read_to_string(file).unwrap();
        let judge = |name: &str| (name == "DEFAULT_LLM_PROVIDER").then(|| JUDGE.to_owned());
        let body = gavel::config::yaml::resolve("criteria", &text, &judge).unwrap();
        let added = self.post("/api/v1/scoring/criteria", body).await;
        added["criteria_hash"].as_str().unwrap().to_owned()
    }

    /// Sessions for which the judge hangs, declines or rate-limits; and one with overlong texts.
    pub(super) async fn unlucky(&self, sessions: &mut Sessions) {
        let api = &self.site.api;
        let mut long = session(52, 3, &"AnAlertWhoseNameIsOneLongWord".repeat(4), "shop");
        long["agent"] = json!("an-agent-with-a-name-without-any-place-to-break-it-at-all");
        long["tags"] = json!([
            "a-tag-that-is-far-longer-than-the-column-that-it-stands-in",
            "shop"
        ]);
        long["final_analysis"] = json!(format!("See <https://wiki.example/{}>.", "a/b".repeat(60)));
        sessions.long = self.put(long).await;
        api.ask(sessions.long).await.expect(202);
        api.scored(sessions.long).await;
        for (about, state, id) in [
            (
                "A request that runs forever",
                "running",
                &mut sessions.running,
            ),
            (
                "Leaked credentials of a customer",
                "failed",
                &mut sessions.failed,
            ),
            ("Try again in an hour", "waiting", &mut sessions.waiting),
        ] {
            let mut body = session(60, 2, "RequestStuck", "platform");
            body["conversation"][0]["content"] = json!(about);
            let session = self.put(body).await;
            let job = id_of(&api.ask(session).await.expect(202)["job_id"]);
            api.job_until(job, state, |job| job["state"] == state).await;
            *id = session;
        }
    }

    pub(super) async fn suites(&self) -> Suites {
        let cases = lines("examples/queries/kql-suite.jsonl");
        let mut later = cases.clone();
        later[0]["generated_kql"] = json!("SecurityEvent | take 10");
        later[0]["generated_results"] = json!([]);
        later[3]["generated_kql"] = later[3]["expected_kql"].clone();
        later[3]["generated_columns"] = later[3]["expected_columns"].clone();
        later[3]["generated_results"] = later[3]["expected_results"].clone();
        let long = "A-suite-whose-name-has-no-place-to-break-it-and-is-longer-than-a-phone-is-wide";
        let before = self.suite("query", "Nightly KQL", &cases).await;
        let after = self.suite("query", long, &later).await;
        for batch in [before, after] {
            self.ended(batch).await;
        }
        let metrics = lines("examples/metrics/cases.jsonl");
        let metrics = self.suite("sql_metrics", "SQL of the week", &metrics).await;
        self.ended(metrics).await;
        let mut open = cases[..4].to_vec();
        open[1]["prompt"] = json!("Which requests run forever?");
        let running = self.suite("query", "Pull request 482", &open).await;
        eventually(PATIENCE, "all but one have ended", || async {
            let path = format!("/api/v1/batches/{running}");
            let found = self.site.api.try_send("GET", &path, None, &[]).await?;
            let counts = &found.body["counts"];
            (counts["running"] == 1 && counts["succeeded"] == 3).then_some(())
        })
        .await;
        Suites {
            before,
            after,
            running,
            metrics,
        }
    }

    async fn suite(&self, kind: &str, name: &str, items: &[Value]) -> Uuid {
        let suite = json!({"kind": kind, "name": name, "items": items});
        id_of(&self.post("/api/v1/batches", suite).await["batch_id"])
    }
}

fn lines(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(built_in(path)).unwrap();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
