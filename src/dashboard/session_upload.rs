//! Upload of a session file in Gavel's format or a supported other one. Streams the file to the API.

use askama::Template;
use axum::Router;
use axum::extract::multipart::MultipartRejection;
use axum::extract::{DefaultBodyLimit, Multipart, State};
use axum::http::{HeaderMap, Method};
use axum::routing::get;
use serde::Deserialize;

use super::address::Address;
use super::frame::Frame;
use super::links::query;
use super::page::{Page, html, redirect, with_status};
use super::state::PageState;
use super::upload::{FileForm, SentFile, UploadError, read, upload_error};
use super::user::SessionUser;
use crate::api::sessions::{self, FileQuery};
use crate::api::{ApiAccess, ApiError, Caller, read_query};
use crate::wire::{PutOutcome, SessionFormat, SessionsPut};

/// Routes of uploads. The API limits the file size.
pub(super) fn routes() -> Router<PageState> {
    Router::new()
        .route("/sessions/upload", get(page).post(upload))
        .layer(DefaultBodyLimit::disable())
}

#[derive(Template)]
#[template(path = "session_upload.html")]
struct SessionUploadPage {
    frame: Frame,
    format: String,
    rejected: Option<UploadError>,
    stored: Stored,
}

/// Number of sessions stored by the last upload, from the redirect's query string.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Stored {
    new: usize,
    updated: usize,
    unchanged: usize,
}

impl Stored {
    fn from_put(put: &SessionsPut) -> Self {
        let count = |outcome| put.items.iter().filter(|it| it.outcome == outcome).count();
        Self {
            new: count(PutOutcome::New),
            updated: count(PutOutcome::Updated),
            unchanged: count(PutOutcome::Unchanged),
        }
    }

    fn path(self) -> String {
        let counts = [
            ("new", self.new),
            ("updated", self.updated),
            ("unchanged", self.unchanged),
        ];
        let counts = counts.map(|(name, count)| (name, count.to_string()));
        let pairs = counts
            .each_ref()
            .map(|(name, count)| (*name, count.as_str()));
        format!("/sessions/upload{}", query(&pairs))
    }

    fn is_any(self) -> bool {
        self.new > 0 || self.updated > 0 || self.unchanged > 0
    }
}

impl SessionUploadPage {
    fn nothing() -> &'static str {
        "No session was stored."
    }

    fn formats() -> impl Iterator<Item = (&'static str, &'static str)> {
        let named = SessionFormat::ALL.iter().map(|format| {
            let name = match format {
                SessionFormat::Messages => "messages: OpenAI, Anthropic, Gemini, agent frameworks",
                SessionFormat::Spans => "spans: OpenInference, OpenTelemetry",
                SessionFormat::LangSmith => "runs of LangSmith",
                SessionFormat::Langfuse => "observations of Langfuse",
                SessionFormat::Braintrust => "logs of Braintrust",
                SessionFormat::Inspect => "logs of Inspect",
                SessionFormat::ClaudeCode => "session files of Claude Code",
                SessionFormat::Codex => "session files of Codex",
            };
            (format.as_str(), name)
        });
        std::iter::once(("", "detect from the file")).chain(named)
    }
}

#[derive(Default)]
struct Chosen(String);

impl FileForm for Chosen {
    type Accepted = SessionsPut;

    fn set_field(&mut self, name: &str, value: String) {
        if name == "format" {
            self.0 = value;
        }
    }

    fn endings(&self) -> &'static str {
        ".json, .jsonl and .ndjson"
    }

    fn media_type(&self, file_name: &str) -> Option<&'static str> {
        let (_, end) = file_name.rsplit_once('.')?;
        match end.to_ascii_lowercase().as_str() {
            "json" => Some("application/json"),
            "jsonl" | "ndjson" => Some("application/x-ndjson"),
            _ => None,
        }
    }

    /// No idempotency key: uploading a session again doesn't store it again.
    async fn send(
        &self,
        client: &ApiAccess,
        caller: &Caller,
        file: SentFile<'_>,
    ) -> Result<SessionsPut, ApiError> {
        let api = client.authorize(caller, &Method::POST, sessions::SESSIONS)?;
        let query: FileQuery = read_query(&[("format".to_owned(), self.0.clone())])?;
        sessions::put_file(api, query.format, file.content, &HeaderMap::new()).await
    }
}

async fn page(
    State(state): State<PageState>,
    user: SessionUser,
    Address(stored): Address<Stored>,
) -> Page {
    let frame = Frame::load(&state, user, "Sessions", "Upload sessions").await;
    html(&SessionUploadPage {
        frame,
        format: String::new(),
        rejected: None,
        stored,
    })
}

async fn upload(
    State(state): State<PageState>,
    user: SessionUser,
    multipart: Result<Multipart, MultipartRejection>,
) -> Page {
    let mut form = Chosen::default();
    let sent = read(&state, &user, &mut form, multipart).await;
    let fault = match sent {
        Ok(put) => return redirect(user.fragment, &Stored::from_put(&put).path()),
        Err(fault) => fault,
    };
    let (status, rejected) = upload_error(fault)?;
    let frame = Frame::load(&state, user, "Sessions", "Rejected · Upload sessions").await;
    let page = SessionUploadPage {
        frame,
        format: form.0,
        rejected: Some(rejected),
        stored: Stored::default(),
    };
    with_status(status, &page)
}
