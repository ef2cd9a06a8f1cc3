//! Pages for people: server-rendered, no build step, no call to anywhere else. They go in by the API's door, so that they show
//! and do what any client could, and never see a store, a queue or a judge.
//!
//! ```text
//! GET page ─▶ visit (who, form token) ─▶ handler ─▶ door ─▶ API ─▶ view (typed) ─▶ template ─▶ HTML
//! POST form ─▶ the same, then 303 to the page that shows what came of it; pieces for htmx instead
//! ```
//!
//! Every page is whole without JavaScript. With it, `live.js` holds one stream of events per browser and asks for the pieces
//! that an event is about again.

mod address;
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
mod insights;
mod item_diff;
mod item_rows;
mod machinery;
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
mod site;
mod stale;
mod suite_templates;
mod system;
mod troubles;
mod upload;
mod visitor;
mod waits;
mod words;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;

use crate::api::{Door, Pages};
pub use site::About;
use site::Site;

/// The pages, for the API's router.
#[must_use]
pub fn pages(about: About) -> Pages {
    Pages {
        routes: Box::new(move |door| routes(door, about)),
        problem: page::problem,
    }
}

fn routes(door: Door, about: About) -> Router {
    let site = Site::new(door, about);
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
        .layer(from_fn_with_state(site.clone(), told))
        .layer(from_fn(visitor::visit))
        .merge(assets::routes())
        .with_state(site)
}

/// What a form did shows in the head of the very next page.
async fn told(State(site): State<Site>, request: Request, next: Next) -> Response {
    let safe = request.method().is_safe();
    let response = next.run(request).await;
    if !safe {
        site.forget_strip().await;
    }
    response
}
