//! Server-rendered pages, without build step or requests to other hosts. They call the API's typed functions under its routes' scopes, so
//! they can do exactly what any client can. They have no access to the store, the queue or the judges.
//!
//! ```text
//! GET page ─▶ visit (user, form token) ─▶ handler ─▶ typed functions of the API ─▶ template ─▶ HTML
//! POST form ─▶ the same ─▶ ApiAccess (scope, key) ─▶ typed function, then 303 to the page with the result; fragments for htmx instead
//! ```
//!
//! Every page works without JavaScript. With it, `live.js` shares one event stream per browser and reloads the fragments that an event
//! affects.

mod address;
mod alerts;
mod annotate;
mod assets;
mod batch;
mod batch_item;
mod batch_items;
mod batches;
mod chart;
mod compare;
mod confirm;
mod conversation;
mod criteria;
mod criteria_diff;
mod figures;
mod form;
mod frame;
mod infrastructure;
mod insights;
mod item_diff;
mod item_rows;
mod links;
mod markdown;
mod missing_tools;
mod overview;
mod page;
mod queue;
mod rescore;
mod score;
mod session;
mod session_item;
mod session_upload;
mod sessions;
mod sign_in;
mod stale;
mod state;
mod status_bar;
mod suite_templates;
mod system;
mod upload;
mod user;
mod webhooks;
mod words;

use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};

use crate::api::{ApiAccess, ApiError, Pages};
pub use state::About;
use state::PageState;

const TIMEOUT: Duration = Duration::from_secs(20);

#[must_use]
pub fn pages(about: About) -> Pages {
    Pages {
        routes: Box::new(move |api| routes(api, about)),
        problem: page::problem,
    }
}

fn routes(api: ApiAccess, about: About) -> Router {
    let state = PageState::new(api, about);
    Router::new()
        .merge(overview::routes())
        .merge(sessions::routes())
        .merge(session::routes())
        .merge(conversation::routes())
        .merge(score::routes())
        .merge(annotate::routes())
        .merge(rescore::routes())
        .merge(insights::routes())
        .merge(criteria::routes())
        .merge(queue::routes())
        .merge(system::routes())
        .merge(webhooks::routes())
        .merge(batches::routes())
        .merge(upload::routes())
        .merge(session_upload::routes())
        .merge(suite_templates::routes())
        .merge(batch::routes())
        .merge(batch_item::routes())
        .merge(compare::routes())
        .merge(sign_in::routes())
        .merge(frame::routes())
        .layer(from_fn(in_time))
        .merge(batch::reports())
        .layer(from_fn_with_state(
            state.clone(),
            clear_status_bar_after_forms,
        ))
        .layer(from_fn(user::visit))
        .merge(assets::routes())
        .with_state(state)
}

/// Limits the time of read requests, because a database statement may take a minute and is retried once.
async fn in_time(request: Request, next: Next) -> Response {
    if !request.method().is_safe() {
        return next.run(request).await;
    }
    match tokio::time::timeout(TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let waited = format!("a page waited {} s for the database", TIMEOUT.as_secs());
            ApiError::DatabaseUnavailable(waited).into_response()
        }
    }
}

/// Clears the cached status bar after a form, so that the next page shows the change.
async fn clear_status_bar_after_forms(
    State(state): State<PageState>,
    request: Request,
    next: Next,
) -> Response {
    let safe = request.method().is_safe();
    let response = next.run(request).await;
    if !safe {
        state.clear_status_bar().await;
    }
    response
}
