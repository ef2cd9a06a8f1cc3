//! The current criteria of a process under test: a session's as given, those of the other kinds as they are built in.

use std::sync::Arc;

use gavel::enqueue::CurrentCriteria;
use gavel::score::Criteria;
use serde_json::Value;

/// The definitions, with judge `judge-a` for the kinds that `session` isn't for.
pub(crate) fn current(session: &Value) -> CurrentCriteria {
    let built_in = |text: &str| {
        let value = gavel::config::yaml::resolve("criteria", text, &|name| {
            (name == "DEFAULT_LLM_PROVIDER").then(|| "judge-a".to_owned())
        });
        Arc::new(Criteria::from_value(&value.unwrap()).unwrap())
    };
    CurrentCriteria {
        session: Arc::new(Criteria::from_value(session).unwrap()),
        query: built_in(include_str!("../../../config/criteria/query.yaml")),
        qas: built_in(include_str!("../../../config/criteria/qas.yaml")),
        sql_metrics: built_in(include_str!(
            "../../../config/criteria/query_correctness.yaml"
        )),
    }
}
