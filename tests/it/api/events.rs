//! GET /api/v1/events: published events, access and end of streams. Across processes: `flow/events.rs`.

use gavel::events::{Event, EventType, Events as _};

use super::*;
use crate::support::sse::Stream;

impl Server {
    async fn stream(&self, query: &str) -> Stream {
        Stream::of(self.get(&format!("/api/v1/events{query}"))).await
    }

    async fn tell(&self, n: usize) {
        let event = Event::new(EventType::QueuePaused, SystemClock.now());
        self.feed.append(&vec![event; n]).await.unwrap();
    }
}

#[tokio::test]
async fn stream_starts_with_hello_and_is_not_compressed() {
    let server = Server::with(Setup::default()).await;
    let asked = server
        .get("/api/v1/events")
        .header("Accept-Encoding", "gzip");
    let response = asked.send().await.unwrap();
    assert_eq!(
        header(&response, "content-type").as_deref(),
        Some("text/event-stream")
    );
    assert_eq!(
        header(&response, "cache-control").as_deref(),
        Some("no-store")
    );
    assert_eq!(
        header(&response, "x-accel-buffering").as_deref(),
        Some("no")
    );
    assert_eq!(header(&response, "content-encoding"), None);
    let mut stream = Stream::new(response);
    let hello = stream.next().await;
    assert_eq!((hello.event.as_str(), hello.retry), ("hello", Some(2_000)));
    assert_eq!(hello.data["resumed"], false);
    assert!(!hello.id.is_empty());
}

#[tokio::test]
async fn api_actions_are_published_after_they_are_done() {
    let server = Server::with(Setup::default()).await;
    let mut stream = server.stream("").await;
    assert_eq!(stream.next().await.event, "hello");
    let (session, job) = server.queued_session().await;
    let queued = stream.next().await;
    assert_eq!(queued.event, "job.queued");
    assert_eq!(queued.data["type"], "job.queued");
    assert_eq!(queued.data["job_id"], job.to_string());
    assert_eq!(queued.data["session_id"], session.to_string());
    assert_eq!(queued.data["state"], "queued");
    for path in [
        format!("/api/v1/jobs/{job}/cancel"),
        // Already cancelled: no second event.
        format!("/api/v1/jobs/{job}/cancel"),
        "/api/v1/judges/judge-a/pause".to_owned(),
        "/api/v1/judges/judge-a/resume".to_owned(),
        "/api/v1/queue/pause".to_owned(),
        "/api/v1/queue/resume".to_owned(),
    ] {
        server.posted(&path, 200).await;
    }
    for expected in [
        "job.cancelled",
        "judge.closed",
        "judge.opened",
        "queue.paused",
        "queue.resumed",
    ] {
        let told = stream.next().await;
        assert_eq!(told.event, expected);
        if expected == "judge.closed" {
            assert_eq!(
                (&told.data["judge"], &told.data["reason"]),
                (&json!("judge-a"), &json!("paused"))
            );
        }
    }
    let failed = server.queued(session).await;
    server.fail(failed).await;
    server
        .posted(&format!("/api/v1/jobs/{failed}/retry"), 202)
        .await;
    assert_eq!(stream.next().await.event, "job.queued");
    assert_eq!(stream.next().await.event, "job.retried");
}

#[tokio::test]
async fn stream_resumes_after_the_id_in_header_or_query() {
    let server = Server::with(Setup::default()).await;
    let mut stream = server.stream("").await;
    let hello = stream.next().await;
    server.tell(5).await;
    let all = [
        stream.next().await,
        stream.next().await,
        stream.next().await,
        stream.next().await,
        stream.next().await,
    ];
    let ids: Vec<&str> = all.iter().map(|event| event.id.as_str()).collect();
    drop(stream);

    let asked = server.get("/api/v1/events").header("Last-Event-ID", ids[1]);
    let mut resumed = Stream::of(asked).await;
    let greeting = resumed.next().await;
    assert_eq!(
        (greeting.event.as_str(), greeting.id.as_str()),
        ("hello", ids[1])
    );
    assert_eq!(greeting.data["resumed"], true);
    for id in &ids[2..] {
        assert_eq!(resumed.next().await.id, *id);
    }
    drop(resumed);
    let mut from_hello = server.stream(&format!("?last_event_id={}", hello.id)).await;
    from_hello.next().await;
    assert_eq!(from_hello.next().await.id, ids[0], "hello has a place too");
}

