//! Statements of pages about judges, waits, verdicts and open problems; and page sizes that don't grow with the data.

use gavel::judge::gate::{GateSnapshot, LastError};

use super::*;

/// Maximum size of a page, bytes.
const MOST: usize = 150 << 10;

impl Server {
    /// Publishes a judge's gate state as a live worker would.
    async fn gate(&self, judge: &str, failures_in_row: u32) {
        let gate = GateSnapshot {
            failures_in_row,
            last_error: Some(LastError {
                message: "Connection refused".to_owned(),
                ago: Duration::from_secs(90),
            }),
            ..crate::support::gate(judge)
        };
        self.heartbeat().await;
        self.store()
            .judges()
            .put(self.worker_id, &[gate], SystemClock.now())
            .await
            .unwrap();
    }

    async fn pause(&self, what: &str, message: &str) {
        let asked = self.post(&format!("/api/v1/{what}/pause"));
        let asked = asked.header("x-forwarded-user", "ann");
        let paused = asked.json(&json!({ "message": message })).send().await;
        json_of(paused.unwrap(), 200).await;
    }

    async fn resume(&self, what: &str) {
        self.posted(&format!("/api/v1/{what}/resume"), 200).await;
    }

    async fn simulate_case(&self, id: JobId) {
        let job = self.claim(id).await;
        let score = NewEvaluation {
            simulated: true,
            ..evaluation(&job, Some(1.0))
        };
        let result = json!({ "total_score": 1.0, "threshold": 0.9, "components": {} });
        self.evaluated(&job, score, result).await;
    }
}

#[tokio::test]
async fn linked_reports_match_the_page() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    let (id, jobs) = server.cases(&["good"]).await;
    server.simulate_case(jobs[0]).await;
    let page = browser.page(&format!("/batches/{id}")).await;
    in_order(
        &page,
        &[
            "INCOMPLETE",
            "scores of a simulated judge cannot pass",
            "report.junit.xml\"",
        ],
    );
    let junit = format!("/batches/{id}/report.junit.xml");
    let junit = server.text_of(&junit).await;
    assert!(
        junit.contains("name=\"verdict\" value=\"INCOMPLETE\""),
        "{junit}"
    );
    assert!(!page.contains("report.junit.xml?"), "{page}");
}

#[tokio::test]
async fn judges_are_shown_as_healthy_only_after_a_reply() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    server.heartbeat().await;
    let strip = browser.page("/status-bar").await;
    assert!(!strip.contains("all judges answer"), "{strip}");
    let queue = browser.page("/queue").await;
    assert!(
        queue.contains("not called lately") && !queue.contains(">answers<"),
        "{queue}"
    );

    server.gate("judge-a", 4).await;
    let queue = browser.page("/queue").await;
    in_order(
        &queue,
        &["failing", "its last 4 calls failed", "Connection refused"],
    );
    assert!(!queue.contains("all judges answer"));

    server.gate("judge-a", 0).await;
    let queue = browser.page("/queue").await;
    assert!(queue.contains(">answers<"), "{queue}");
}

#[tokio::test]
async fn wait_shows_the_cause_the_operator_and_the_queue_position() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    server.heartbeat().await;
    let first = server.session().await;
    server.queued(first).await;
    let session = server.session().await;
    server.queued(session).await;
    let page = browser.page(&format!("/sessions/{session}")).await;
    assert!(
        page.contains("it waits for its turn, number 2 in line"),
        "{page}"
    );
    server.pause("judges/judge-a", "key rotation").await;
    let says = "judge-a is paused by ann (key rotation)";
    let page = browser.page(&format!("/sessions/{session}")).await;
    assert!(page.contains(says), "{page}");
    assert!(browser.page("/queue").await.contains(says));
    let waiting = server.session().await;
    server.resume("judges/judge-a").await;
    let job = server.queued(waiting).await;
    server.make_wait(job).await;
    let page = browser.page(&format!("/sessions/{waiting}")).await;
    assert!(page.contains(" until "), "{page}");
}

