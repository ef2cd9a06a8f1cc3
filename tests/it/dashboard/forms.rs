//! Forms: stale, rejected and confirmed ones, and sign-in redirects.

use super::*;

fn hidden(text: &str, behind: &str, name: &str) -> String {
    let at = text
        .find(behind)
        .unwrap_or_else(|| panic!("{behind}: {text}"));
    let from = format!("name=\"{name}\" value=\"");
    let at = at
        + text[at..]
            .find(&from)
            .unwrap_or_else(|| panic!("{name}: {text}"))
        + from.len();
    let end = text[at..].find('"').unwrap();
    text[at..at + end].to_owned()
}

impl Browser<'_> {
    /// Sends a form with a stale token and a same-origin header.
    async fn stale(&self, path: &str, fields: &[(&str, &str)]) -> Shown {
        let mut fields = fields.to_vec();
        fields.push(("form_token", "0d7c5b0e6a7e4d0c8f6a3b1c2d3e4f50"));
        let request = self.server.post(path).header("origin", &self.server.base);
        self.send(fields_of(request, &fields)).await
    }
}

#[tokio::test]
async fn sign_in_redirects_only_locally_and_external_links_work() {
    let server = Server::with(guarded()).await;
    let browser = Browser::of(&server);
    for next in [
        "/\t/evil.example/x",
        "/\\evil.example",
        "//evil.example",
        "/a\r\n/b",
    ] {
        let sent = browser
            .form(
                "/sign-in",
                &[("token", "r-token-of-a-test"), ("next", next)],
            )
            .await;
        assert_eq!(
            (sent.status, sent.location.as_deref()),
            (303, Some("/")),
            "{next:?}"
        );
    }
    let form = server.get("/sign-in").send().await.unwrap();
    let cookie = header(&form, "set-cookie").unwrap();
    assert!(
        cookie.starts_with("gavel_form=") && cookie.contains("SameSite=Lax"),
        "{cookie}"
    );
    let fields = [
        ("token", "r-token-of-a-test"),
        ("form_token", browser.form_token.as_str()),
    ];
    let sent = fields_of(server.post("/sign-in"), &fields);
    let sent = sent.header("cookie", &browser.cookie).send().await.unwrap();
    let cookie = header(&sent, "set-cookie").unwrap();
    assert!(
        cookie.starts_with("gavel_sign_in=") && cookie.contains("HttpOnly; SameSite=Lax"),
        "{cookie}"
    );
    let open = Server::with(Setup::default()).await;
    let text = Browser::of(&open).page("/sign-in").await;
    assert!(
        text.contains("requires no token") && !text.contains("name=\"token\""),
        "{text}"
    );
}

#[tokio::test]
async fn stale_form_preserves_input_and_can_be_sent_again() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    let (_, score) = server.scored(72).await;
    let path = format!("/scores/{score}/rate");
    let typed = [
        ("total", "41"),
        ("comment", "too <b>kind</b>"),
        ("key", "k-1"),
    ];
    let told = browser.stale(&path, &typed).await;
    assert_eq!(told.status, 403);
    harmless(&path, &told.text);
    let parts = [
        "href=\"/sessions\">Sessions",
        "This form is out of date",
        "Your input",
        "<dd>41</dd>",
        "too &#60;b&#62;kind&#60;/b&#62;",
        &format!("action=\"{path}\""),
        "Send it again",
    ];
    in_order(&told.text, &parts);
    let ratings = format!("/api/v1/scores/{score}/ratings");
    assert_eq!(server.json_of(&ratings).await["items"], json!([]));
    assert_eq!(hidden(&told.text, "<form", "key"), "k-1");
    assert_eq!(
        hidden(&told.text, "<form", "form_token"),
        browser.form_token
    );
    let again = browser.form(&path, &typed).await;
    assert_eq!(again.status, 303, "{}", again.text);
    assert_eq!(server.json_of(&ratings).await["items"][0]["total"], 41);

    let silent = fields_of(server.post(&path), &typed);
    let silent = browser.send(silent).await;
    assert_eq!(silent.status, 403);
    assert!(
        silent.text.contains("too &#60;b") && !silent.text.contains("Send it again"),
        "nobody says that the form is of this site: {}",
        silent.text
    );
    let piece = fields_of(server.post(&path), &typed).header("hx-request", "true");
    let piece = browser.send(piece).await;
    assert_eq!(piece.status, 403);
    assert!(piece.text.contains("This form is out of date") && !piece.text.contains("<html"));
    let secret = browser.stale("/sign-in", &[("token", "s3cret")]).await;
    assert_eq!(secret.status, 403);
    assert!(!secret.text.contains("s3cret"), "{}", secret.text);
}

