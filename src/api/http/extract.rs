//! Path and query parameters, as their types declare them. The OpenAPI document is from the same declarations.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{Method, Uri};
use axum::middleware::Next;
use axum::response::Response;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::schema::{Object, Schema, SchemaType, Type};
use utoipa::openapi::{RefOr, Required};
use uuid::Uuid;

use super::problem::{ApiError, escape};
use crate::score::hint;
use crate::wire::{
    LimitQuery, PageQuery, RequestFault, ScoreSelection, SessionFilter, SessionSort,
};

/// Parameters as sent.
pub(crate) type Pairs = Vec<(String, String)>;

/// Fields that a query may have, alone or next to others.
pub(crate) trait QueryPart: DeserializeOwned + Default + IntoParams {
    /// Checks that types and limits of single parameters can't express.
    fn faults(&self) -> Vec<RequestFault> {
        Vec::new()
    }
}

impl QueryPart for LimitQuery {}
impl QueryPart for PageQuery {}
impl QueryPart for SessionSort {}

impl QueryPart for SessionFilter {
    fn faults(&self) -> Vec<RequestFault> {
        Self::faults(self)
    }
}

impl QueryPart for ScoreSelection {
    fn faults(&self) -> Vec<RequestFault> {
        Self::faults(self)
    }
}

/// A query: one part, or several.
pub(crate) trait FromQuery: Sized {
    fn params() -> Vec<Parameter>;
    /// Reads valid values, and adds the errors of the others.
    fn read(values: &mut Map<String, Value>, faults: &mut Vec<RequestFault>) -> Self;
}

impl<T: QueryPart> FromQuery for T {
    fn params() -> Vec<Parameter> {
        T::into_params(|| Some(ParameterIn::Query))
    }

    fn read(values: &mut Map<String, Value>, faults: &mut Vec<RequestFault>) -> Self {
        let mut own = Map::new();
        for param in <T as FromQuery>::params() {
            let Some((name, value)) = values.remove_entry(&param.name) else {
                continue;
            };
            let alone = Map::from_iter([(name.clone(), value.clone())]);
            match serde_json::from_value::<T>(Value::Object(alone)) {
                Ok(_) => drop(own.insert(name, value)),
                Err(error) => faults.push(RequestFault::new(&name, error.to_string())),
            }
        }
        let query: T = serde_json::from_value(Value::Object(own)).unwrap_or_default();
        for fault in query.faults() {
            if faults.iter().all(|known| known.pointer != fault.pointer) {
                faults.push(fault);
            }
        }
        query
    }
}

impl<A: QueryPart, B: QueryPart> FromQuery for (A, B) {
    fn params() -> Vec<Parameter> {
        [<A as FromQuery>::params(), <B as FromQuery>::params()].concat()
    }

    fn read(values: &mut Map<String, Value>, faults: &mut Vec<RequestFault>) -> Self {
        (
            <A as FromQuery>::read(values, faults),
            <B as FromQuery>::read(values, faults),
        )
    }
}

impl<A: QueryPart, B: QueryPart, C: QueryPart> FromQuery for (A, B, C) {
    fn params() -> Vec<Parameter> {
        [<(A, B)>::params(), <C as FromQuery>::params()].concat()
    }

    fn read(values: &mut Map<String, Value>, faults: &mut Vec<RequestFault>) -> Self {
        let (a, b) = <(A, B)>::read(values, faults);
        (a, b, <C as FromQuery>::read(values, faults))
    }
}

/// The query of a request. Empty values count as absent, because forms send them; an empty flag is on.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: FromQuery> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        read_query(&pairs_of(&parts.uri)?).map(Self)
    }
}

pub(crate) fn pairs_of(uri: &Uri) -> Result<Pairs, ApiError> {
    let query = axum::extract::Query::<Pairs>::try_from_uri(uri);
    query
        .map(|query| query.0)
        .map_err(|error| ApiError::fault("", error.body_text()))
}