#[tokio::test]
async fn attention_is_shown_until_the_problem_is_handled() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    let (session, job) = server.queued_session().await;
    server.fail(job).await;
    server.pause("queue", "the database moves").await;
    let (other, job) = server.queued_session().await;
    server.fail(job).await;
    let ids = format!("name=\"ids\" value=\"{other},{session}\"");
    in_order(
        &browser.page("/").await,
        &[
            "Needs attention",
            "The queue is paused by ann, just now: the database moves",
            "2 sessions could not be scored (unparsable). Read the raw reply",
            "href=\"/sessions?scored=failed\"",
            "action=\"/rescore\"",
            &ids,
            "Retry all",
        ],
    );
    server.resume("queue").await;
    // One plan, with its cost, retries all sessions with the same cause.
    let both = format!("{other},{session}");
    let fields = [("scored", "failed"), ("ids", both.as_str())];
    let plan = browser.form("/rescore", &fields).await;
    assert_eq!(plan.status, 200, "{}", plan.text);
    in_order(&plan.text, &[&both, "Score 2 sessions"]);
    for session in [session, other] {
        let job = server.queued(session).await;
        server.succeed(job, 80).await;
    }
    let page = browser.page("/").await;
    assert!(!page.contains("Needs attention"), "{page}");

    let (batch, jobs) = server.cases(&["broken", "open"]).await;
    server.fail(jobs[0]).await;
    let page = browser.page("/").await;
    in_order(
        &page,
        &[
            "1 item of nightly could not be scored.",
            &format!("/batches/{batch}"),
        ],
    );
}

#[tokio::test]
async fn sessions_excluded_by_the_settings_have_no_button() {
    let server = Server::with(Setup {
        score_only: ScorableStatus::Completed,
        ..Setup::default()
    })
    .await;
    let browser = Browser::of(&server);
    let session = server.session_with(json!({"status": "timed_out"})).await;
    let says = "The session is timed out: only completed ones are scored here.";
    let page = browser.page(&format!("/sessions/{session}")).await;
    in_order(
        &page,
        &["<button disabled aria-describedby=\"why-not\">", says],
    );
    let list = browser.page("/sessions").await;
    assert!(list.contains(says), "{list}");
    let item = server
        .json_of(&format!("/api/v1/sessions?ids={session}"))
        .await;
    assert_eq!(item["items"][0]["scorable"], false);
    let whole = server.json_of(&format!("/api/v1/sessions/{session}")).await;
    assert_eq!(whole["scorable"], false);
    let done = server.session().await;
    let whole = server.json_of(&format!("/api/v1/sessions/{done}")).await;
    assert_eq!(whole["scorable"], true);
}

#[tokio::test]
async fn labels_match_their_values() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    let first = browser.page("/").await;
    assert!(
        first.contains("curl -X PUT") && !first.contains("uuidgen"),
        "{first}"
    );
    let (batch, jobs) = server.cases(&["good"]).await;
    let queue = browser.page("/queue").await;
    let id = batch.simple().to_string();
    assert!(
        queue.contains(&format!("query 1 of batch {}…{}", &id[..8], &id[28..])),
        "{queue}"
    );
    assert!(queue.contains("No worker is running") && !queue.contains("or run <code>gavel up"));
    let page = browser.page(&format!("/batches/{batch}")).await;
    assert!(page.contains("no worker is running"), "{page}");
    server.scored(72).await;
    let overview = browser.page("/").await;
    assert!(overview.contains("1 score. The chart needs"));
    server.score_case(jobs[0], 0.95).await;
    for verb in ["cancel", "retry-errors"] {
        let ask = browser.page(&format!("/batches/{batch}/{verb}")).await;
        assert!(
            ask.contains("No action needed") && !ask.contains("<button class=\""),
            "{ask}"
        );
    }
    let post = server.post("/api/v1/batches?kind=query&threshold=7&budget_usd=-1");
    let post = post.header("content-type", "text/csv").body("id\n");
    let problem = problem_of(post.send().await.unwrap(), 422, "invalid-request").await;
    assert_eq!(pointers(&problem), ["/budget_usd", "/threshold"]);
    let asset = server.get("/assets/gavel.css").send().await.unwrap();
    let weak = format!("\"other\", W/{}", header(&asset, "etag").unwrap());
    let again = server
        .get("/assets/gavel.css")
        .header("if-none-match", weak);
    assert_eq!(again.send().await.unwrap().status(), 304);
}

