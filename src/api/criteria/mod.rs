//! Criteria versions: list, read, add, name, make current. Adding a definition doesn't make it current.

pub(crate) mod compare;
pub(crate) mod diff;
pub(crate) mod named;

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::Value;

use self::named::named;
use crate::api::ApiState;
use crate::api::http::authorized::Authorized;
use crate::api::http::body::ApiJson;
use crate::api::http::etag::json_or_unchanged;
use crate::api::http::extract::{Path, Query, QueryPart};
use crate::api::http::problem::{ApiError, ApiResult, escape};
use crate::job::Kind;
use crate::score::Criteria;
use crate::store::{CriteriaChoice, CriteriaDefinition, CriteriaName};
use crate::wire::{
    CriteriaAdded, CriteriaDetail, CriteriaList, CriteriaVersion, NameRequest, RequestFault, Signed,
};

const MAX_NAME_CHARS: usize = 80;
const MAX_NOTE_CHARS: usize = 4_000;

pub(crate) const CRITERIA: &str = "/api/v1/scoring/criteria";
pub(crate) const NAME: &str = "/api/v1/scoring/criteria/{criteria_hash}/name";
pub(crate) const CURRENT: &str = "/api/v1/scoring/criteria/{criteria_hash}/current";

fn view(
    state: &ApiState,
    stored: &CriteriaDefinition,
    chosen: &[CriteriaChoice],
) -> CriteriaVersion {
    let named = stored.name.as_ref();
    let is_current = stored.criteria_hash == state.enqueue.current_criteria_of(stored.kind).hash.0;
    let mut chosen = chosen.iter().filter(|choice| {
        is_current && choice.criteria_hash.as_deref() == Some(&stored.criteria_hash)
    });
    CriteriaVersion {
        criteria_hash: stored.criteria_hash.clone(),
        kind: stored.kind,
        judge: Criteria::judge_of(&stored.content),
        is_current,
        name: named.and_then(|named| named.name.clone()),
        note: named.and_then(|named| named.note.clone()),
        named: named.map(|named| Signed {
            by: named.by.clone(),
            at: named.at,
        }),
        made_current: chosen.next().map(|choice| Signed {
            by: choice.by.clone(),
            at: choice.at,
        }),
        created_at: Some(stored.created_at),
        scores: stored.scores,
        real_scores: stored.real_scores,
        mean_total: stored.mean_total,
        first_scored_at: stored.first_scored_at,
    }
}

/// Returns the current criteria before their first use, when they are not stored yet.
fn unused(current: &Criteria) -> CriteriaVersion {
    CriteriaVersion {
        criteria_hash: current.hash.0.clone(),
        kind: current.kind,
        judge: current.judge.clone(),
        is_current: true,
        created_at: None,
        scores: 0,
        real_scores: 0,
        mean_total: None,
        first_scored_at: None,
        name: None,
        note: None,
        named: None,
        made_current: None,
    }
}

/// Lists criteria versions, newest first.
#[utoipa::path(
    get, path = CRITERIA, tag = "criteria",
    responses(
        (status = 200, description = "The versions", body = CriteriaList),
    ),
)]
pub(crate) async fn list_criteria(state: ApiState) -> ApiResult<CriteriaList> {
    let criteria = state.store.criteria();
    let (stored, chosen) = tokio::try_join!(criteria.list(), criteria.chosen())?;
    let mut items: Vec<CriteriaVersion> = stored
        .iter()
        .map(|row| view(&state, row, &chosen))
        .collect();
    for kind in Kind::ALL.iter().rev() {
        if !items
            .iter()
            .any(|item| item.kind == *kind && item.is_current)
        {
            items.insert(0, unused(&state.enqueue.current_criteria_of(*kind)));
        }
    }
    Ok(Json(CriteriaList {
        items,
        next_cursor: None,
    }))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct KindQuery {
    /// With `current`: kind of the criteria; default session
    kind: Option<Kind>,
}

impl QueryPart for KindQuery {}

/// Reads a version with its content.
#[utoipa::path(
    get, path = "/api/v1/scoring/criteria/{criteria_hash}", tag = "criteria",
    params(
        KindQuery,
        ("criteria_hash" = String, Path, description = "64 hex digits, at least the first 8, or `current`", pattern = r"^([0-9A-Fa-f]{8,64}|current)$"),
        ("If-None-Match" = Option<String>, Header, description = "ETags of this route: 304 if one still holds"),
    ),
    responses(
        (status = 200, description = "The version", body = CriteriaDetail, headers(("ETag" = String, description = "Its version"))),
        (status = 304, description = "Not changed"),
        (status = 404, description = "criteria-not-found"),
    ),
)]
pub(crate) async fn get_criteria(
    state: ApiState,
    Path(name): Path<String>,
    Query(query): Query<KindQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let kind = query.kind.unwrap_or(Criteria::DEFAULT_KIND);
    json_or_unchanged(&headers, &read(&state, &name, kind).await?)
}

