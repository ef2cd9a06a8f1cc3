//! All routes of the API, in the order of the OpenAPI document.

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{
    ApiState, analytics, batches, criteria, events, imports, jobs, judges, operate, ratings,
    rescore, scores, sessions, webhooks,
};

pub(crate) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(scores::score_session, scores::current_score))
        .routes(routes!(scores::scores_of_session))
        .routes(routes!(scores::one_score))
        .routes(routes!(sessions::list_sessions, sessions::put_sessions))
        .routes(routes!(
            sessions::put_session,
            sessions::get_session,
            sessions::delete_session
        ))
        .routes(routes!(imports::start_import))
        .routes(routes!(imports::list_imports))
        .routes(routes!(imports::get_import))
        .routes(routes!(imports::cancel_import))
        .routes(routes!(criteria::list_criteria, criteria::add_criteria))
        .routes(routes!(criteria::get_criteria))
        .routes(routes!(criteria::name_criteria))
        .routes(routes!(criteria::post_current))
        .routes(routes!(criteria::compare::compare_criteria))
        .routes(routes!(criteria::diff::diff_criteria))
        .routes(routes!(
            ratings::post_rating_of_score,
            ratings::ratings_of_score
        ))
        .routes(routes!(
            ratings::post_rating_of_session,
            ratings::ratings_of_session
        ))
        .routes(routes!(ratings::agreement::get_agreement))
        .routes(routes!(ratings::annotations::get_annotations))
        .routes(routes!(ratings::annotations::get_raters))
        .routes(routes!(ratings::panels::get_spread))
        .routes(routes!(jobs::list_jobs))
        .routes(routes!(jobs::get_job))
        .routes(routes!(jobs::cancel_job))
        .routes(routes!(jobs::retry_job))
        .routes(routes!(jobs::new_job::post_job))
        .routes(routes!(jobs::score_query::score_query))
        .routes(routes!(ratings::calibration::post_calibration))
        .routes(routes!(batches::calibration::get_batch_calibration))
        .routes(routes!(batches::reports::batch_report))
        .routes(routes!(batches::post_batch, batches::list_batches))
        .routes(routes!(batches::get_batch))
        .routes(routes!(batches::pause_batch))
        .routes(routes!(batches::resume_batch))
        .routes(routes!(batches::cancel_batch))
        .routes(routes!(batches::retry_errors))
        .routes(routes!(batches::change_budget))
        .routes(routes!(batches::items::list_items))
        .routes(routes!(batches::items::get_item))
        .routes(routes!(batches::compare::compare_batches))
        .routes(routes!(rescore::post_rescore))
        .routes(routes!(judges::list_judges))
        .routes(routes!(judges::pause_judge))
        .routes(routes!(judges::resume_judge))
        .routes(routes!(judges::list_workers))
        .routes(routes!(judges::queue::queue_status))
        .routes(routes!(judges::queue::pause_queue))
        .routes(routes!(judges::queue::resume_queue))
        .routes(routes!(analytics::costs::costs))
        .routes(routes!(analytics::costs::batch_costs))
        .routes(routes!(analytics::latency::latency))
        .routes(routes!(analytics::groups::groups))
        .routes(routes!(analytics::names::missing_tools))
        .routes(routes!(analytics::names::approaches))
        .routes(routes!(analytics::score_tools::tools_of_score))
        .routes(routes!(analytics::distribution::distribution))
        .routes(routes!(analytics::trend::trend))
        .routes(routes!(analytics::exports::training))
        .routes(routes!(analytics::exports::scores_table))
        .routes(routes!(events::events))
        .routes(routes!(webhooks::list_webhooks, webhooks::add_webhook))
        .routes(routes!(webhooks::delete_webhook))
        .routes(routes!(webhooks::list_deliveries))
        .routes(routes!(webhooks::get_delivery))
        .routes(routes!(webhooks::resend_delivery))
        .routes(routes!(operate::livez))
        .routes(routes!(operate::readyz))
        .routes(routes!(operate::prometheus))
        .routes(routes!(operate::openapi_document))
}
