//! Pages for people: server-rendered, no build step, no call to anywhere else. They go through the API's in-process client, so that they show
//! and do what any client could, and never see a store, a queue or a judge.
//!
//! ```text
//! GET page ─▶ visit (who, form token) ─▶ handler ─▶ in-process client ─▶ API ─▶ view (typed) ─▶ template ─▶ HTML
//! POST form ─▶ the same, then 303 to the page that shows what came of it; pieces for htmx instead
//! ```
//!
//! Every page is whole without JavaScript. With it, `live.js` holds one stream of events per browser and asks for the pieces
//! that an event is about again.

mod address;
mod alerts;
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
mod health;
mod infrastructure;
mod insights;
mod item_diff;
mod item_rows;
mod markdown;
mod missing_tools;
mod overview;
mod page;
mod queue;
mod rescore;
mod score;
mod session;
mod session_count;
mod sessions;
mod sign_in;
mod stale;
mod state;
mod suite_templates;
mod system;
mod upload;
mod user;
mod waits;
mod words;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;

use crate::api::{InProcessClient, Pages};
pub use state::About;
use state::PageState;

/// The pages, for the API's router.
#[must_use]
pub fn pages(about: About) -> Pages {
    Pages {
        routes: Box::new(move |client| routes(client, about)),
        problem: page::problem,
    }
}

fn routes(client: InProcessClient, about: About) -> Router {
    let state = PageState::new(client, about);
    Router::new()
        .merge(overview::routes())
        .merge(sessions::routes())
        .merge(session::routes())
        .merge(conversation::routes())
        .merge(score::routes())
        .merge(rescore::routes())
        .merge(insights::routes())
        .merge(criteria::routes())
        .merge(queue::routes())
        .merge(system::routes())
        .merge(batches::routes())
        .merge(upload::routes())
        .merge(suite_templates::routes())
        .merge(batch::routes())
        .merge(batch_item::routes())
        .merge(compare::routes())
        .merge(sign_in::routes())
        .merge(frame::routes())
        .layer(from_fn_with_state(state.clone(), told))
        .layer(from_fn(user::visit))
        .merge(assets::routes())
        .with_state(state)
}

/// What a form did shows in the head of the very next page.
async fn told(State(state): State<PageState>, request: Request, next: Next) -> Response {
    let safe = request.method().is_safe();
    let response = next.run(request).await;
    if !safe {
        state.forget_status_bar().await;
    }
    response
}
