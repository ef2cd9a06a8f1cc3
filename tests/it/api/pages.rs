//! Pages as a browser without JavaScript gets them: complete, with a content policy and form tokens.

use reqwest::header;

use super::auth::guarded;
use super::*;
use crate::support::documented_pages;

struct Browser<'a> {
    server: &'a Server,
    cookies: BTreeMap<String, String>,
}

fn form(request: RequestBuilder, fields: &[(&str, &str)]) -> RequestBuilder {
    let mut body = form_urlencoded::Serializer::new(String::new());
    body.extend_pairs(fields);
    let kind = "application/x-www-form-urlencoded";
    request
        .header(header::CONTENT_TYPE, kind)
        .body(body.finish())
}

struct Page {
    status: StatusCode,
    location: String,
    policy: String,
    text: String,
}

impl Page {
    fn field(&self, name: &str) -> String {
        let from = format!("name=\"{name}\" value=\"");
        let at = self.text.find(&from).expect(name) + from.len();
        let end = self.text[at..].find('"').unwrap();
        self.text[at..at + end].to_owned()
    }

    fn shows(&self, words: &str) -> bool {
        self.text.contains(words)
    }
}

impl<'a> Browser<'a> {
    fn of(server: &'a Server) -> Self {
        Self {
            server,
            cookies: BTreeMap::new(),
        }
    }