#[tokio::test]
async fn unknown_event_id_gets_one_reset_then_new_events() {
    let server = Server::with(Setup::default()).await;
    server.tell(3).await;
    let mut stream = server.stream("?last_event_id=0-0").await;
    assert_eq!(stream.next().await.data["resumed"], false);
    assert_eq!(stream.next().await.event, "reset");
    server.tell(1).await;
    assert_eq!(stream.next().await.event, "queue.paused");
}

#[tokio::test]
async fn filters_exclude_other_events() {
    let server = Server::with(Setup::default()).await;
    let [mine, other] = [server.session().await, server.session().await];
    let mut stream = server
        .stream(&format!("?session_id={mine}&types=job.cancelled"))
        .await;
    stream.next().await;
    for session in [other, mine] {
        let job = server.queued(session).await;
        server
            .posted(&format!("/api/v1/jobs/{job}/cancel"), 200)
            .await;
    }
    let told = stream.next().await;
    assert_eq!(
        (told.event.as_str(), &told.data["session_id"]),
        ("job.cancelled", &json!(mine.to_string()))
    );

    let bad = server
        .get("/api/v1/events?types=job.eaten&job_id=7")
        .send()
        .await
        .unwrap();
    let problem = problem_of(bad, 422, "invalid-request").await;
    assert_eq!(pointers(&problem), ["/types", "/job_id"]);
    assert!(
        problem["errors"][0]["message"]
            .as_str()
            .unwrap()
            .contains("job.queued")
    );
}

#[tokio::test]
async fn lagging_client_gets_a_reset() {
    let server = Server::with(Setup::default()).await;
    let mut stream = server.stream("").await;
    stream.next().await;
    // Published before the stream's task can read any: more than the buffer size.
    server.tell(10_001).await;
    assert_eq!(stream.next().await.event, "reset");
    server.tell(1).await;
    assert_eq!(stream.next().await.event, "queue.paused");
}

#[tokio::test]
async fn stream_above_the_limit_is_rejected_until_one_ends() {
    let server = Server::with(Setup::default()).await;
    let mut first = server.stream("").await;
    let mut second = server.stream("").await;
    first.next().await;
    second.next().await;
    let third = server.get("/api/v1/events").send().await.unwrap();
    assert_eq!(header(&third, "retry-after").as_deref(), Some("5"));
    let problem = problem_of(third, 503, "too-many-streams").await;
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .contains("http.max_streams")
    );
    drop(first);
    crate::support::wait::eventually(Duration::from_secs(10), "a slot is free", async || {
        let again = server.get("/api/v1/events").send().await.unwrap();
        (again.status() == OK).then_some(())
    })
    .await;
}

#[tokio::test]
async fn stopping_process_sends_bye_and_ends_every_stream() {
    let server = Server::with(Setup::default()).await;
    let mut stream = server.stream("").await;
    let hello = stream.next().await;
    server.stopping.cancel();
    let bye = stream.next().await;
    assert_eq!((bye.event.as_str(), &bye.id), ("bye", &hello.id));
    assert_eq!(bye.data["retry_ms"], 2_000);
    assert!(stream.ended().await);
}

#[tokio::test]
async fn events_need_the_scope_read() {
    let mut setup = Setup::default();
    setup.auth.tokens = vec!["a:read:token-a-of-a-test".to_owned().into()];
    let server = Server::with(setup).await;
    let nobody = server.get("/api/v1/events").send().await.unwrap();
    problem_of(nobody, 401, "unauthorized").await;
    let asked = server
        .get("/api/v1/events")
        .bearer_auth("token-a-of-a-test");
    assert_eq!(Stream::of(asked).await.next().await.event, "hello");
}