/// Returns a version with its content. `current` is that of `kind`.
pub(crate) async fn read(
    state: &ApiState,
    name: &str,
    kind: Kind,
) -> Result<CriteriaDetail, ApiError> {
    let hash = named(state, "/criteria_hash", name, kind).await?.hash;
    let current = Kind::ALL
        .iter()
        .map(|kind| state.enqueue.current_criteria_of(*kind))
        .find(|current| current.hash.0 == hash);
    let criteria = state.store.criteria();
    let (stored, chosen) = tokio::try_join!(criteria.get(&hash), criteria.chosen())?;
    match (stored, current) {
        (Some(stored), _) => Ok(CriteriaDetail {
            version: view(state, &stored, &chosen),
            content: stored.content,
        }),
        (None, Some(current)) => Ok(CriteriaDetail {
            version: unused(&current),
            content: current.content.clone(),
        }),
        (None, None) => Err(ApiError::CriteriaNotFound(hash)),
    }
}

/// Checks and stores a definition, without making it current.
#[utoipa::path(
    post, path = CRITERIA, tag = "criteria",
    request_body(content = Object, description = "The definition, as the criteria file has it, in JSON; no `${VARIABLE}`", example = json!({"scoring": {"llm_provider": "openai-default"}, "judge_prompt": "Score this investigation.\n{{SESSION_CONVERSATION}}\n{{ALERT_DATA}}\n{{OUTPUT_SCHEMA}}"})),
    responses(
        (status = 200, description = "It was stored before", body = CriteriaAdded),
        (status = 201, description = "Stored", body = CriteriaAdded),
    ),
)]
pub(crate) async fn add_criteria(
    api: Authorized,
    ApiJson(definition): ApiJson<Value>,
) -> Result<Response, ApiError> {
    let added = add(api, definition).await?;
    let status = match added.is_new {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    Ok((status, Json(added)).into_response())
}

pub(crate) async fn add(api: Authorized, definition: Value) -> Result<CriteriaAdded, ApiError> {
    let mut faults = Vec::new();
    find_variables(&definition, &mut String::new(), &mut faults);
    if !faults.is_empty() {
        return Err(ApiError::Invalid(faults));
    }
    let criteria = Criteria::from_value(&definition).map_err(|error| {
        let pointer = format!("/{}", error.path.replace('.', "/"));
        let pointer = pointer.trim_end_matches('/');
        ApiError::fault(pointer, error.message)
    })?;
    let now = api.clock.now();
    let is_new = api.store.criteria().put(&criteria, now).await?;
    let current = api.enqueue.current_criteria_of(criteria.kind);
    Ok(CriteriaAdded {
        is_current: criteria.hash == current.hash,
        criteria_hash: criteria.hash.0,
        kind: criteria.kind,
        is_new,
        judge: criteria.judge,
    })
}

/// Replaces the name and note of a version. Its content doesn't change.
#[utoipa::path(
    post, path = NAME, tag = "criteria",
    params(("criteria_hash" = String, Path, description = "64 hex digits, at least the first 8, or `current`", pattern = r"^([0-9A-Fa-f]{8,64}|current)$")),
    request_body(content = NameRequest, example = json!({"name": "stricter on evidence", "note": "Asks for files that were read."})),
    responses(
        (status = 200, description = "The version", body = CriteriaVersion),
        (status = 404, description = "criteria-not-found"),
    ),
)]
pub(crate) async fn name_criteria(
    api: Authorized,
    Path(hash): Path<String>,
    ApiJson(body): ApiJson<NameRequest>,
) -> ApiResult<CriteriaVersion> {
    let text = |field: &str, text: Option<String>, most: usize| {
        let text = text.map(|text| text.trim().to_owned());
        let text = text.filter(|text| !text.is_empty());
        if text
            .as_ref()
            .is_some_and(|text| text.chars().count() > most)
        {
            let message = format!("is longer than {most} characters");
            return Err(ApiError::fault(field, message));
        }
        Ok(text)
    };
    let new = CriteriaName {
        name: text("/name", body.name, MAX_NAME_CHARS)?,
        note: text("/note", body.note, MAX_NOTE_CHARS)?,
        by: api.caller.name()?,
        at: api.clock.now(),
    };
    let version = stored_version(&api, &hash).await?;
    let hash = version.criteria_hash;
    api.store.criteria().name(&hash, &new).await?;
    Ok(Json(read(&api, &hash, version.kind).await?.version))
}