/// Reads a query.
///
/// # Errors
/// All errors at once: unknown, duplicate, missing and invalid parameters.
pub(crate) fn read_query<T: FromQuery>(pairs: &[(String, String)]) -> Result<T, ApiError> {
    let params = T::params();
    let (mut values, mut faults) = (Map::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for (name, text) in pairs {
        if !seen.insert(name) {
            faults.push(RequestFault::new(name, "is given more than once: keep one"));
            continue;
        }
        let value = match params.iter().find(|param| param.name == *name) {
            Some(param) => value_of(param, text),
            None => Err(unknown(&params, name)),
        };
        match value {
            Ok(Some(value)) => drop(values.insert(name.clone(), value)),
            Ok(None) => {}
            Err(message) => faults.push(RequestFault::new(&escape(name), message)),
        }
    }
    for param in &params {
        let is_absent = pairs
            .iter()
            .all(|(name, text)| *name != param.name || text.is_empty());
        if param.required == Required::True && is_absent {
            let about = param.description.as_deref().unwrap_or_default();
            let message = format!("is missing: {about}");
            faults.push(RequestFault::new(&param.name, message));
        }
    }
    let query = T::read(&mut values, &mut faults);
    match faults.is_empty() {
        true => Ok(query),
        false => Err(ApiError::Invalid(faults)),
    }
}

pub(crate) fn unknown(params: &[Parameter], name: &str) -> String {
    match params {
        [] => "is unknown: this route has no parameters".to_owned(),
        params => {
            let known = params.iter().map(|param| param.name.as_str());
            format!("is unknown; {}", hint(name, known))
        }
    }
}

/// Converts a text to JSON of the declared type, within the declared limits. `None` if it counts as absent.
fn value_of(param: &Parameter, text: &str) -> Result<Option<Value>, String> {
    // Postgres can't store NUL, and no valid value has control characters.
    if text.chars().any(char::is_control) {
        return Err("contains control characters".to_owned());
    }
    let schema = match &param.schema {
        Some(RefOr::T(Schema::Object(schema))) => schema,
        Some(RefOr::T(Schema::Array(_))) if !text.is_empty() => {
            return Ok(Some(text.split(',').map(str::trim).collect()));
        }
        Some(_) | None => &Object::default(),
    };
    let is = |kind: Type| schema.schema_type == SchemaType::Type(kind);
    if is(Type::Boolean) {
        return match text {
            "" | "true" | "1" => Ok(Some(true.into())),
            "false" | "0" => Ok(Some(false.into())),
            _ => Err("must be true or false".to_owned()),
        };
    }
    if text.is_empty() {
        return Ok(None);
    }
    if is(Type::Integer) {
        return integer(schema, text).map(Some);
    }
    if is(Type::Number) {
        let number = text.parse().ok().and_then(Number::from_f64);
        return match number {
            Some(number) => Ok(Some(number.into())),
            None => Err("must be a number, such as 0.5".to_owned()),
        };
    }
    Ok(Some(text.into()))
}

fn integer(schema: &Object, text: &str) -> Result<Value, String> {
    let limit = |limit: &Option<utoipa::Number>| match limit {
        Some(utoipa::Number::Int(limit)) => i128::try_from(*limit).ok(),
        Some(utoipa::Number::UInt(limit)) => i128::try_from(*limit).ok(),
        Some(utoipa::Number::Float(_)) | None => None,
    };
    let least = limit(&schema.minimum).unwrap_or(0);
    let most = limit(&schema.maximum).unwrap_or(u64::MAX.into());
    let step = limit(&schema.multiple_of).unwrap_or(1);
    let number = text
        .parse::<u64>()
        .ok()
        .map(|number| (number, number.into()));
    match number {
        Some((number, value)) if (least..=most).contains(&value) && value % step == 0 => {
            Ok(number.into())
        }
        _ if step > 1 => Err(format!("must be {least}-{most}, a multiple of {step}")),
        _ => Err(format!("must be {least}-{most}")),
    }
}

/// A variable part of a path, or several.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Path<T>(pub(crate) T);

/// A type of a variable part of a path.
pub(crate) trait Segment: Sized {
    fn read(name: &str, text: &str) -> Result<Self, ApiError>;
}

impl Segment for String {
    fn read(_: &str, text: &str) -> Result<Self, ApiError> {
        match text.chars().any(char::is_control) {
            true => Err(ApiError::NoRoute),
            false => Ok(text.to_owned()),
        }
    }
}

impl Segment for Uuid {
    fn read(name: &str, text: &str) -> Result<Self, ApiError> {
        // Only the hyphenated form, so that each session has one path.
        match Self::try_parse(text) {
            Ok(id) if text.len() == 36 => Ok(id),
            Ok(_) | Err(_) => Err(ApiError::fault(
                format!("/{name}"),
                "must be a UUID such as 0190d3e8-1c2b-7d4e-8f90-1a2b3c4d5e6f",
            )),
        }
    }
}

impl Segment for u32 {
    fn read(name: &str, text: &str) -> Result<Self, ApiError> {
        let message = "is not a number from 0 on";
        text.parse()
            .map_err(|_| ApiError::fault(format!("/{name}"), message))
    }
}

pub(crate) trait FromPath: Sized {
    fn read(segments: &[(&str, &str)]) -> Result<Self, ApiError>;
}

impl<T: Segment> FromPath for T {
    fn read(segments: &[(&str, &str)]) -> Result<Self, ApiError> {
        match segments {
            [(name, text), ..] => T::read(name, text),
            [] => Err(ApiError::NoRoute),
        }
    }
}

impl<A: Segment, B: Segment> FromPath for (A, B) {
    fn read(segments: &[(&str, &str)]) -> Result<Self, ApiError> {
        match segments {
            [(a, first), (b, second), ..] => Ok((A::read(a, first)?, B::read(b, second)?)),
            _ => Err(ApiError::NoRoute),
        }
    }
}

impl<S: Send + Sync, T: FromPath> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::NoRoute)?;
        T::read(&params.iter().collect::<Vec<_>>()).map(Self)
    }
}

