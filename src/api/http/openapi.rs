//! The OpenAPI 3.1 document: descriptions of the handlers, and common parts of all routes.

use axum::http::Method;
use utoipa::openapi::header::Header;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{
    AnyOf, KnownFormat, Object, ObjectBuilder, Ref, Schema, SchemaFormat, Type,
};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, OpenApi, RefOr, Required, Response, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;

use super::auth::{Scope, scope_of};
use super::body::OPTIONAL_BODY;
use super::extract::Queried;
use super::problem::{ALL, MEDIA_TYPE};
use crate::api::ApiState;
use crate::api::routes::routes;
use crate::wire::{Problem, TableFormat};

/// Descriptions of the variable parts of paths.
const SEGMENTS: [(&str, &str); 9] = [
    ("session_id", "The session"),
    ("score_id", "The score"),
    ("job_id", "The job"),
    ("batch_id", "The batch"),
    ("item_no", "Its place among the batch's items, from 0"),
    ("import_id", "The import"),
    ("webhook_id", "The webhook"),
    ("delivery_id", "The delivery"),
    ("name", "The judge"),
];

const BEARER: &str = "bearer";
/// Names of the common headers among the components.
const IDEMPOTENCY_KEY: &str = "IdempotencyKey";
const REQUEST_ID: &str = "RequestId";
const CONTENT_ENCODING: &str = "ContentEncoding";
const REPLAYED: &str = "IdempotencyReplayed";

/// Text without control characters.
const NO_CONTROLS: &str = r"^[^\u0000-\u001f\u007f-\u009f]*$";

/// Routes without parameters and body.
const ROUTES_WITHOUT_INPUT: [&str; 3] = ["/livez", "/metrics", "/openapi.json"];

/// Returns the operations of a document that have query parameters.
pub(crate) fn queried(document: &OpenApi) -> Queried {
    let mut queried = Queried::new();
    for (path, item) in &document.paths.paths {
        for (method, operation) in [
            (Method::GET, &item.get),
            (Method::PUT, &item.put),
            (Method::DELETE, &item.delete),
            (Method::POST, &item.post),
        ] {
            let is_query = |parameter: &RefOr<Parameter>| matches!(parameter, RefOr::T(it) if it.parameter_in == ParameterIn::Query);
            let parameters = operation
                .iter()
                .flat_map(|it| it.parameters.iter().flatten());
            if parameters.into_iter().any(is_query) || ROUTES_WITHOUT_INPUT.contains(&path.as_str())
            {
                queried.insert((method, path.clone()));
            }
        }
    }
    queried
}

pub(crate) fn documented() -> OpenApiRouter<ApiState> {
    let mut routes = OpenApiRouter::with_openapi(frame()).merge(routes());
    complete(routes.get_openapi_mut());
    routes
}

#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "Gavel", license(name = "MIT OR Apache-2.0")),
    components(schemas(Problem, TableFormat)),
    tags(
        (name = "scoring", description = "Request and read a session's score"),
        (name = "sessions", description = "Sessions and their imports"),
        (name = "criteria", description = "Scoring criteria"),
        (name = "trust", description = "Reliability of scores: ratings by users, repeats, juries"),
        (name = "jobs", description = "The work in between"),
        (name = "metrics", description = "Computed at once"),
        (name = "batches", description = "Many items of one kind in one request"),
        (name = "judges", description = "The queue, judges and workers; pause and resume"),
        (name = "analytics", description = "Costs, and statistics of scores"),
        (name = "events", description = "Live events"),
        (name = "webhooks", description = "Webhook endpoints and deliveries"),
        (name = "operate", description = "Health, metrics and this document"),
    ),
)]
struct Frame;

fn frame() -> OpenApi {
    let mut frame = <Frame as utoipa::OpenApi>::openapi();
    frame.info.description = Some(describe());
    frame
}

/// Returns the introduction: common rules and the table of problems.
fn describe() -> String {
    let mut text = String::from(
        "Scores the work of AI agents with a judge LLM.\n\nTimes are RFC 3339 in UTC, durations end in `_s` or \
         `_ms`, money in `_usd`. Lists return `items` and `next_cursor`. A 202 means that the job is stored; poll \
         its Location, or send `Prefer: wait=N`. Every response carries `x-request-id`; responses and bodies may \
         be gzip. `ETag` and `If-None-Match` avoid resending unchanged data. A POST with an `Idempotency-Key` is \
         executed once. Names and messages contain no control characters. `/api/v1/events` streams \
         events.\n\nErrors are problem documents (RFC 9457); their `type` is `urn:gavel:problem:` and:\n\n| type | \
         status | cause and fix |\n| --- | --- | --- |\n",
    );
    for kind in ALL {
        text.push_str(&format!(
            "| `{}` | {} | {} |\n",
            kind.slug, kind.status, kind.meaning
        ));
    }
    text
}