#[tokio::test]
async fn session_pages_do_not_grow_with_the_session() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    let table = format!(
        "|{}\n|{}\n{}",
        "a|".repeat(300),
        "-|".repeat(300),
        "|a|\n".repeat(1_000)
    );
    let long = "'<b>&\n".repeat(60_000);
    let messages = |n: usize, content: &str| -> Vec<Value> {
        let message = json!({"role": "assistant", "content": content});
        std::iter::repeat_n(message, n).collect()
    };
    let tool = |content: &str| {
        vec![json!({"role": "tool", "tool_name": "t".repeat(255), "content": content})]
    };
    for (name, conversation, alert) in [
        ("one long tool reply", tool(&long), json!({"a": 1})),
        (
            "200 long messages",
            messages(200, &"**a** `b`\n\n".repeat(300)),
            json!("x"),
        ),
        ("tables", messages(100, &table), json!({"a": 1})),
        (
            "a long alert",
            messages(2, "short"),
            json!({"a": "'<\"&".repeat(60_000)}),
        ),
    ] {
        let tags: Vec<String> = (0..100).map(|n| format!("{n}{}", "'".repeat(60))).collect();
        let session = server
            .session_with(
                json!({"conversation": conversation, "alert_data": alert, "tags": tags,
                "final_analysis": "# b\n".repeat(100_000)}),
            )
            .await;
        for end in [
            "",
            "/technical",
            "/score",
            "/history",
            "/alert",
            "/analysis",
            "/messages/1",
            "?from=50",
        ] {
            let path = format!("/sessions/{session}{end}");
            let page = browser.page(&path).await;
            assert!(page.len() < MOST, "{name}: {path} weighs {}", page.len());
        }
        let list = browser.page("/sessions").await;
        assert!(list.len() < MOST, "{name}: the list weighs {}", list.len());
    }
}

#[tokio::test]
async fn long_message_has_a_page_and_long_conversation_is_paged() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    let long = format!("{}THE-END", "0123456789\n".repeat(30_000));
    let mut conversation: Vec<Value> = (1..=120)
        .map(|n| json!({"role": "user", "content": format!("message-{n}.")}))
        .collect();
    conversation[59] = json!({"role": "tool", "tool_name": "logs", "content": long});
    let session = server
        .session_with(json!({"conversation": conversation}))
        .await;
    let home = format!("/sessions/{session}");
    let first = browser.page(&home).await;
    assert!(
        first.contains("message-1.")
            && first.contains("message-50.")
            && !first.contains("message-51.")
    );
    in_order(
        &first,
        &["Messages 1-50 of 120", &format!("href=\"{home}?from=50\"")],
    );
    let second = browser.page(&format!("{home}?from=50")).await;
    let rest = format!("{home}/messages/60");
    in_order(
        &second,
        &[
            "message-51.",
            "message-59.",
            &format!("href=\"{rest}\""),
            "message-61.",
        ],
    );
    assert!(!second.contains("THE-END") && second.contains("Earlier messages"));

    let mut to = rest.clone();
    let mut parts = 0;
    loop {
        let part = browser.page(&to).await;
        parts += 1;
        if part.contains("THE-END") {
            break;
        }
        assert!(part.contains("Next part"), "{to}");
        let from = format!("href=\"{rest}?from=");
        let at = part.find(&from).unwrap() + from.len();
        let end = part[at..].find('"').unwrap();
        to = format!("{rest}?from={}", &part[at..at + end]);
    }
    assert!(parts > 1 && parts < 10, "{parts}");
    let piece = server.get(&rest).header("hx-request", "true");
    let piece = browser.send(piece).await.text;
    assert!(piece.starts_with("<article id=\"message-60\"") && piece.len() < MOST);
    assert!(piece.contains("Continue reading"), "it goes on by itself");
    let none = browser
        .send(server.get(&format!("{home}/messages/121")))
        .await;
    assert_eq!(none.status, 422);
    assert!(none.text.contains("120 messages"), "{}", none.text);
    let technical = browser.page(&format!("{home}/technical")).await;
    assert!(technical.contains("Messages 1-100 of 120"), "{technical}");
}