#[tokio::test]
async fn empty_rating_is_rejected_with_a_form_message() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    let (_, score) = server.scored(72).await;
    let path = format!("/scores/{score}/rate");
    let refused = browser
        .form(&path, &[("comment", "hm"), ("key", "k-1")])
        .await;
    assert_eq!(refused.status, 422);
    let says = "choose a rating, or enter points from 0 to 100";
    assert!(refused.text.contains(says), "{}", refused.text);
    assert!(!refused.text.contains("quality"), "{}", refused.text);
    assert!(refused.text.contains("value=\"hm\""), "{}", refused.text);
    let twice = [("rating", "good"), ("total", "80"), ("key", "k-2")];
    let refused = browser.form(&path, &twice).await;
    assert_eq!(refused.status, 422);
    let says = "<b>Your rating:</b> is chosen together with points";
    let marked = "name=\"rating\" aria-invalid=\"true\"";
    assert!(refused.text.contains(marked), "{}", refused.text);
    assert!(refused.text.contains(says), "{}", refused.text);
}

#[tokio::test]
async fn signed_out_user_returns_to_the_page_with_the_form() {
    let server = Server::with(guarded()).await;
    let (_, score) = server.scored_by("e-token-of-a-test").await;
    let path = format!("/scores/{score}/rate");
    let browser = Browser::of(&server);
    let typed = [("total", "41"), ("form_token", &browser.form_token)];
    let here = server.base.trim_end_matches('/');
    for (from, to) in [
        (
            format!("{here}/scores/{score}?a=b"),
            format!("/sign-in?next=%2Fscores%2F{score}%3Fa%3Db"),
        ),
        (
            "http://elsewhere.example/x".to_owned(),
            "/sign-in".to_owned(),
        ),
    ] {
        let sent = fields_of(server.post(&path), &typed).header("referer", from);
        let told = browser.send(sent).await;
        assert_eq!((told.status, told.location), (303, Some(to)));
    }
}

#[tokio::test]
async fn unreadable_criteria_are_reported_on_the_criteria_page() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    assert!(
        !browser
            .page("/criteria")
            .await
            .contains("could not be read")
    );
    let why = "criteria.yaml:3:7: <expected> a list".to_owned();
    server
        .health
        .degraded
        .lock()
        .unwrap()
        .push(("criteria", why));
    let page = browser.page("/criteria").await;
    in_order(
        &page,
        &[
            "Criteria could not be read",
            "criteria.yaml:3:7: &#60;expected&#62; a list",
            "stays in force",
        ],
    );
}

#[tokio::test]
async fn without_scripts_pause_cancel_and_paid_actions_are_confirmed() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    let (_, job) = server.queued_session().await;
    let (scored, _) = server.scored(72).await;
    let cancel = format!("/jobs/{job}/cancel");
    let again = format!("/sessions/{scored}/score-now");
    for (path, force, question, no, back) in [
        (
            "/queue/pause",
            "",
            "Pause the queue?",
            ">Cancel</a>",
            "/queue",
        ),
        (
            "/judges/judge-a/pause",
            "",
            "Pause judge-a?",
            ">Cancel</a>",
            "/queue",
        ),
        (
            cancel.as_str(),
            "",
            "Cancel this job?",
            ">Back</a>",
            "/queue",
        ),
        (
            again.as_str(),
            "1",
            "Score this session again?",
            "the judge call is paid again",
            "/sessions",
        ),
    ] {
        let fields = [("key", "the-key"), ("back", back), ("force", force)];
        let asked = browser.form(path, &fields).await;
        assert_eq!(asked.status, 200, "{path}: {}", asked.text);
        harmless(path, &asked.text);
        in_order(&asked.text, &[question, &format!("action=\"{path}\"")]);
        assert!(asked.text.contains(no), "{path}: {}", asked.text);
        assert!(asked.text.contains(&format!("href=\"{back}\"")));
        assert_eq!(hidden(&asked.text, "action=\"", "key"), "the-key");
        assert_eq!(hidden(&asked.text, "action=\"", "sure"), "1");
    }
    assert_eq!(server.json_of("/api/v1/queue").await["paused"], false);
    assert_eq!(server.job(job).await.state.to_string(), "queued");
    let judges = server.json_of("/api/v1/judges").await;
    assert_eq!(judges["items"][0]["hold"], Value::Null);

    for path in [
        "/queue/pause",
        "/judges/judge-a/pause",
        cancel.as_str(),
        again.as_str(),
    ] {
        let fields = [("back", "/queue"), ("force", "1"), ("sure", "1")];
        let done = browser.form(path, &fields).await;
        assert_eq!(
            (done.status, done.location.as_deref()),
            (303, Some("/queue")),
            "{path}: {}",
            done.text
        );
    }
    assert_eq!(server.json_of("/api/v1/queue").await["paused"], true);
    assert_eq!(server.job(job).await.state.to_string(), "cancelled");
}