/// Adds to each route the required scope and the problems of the layers.
fn complete(document: &mut OpenApi) {
    let components = document.components.get_or_insert_default();
    let mut scheme = Http::new(HttpAuthScheme::Bearer);
    scheme.description = Some(
        "A configured token. Scopes: admin includes enqueue, enqueue includes read.".to_owned(),
    );
    components
        .security_schemes
        .insert(BEARER.to_owned(), SecurityScheme::Http(scheme).into());
    // A score also matches the schema of any object, so that `JobResult` must be `anyOf`.
    for schema in components.schemas.values_mut() {
        if let RefOr::T(Schema::OneOf(choice)) = schema
            && choice.items.iter().any(is_any_object)
        {
            let mut any = AnyOf::new();
            any.items = std::mem::take(&mut choice.items);
            any.description = choice.description.take();
            *schema = RefOr::T(Schema::AnyOf(any));
        }
    }
    components.parameters.extend(parameters());
    components.headers.extend(headers());
    for (path, item) in &mut document.paths.paths {
        let operations = [
            (Method::GET, item.get.as_mut()),
            (Method::PUT, item.put.as_mut()),
            (Method::DELETE, item.delete.as_mut()),
            (Method::POST, item.post.as_mut()),
        ];
        for (method, operation) in operations {
            if let Some(operation) = operation {
                add_problem_bodies(operation);
                if !ROUTES_WITHOUT_INPUT.contains(&path.as_str()) {
                    let responses = &mut operation.responses.responses;
                    let invalid = || RefOr::T(problem("invalid-request"));
                    responses.entry("422".to_owned()).or_insert_with(invalid);
                }
                add_segments(operation, path);
                complete_queries(operation);
                complete_operation(operation, scope_of(&method, path));
                complete_headers(operation, &method);
            }
        }
    }
}

fn is_any_object(schema: &RefOr<Schema>) -> bool {
    matches!(schema, RefOr::T(Schema::Object(object))
        if object.schema_type == Type::Object.into() && object.properties.is_empty())
}

/// Adds the problem body to each error response declared without a body.
fn add_problem_bodies(operation: &mut Operation) {
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response
            && status.starts_with(['4', '5'])
            && response.content.is_empty()
        {
            response.content = problem("").content;
        }
    }
}

/// Common request headers, by name in the components.
fn parameters() -> [(String, RefOr<Parameter>); 3] {
    let header = |name: &str, schema: ObjectBuilder, description: &str| {
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some(description))
            .schema(Some(schema.schema_type(Type::String)))
            .build()
    };
    let any = ObjectBuilder::new;
    let key = any().min_length(Some(1)).max_length(Some(255));
    [
        (
            IDEMPOTENCY_KEY.to_owned(),
            RefOr::T(header(
                "Idempotency-Key",
                key.pattern(Some("^[ -~]*[!-~][ -~]*$")),
                "1-255 printable ASCII characters, for example a UUID: repeated requests are executed once. Scoped \
                 by token, method and path; stored for 24 h with a hash of query and body. Only successful \
                 responses are stored; a job that failed or was cancelled is not created again",
            )),
        ),
        (
            REQUEST_ID.to_owned(),
            RefOr::T(header(
                "X-Request-Id",
                any(),
                "The client's own id of the request, 1-128 printable ASCII characters without spaces; default: a generated id",
            )),
        ),
        (
            CONTENT_ENCODING.to_owned(),
            RefOr::T(header(
                "Content-Encoding",
                any().enum_values(Some(["gzip", "identity"])),
                "`gzip` if the body is compressed; limits apply to the inflated size",
            )),
        ),
    ]
}

/// Common response headers, by name in the components.
fn headers() -> [(String, RefOr<Header>); 2] {
    let header = |description: &str| {
        let mut header = Header::new(Object::with_type(Type::String));
        header.description = Some(description.to_owned());
        RefOr::T(header)
    };
    [
        (
            REQUEST_ID.to_owned(),
            header("The id of the request, in the log and in problem documents too"),
        ),
        (
            REPLAYED.to_owned(),
            header(
                "`true`: this is the stored response of the first request with this Idempotency-Key",
            ),
        ),
    ]
}

/// Adds the variable parts of the path that the macro can't read from a constant: ids, and names of judges.
fn add_segments(operation: &mut Operation, path: &str) {
    let parameters = operation.parameters.get_or_insert_default();
    let names = path.split('{').skip(1);
    for name in names.filter_map(|rest| rest.split('}').next()) {
        let is_known = |known: &RefOr<Parameter>| matches!(known, RefOr::T(it) if it.name == name);
        if parameters.iter().any(is_known) {
            continue;
        }
        let format = (name != "name").then_some(SchemaFormat::KnownFormat(KnownFormat::Uuid));
        let schema = ObjectBuilder::new()
            .schema_type(Type::String)
            .format(format);
        let parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .schema(Some(schema))
            .build();
        parameters.insert(0, RefOr::T(parameter));
    }
}

