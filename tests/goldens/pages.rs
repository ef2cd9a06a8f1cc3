use std::collections::BTreeMap;

use crate::golden;
use crate::seeded_service::{LAST_DAY, Service};
use crate::support::documented_pages;

struct Browser {
    client: reqwest::Client,
    cookie: String,
}

const FORM_TOKEN: &str = "0123456789abcdef0123456789abcdef";

impl Browser {
    fn new() -> Self {
        let redirect = reqwest::redirect::Policy::none();
        Self {
            client: reqwest::Client::builder()
                .redirect(redirect)
                .build()
                .unwrap(),
            cookie: format!("gavel_form={FORM_TOKEN}"),
        }
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> String {
        let request = request.header("accept", "text/html");
        let answer = request.header("cookie", &self.cookie).send().await.unwrap();
        let status = answer.status().as_u16();
        let location = answer.headers().get("location").cloned();
        let location = location.map(|to| format!("location: {}\n", to.to_str().unwrap()));
        let text = answer.text().await.unwrap();
        format!("{status}\n{}{}", location.unwrap_or_default(), text)
    }

    async fn get(&self, service: &Service, path: &str) -> String {
        self.send(self.client.get(format!("{}{path}", service.api.base())))
            .await
    }

    async fn post(&self, service: &Service, path: &str, fields: &[(&str, &str)]) -> String {
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.append_pair("form_token", FORM_TOKEN)
            .extend_pairs(fields);
        let request = self.client.post(format!("{}{path}", service.api.base()));
        let media_type = "application/x-www-form-urlencoded";
        let request = request.header("content-type", media_type);
        self.send(request.body(body.finish())).await
    }

    async fn upload(&self, service: &Service, path: &str, file: &str) -> String {
        let part = |head: &str, text: &str| {
            format!("--part\r\nContent-Disposition: form-data; {head}\r\n\r\n{text}\r\n")
        };
        let body = [
            part("name=\"form_token\"", FORM_TOKEN),
            part("name=\"kind\"", "query"),
            part("name=\"name\"", "Wrong"),
            part("name=\"file\"; filename=\"suite.csv\"", file),
            "--part--\r\n".to_owned(),
        ];
        let request = self.client.post(format!("{}{path}", service.api.base()));
        let request = request.header("content-type", "multipart/form-data; boundary=part");
        self.send(request.body(body.concat())).await
    }
}

fn split_elements(html: &str) -> String {
    let mut text = String::with_capacity(html.len());
    for (n, part) in html.split('<').enumerate() {
        if n > 0 {
            text.push_str(if part.starts_with('/') { "<" } else { "\n<" });
        }
        let words: Vec<&str> = part.split_whitespace().collect();
        let opens = part.starts_with(char::is_whitespace) && n == 0;
        text.push_str(if opens { "\n" } else { "" });
        text.push_str(&words.join(" "));
    }
    text
}

/// Returns the part specific to a page: status, title, main part, and messages of the frame.
fn page_content(html: &str) -> String {
    let between = |from: &str, to: &str| {
        let (_, rest) = html.split_once(from)?;
        Some(format!(
            "{from}{}",
            rest.split_once(to).map_or(rest, |(part, _)| part)
        ))
    };
    let (head, _) = html.split_once("<!doctype").unwrap_or((html, ""));
    let parts = [
        Some(head.to_owned()),
        between("<title", "<link"),
        between("<section id=\"status-bar\"", "<main"),
        between("<main", "</body>"),
    ];
    parts.into_iter().flatten().collect()
}

const WRONG_SUITE: &str = "id,prompt,generated_kql,expected_kql,threshold\n\
    a,How many?,T | count,T | count,\nb,Which?,T | take 5,,\nc,Who?,T,T,much\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_match_golden_files() {
    let Some(service) = Service::start().await else {
        return;
    };
    let browser = Browser::new();
    let mask = service.mask().text(FORM_TOKEN, "form-token");
    let mut texts = BTreeMap::new();
    let mut keep = |name: &str, html: String, whole: bool| {
        let html = if whole { html } else { page_content(&html) };
        let text = split_elements(&mask.apply(&html));
        assert!(
            texts.insert(format!("{name}.html"), text).is_none(),
            "{name}"
        );
    };
    for (name, path) in addresses(&service) {
        let html = browser.get(&service, &path).await;
        keep(&name, html, name == "overview");
    }
    let plan = browser.post(&service, "/rescore", &[("tag", "shop")]).await;
    keep("rescore-plan", plan, false);
    let fields = [("tag", "shop"), ("purpose", "repeat"), ("repeats", "many")];
    let refused = browser.post(&service, "/rescore", &fields).await;
    keep("rescore-refused", refused, false);
    let refused = browser
        .upload(&service, "/batches/upload", WRONG_SUITE)
        .await;
    keep("upload-refused", refused, false);
    service.stop().await;
    golden::check_folder("pages", &texts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_pages_match_golden_files() {
    let tokens = ("GAVEL_AUTH_TOKENS", "reader:read:reading-the-pages");
    let Some(open) = Service::empty(LAST_DAY, &[]).await else {
        return;
    };
    let guarded = Service::empty(LAST_DAY, &[tokens]).await.unwrap();
    let browser = Browser::new();
    let mut texts = BTreeMap::new();
    let mask = open.mask().text(FORM_TOKEN, "form-token");
    for path in [
        "/",
        "/sessions",
        "/batches",
        "/insights",
        "/queue",
        "/rescore",
        "/annotate",
        "/compare",
    ] {
        let name = if path == "/" { "overview" } else { &path[1..] };
        let html = browser.get(&open, path).await;
        let text = split_elements(&mask.apply(&page_content(&html)));
        texts.insert(format!("{name}.html"), text);
    }
    let mask = guarded.mask().text(FORM_TOKEN, "form-token");
    let sign_in = browser.get(&guarded, "/sign-in").await;
    let refused = browser
        .post(&guarded, "/sign-in", &[("token", "wrong")])
        .await;
    for (name, html) in [("sign-in", sign_in), ("sign-in-refused", refused)] {
        texts.insert(format!("{name}.html"), split_elements(&mask.apply(&html)));
    }
    open.stop().await;
    guarded.stop().await;
    golden::check_folder("pages-without-data", &texts);
}

/// Addresses by page name: from `docs/pages.md` and from the stored data.
fn addresses(service: &Service) -> Vec<(String, String)> {
    let stored = &service.stored;
    let [older, newer] = stored.scores;
    let (current, other) = (&stored.current, &stored.other);
    let first = stored.sessions[0];
    let sample = stored.samples[0];
    let (before, after) = (stored.before, stored.after);
    let mut pages: Vec<(String, String)> = [
        ("session-scored", format!("/sessions/{sample}")),
        ("session-technical", format!("/sessions/{sample}/technical")),
        ("session-alert", format!("/sessions/{sample}/alert")),
        ("session-analysis", format!("/sessions/{sample}/analysis")),
        ("session-message", format!("/sessions/{sample}/messages/1")),
        ("session-score", format!("/sessions/{first}/score")),
        ("session-history", format!("/sessions/{first}/history")),
        (
            "session-in-progress",
            format!("/sessions/{}", stored.samples[2]),
        ),
        (
            "session-unscored",
            format!("/sessions/{}", stored.samples[3]),
        ),
        (
            "session-unscored-score",
            format!("/sessions/{}/score", stored.samples[3]),
        ),
        ("session-failed", format!("/sessions/{}", stored.failed)),
        ("session-waiting", format!("/sessions/{}", stored.waiting)),
        (
            "session-state",
            format!("/sessions/{}/state", stored.waiting),
        ),
        (
            "session-unknown",
            "/sessions/00000000-0000-4000-8000-000000000000".to_owned(),
        ),
        (
            "sessions-filtered",
            "/sessions?tag=shop&max_score=80".to_owned(),
        ),
        (
            "sessions-by-score",
            "/sessions?sort=lowest_score".to_owned(),
        ),
        ("sessions-none", "/sessions?tag=nobody".to_owned()),
        ("sessions-refused", "/sessions?min_score=many".to_owned()),
        ("annotate-low-score", "/annotate?order=low_score".to_owned()),
        ("score", format!("/scores/{newer}")),
        ("score-replaced", format!("/scores/{older}")),
        ("score-calls", format!("/scores/{newer}/calls")),
        ("job-calls", format!("/jobs/{}/calls", stored.failed_job)),
        ("criteria-current", format!("/criteria/{current}")),
        ("criteria-other", format!("/criteria/{other}")),
        ("criteria-edit", format!("/criteria/{other}/edit")),
        ("compare-scores", format!("/compare?a={older}&b={newer}")),
        (
            "compare-criteria",
            format!("/compare?a={current}&b={other}"),
        ),
        ("compare-batches", format!("/compare?a={before}&b={after}")),
        ("batch-rescore", format!("/batches/{}", stored.rescore)),
        ("batch-preview", format!("/batches/{}", stored.preview)),
        ("batch-query", format!("/batches/{before}")),
        ("batch-failures", format!("/batches/{after}?show=failures")),
        ("batch-metrics", format!("/batches/{}", stored.metrics)),
        ("batch-qas", format!("/batches/{}", stored.qas)),
        ("batch-running", format!("/batches/{}", stored.unfinished)),
        (
            "batch-cancel",
            format!("/batches/{}/cancel", stored.unfinished),
        ),
        (
            "batch-pause",
            format!("/batches/{}/pause", stored.unfinished),
        ),
        (
            "batch-retry-errors",
            format!("/batches/{before}/retry-errors"),
        ),
        ("item-query-passed", format!("/batches/{before}/items/1")),
        ("item-query-missed", format!("/batches/{before}/items/3")),
        (
            "item-query-judge-error",
            format!("/batches/{before}/items/4"),
        ),
        (
            "item-query-not-executed",
            format!("/batches/{before}/items/5"),
        ),
        (
            "item-metrics",
            format!("/batches/{}/items/2", stored.metrics),
        ),
        ("item-qas", format!("/batches/{}/items/1", stored.qas)),
        (
            "rescore-filtered",
            "/rescore?tag=shop&min_score=10".to_owned(),
        ),
        ("page-unknown", "/nowhere".to_owned()),
        ("help", "/help".to_owned()),
        ("status-bar", "/status-bar".to_owned()),
    ]
    .into_iter()
    .map(|(name, path)| (name.to_owned(), path))
    .collect();
    for path in documented_pages() {
        let name = if path == "/" {
            "overview".to_owned()
        } else {
            path[1..].replace('/', "-")
        };
        if !pages.iter().any(|(known, _)| *known == name) {
            pages.push((name, path.to_owned()));
        }
    }
    pages
}
