//! Current criteria of a process under test: given for sessions, built-in for the other kinds.

use std::convert::Infallible;
use std::sync::Arc;

use gavel::enqueue::CurrentCriteria;
use gavel::job::Kind;
use gavel::score::Criteria;
use serde_json::Value;

/// Definitions with judge `judge-a` for the kinds other than `session`.
pub(crate) fn current(session: &Value) -> CurrentCriteria {
    let one = |kind: Kind| {
        if !kind.is_case() {
            return Ok(Arc::new(Criteria::from_value(session).unwrap()));
        }
        let (_, text) = gavel::score::about(kind).built_in_criteria;
        let value = gavel::config::yaml::resolve("criteria", text, &|name| {
            (name == "DEFAULT_LLM_PROVIDER").then(|| "judge-a".to_owned())
        });
        Ok::<_, Infallible>(Arc::new(Criteria::from_value(&value.unwrap()).unwrap()))
    };
    CurrentCriteria::read(one).unwrap()
}
