//! Upload of a suite: form, streaming of the file to the API, and errors by row and column. Doesn't buffer the file in memory, and doesn't
//! read it before the form token is verified.

use std::ffi::OsStr;
use std::path::Path;

use askama::Template;
use axum::body::Bytes;
use axum::extract::multipart::{Field, MultipartRejection};
use axum::extract::{DefaultBodyLimit, Multipart, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::routing::get;
use axum::{Json, Router};
use futures::TryFutureExt as _;
use uuid::Uuid;

use super::frame::Frame;
use super::page::{Page, PageError, html, redirect, with_status};
use super::state::PageState;
use super::user::SessionUser;
use crate::api::batches::body::{FileHead, MAX_NAME, format_named};
use crate::api::{
    ApiAccess, ApiError, Caller, LARGE_READ_TIMEOUT, Spooled, batches, in_time, problem, read_query,
};
use crate::job::Kind;
use crate::score::about;
use crate::wire::{Batch, BatchRequest, Problem};

/// Maximum length of a field next to the file, bytes.
const FIELD_BYTES: usize = 4 << 10;

/// Routes of uploads. The list of batches includes the form. The API limits the file size.
pub(super) fn routes() -> Router<PageState> {
    Router::new()
        .route("/batches/upload", get(page).post(upload))
        .layer(DefaultBodyLimit::disable())
}

#[derive(Debug, Default, Template)]
#[template(path = "upload_form.html")]
pub(super) struct UploadForm {
    kind: String,
    name: String,
    threshold: String,
    budget_usd: String,
    form_token: String,
    key: String,
    rejected: Option<UploadError>,
}

#[derive(Debug)]
pub(super) struct UploadError {
    pub(super) title: String,
    pub(super) detail: String,
    pub(super) remedy: Option<String>,
    pub(super) errors: Vec<CellError>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct CellError {
    pub(super) row: String,
    pub(super) column: String,
    pub(super) fault: String,
}

impl UploadForm {
    pub(super) fn empty(user: &SessionUser) -> Self {
        Self {
            form_token: user.form_token.clone(),
            key: Uuid::new_v4().to_string(),
            ..Self::default()
        }
    }

    fn nothing() -> &'static str {
        "No item was queued."
    }

    /// Kinds of suites, each with a description of its items.
    fn kinds() -> Vec<(Kind, &'static str)> {
        let kinds = Kind::to_choose().into_iter();
        kinds.map(|kind| (kind, about(kind).items)).collect()
    }
}

/// A form with a file as last field. The file is streamed to the API.
pub(super) trait FileForm: Send + Sync {
    type Accepted;
    fn set_field(&mut self, name: &str, value: String);
    fn endings(&self) -> &'static str;
    fn remedy(&self, _file_name: &str) -> &'static str {
        "save it as one of them"
    }
    fn media_type(&self, file_name: &str) -> Option<&'static str>;
    async fn send(
        &self,
        client: &ApiAccess,
        caller: &Caller,
        file: SentFile<'_>,
    ) -> Result<Self::Accepted, ApiError>;
}

pub(super) struct SentFile<'f> {
    name: String,
    media_type: &'static str,
    pub(super) content: Field<'f>,
}

impl<'f> SentFile<'f> {
    fn of_form(content: Field<'f>, form: &impl FileForm) -> Result<Self, ApiError> {
        let name = content.file_name().unwrap_or_default().to_owned();
        let Some(media_type) = form.media_type(&name) else {
            let fault = if name.is_empty() {
                "is missing: choose one".to_owned()
            } else {
                let endings = form.endings();
                let remedy = form.remedy(&name);
                format!("{name:?} does not end in one of {endings}: {remedy}")
            };
            return Err(problem::of_field("file", &fault));
        };
        Ok(Self {
            name,
            media_type,
            content,
        })
    }
}

impl UploadForm {
    fn head(&self, file_name: &str) -> Result<BatchRequest, ApiError> {
        let name = match self.name.as_str() {
            "" => suite_name(file_name),
            name => name,
        };
        let fields = [
            ("kind", self.kind.as_str()),
            ("name", name),
            ("threshold", &self.threshold),
            ("budget_usd", &self.budget_usd),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok(read_query::<FileHead>(&fields)?.into())
    }
}

impl FileForm for UploadForm {
    type Accepted = Batch;

    fn set_field(&mut self, name: &str, value: String) {
        match name {
            "kind" => self.kind = value,
            "name" => self.name = value,
            "threshold" => self.threshold = value,
            "budget_usd" => self.budget_usd = value,
            "key" => self.key = value,
            _ => {}
        }
    }

