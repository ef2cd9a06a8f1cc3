//! GET `/api/v1/scores/{score_id}/missing-tools`: how common the missing tools of a score are.

use axum::Json;
use uuid::Uuid;

use super::names::sessions_without;
use crate::api::ApiState;
use crate::api::http::extract::Path;
use crate::api::http::problem::{ApiError, ApiResult};
use crate::store::{MadeBy, ToolElsewhere};
use crate::wire::{ScoreTool, ScoreTools};

/// Maximum number of sessions counted per tool, which limits the rows read.
const MAX_COUNTED: u32 = 1_000;

impl From<ToolElsewhere> for ScoreTool {
    fn from(tool: ToolElsewhere) -> Self {
        let counted = i64::from(MAX_COUNTED);
        Self {
            other_sessions: tool.sessions.min(counted),
            more: tool.sessions > counted,
            links: sessions_without(&tool.key),
            name: tool.name,
        }
    }
}

/// Lists the missing tools of a score, each with the number of other sessions that miss it.
///
/// Counts the current scores of other sessions, for all criteria and times: real ones for a real score, simulated ones for a simulated one.
#[utoipa::path(
    get, path = "/api/v1/scores/{score_id}/missing-tools", tag = "analytics",
    responses(
        (status = 200, description = "The tools", body = ScoreTools),
        (status = 404, description = "score-not-found"),
    ),
)]
pub(crate) async fn tools_of_score(state: ApiState, Path(id): Path<Uuid>) -> ApiResult<ScoreTools> {
    let row = state.store.scores().get(id).await?;
    let row = row.ok_or(ApiError::ScoreNotFound(id))?;
    let simulated = row.score.simulated;
    let made_by = if simulated {
        MadeBy::Simulated
    } else {
        MadeBy::Judge
    };
    let tools = state
        .store
        .analytics()
        .tools_elsewhere(id, row.session_id, made_by, MAX_COUNTED + 1)
        .await?;
    Ok(Json(ScoreTools {
        score_id: id,
        items: tools.into_iter().map(ScoreTool::from).collect(),
        simulated,
        next_cursor: None,
    }))
}
