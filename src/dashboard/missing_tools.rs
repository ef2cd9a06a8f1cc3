//! Tools that a score reports as missing, with the number of other sessions that miss them.

use axum::Json;
use uuid::Uuid;

use super::page::found;
use super::words;
use crate::api::analytics::score_tools::tools_of_score;
use crate::api::{ApiError, ApiState, Path};
use crate::wire::{MissingTool, ScoreTool};

pub(super) struct ToolRow {
    pub(super) tool_name: String,
    pub(super) rationale: String,
    /// Number of other sessions that miss it, as text. Empty if not loaded.
    pub(super) elsewhere: String,
}

impl ToolRow {
    /// Truncates the name and the reason to these numbers of characters.
    pub(super) fn new(tool: MissingTool, name: usize, sentence: usize) -> Self {
        Self {
            tool_name: words::clip(&tool.tool_name, name),
            rationale: words::clip(&tool.rationale, sentence),
            elsewhere: String::new(),
        }
    }
}

fn other_sessions_text(tool: &ScoreTool) -> String {
    match (tool.other_sessions, tool.more) {
        (0, _) => "requested in no other session".to_owned(),
        (1, false) => "requested in 1 other session".to_owned(),
        (n, false) => format!("requested in {} other sessions", words::grouped(n)),
        (n, true) => format!("requested in {}+ other sessions", words::grouped(n)),
    }
}

pub(super) async fn elsewhere(
    api: &ApiState,
    tools: &[MissingTool],
    score_id: Uuid,
) -> Result<Vec<ScoreTool>, ApiError> {
    if tools.is_empty() {
        return Ok(Vec::new());
    }
    let found = found(tools_of_score(api.clone(), Path(score_id)).await)?;
    Ok(found.map_or_else(Vec::new, |Json(found)| found.items))
}

/// Sets `elsewhere`. If a tool has several spellings, only the first gets the text.
pub(super) fn set_elsewhere(tools: &mut [ToolRow], elsewhere: &[ScoreTool]) {
    for tool in tools {
        let found = elsewhere.iter().find(|other| other.name == tool.tool_name);
        tool.elsewhere = found.map_or_else(String::new, other_sessions_text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::NameLinks;

    #[test]
    fn formats_number_of_other_sessions() {
        for (other_sessions, more, other_sessions_text) in [
            (0, false, "requested in no other session"),
            (1, false, "requested in 1 other session"),
            (12, false, "requested in 12 other sessions"),
            (1_000, true, "requested in 1,000+ other sessions"),
        ] {
            let tool = ScoreTool {
                name: "logs".to_owned(),
                other_sessions,
                more,
                links: NameLinks {
                    sessions: String::new(),
                },
            };
            assert_eq!(super::other_sessions_text(&tool), other_sessions_text);
        }
    }
}
