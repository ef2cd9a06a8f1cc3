//! Sessions from a browser: a file in our own form or in one of others, as it streams into the API.

use askama::Template;
use axum::Router;
use axum::extract::multipart::MultipartRejection;
use axum::extract::{DefaultBodyLimit, Multipart, State};
use axum::routing::get;

use super::frame::Frame;
use super::links::query;
use super::page::{Page, go, html, with_status};
use super::state::PageState;
use super::upload::{FileForm, Refused, read, refusal};
use super::user::SessionUser;
use crate::wire::SessionFormat;

/// The routes of this file. How long a file may be is the API's to say.
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
    refused: Option<Refused>,
}

impl SessionUploadPage {
    fn nothing() -> &'static str {
        "Nothing was stored."
    }

    /// The forms that sessions may be recorded in, with their names for people.
    fn formats() -> impl Iterator<Item = (&'static str, &'static str)> {
        let named = SessionFormat::ALL.iter().map(|format| {
            let name = match format {
                SessionFormat::Messages => "messages: OpenAI, Anthropic",
                SessionFormat::Spans => "spans: OpenInference, OpenTelemetry",
                SessionFormat::LangSmith => "runs of LangSmith",
                SessionFormat::Inspect => "logs of Inspect",
            };
            (format.as_str(), name)
        });
        std::iter::once(("", "what the file shows")).chain(named)
    }
}

/// The format that was chosen.
#[derive(Default)]
struct Chosen(String);

impl FileForm for Chosen {
    fn take(&mut self, name: &str, value: String) {
        if name == "format" {
            self.0 = value;
        }
    }

    fn path(&self, _file_name: &str) -> String {
        format!("/api/v1/sessions{}", query(&[("format", &self.0)]))
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

    /// The same session put twice is the same session.
    fn key(&self) -> Option<&str> {
        None
    }
}

async fn page(State(state): State<PageState>, user: SessionUser) -> Page {
    let frame = Frame::of(&state, user, "Sessions", "Upload sessions").await;
    html(&SessionUploadPage {
        frame,
        format: String::new(),
        refused: None,
    })
}

async fn upload(
    State(state): State<PageState>,
    user: SessionUser,
    multipart: Result<Multipart, MultipartRejection>,
) -> Page {
    let mut form = Chosen::default();
    let problem = match read(&state, &user, &mut form, multipart).await {
        Ok(_) => return go(user.piece, "/sessions"),
        Err(problem) => problem,
    };
    let (status, refused) = refusal(problem)?;
    let frame = Frame::of(&state, user, "Sessions", "Not taken · Upload sessions").await;
    let page = SessionUploadPage {
        frame,
        format: form.0,
        refused: Some(refused),
    };
    with_status(status, &page)
}