/// Adds common rules of query parameters: empty counts as absent, and no control characters.
fn complete_queries(operation: &mut Operation) {
    for parameter in operation.parameters.iter_mut().flatten() {
        let RefOr::T(parameter) = parameter else {
            continue;
        };
        if parameter.parameter_in != ParameterIn::Query {
            let about = SEGMENTS.iter().find(|(name, _)| *name == parameter.name);
            if let Some((_, about)) = about {
                parameter
                    .description
                    .get_or_insert_with(|| (*about).to_owned());
            }
            continue;
        }
        if parameter.required == Required::False {
            // utoipa has no field for it.
            let extensions = parameter.extensions.get_or_insert_default();
            extensions.insert("allowEmptyValue".to_owned(), true.into());
        }
        if let Some(RefOr::T(Schema::Object(text))) = &mut parameter.schema
            && text.schema_type == Type::String.into()
            && text.format.is_none()
            && text.enum_values.is_none()
        {
            text.pattern.get_or_insert_with(|| NO_CONTROLS.to_owned());
        }
    }
}

fn complete_headers(operation: &mut Operation, method: &Method) {
    let keyed = method == Method::POST;
    let parameters = operation.parameters.get_or_insert_default();
    let mut add = |name: &str| {
        parameters.push(RefOr::Ref(Ref::new(format!(
            "#/components/parameters/{name}"
        ))));
    };
    add(REQUEST_ID);
    if keyed {
        add(IDEMPOTENCY_KEY);
    }
    if operation.request_body.is_some() {
        add(CONTENT_ENCODING);
    }
    let link = |name: &str| RefOr::Ref(Ref::new(format!("#/components/headers/{name}")));
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response {
            response
                .headers
                .insert("X-Request-Id".to_owned(), link(REQUEST_ID));
            if keyed && status.starts_with('2') {
                response
                    .headers
                    .insert("Idempotency-Replayed".to_owned(), link(REPLAYED));
            }
        }
    }
    if keyed {
        add_problem_type(operation, "409", "idempotency-key-in-use");
        add_problem_type(operation, "422", "idempotency-key-reused");
    }
}

fn add_problem_type(operation: &mut Operation, status: &str, slug: &str) {
    let responses = &mut operation.responses.responses;
    let response = responses.entry(status.to_owned()).or_insert_with(|| {
        let mut response = problem("");
        let link = RefOr::Ref(Ref::new(format!("#/components/headers/{REQUEST_ID}")));
        response.headers.insert("X-Request-Id".to_owned(), link);
        RefOr::T(response)
    });
    if let RefOr::T(response) = response {
        if !response.description.is_empty() {
            response.description.push_str(", ");
        }
        response.description.push_str(slug);
    }
}

fn complete_operation(operation: &mut Operation, scope: Option<Scope>) {
    let mut problems = vec![
        (
            "405",
            "method-not-allowed: to another method of this path than Allow lists",
        ),
        ("421", "host-not-allowed"),
        ("431", "headers-too-large"),
        ("500", "internal"),
    ];
    if let Some(scope) = scope {
        problems.extend([("401", "unauthorized"), ("503", "database-unavailable")]);
        problems.push(match scope {
            Scope::Read => ("403", "forbidden: needs the scope read"),
            Scope::Enqueue => ("403", "forbidden: needs the scope enqueue; cross-site"),
            Scope::Admin => ("403", "forbidden: needs the scope admin; cross-site"),
        });
        operation.security = Some(vec![SecurityRequirement::new(BEARER, [scope.as_str()])]);
    }
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        let left_out = body.description.as_deref() == Some(OPTIONAL_BODY);
        body.required = Some(if left_out {
            Required::False
        } else {
            Required::True
        });
        problems.extend([
            ("408", "body-timeout"),
            ("413", "payload-too-large"),
            ("415", "unsupported-media-type"),
        ]);
    }
    for (status, description) in problems {
        operation
            .responses
            .responses
            .entry(status.to_owned())
            .or_insert_with(|| RefOr::T(problem(description)));
    }
    if operation.request_body.is_some() {
        add_problem_type(operation, "503", "memory-busy");
    }
    if scope.is_some_and(|scope| scope != Scope::Read) {
        add_problem_type(operation, "503", "storage-full");
    }
}

fn problem(description: &str) -> Response {
    let content = Content::new(Some(Ref::from_schema_name("Problem")));
    ResponseBuilder::new()
        .description(description)
        .content(MEDIA_TYPE, content)
        .build()
}
