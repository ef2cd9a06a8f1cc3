//! Responses of page handlers: HTML pages or fragments, redirects, and error pages.

use askama::Template;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::links::{self, PARTS, query};
use super::stale;
use super::user::{mark, wants_fragment};
use crate::api::{ApiError, FailedRequest, problem};
use crate::wire::Problem;

pub(super) type Page = Result<Response, PageError>;

#[derive(Debug)]
pub(super) struct PageError(Box<Problem>);

impl PageError {
    pub(super) fn problem(&self) -> &Problem {
        &self.0
    }
}

impl From<ApiError> for PageError {
    fn from(error: ApiError) -> Self {
        error.log();
        Self(Box::new(error.problem()))
    }
}

/// Converts a not-found error to `None`.
pub(super) fn found<T>(read: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_absence() => Ok(None),
        Err(error) => Err(error),
    }
}

impl axum::response::IntoResponse for PageError {
    fn into_response(self) -> Response {
        problem::response(*self.0)
    }
}

pub(super) fn html(template: &impl Template) -> Page {
    with_status(StatusCode::OK, template)
}

pub(super) fn with_status(status: StatusCode, template: &impl Template) -> Page {
    let text = template
        .render()
        .map_err(|error| ApiError::Internal(format!("rendering a page: {error}")))?;
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    Ok((status, [(header::CONTENT_TYPE, kind)], text).into_response())
}

/// Redirects after a form: 303, or for htmx its redirect header.
pub(super) fn redirect(fragment: bool, to: &str) -> Page {
    let Ok(target) = HeaderValue::from_str(to) else {
        return Err(ApiError::Internal("a page's address".to_owned()).into());
    };
    if fragment {
        return Ok((StatusCode::NO_CONTENT, [("hx-redirect", target)]).into_response());
    }
    Ok((StatusCode::SEE_OTHER, [(header::LOCATION, target)]).into_response())
}

/// Retry interval of an error page after a server error, seconds.
const AGAIN_S: u8 = 10;

/// User-facing text for a not-found error: title, detail, and a link. The API's text is meant for programs.
type NotFoundPage = (&'static str, &'static str, (&'static str, &'static str));

fn not_found_page(slug: &str) -> Option<NotFoundPage> {
    Some(match slug {
        "not-found" => (
            "Page not found",
            "No page has this address. It may be incomplete.",
            ("/", "the overview"),
        ),
        "session-not-found" => (
            "Session not found",
            "No session has this id. It may not have been sent to this server.",
            ("/sessions", "the list of sessions"),
        ),
        "score-not-found" => (
            "Score not found",
            "No score has this id. A session's History has all of its scores.",
            ("/sessions", "the list of sessions"),
        ),
        "batch-not-found" | "batch-item-not-found" => (
            "Batch or item not found",
            "No batch has this id, or it has no item of this number.",
            ("/batches", "the list of batches"),
        ),
        "criteria-not-found" => (
            "Criteria not found",
            "No stored version of the criteria has this hash.",
            ("/criteria", "the versions there are"),
        ),
        "job-not-found" => (
            "Job not found",
            "No job has this id.",
            ("/queue", "the queue"),
        ),
        _ => return None,
    })
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'a> {
    title: &'a str,
    status: u16,
    detail: &'a str,
    remedy: Option<&'a str>,
    field_errors: Vec<ShownFieldError<'a>>,
    request_id: &'a str,
    back: String,
    /// Page where the user may find it: address and label.
    place: Option<(&'static str, &'static str)>,
    /// Interval of automatic reload, seconds.
    again_s: Option<u8>,
}

impl<'a> ProblemPage<'a> {
    fn new(problem: &'a Problem, asked: &FailedRequest) -> Self {
        let not_found_page = not_found_page(problem.name());
        Self {
            title: not_found_page.map_or(&problem.title, |(title, _, _)| title),
            status: problem.status,
            detail: not_found_page.map_or(shown(problem), |(_, detail, _)| detail),
            // The API's remedy for a not-found error is meant for programs.
            remedy: problem
                .remedy
                .as_deref()
                .filter(|_| not_found_page.is_none()),
            field_errors: field_errors(problem),
            request_id: problem.request_id.as_deref().unwrap_or_default(),
            back: back(asked),
            place: not_found_page.map(|(_, _, place)| place),
            again_s: (problem.status == 503 && asked.method == Method::GET).then_some(AGAIN_S),
        }
    }

    fn parts() -> &'static [(&'static str, &'static str)] {
        PARTS
    }
}

