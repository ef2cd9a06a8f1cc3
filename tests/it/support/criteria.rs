//! The current criteria of a process under test: a session's as given, those of the other kinds as they are built in.

use std::convert::Infallible;
use std::sync::Arc;

use gavel::enqueue::CurrentCriteria;
use gavel::job::Kind;
use gavel::score::Criteria;
use serde_json::Value;

/// The definitions, with judge `judge-a` for the kinds that `session` isn't for.
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