#[tokio::test]
async fn rejected_form_is_shown_again_with_its_error() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    let (_, score) = server.scored(72).await;

    let list = browser
        .send(server.get("/sessions?min_score=many&tag=shop"))
        .await;
    assert_eq!(list.status, 422);
    harmless("the list", &list.text);
    in_order(
        &list.text,
        &[
            "aria-current=\"page\">Sessions",
            "value=\"many\"",
            "value=\"shop\"",
            "min_score</code>",
        ],
    );

    let fields = [
        ("tag", "shop"),
        ("name", "again"),
        ("budget_usd", "a lot"),
        ("sample", "some"),
        ("min_score", "x"),
        ("force", "1"),
    ];
    let plan = browser.form("/rescore", &fields).await;
    assert_eq!(plan.status, 422);
    let parts = [
        "Scoring was not started.",
        "tag: shop",
        "checked",
        "value=\"a lot\"",
        "value=\"again\"",
        "The size of the sample is not an integer above 0",
        "an amount of USD",
    ];
    in_order(&plan.text, &parts);
    assert!(
        plan.text.contains("<b>min score</b> must be 0-100"),
        "{}",
        plan.text
    );

    let rate = format!("/scores/{score}/rate");
    let rated = browser
        .form(&rate, &[("total", "a lot"), ("comment", "too kind")])
        .await;
    assert_eq!(rated.status, 422);
    let parts = [
        "an integer from 0 to 100",
        "value=\"a lot\"",
        "value=\"too kind\"",
    ];
    in_order(&rated.text, &parts);

    let missing = browser.send(server.get("/nowhere")).await;
    assert_eq!(missing.status, 404);
    in_order(
        &missing.text,
        &[
            "href=\"/sessions\">Sessions",
            "href=\"/queue\">Queue",
            "Page not found",
        ],
    );
}

#[tokio::test]
async fn rating_names_its_author_and_the_rating_it_replaces() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    let (_, score) = server.scored(72).await;
    let (page, rate) = (format!("/scores/{score}"), format!("/scores/{score}/rate"));
    let before = browser.page(&page).await;
    assert!(before.contains("stored under api-client") && before.contains("name=\"by\""));
    assert!(!before.contains(": here, <b>"));
    for (by, total) in [("", "41"), ("ann", "80")] {
        let fields = [("total", total), ("comment", "too kind"), ("by", by)];
        assert_eq!(browser.form(&rate, &fields).await.status, 303);
    }
    let after = browser.page(&page).await;
    in_order(
        &after,
        &[
            "80 / 100 good</b> by ann",
            "41 / 100 failed</b> by api-client",
            ": here, <b>41 / 100 failed: too kind</b>",
        ],
    );
    let named = Server::with(guarded()).await;
    let (_, score) = named.scored_by("e-token-of-a-test").await;
    let page = Browser::signed_in(&named, "e-token-of-a-test")
        .await
        .page(&format!("/scores/{score}"))
        .await;
    assert!(page.contains("Your ratings are stored under ci") && !page.contains("name=\"by\""));
}

impl Server {
    pub(super) async fn scored_by(&self, token: &str) -> (Uuid, Uuid) {
        let id = Uuid::now_v7();
        let put = self.request(Method::PUT, &format!("/api/v1/sessions/{id}"));
        let put = put.bearer_auth(token).json(&session_body());
        json_of(put.send().await.unwrap(), 201).await;
        let asked = self.post(&score_path(id)).bearer_auth(token);
        let job = job_id(&json_of(asked.send().await.unwrap(), 202).await);
        (id, self.succeed(job, 60).await)
    }
}