    fn endings(&self) -> &'static str {
        ".xlsx, .csv and .jsonl"
    }

    fn remedy(&self, file_name: &str) -> &'static str {
        match file_name.to_ascii_lowercase().ends_with(".json") {
            true => {
                "write one item per line as .jsonl, or run gavel evaluate FILE, which also sends questions to agents"
            }
            false => "save it as one of them",
        }
    }

    fn media_type(&self, file_name: &str) -> Option<&'static str> {
        media_type(file_name)
    }

    async fn send(
        &self,
        client: &ApiAccess,
        caller: &Caller,
        file: SentFile<'_>,
    ) -> Result<Batch, ApiError> {
        // Check the scope before reading the file.
        let api = client.authorize(caller, &Method::POST, batches::BATCHES)?;
        let items = Spooled::read(file.content, &HeaderMap::new(), &api.http).await?;
        let format = format_named(Some(file.media_type.to_owned()))?;
        let head = self.head(&file.name)?;
        let begin = |api, request| batches::begin(api, format, request).map_ok(Json);
        let sent = (caller, Some(self.key.as_str()));
        client
            .post(sent, batches::BATCHES, (head, items), begin)
            .await
    }
}

impl UploadError {
    pub(super) fn from_problem(problem: &Problem) -> Self {
        let errors = problem.errors.iter();
        Self {
            title: problem.title.clone(),
            detail: problem.detail.clone(),
            remedy: problem.remedy.clone(),
            errors: errors
                .map(|fault| place(&fault.pointer, &fault.message))
                .collect(),
        }
    }

    /// Whether any error has a row. Errors of session files have the line in their text.
    pub(super) fn has_rows(&self) -> bool {
        self.errors.iter().any(|fault| !fault.row.is_empty())
    }
}

/// Converts a pointer: `/rows/3/prompt` is column `prompt` of row 3, others are fields of the form.
fn place(pointer: &str, message: &str) -> CellError {
    let Some(at) = pointer.strip_prefix("/rows/") else {
        return CellError {
            row: String::new(),
            column: pointer.trim_start_matches('/').to_owned(),
            fault: message.to_owned(),
        };
    };
    let (row, column) = at.split_once('/').unwrap_or((at, ""));
    let prefixes = [
        format!("row {row}, column {column}: "),
        format!("row {row}: "),
    ];
    let fault = prefixes
        .iter()
        .find_map(|prefix| message.strip_prefix(prefix.as_str()));
    CellError {
        row: row.to_owned(),
        column: column.to_owned(),
        fault: fault.unwrap_or(message).to_owned(),
    }
}

#[derive(Template)]
#[template(path = "upload.html")]
struct UploadPage {
    frame: Frame,
    form: UploadForm,
}

async fn page(State(state): State<PageState>, user: SessionUser) -> Page {
    let form = UploadForm::empty(&user);
    let frame = Frame::load(&state, user, "Batches", "Upload a suite").await;
    html(&UploadPage { frame, form })
}

/// Handles an upload. A form with an outdated token is shown again with its input; the user selects the file again. Fields must precede the
/// file, because later ones aren't read.
pub(super) async fn upload(
    State(state): State<PageState>,
    user: SessionUser,
    multipart: Result<Multipart, MultipartRejection>,
) -> Page {
    let mut form = UploadForm::empty(&user);
    let sent = read(&state, &user, &mut form, multipart).await;
    let fault = match sent {
        Ok(batch) => return redirect(user.fragment, &format!("/batches/{}", batch.batch_id)),
        Err(fault) => fault,
    };
    let (status, rejected) = upload_error(fault)?;
    form.rejected = Some(rejected);
    // A new key, because the old one has stored the rejection.
    form.key = Uuid::new_v4().to_string();
    let frame = Frame::load(&state, user, "Batches", "Rejected · Upload a suite").await;
    with_status(status, &UploadPage { frame, form })
}

/// Error to show above the form. Returns a page error if the user can't fix it in the form.
pub(super) fn upload_error(fault: PageError) -> Result<(StatusCode, UploadError), PageError> {
    let problem = fault.problem();
    if matches!(problem.status, 401 | 403) && problem.name() != "stale-form" {
        return Err(fault);
    }
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::BAD_REQUEST);
    Ok((status, UploadError::from_problem(problem)))
}

pub(super) async fn read<F: FileForm>(
    state: &PageState,
    user: &SessionUser,
    form: &mut F,
    multipart: Result<Multipart, MultipartRejection>,
) -> Result<F::Accepted, PageError> {
    let reading = read_fields(state, user, form, multipart);
    Ok(in_time(LARGE_READ_TIMEOUT, reading).await??)
}