/// Makes a version current: new requests of its kind use it, in all processes within 5 s. It survives restarts and file reloads until
/// another version is made current. Making the version of the server's file current follows the file again.
#[utoipa::path(
    post, path = CURRENT, tag = "criteria", operation_id = "make_current",
    params(("criteria_hash" = String, Path, description = "64 hex digits, at least the first 8", pattern = r"^[0-9A-Fa-f]{8,64}$")),
    responses(
        (status = 200, description = "The version, current now", body = CriteriaVersion),
        (status = 404, description = "criteria-not-found"),
        (status = 503, description = "judge-not-configured"),
    ),
)]
pub(crate) async fn post_current(
    api: Authorized,
    Path(hash): Path<String>,
) -> ApiResult<CriteriaVersion> {
    let by = api.caller.name()?;
    let version = stored_version(&api, &hash).await?;
    let (kind, hash) = (version.kind, version.criteria_hash);
    api.enqueue.make_current((kind, &hash), by).await?;
    Ok(Json(read(&api, &hash, kind).await?.version))
}

/// Returns a version by its hash. Stores a version that is only in a file.
async fn stored_version(state: &ApiState, name: &str) -> Result<CriteriaVersion, ApiError> {
    let version = read(state, name, Criteria::DEFAULT_KIND).await?.version;
    if version.created_at.is_none() {
        let current = state.enqueue.current_criteria_of(version.kind);
        let now = state.clock.now();
        state.store.criteria().put(&current, now).await?;
    }
    Ok(version)
}

/// Rejects text with `${`, which a file would expand from the server's environment, and with NUL, which Postgres can't store in JSON.
fn find_variables(value: &Value, pointer: &mut String, faults: &mut Vec<RequestFault>) {
    let mut note = |text: &str, pointer: &str| {
        let message = if text.contains("${") {
            "holds ${: variables are not filled in here, send the value itself"
        } else if text.contains('\0') {
            "contains a NUL character, which can't be stored"
        } else {
            return;
        };
        faults.push(RequestFault {
            pointer: pointer.to_owned(),
            message: message.to_owned(),
        });
    };
    let children: Vec<(String, &Value)> = match value {
        Value::String(text) => {
            note(text, pointer);
            return;
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(i, item)| (i.to_string(), item))
            .collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| {
                note(name, &format!("{pointer}/{}", escape(name)));
                (escape(name), field)
            })
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => return,
    };
    for (name, child) in children {
        let length = pointer.len();
        pointer.push('/');
        pointer.push_str(&name);
        find_variables(child, pointer, faults);
        pointer.truncate(length);
    }
}