#[tokio::test]
async fn rescore_accepts_ids_and_runs_the_shown_plan() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    let sessions = [
        server.session().await,
        server.session().await,
        server.session().await,
    ];
    let ids = format!("{}, {}", sessions[0], sessions[1]);
    let from_list = browser
        .page(&format!("/rescore?ids={},{}", sessions[0], sessions[1]))
        .await;
    assert!(from_list.contains("ids: "), "{from_list}");
    let plan = browser
        .form("/rescore", &[("ids", ids.as_str()), ("sample", "2")])
        .await;
    assert_eq!(plan.status, 200, "{}", plan.text);
    assert!(plan.text.contains("Score 2 sessions"), "{}", plan.text);
    let wrong = browser.form("/rescore", &[("ids", "none")]).await;
    assert_eq!(wrong.status, 422);
    in_order(&wrong.text, &["Scoring was not started.", "<b>ids</b>"]);

    let current = server.enqueue.current_criteria().hash.0.clone();
    let all = browser.form("/rescore", &[("tag", "prod")]).await;
    let field = |name: &str| hidden(&all.text, "action=\"/rescore/go\"", name);
    assert_eq!(
        (field("with"), field("max")),
        (current.clone(), "3".to_owned())
    );
    server.session().await;
    let (with, max) = (field("with"), field("max"));
    let sure = [
        ("tag", "prod"),
        ("with", with.as_str()),
        ("max", max.as_str()),
    ];
    let begun = browser.form("/rescore/go", &sure).await;
    assert_eq!(begun.status, 303, "{}", begun.text);
    let batch = server
        .json_of(&format!("/api/v1{}", begun.location.unwrap()))
        .await;
    assert_eq!(batch["criteria_hash"], current);
    let id: Uuid = batch["batch_id"].as_str().unwrap().parse().unwrap();
    let stored = server.store().batches().get(id).await.unwrap().unwrap();
    assert_eq!(stored.plan.unwrap().max, Some(3));
}

#[tokio::test]
async fn typed_text_survives_a_sign_out_in_another_tab() {
    let server = Server::with(guarded()).await;
    let path = format!("/scores/{}/rate", Uuid::now_v7());
    let browser = Browser::signed_in(&server, "e-token-of-a-test").await;
    let typed = [
        ("rating", "weak"),
        ("comment", "It says <b>what</b> failed."),
        ("back", "/sessions"),
        ("form_token", browser.form_token.as_str()),
    ];
    // The same browser without its token, as after a sign-out in another tab.
    let mut out = Browser::of(&server);
    out.form_token.clone_from(&browser.form_token);
    out.cookie = format!("gavel_form={}", out.form_token);
    let ours = |fields| fields_of(server.post(&path).header("origin", &server.base), fields);
    let kept = out.send(ours(&typed)).await;
    assert_eq!(kept.status, 401, "{}", kept.text);
    harmless("signed out", &kept.text);
    in_order(
        &kept.text,
        &[
            "You are signed out",
            "href=\"/sign-in?next=%2Fsessions\" target=\"_blank\"",
            "<dt>comment</dt><dd>It says &#60;b&#62;what&#60;/b&#62; failed.</dd>",
            &format!("action=\"{path}\""),
            "Send it again",
        ],
    );
    // After the next sign-in, the button sends the saved form.
    let token = hidden(&kept.text, "You are signed out", "form_token");
    assert_eq!(token, out.form_token);
    let sent = browser.send(ours(&typed)).await;
    assert_eq!(sent.status, 404, "it is heard: {}", sent.text);
    // No typed text: redirected to the sign-in. A cross-site form isn't shown either, because the user didn't type it.
    for request in [
        ours(&[("form_token", out.form_token.as_str())]),
        fields_of(server.post(&path), &typed),
        server
            .post(&path)
            .header("origin", &server.base)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(format!("why={}", "x".repeat(70_000))),
    ] {
        let led = out.send(request).await;
        assert_eq!(led.status, 303, "{}", led.text);
        assert!(led.location.unwrap().starts_with("/sign-in"));
    }
}
