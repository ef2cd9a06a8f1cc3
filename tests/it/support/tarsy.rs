//! Shared parts of both fake TARSys: sessions, injected errors, and a server that records every request. The format of
//! responses depends on the generation.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use serde_json::Value;
use tokio::sync::watch;
use uuid::Uuid;

use super::Served;

/// Start of the first session, microseconds.
const FIRST_US: i64 = 1_767_225_600_000_000; // 2026-01-01

/// Session of a fake TARSy.
#[derive(Debug, Clone)]
pub(crate) struct FakeSession {
    pub(crate) id: String,
    pub(crate) status: &'static str,
    pub(crate) began_us: i64,
    pub(crate) completed_us: Option<i64>,
    /// Topic of its conversation.
    pub(crate) text: String,
    /// Review of it; only in the newer generation.
    pub(crate) quality: Option<&'static str>,
}

impl FakeSession {
    /// The `n`th session; each starts a minute after the previous one and lasts 30 s.
    pub(crate) fn nth(n: usize) -> Self {
        let began_us = FIRST_US + i64::try_from(n).unwrap() * 60_000_000;
        Self {
            id: Uuid::now_v7().to_string(),
            status: "completed",
            began_us,
            completed_us: Some(began_us + 30_000_000),
            text: format!("session number {n}"),
            quality: None,
        }
    }

    pub(crate) fn uuid(&self) -> Uuid {
        self.id.parse().unwrap()
    }
}

/// Creates sessions, oldest first.
pub(crate) fn kept(count: usize) -> Vec<FakeSession> {
    (0..count).map(FakeSession::nth).collect()
}

/// Response in place of the regular one.
#[derive(Debug, Clone)]
pub(crate) enum FakeError {
    Status(u16),
    /// Status with a `Retry-After` in seconds.
    RetryAfter(u16, u32),
    Redirect(String),
    /// 200 with truncated JSON.
    BrokenJson,
    /// 200 with an HTML page.
    Html,
    Answer(Value),
    /// Waits for the release, then sends the regular response.
    Held,
}

/// Received request.
#[derive(Debug, Clone)]
pub(crate) struct ApiRequest {
    /// Path without the query.
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    /// Number of earlier requests with this path and query.
    pub(crate) before: usize,
}

impl ApiRequest {
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        let pair = self.query.iter().find(|(key, _)| key == name)?;
        Some(&pair.1)
    }

    /// All values of a parameter, including comma-separated ones.
    pub(crate) fn params(&self, name: &str) -> Vec<&str> {
        let mine = self.query.iter().filter(|(key, _)| key == name);
        mine.flat_map(|(_, value)| value.split(',')).collect()
    }

    /// Page number from 1, and page size.
    pub(crate) fn page(&self) -> (usize, usize) {
        let number = |name, default| self.param(name).map_or(default, |n| n.parse().unwrap());
        let (page, size) = (number("page", 1), number("page_size", 20));
        assert!((1..=100).contains(&size), "page_size {size}");
        (page, size)
    }
}

type Answers = fn(&[FakeSession], &ApiRequest) -> Option<Value>;
type Rule = Arc<dyn Fn(&Archive, &ApiRequest) -> Option<FakeError> + Send + Sync>;

/// Sessions of a fake TARSy, and its request log.
pub(crate) struct Archive {
    pub(crate) sessions: Mutex<Vec<FakeSession>>,
    rule: RwLock<Rule>,
    asked: Mutex<Vec<(String, Option<String>)>>,
    times: Mutex<HashMap<String, usize>>,
    open: watch::Sender<bool>,
}

/// Running fake TARSy; stops on drop.
pub(crate) struct TarsyServer {
    pub(crate) archive: Arc<Archive>,
    server: Served,
}