    async fn send(&mut self, request: RequestBuilder) -> Page {
        let cookies: Vec<String> = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let request = request
            .header(header::ACCEPT, "text/html,application/xhtml+xml")
            .header(header::COOKIE, cookies.join("; "));
        let response = request.send().await.unwrap();
        for cookie in response.headers().get_all(header::SET_COOKIE) {
            let pair = cookie.to_str().unwrap().split(';').next().unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
        let text_of = |name: &str| {
            let value = response.headers().get(name);
            value.map_or_else(String::new, |value| value.to_str().unwrap().to_owned())
        };
        Page {
            status: response.status(),
            location: text_of("location"),
            policy: text_of("content-security-policy"),
            text: response.text().await.unwrap(),
        }
    }

    async fn get(&mut self, path: &str) -> Page {
        self.send(self.server.get(path)).await
    }

    async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Page {
        self.send(form(self.server.post(path), fields)).await
    }
}

#[tokio::test]
async fn every_page_is_complete_with_its_policy() {
    let server = Server::start(sqlite().await, Setup::default()).await;
    let (session, score) = server.scored(72).await;
    let mut browser = Browser::of(&server);
    let hash = server.enqueue.current_criteria().hash.0.clone();
    let mut pages = vec![
        ("/".to_owned(), "Overview"),
        ("/sessions".to_owned(), "adequate"),
        (format!("/sessions/{session}"), "Final analysis"),
        (format!("/sessions/{session}/technical"), "Available tools"),
        (format!("/sessions/{session}/score"), "Origin"),
        (format!("/sessions/{session}/history"), "current"),
        (format!("/scores/{score}"), "Human ratings"),
        (format!("/scores/{score}/calls"), "calls"),
        ("/insights".to_owned(), "Agreement with ratings"),
        ("/criteria".to_owned(), "current"),
        (format!("/criteria/{hash}"), "Judge prompt"),
        ("/rescore?tag=a".to_owned(), "Show the plan"),
        ("/queue".to_owned(), "Failed permanently"),
        ("/system".to_owned(), "database"),
        ("/help".to_owned(), "Next and previous row"),
        ("/sign-in".to_owned(), "requires no token"),
    ];
    let documented = documented_pages().map(|path| (path.to_owned(), "<h1"));
    pages.extend(documented);
    for (path, words) in pages {
        let page = browser.get(&path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        assert!(page.shows(words), "{path} lacks {words}: {}", page.text);
        assert!(
            page.policy.contains("script-src 'self'"),
            "{path}: {}",
            page.policy
        );
        assert!(!page.policy.contains("unsafe"), "{path}");
        for inline in ["style=\"", "<style", "<script>", " onclick", "javascript:"] {
            assert!(!page.shows(inline), "{path} holds {inline}");
        }
        assert!(
            page.text.len() < 150 << 10,
            "{path} weighs {}",
            page.text.len()
        );
    }
}

#[tokio::test]
async fn errors_are_pages_for_browsers_and_json_for_programs() {
    let server = Server::start(sqlite().await, Setup::default()).await;
    let mut browser = Browser::of(&server);
    let missing = format!("/sessions/{}", Uuid::now_v7());
    for (path, status, words) in [
        ("/nowhere", 404, "Page not found"),
        (missing.as_str(), 404, "Session not found"),
        ("/sessions/none", 422, "must be a UUID"),
        ("/sessions?min_score=many", 422, "min_score"),
    ] {
        let page = browser.get(path).await;
        assert_eq!(page.status, status, "{path}");
        assert!(
            page.shows("<!doctype html>") && page.shows(words),
            "{path}: {}",
            page.text
        );
        assert!(page.policy.contains("default-src 'none'"), "{path}");
    }
    let document = server.get("/nowhere").send().await.unwrap();
    assert_eq!(
        document.headers()["content-type"],
        "application/problem+json"
    );
    let page = browser.get("/api/v1/nowhere").await;
    assert!(
        !page.shows("<html"),
        "programs' paths answer documents: {}",
        page.text
    );
}

#[tokio::test]
async fn empty_service_shows_first_steps_and_loads_samples() {
    let server = Server::start(sqlite().await, Setup::default()).await;
    let mut browser = Browser::of(&server);
    assert!(browser.get("/sessions").await.shows("No sessions yet"));
    let first = browser.get("/").await;
    assert!(first.shows("Load samples") && first.shows("curl -X PUT"));
    let token = first.field("form_token");
    let loaded = browser.post("/samples", &[("form_token", &token)]).await;
    assert_eq!(
        (loaded.status.as_u16(), loaded.location.as_str()),
        (303, "/sessions")
    );
    let list = browser.get("/sessions").await;
    assert!(list.shows("CryptoMinerDetected") && list.shows("Not scored"));
    let jobs = server.json_of("/api/v1/jobs").await;
    assert_eq!(
        jobs["items"],
        json!([]),
        "nothing is scored because it arrived"
    );
    let none = browser.get("/sessions?tag=nobody-has-this").await;
    assert!(none.shows("No matching sessions") && none.shows("Clear the filters"));
}

#[tokio::test]
async fn repeated_form_acts_once_and_forged_form_is_rejected() {
    let server = Server::start(sqlite().await, Setup::default()).await;
    let session = server.session().await;
    let path = format!("/sessions/{session}/score-now");
    let mut browser = Browser::of(&server);
    let page = browser.get(&format!("/sessions/{session}")).await;
    let (token, key) = (page.field("form_token"), page.field("key"));

    let mut stranger = Browser::of(&server);
    for fields in [
        vec![],
        vec![("form_token", token.as_str()), ("key", key.as_str())],
    ] {
        let refused = stranger.post(&path, &fields).await;
        assert_eq!(refused.status, 403, "{}", refused.text);
    }
    let elsewhere = form(server.post(&path), &[("form_token", token.as_str())]);
    let elsewhere = elsewhere.header("origin", "https://evil.example");
    assert_eq!(browser.send(elsewhere).await.status, 403);
    assert_eq!(server.json_of("/api/v1/jobs").await["items"], json!([]));

    let fields = [("form_token", token.as_str()), ("key", key.as_str())];
    for _ in 0..2 {
        let sent = browser.post(&path, &fields).await;
        assert_eq!(sent.status, 303, "{}", sent.text);
        assert_eq!(sent.location, format!("/sessions/{session}"));
    }
    let jobs = server.json_of("/api/v1/jobs").await;
    assert_eq!(jobs["items"].as_array().unwrap().len(), 1);
    let page = browser.get(&format!("/sessions/{session}")).await;
    assert!(page.shows("queued") && page.shows("http-equiv=\"refresh\""));
}

#[tokio::test]
async fn sign_in_is_needed_once_and_readers_see_no_actions() {
    let server = Server::start(sqlite().await, guarded()).await;
    let mut browser = Browser::of(&server);
    let asked = browser.get("/sessions?tag=a").await;
    assert_eq!(asked.status, 303);
    assert_eq!(asked.location, "/sign-in?next=%2Fsessions%3Ftag%3Da");
    // A fragment doesn't redirect, because that would lose text typed into the open page.
    let piece = server.get("/status-bar").header("hx-request", "true");
    let piece = browser.send(piece).await;
    assert_eq!(piece.status, 401);
    assert!(piece.shows("role=\"alert\"") && piece.location.is_empty());
    let form = browser.get(&asked.location).await;
    let token = form.field("form_token");
    let wrong = [
        ("form_token", token.as_str()),
        ("token", "no-token"),
        ("next", "/sessions?tag=a"),
    ];
    let refused = browser.post("/sign-in", &wrong).await;
    assert_eq!(refused.status, 401);
    assert!(refused.shows("This token is not configured"));
    let right = [
        ("form_token", token.as_str()),
        ("token", "r-token-of-a-test"),
        ("next", "//evil.example"),
    ];
    let inside = browser.post("/sign-in", &right).await;
    assert_eq!(
        (inside.status.as_u16(), inside.location.as_str()),
        (303, "/")
    );

    let overview = browser.get("/").await;
    assert_eq!(overview.status, 200);
    assert!(overview.shows("viewer") && overview.shows("Sign out"));
    assert!(
        !overview.shows("<button class=\"main\">Load samples"),
        "{}",
        overview.text
    );
    let token = overview.field("form_token");
    for path in ["/samples", "/queue/pause"] {
        let refused = browser.post(path, &[("form_token", &token)]).await;
        assert_eq!(refused.status, 403, "{path}: {}", refused.text);
    }
    let queue = browser.get("/queue").await;
    assert!(!queue.shows("Pause the queue"));

    let out = browser.post("/sign-out", &[("form_token", &token)]).await;
    assert_eq!(out.status, 303);
    assert_eq!(browser.get("/").await.status, 303);

    let mut ci = Browser::of(&server);
    let token = ci.get("/sign-in").await.field("form_token");
    ci.post(
        "/sign-in",
        &[("form_token", &token), ("token", "e-token-of-a-test")],
    )
    .await;
    let inside = ci.get("/").await;
    assert!(inside.shows("Load samples"));
    let stale = ci.post("/queue/pause", &[("form_token", &token)]).await;
    assert!(stale.shows("out of date"), "{}", stale.text);
    let token = inside.field("form_token");
    let refused = ci.post("/queue/pause", &[("form_token", &token)]).await;
    assert_eq!(
        refused.status, 403,
        "the door asks for the scope of the route behind it"
    );
    assert!(refused.shows("admin"), "{}", refused.text);
}

#[tokio::test]
async fn agent_text_is_escaped() {
    let server = Server::start(sqlite().await, Setup::default()).await;
    let script = "<script>alert(1)</script>";
    let session = server
        .session_with(json!({
            "alert_type": script, "agent": script, "author": script, "tags": [script],
            "alert_data": {"a": script},
            "final_analysis": "<img src=x onerror=alert(1)> [x](javascript:alert(1)) ![p](https://evil.example/p)",
            "conversation": [
                {"role": script, "content": "# a\n<b onclick=x>y</b>"},
                {"role": "tool", "tool_name": script, "content": script}],
        }))
        .await;
    let mut browser = Browser::of(&server);
    for path in [
        "/sessions".to_owned(),
        format!("/sessions/{session}"),
        format!("/sessions/{session}/technical"),
        "/sessions?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E".to_owned(),
    ] {
        let page = browser.get(&path).await;
        assert_eq!(page.status, 200, "{path}");
        for bad in ["<script>", "<img", "<b onclick", "href=\"javascript"] {
            assert!(!page.shows(bad), "{path} holds {bad}");
        }
        assert!(
            page.shows("&lt;script&gt;") || page.shows("&#60;script&#62;"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn list_is_sorted_by_score_and_preserves_its_filters() {
    let server = Server::start(sqlite().await, Setup::default()).await;
    let (low, _) = server.scored(31).await;
    let (high, _) = server.scored(93).await;
    let (low, high) = (low.to_string(), high.to_string());
    let mut browser = Browser::of(&server);
    let page = browser.get("/sessions?min_score=30").await;
    assert!(page.shows("/sessions?min_score=30&#38;sort=lowest_score"));
    let order = |page: &Page| page.text.find(&low) < page.text.find(&high);
    let page = browser.get("/sessions?sort=lowest_score").await;
    assert!(order(&page) && page.shows("aria-sort=\"ascending\""));
    assert!(page.shows("/rescore\""), "the order is no filter");
    let page = browser
        .get("/sessions?sort=highest_score&min_score=30")
        .await;
    assert!(!order(&page) && page.shows("aria-sort=\"descending\""));
    assert!(page.shows("/sessions?min_score=30\""), "back to the newest");
}

#[tokio::test]
async fn score_is_rated_and_backlog_planned_before_it_runs() {
    let server = Server::start(sqlite().await, Setup::default()).await;
    let (_, score) = server.scored(72).await;
    let mut browser = Browser::of(&server);
    let page = browser.get(&format!("/scores/{score}")).await;
    let (token, key) = (page.field("form_token"), page.field("key"));
    let rating = [
        ("form_token", token.as_str()),
        ("key", key.as_str()),
        ("total", "41"),
        ("comment", "too kind"),
    ];
    let rated = browser
        .post(&format!("/scores/{score}/rate"), &rating)
        .await;
    assert_eq!(rated.status, 303, "{}", rated.text);
    let page = browser.get(&format!("/scores/{score}")).await;
    assert!(
        page.shows("41 / 100 failed") && page.shows("too kind"),
        "{}",
        page.text
    );
    let wrong = [("form_token", token.as_str()), ("total", "a lot")];
    let refused = browser.post(&format!("/scores/{score}/rate"), &wrong).await;
    assert_eq!(refused.status, 422);
    assert!(
        refused.shows("an integer from 0 to 100"),
        "{}",
        refused.text
    );

    let ask = [
        ("form_token", token.as_str()),
        ("force", "1"),
        ("name", "again"),
    ];
    let plan = browser.post("/rescore", &ask).await;
    assert_eq!(plan.status, 200, "{}", plan.text);
    assert!(
        plan.shows("Plan") && plan.shows("Score 1 session<"),
        "{}",
        plan.text
    );
    assert_eq!(server.json_of("/api/v1/batches").await["items"], json!([]));
    let key = plan.field("key");
    let sure = [
        ("form_token", token.as_str()),
        ("force", "1"),
        ("name", "again"),
        ("key", key.as_str()),
    ];
    for _ in 0..2 {
        let begun = browser.post("/rescore/go", &sure).await;
        assert_eq!(begun.status, 303, "{}", begun.text);
        let batches = server.json_of("/api/v1/batches").await;
        let batches = batches["items"].as_array().unwrap();
        assert_eq!(batches.len(), 1, "{batches:?}");
        let id = batches[0]["batch_id"].as_str().unwrap();
        assert_eq!(begun.location, format!("/batches/{id}"));
    }
    let other = [&sure[..2], &[("name", "another"), sure[3]]].concat();
    let reused = browser.post("/rescore/go", &other).await;
    assert_eq!(reused.status, 422, "{}", reused.text);
    assert!(
        reused.shows("was sent with another body"),
        "{}",
        reused.text
    );
}

#[tokio::test]
async fn assets_are_cached_while_unchanged() {
    let server = Server::start(sqlite().await, guarded()).await;
    for (name, kind) in [
        ("gavel.css", "text/css; charset=utf-8"),
        ("live.js", "text/javascript; charset=utf-8"),
        ("htmx.min.js", "text/javascript; charset=utf-8"),
        ("live.js", "text/javascript; charset=utf-8"),
        ("keys.js", "text/javascript; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
    ] {
        let path = format!("/assets/{name}");
        let first = server.get(&path).send().await.unwrap();
        assert_eq!(first.status(), 200, "{name} needs no token");
        assert_eq!(first.headers()["content-type"], kind);
        let tag = first.headers()["etag"].clone();
        let again = server.get(&path).header("if-none-match", tag);
        assert_eq!(again.send().await.unwrap().status(), 304, "{name}");
    }
    assert_eq!(
        server.get("/assets/other").send().await.unwrap().status(),
        404
    );
}

#[tokio::test]
async fn htmx_gets_fragments_and_problems_as_fragments() {
    let server = Server::start(sqlite().await, Setup::default()).await;
    let session = server.session().await;
    let mut browser = Browser::of(&server);
    let gone = Uuid::now_v7();
    let rows = server.get(&format!("/sessions/rows?ids={session},{gone}"));
    let rows = browser.send(rows.header("hx-request", "true")).await;
    assert!(!rows.shows("<html"));
    let wanted = format!(
        "<hx-partial hx-target=\"#row-{session}\" hx-swap=\"outerMorph\"><tr id=\"row-{session}\""
    );
    assert!(rows.shows(&wanted), "{}", rows.text);
    assert!(rows.shows(&format!("#row-{gone}\" hx-swap=\"delete\"")));
    let none = server.get("/sessions/rows?ids=");
    let none = browser.send(none.header("hx-request", "true")).await;
    assert_eq!((none.status.as_u16(), none.text.trim()), (200, ""));
    let token = browser.get("/sessions").await.field("form_token");
    let path = format!("/sessions/{}/score-now", Uuid::now_v7());
    let wrong = form(server.post(&path), &[("form_token", token.as_str())]);
    let refused = browser.send(wrong.header("hx-request", "true")).await;
    assert_eq!(refused.status, 404);
    assert!(
        refused.shows("role=\"alert\"") && !refused.shows("<html"),
        "{}",
        refused.text
    );
}
