//! Converts the form of `/rescore` to the body of POST `/api/v1/rescore`, and the API's field errors to fields of the form.

use serde_json::{Map, Value, json};
use utoipa::IntoParams as _;

use super::super::form::Form;
use crate::api::{ApiError, problem, read_query, typed};
use crate::wire::{Problem, RescoreRequest, SessionFilter};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FormError {
    pub(super) field: String,
    pub(super) message: String,
}

pub(super) fn is_filter(name: &str) -> bool {
    let filters = SessionFilter::into_params(|| None);
    filters.iter().any(|filter| filter.name == name)
}

/// Builds the request body from the form.
///
/// # Errors
/// The fields that can't be parsed.
pub(super) fn body(form: &Form) -> Result<RescoreRequest, ApiError> {
    let mut wrong = Wrong::default();
    let filters = form.rest().into_iter().filter(|(name, _)| is_filter(name));
    let filter = read_query::<SessionFilter>(&filters.collect::<Vec<_>>());
    let filter = wrong.or(filter.map(Some)).unwrap_or_default();
    let mut body = Map::new();
    let mut put = |name: &str, value: Value| drop(body.insert(name.to_owned(), value));
    put("force_rescore", form.ticked("force").into());
    put("economy", form.ticked("economy").into());
    for (field, name) in [
        ("with", "criteria_hash"),
        ("name", "name"),
        ("purpose", "purpose"),
    ] {
        if let Some(text) = form.text(field) {
            put(name, text.into());
        }
    }
    for name in ["max", "repeats"] {
        if let Some(n) = wrong.or(form.read::<u64>(name, "an integer above 0")) {
            put(name, n.into());
        }
    }
    if let Some(size) = wrong.or(form.read::<u64>("sample", "an integer above 0")) {
        put("sample", json!({ "size": size }));
    }
    let judges: Vec<&str> = form.all("judge").collect();
    if !judges.is_empty() {
        put("judges", judges.into());
    }
    let budget = form.read::<f64>("budget_usd", "an amount of USD such as 12.50");
    if let Some(budget) = wrong.or(budget) {
        if budget <= 0.0 {
            let fault = "must be above 0; leave it empty for none";
            wrong.0.push(("budget_usd".to_owned(), fault.to_owned()));
        }
        put("budget_usd", budget.into());
    }
    match wrong.0.is_empty() {
        true => Ok(RescoreRequest {
            filter,
            ..typed("", body.into())?
        }),
        false => Err(problem::of_parameters(wrong.0)),
    }
}

/// Fields that can't be parsed, each with its error. Collected so that all are reported at once.
#[derive(Default)]
struct Wrong(Vec<(String, String)>);

impl Wrong {
    fn or<T>(&mut self, read: Result<Option<T>, ApiError>) -> Option<T> {
        read.unwrap_or_else(|error| {
            let form_errors = error.problem().errors.into_iter();
            self.0.extend(form_errors.map(|fault| {
                let name = fault.pointer.trim_start_matches('/').to_owned();
                (name, fault.message)
            }));
            None
        })
    }
}

/// Converts a problem's errors to fields of the form. `None` if the problem isn't a validation error.
pub(super) fn form_errors(problem: &Problem) -> Option<Vec<FormError>> {
    if problem.status != 422 || problem.errors.is_empty() {
        return None;
    }
    let form_errors = problem.errors.iter().map(|fault| FormError {
        field: field(&fault.pointer).to_owned(),
        message: fault.message.clone(),
    });
    Some(form_errors.collect())
}

/// The form field for a JSON pointer into the body.
fn field(pointer: &str) -> &str {
    let path = pointer.trim_start_matches('/');
    match path.split_once('/').unwrap_or((path, "")) {
        ("filter", name) => name.split('/').next().unwrap_or(name),
        ("judges", _) => "judge",
        ("criteria_hash", _) => "with",
        ("force_rescore", _) => "force",
        (name, _) => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_errors_map_to_form_fields() {
        for (pointer, name) in [
            ("/repeats", "repeats"),
            ("/judges", "judge"),
            ("/judges/1", "judge"),
            ("/sample/size", "sample"),
            ("/criteria_hash", "with"),
            ("/filter/min_score", "min_score"),
            ("/filter/ids/3", "ids"),
            ("", ""),
        ] {
            assert_eq!(field(pointer), name, "{pointer}");
        }
    }

    #[test]
    fn only_validation_errors_are_shown_in_the_form() {
        let wrong = problem::of_field("economy", "is not for purpose jury");
        let told = form_errors(&wrong.problem()).unwrap();
        assert_eq!(told[0].field, "economy");
        assert!(form_errors(&ApiError::StaleForm.problem()).is_none());
    }
}