impl TarsyServer {
    /// Starts a server with these sessions and this response format.
    pub(crate) async fn start(answers: Answers, sessions: Vec<FakeSession>) -> Self {
        let archive = Arc::new(Archive {
            sessions: Mutex::new(sessions),
            rule: RwLock::new(Arc::new(|_, _| None)),
            asked: Mutex::default(),
            times: Mutex::default(),
            open: watch::Sender::new(false),
        });
        let router = Router::new()
            .fallback(answer)
            .with_state((archive.clone(), answers));
        let server = Served::start(router).await;
        Self { archive, server }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.server.address)
    }

    /// Sets the rule for injected responses. The rule may change the sessions.
    pub(crate) fn rule(
        &self,
        rule: impl Fn(&Archive, &ApiRequest) -> Option<FakeError> + Send + Sync + 'static,
    ) {
        *self.archive.rule.write().unwrap() = Arc::new(rule);
    }

    /// Releases waiting responses.
    pub(crate) fn release(&self) {
        self.archive.open.send_replace(true);
    }

    /// Number of requests with this text in path and query.
    pub(crate) fn asked(&self, part: &str) -> usize {
        let asked = self.archive.asked.lock().unwrap();
        asked.iter().filter(|(path, _)| path.contains(part)).count()
    }

    /// `authorization` headers of the requests.
    pub(crate) fn authorizations(&self) -> Vec<Option<String>> {
        let asked = self.archive.asked.lock().unwrap();
        asked.iter().map(|(_, header)| header.clone()).collect()
    }

    /// Ids of the current sessions.
    pub(crate) fn ids(&self) -> Vec<Uuid> {
        let sessions = self.archive.sessions.lock().unwrap();
        sessions.iter().map(FakeSession::uuid).collect()
    }
}

async fn answer(
    State((archive, answers)): State<(Arc<Archive>, Answers)>,
    request: Request,
) -> Response<Body> {
    let whole = request.uri().to_string();
    assert_eq!(request.method(), "GET", "a TARSy is only read: {whole}");
    let header = request.headers().get("authorization");
    let header = header.map(|value| value.to_str().unwrap().to_owned());
    let before = {
        archive.asked.lock().unwrap().push((whole.clone(), header));
        let mut times = archive.times.lock().unwrap();
        let times = times.entry(whole).or_default();
        *times += 1;
        *times - 1
    };
    let query = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(request.uri());
    let asked = ApiRequest {
        path: request.uri().path().to_owned(),
        query: query.unwrap().0,
        before,
    };
    let rule = archive.rule.read().unwrap().clone();
    let found = || {
        let found = answers(&archive.sessions.lock().unwrap(), &asked);
        match found {
            Some(body) => respond(200, &body.to_string()),
            None => respond(404, r#"{"error":"not found"}"#),
        }
    };
    match rule(&archive, &asked) {
        None => found(),
        Some(FakeError::Status(status)) => respond(status, r#"{"error":"as told"}"#),
        Some(FakeError::RetryAfter(status, seconds)) => {
            let mut response = respond(status, "{}");
            let headers = response.headers_mut();
            headers.insert("retry-after", seconds.into());
            response
        }
        Some(FakeError::Redirect(to)) => {
            let mut response = respond(302, "");
            response
                .headers_mut()
                .insert("location", to.parse().unwrap());
            response
        }
        Some(FakeError::BrokenJson) => respond(200, "{\"sessions\": ["),
        Some(FakeError::Html) => respond(200, "<!doctype html><title>TARSy</title>"),
        Some(FakeError::Answer(body)) => respond(200, &body.to_string()),
        Some(FakeError::Held) => {
            let mut open = archive.open.subscribe();
            let _ = open.wait_for(|open| *open).await;
            found()
        }
    }
}

fn respond(status: u16, body: &str) -> Response<Body> {
    Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .body(Body::from(body.to_owned()))
        .unwrap()
}

/// Requested page of a list, newest first, with its pagination.
pub(crate) fn page(
    sessions: &[FakeSession],
    asked: &ApiRequest,
    fits: impl Fn(&FakeSession) -> bool,
    shown: impl Fn(&FakeSession) -> Value,
) -> Value {
    let statuses = asked.params("status");
    let mut fitting: Vec<&FakeSession> = sessions
        .iter()
        .filter(|kept| fits(kept) && (statuses.is_empty() || statuses.contains(&kept.status)))
        .collect();
    fitting.sort_by_key(|kept| std::cmp::Reverse(kept.began_us));
    let (page, size) = asked.page();
    let items: Vec<Value> = fitting
        .iter()
        .skip((page - 1) * size)
        .take(size)
        .map(|kept| shown(kept))
        .collect();
    serde_json::json!({
        "sessions": items,
        "pagination": {
            "page": page, "page_size": size,
            "total_pages": fitting.len().div_ceil(size), "total_items": fitting.len(),
        },
    })
}