/// Operations with query parameters: method and path.
pub(crate) type Queried = HashSet<(Method, String)>;

/// Rejects a query of an operation without parameters.
pub(crate) async fn reject_query(
    State(queried): State<Arc<Queried>>,
    path: MatchedPath,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let method = match *request.method() {
        Method::HEAD => Method::GET,
        ref method => method.clone(),
    };
    let operation = (method, path.as_str().to_owned());
    if !queried.contains(&operation) {
        let faults: Vec<_> = pairs_of(request.uri())?
            .into_iter()
            .map(|(name, _)| RequestFault::new(&escape(&name), unknown(&[], &name)))
            .collect();
        if !faults.is_empty() {
            return Err(ApiError::Invalid(faults));
        }
    }
    Ok(next.run(request).await)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize, IntoParams)]
    #[into_params(parameter_in = Query)]
    #[serde(default)]
    struct Probe {
        q: Option<String>,
        #[param(minimum = 5, maximum = 10, multiple_of = 5)]
        points: Option<u8>,
        flag: bool,
        #[param(required = true)]
        id: Uuid,
        #[param(style = Form, explode = false)]
        ids: Vec<Uuid>,
    }

    impl QueryPart for Probe {}

    const ID: &str = "00000000-0000-0000-0000-000000000001";

    fn read(query: &str) -> Result<(Probe, PageQuery), Vec<(String, String)>> {
        let pairs = pairs_of(&format!("/?{query}").parse().unwrap()).unwrap();
        read_query(&pairs).map_err(|error| {
            let faults = error.problem().errors.into_iter();
            faults.map(|it| (it.pointer, it.message)).collect()
        })
    }

    #[test]
    fn reads_parameters_of_several_parts() {
        let (probe, page) = read(&format!("q=&points=5&id={ID}&ids={ID},{ID}&limit=7")).unwrap();
        let id = Uuid::from_u128(1);
        assert_eq!((probe.q, probe.points, probe.id), (None, Some(5), id));
        assert_eq!((probe.ids, page.limit()), (vec![id, id], 7));
    }

    #[test]
    fn reports_all_errors_at_once() {
        let faults = read("points=7&limit=501&flag=maybe&flagg=1&cursor=a&cursor=b&ids=x&q=a%00");
        let faults = faults.unwrap_err();
        let find = |pointer: &str| {
            let found = faults.iter().find(|(known, _)| known == pointer);
            found.unwrap_or_else(|| panic!("{faults:?}")).1.as_str()
        };
        assert_eq!(find("/points"), "must be 5-10, a multiple of 5");
        assert_eq!(find("/limit"), "must be 1-500");
        assert_eq!(find("/flag"), "must be true or false");
        assert_eq!(find("/flagg"), "is unknown; did you mean flag?");
        assert_eq!(find("/cursor"), "is given more than once: keep one");
        assert_eq!(find("/q"), "contains control characters");
        assert!(find("/id").starts_with("is missing"), "{faults:?}");
        assert!(find("/ids").contains("UUID"), "{faults:?}");
    }

    #[test]
    fn flag_is_on_if_present_and_not_false() {
        for (value, expected) in [("", true), ("true", true), ("1", true), ("0", false)] {
            let (probe, _) = read(&format!("id={ID}&flag={value}")).unwrap();
            assert_eq!(probe.flag, expected, "{value}");
        }
        assert!(!read(&format!("id={ID}")).unwrap().0.flag);
    }
}
