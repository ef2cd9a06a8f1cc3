//! The API as a client sees it.

use std::time::Duration;

use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use uuid::Uuid;

use super::home::JUDGE;
use super::sse::Stream;
use super::wait::eventually;

/// The fields of a score's body.
pub(crate) const SCORE_FIELDS: [&str; 18] = [
    "score_id",
    "session_id",
    "criteria_hash",
    "total_score",
    "score_breakdown",
    "score_reasoning",
    "missing_tools",
    "alternative_approaches",
    "scored_triggered_by",
    "authenticated_as",
    "scored_at",
    "is_current_criteria",
    "rating",
    "judge",
    "simulated",
    "flags",
    "usage",
    "job_id",
];

/// How long a job may take in a test before the test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// An answer of the API.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// Fails the test unless the status is this one.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{:#}", self.body);
        self.body
    }

    /// A header as text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// A client of one API.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    base: String,
    client: reqwest::Client,
}

impl Api {
    /// A client of the API at `http://{address}`.
    pub(crate) fn new(address: &str) -> Self {
        // Another test of this process may have set it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .timeout(Duration::from_secs(90))
            .build()
            .unwrap();
        Self {
            base: format!("http://{address}"),
            client,
        }
    }

    /// Its address.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Sends a request; `None` if nobody answers.
    pub(crate) async fn try_send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        headers: &[(&str, &str)],
    ) -> Option<Answer> {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.ok()?;
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let text = response.text().await.ok()?;
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Some(Answer {
            status,
            headers,
            body,
        })
    }

    /// Sends a request that must be answered.
    #[track_caller]
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
        headers: &[(&str, &str)],
    ) -> impl Future<Output = Answer> {
        let caller = std::panic::Location::caller();
        async move {
            let answer = self.try_send(method, path, body.as_ref(), headers).await;
            answer.unwrap_or_else(|| panic!("{caller}: no answer to {method} {path}"))
        }
    }

    /// Opens the stream of events.
    pub(crate) async fn events(&self, query: &str, last_id: Option<&str>) -> Stream {
        // Without the client's timeout, which ends a whole answer.
        let mut request = self
            .client
            .get(format!("{}/api/v1/events{query}", self.base))
            .timeout(Duration::from_secs(3_600));
        if let Some(id) = last_id {
            request = request.header("Last-Event-ID", id);
        }
        Stream::of(request).await
    }

    /// GET.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None, &[]).await
    }

    /// POST without a body.
    pub(crate) async fn post(&self, path: &str) -> Answer {
        self.send("POST", path, None, &[]).await
    }

    /// POST with a body.
    pub(crate) async fn post_json(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, Some(body), &[]).await
    }

    /// Tells a job to be retried or cancelled.
    pub(crate) async fn tell_job(&self, job: Uuid, word: &str) -> Answer {
        self.post(&format!("/api/v1/jobs/{job}/{word}")).await
    }

    /// Tells the judge that tests ask to pause or resume.
    pub(crate) async fn tell_judge(&self, word: &str) -> Value {
        let path = format!("/api/v1/judges/{JUDGE}/{word}");
        self.post(&path).await.expect(200)
    }

    /// Puts a session and answers its id.
    pub(crate) async fn put(&self, session: Value) -> Uuid {
        let id = Uuid::now_v7();
        let answer = self
            .send("PUT", &format!("/api/v1/sessions/{id}"), Some(session), &[])
            .await;
        assert!((200..300).contains(&answer.status), "{answer:?}");
        id
    }

    /// Asks for a session's score.
    pub(crate) async fn ask(&self, session: Uuid) -> Answer {
        self.post(&score_path(session)).await
    }

    /// Asks for a session's score anew.
    pub(crate) async fn force(&self, session: Uuid) -> Answer {
        let body = json!({ "force_rescore": true });
        self.post_json(&score_path(session), body).await
    }

    /// Puts a session, asks for its score, and answers the ids of both.
    pub(crate) async fn enqueue(&self, session: Value) -> (Uuid, Uuid) {
        let session = self.put(session).await;
        let accepted = self.ask(session).await.expect(202);
        (session, id_of(&accepted["job_id"]))
    }

    /// A session's current score.
    pub(crate) async fn score(&self, session: Uuid) -> Answer {
        self.get(&score_path(session)).await
    }

    /// Every score of a session, newest first.
    pub(crate) async fn history(&self, session: Uuid) -> Vec<Value> {
        let path = format!("/api/v1/scoring/sessions/{session}/scores");
        let body = self.get(&path).await.expect(200);
        body["items"].as_array().unwrap().clone()
    }

    /// A job.
    pub(crate) async fn job(&self, job: Uuid) -> Value {
        self.get(&format!("/api/v1/jobs/{job}")).await.expect(200)
    }

    /// Waits until a job fits.
    #[track_caller]
    pub(crate) fn job_until(
        &self,
        job: Uuid,
        what: &str,
        fits: impl Fn(&Value) -> bool,
    ) -> impl Future<Output = Value> {
        let fits = std::sync::Arc::new(fits);
        eventually(PATIENCE, what, move || {
            let (api, fits) = (self.clone(), fits.clone());
            async move { api.try_job(job).await.filter(|job| fits(job)) }
        })
    }

    /// Waits until a job has ended.
    #[track_caller]
    pub(crate) fn ended(&self, job: Uuid) -> impl Future<Output = Value> {
        self.job_until(job, "the job ends", |job| {
            matches!(
                job["state"].as_str(),
                Some("succeeded" | "failed" | "cancelled")
            )
        })
    }

    /// Waits until a session has a score.
    pub(crate) async fn scored(&self, session: Uuid) -> Value {
        eventually(PATIENCE, "the session is scored", || async move {
            let path = score_path(session);
            let answer = self.try_send("GET", &path, None, &[]).await?;
            (answer.status == 200).then_some(answer.body)
        })
        .await
    }

    /// The row of a judge in GET /api/v1/judges.
    pub(crate) async fn judge(&self, name: &str) -> Option<Value> {
        let body = self.get("/api/v1/judges").await.expect(200);
        let items = body["items"].as_array().unwrap();
        items.iter().find(|row| row["name"] == name).cloned()
    }

    async fn try_job(&self, job: Uuid) -> Option<Value> {
        let answer = self
            .try_send("GET", &format!("/api/v1/jobs/{job}"), None, &[])
            .await?;
        (answer.status == 200).then_some(answer.body)
    }
}

/// The path of a session's score.
pub(crate) fn score_path(session: Uuid) -> String {
    format!("/api/v1/scoring/sessions/{session}/score")
}

/// An id in a body.
#[track_caller]
pub(crate) fn id_of(value: &Value) -> Uuid {
    value
        .as_str()
        .unwrap_or_else(|| panic!("not an id: {value}"))
        .parse()
        .unwrap()
}