#[derive(Template)]
#[template(path = "problem_piece.html")]
struct ProblemFragment<'a> {
    title: &'a str,
    detail: &'a str,
    remedy: Option<&'a str>,
    field_errors: Vec<ShownFieldError<'a>>,
    request_id: &'a str,
}

impl<'a> ProblemFragment<'a> {
    fn new(problem: &'a Problem) -> Self {
        Self {
            title: &problem.title,
            detail: shown(problem),
            remedy: problem.remedy.as_deref(),
            field_errors: field_errors(problem),
            request_id: problem.request_id.as_deref().unwrap_or_default(),
        }
    }
}

/// Error text of a form or a filter, as safe HTML.
pub(super) fn error_html(problem: &Problem) -> String {
    ProblemFragment::new(problem).render().unwrap_or_default()
}

/// Whether the user can fix the problem in the form.
pub(super) fn is_fixable(problem: &Problem) -> bool {
    matches!(problem.status, 400 | 422)
}

/// Paths for programs. Their errors stay JSON.
fn for_programs(target: &str) -> bool {
    let path = target.split('?').next().unwrap_or_default();
    path.starts_with("/api/") || matches!(path, "/livez" | "/readyz" | "/metrics" | "/openapi.json")
}

/// Renders a problem as a page. `None` for requests of programs. Redirects an unauthenticated user to the sign-in page, except for
/// fragments of an open page and for filled-in forms, because the input would be lost.
pub(super) fn problem(problem: &Problem, asked: &FailedRequest) -> Option<Response> {
    let fragment = wants_fragment(&asked.headers);
    let accepts = asked.headers.get(header::ACCEPT);
    let accepts = accepts.and_then(|accept| accept.to_str().ok());
    let person = fragment || accepts.is_some_and(|accept| accept.contains("text/html"));
    if !person || for_programs(&asked.target) {
        return None;
    }
    let mut response = match problem.status {
        401 if !fragment => stale::signed_out(asked).unwrap_or_else(|| sign_in(asked)),
        _ if fragment => rendered(problem, &ProblemFragment::new(problem)),
        _ => rendered(problem, &ProblemPage::new(problem, asked)),
    };
    mark(&mut response);
    Some(response)
}

fn sign_in(asked: &FailedRequest) -> Response {
    let next = if asked.method == Method::GET {
        Some(asked.target.clone())
    } else {
        // After a form, return to the page that contains it.
        from_here(asked)
    };
    let next = next.unwrap_or_default();
    let to = format!("/sign-in{}", query(&[("next", next.as_str())]));
    redirect(false, &to).unwrap_or_else(axum::response::IntoResponse::into_response)
}

fn rendered(problem: &Problem, template: &impl Template) -> Response {
    let status = StatusCode::from_u16(problem.status);
    with_status(
        status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        template,
    )
    .unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

/// Detail text. Empty if there are field errors, which are shown below.
fn shown(problem: &Problem) -> &str {
    if problem.errors.is_empty() {
        &problem.detail
    } else {
        ""
    }
}

struct ShownFieldError<'a> {
    /// The field's label on the form, if it has one.
    label: Option<&'static str>,
    field: &'a str,
    message: &'a str,
}

fn field_errors(problem: &Problem) -> Vec<ShownFieldError<'_>> {
    let field_errors = problem.errors.iter().map(|fault| {
        let field = fault.pointer.trim_start_matches('/');
        ShownFieldError {
            label: label(field),
            field,
            message: &fault.message,
        }
    });
    field_errors.collect()
}

fn label(field: &str) -> Option<&'static str> {
    Some(match field {
        "budget_usd" => "Budget, USD:",
        "total" => "Points:",
        "rating" | "quality" => "Your rating:",
        "comment" => "Why:",
        "by" => "Your name:",
        _ => return None,
    })
}

/// The local page with the form or link.
fn back(asked: &FailedRequest) -> String {
    referer(asked)
        .and_then(|from| path_of(&from))
        .filter(|path| *path != asked.target)
        .unwrap_or_else(|| "/".to_owned())
}

/// Path of the `Referer`, if it is on this host.
fn from_here(asked: &FailedRequest) -> Option<String> {
    let host = asked.headers.get(header::HOST)?.to_str().ok()?;
    let from = referer(asked)?;
    let same = from.authority().is_some_and(|from| from.as_str() == host);
    path_of(&from).filter(|_| same)
}

fn referer(asked: &FailedRequest) -> Option<axum::http::Uri> {
    let referer = asked.headers.get(header::REFERER)?;
    referer.to_str().ok()?.parse().ok()
}

fn path_of(uri: &axum::http::Uri) -> Option<String> {
    let path = uri.path_and_query()?.to_string();
    links::is_local(&path).then_some(path)
}