async fn read_fields<F: FileForm>(
    state: &PageState,
    user: &SessionUser,
    form: &mut F,
    multipart: Result<Multipart, MultipartRejection>,
) -> Result<F::Accepted, ApiError> {
    let broken = |text: String| problem::of_field("form", &text);
    let mut multipart = multipart.map_err(|error| broken(error.body_text()))?;
    let mut has_valid_token = false;
    loop {
        let field = multipart.next_field().await;
        let field = field.map_err(|error| broken(error.body_text()))?;
        let Some(mut field) = field else {
            return Err(if has_valid_token {
                problem::of_field("file", "is missing: choose one")
            } else {
                ApiError::StaleForm
            });
        };
        let name = field.name().unwrap_or_default().to_owned();
        if name == "form_token" {
            has_valid_token = text(&mut field).await? == user.form_token;
        } else if name == "file" && !has_valid_token {
            return Err(ApiError::StaleForm);
        } else if name == "file" {
            let file = SentFile::of_form(field, form)?;
            return form.send(&state.api, &user.caller, file).await;
        } else {
            let value = text(&mut field).await?;
            form.set_field(&name, value.trim().to_owned());
        }
    }
}

async fn text(field: &mut Field<'_>) -> Result<String, ApiError> {
    let name = field.name().unwrap_or_default().to_owned();
    let mut bytes = Vec::new();
    while let Some(chunk) = chunk(field).await? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > FIELD_BYTES {
            let fault = format!("is longer than {FIELD_BYTES} bytes: shorten it");
            return Err(problem::of_field(&name, &fault));
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

async fn chunk(field: &mut Field<'_>) -> Result<Option<Bytes>, ApiError> {
    let read = field.chunk().await;
    read.map_err(|error| problem::of_field("form", &error.body_text()))
}

fn media_type(file_name: &str) -> Option<&'static str> {
    let (_, end) = file_name.rsplit_once('.')?;
    match end.to_ascii_lowercase().as_str() {
        "csv" => Some("text/csv"),
        "jsonl" | "ndjson" => Some("application/x-ndjson"),
        "xlsx" => Some("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        _ => None,
    }
}

/// Default name of a suite: the file name without extension.
fn suite_name(file_name: &str) -> &str {
    let stem = Path::new(file_name).file_stem();
    let stem = stem.and_then(OsStr::to_str).unwrap_or_default();
    let is_short = stem.chars().count() <= MAX_NAME;
    match is_short && !stem.chars().any(char::is_control) {
        true => stem,
        false => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_has_row_and_column() {
        let at = |row: &str, column: &str, fault: &str| CellError {
            row: row.to_owned(),
            column: column.to_owned(),
            fault: fault.to_owned(),
        };
        assert_eq!(
            place(
                "/rows/3/expected_kql",
                "row 3, column expected_kql: is missing"
            ),
            at("3", "expected_kql", "is missing")
        );
        assert_eq!(
            place("/rows/3", "row 3: is no object"),
            at("3", "", "is no object")
        );
        assert_eq!(
            place("/threshold", "must be 0-1"),
            at("", "threshold", "must be 0-1")
        );
    }

    #[test]
    fn file_extension_determines_media_type() {
        assert_eq!(media_type("a.b.CSV"), Some("text/csv"));
        assert_eq!(media_type("suite.jsonl"), Some("application/x-ndjson"));
        for other in ["", "suite", "suite.xls", "csv", "questions.json"] {
            assert_eq!(media_type(other), None, "{other}");
        }
    }

    #[test]
    fn suite_name_defaults_to_file_name() {
        let called = |name: &str| {
            let form = UploadForm {
                kind: "query".to_owned(),
                name: name.to_owned(),
                ..UploadForm::default()
            };
            form.head("kql suite.v2.csv").unwrap().name
        };
        assert_eq!(called("").as_deref(), Some("kql suite.v2"));
        assert_eq!(called("mine").as_deref(), Some("mine"));
        assert_eq!(suite_name(&"x".repeat(201)), "");
    }

    #[test]
    fn upload_form_escapes_input() {
        let form = UploadForm {
            name: "\"><script>alert(1)</script>".to_owned(),
            rejected: Some(UploadError {
                title: "t".to_owned(),
                detail: "d".to_owned(),
                remedy: None,
                errors: vec![place("/rows/2/<b>", "row 2, column <b>: <i>")],
            }),
            ..UploadForm::default()
        };
        let text = form.render().unwrap();
        for bad in ["<script", "<b>", "<i>"] {
            assert!(!text.contains(bad), "{text}");
        }
    }
}
