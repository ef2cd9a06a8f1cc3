//! The OpenAPI document matches the router.

use std::collections::BTreeSet;

use super::*;

const ROUTES: [&str; 78] = [
    "get /api/v1/analytics/agreement",
    "get /api/v1/analytics/approaches",
    "get /api/v1/analytics/costs",
    "get /api/v1/analytics/costs/batches",
    "get /api/v1/analytics/distribution",
    "get /api/v1/analytics/groups",
    "get /api/v1/analytics/latency",
    "get /api/v1/analytics/missing-tools",
    "get /api/v1/analytics/raters",
    "get /api/v1/analytics/trend",
    "get /api/v1/annotations",
    "get /api/v1/batches",
    "get /api/v1/batches/compare",
    "get /api/v1/batches/{batch_id}",
    "get /api/v1/batches/{batch_id}/calibration",
    "get /api/v1/batches/{batch_id}/items",
    "get /api/v1/batches/{batch_id}/items/{item_no}",
    "get /api/v1/batches/{batch_id}/spread",
    "get /api/v1/batches/{batch_id}/{report}",
    "get /api/v1/events",
    "get /api/v1/exports/scores",
    "get /api/v1/exports/training",
    "get /api/v1/jobs",
    "get /api/v1/jobs/{job_id}",
    "get /api/v1/judges",
    "get /api/v1/queue",
    "get /api/v1/scores/{score_id}",
    "get /api/v1/scores/{score_id}/missing-tools",
    "get /api/v1/scores/{score_id}/ratings",
    "get /api/v1/scoring/criteria",
    "get /api/v1/scoring/criteria/compare",
    "get /api/v1/scoring/criteria/diff",
    "get /api/v1/scoring/criteria/{criteria_hash}",
    "get /api/v1/scoring/sessions/{session_id}/score",
    "get /api/v1/scoring/sessions/{session_id}/scores",
    "get /api/v1/sessions",
    "get /api/v1/sessions/imports",
    "get /api/v1/sessions/imports/{import_id}",
    "get /api/v1/sessions/{session_id}",
    "get /api/v1/sessions/{session_id}/ratings",
    "get /api/v1/webhooks",
    "get /api/v1/webhooks/deliveries",
    "get /api/v1/webhooks/deliveries/{delivery_id}",
    "get /api/v1/workers",
    "get /livez",
    "get /metrics",
    "get /openapi.json",
    "get /readyz",
    "post /api/score-query",
    "post /api/v1/batches",
    "post /api/v1/batches/{batch_id}/budget",
    "post /api/v1/batches/{batch_id}/cancel",
    "post /api/v1/batches/{batch_id}/pause",
    "post /api/v1/batches/{batch_id}/resume",
    "post /api/v1/batches/{batch_id}/retry-errors",
    "post /api/v1/jobs",
    "post /api/v1/jobs/{job_id}/cancel",
    "post /api/v1/jobs/{job_id}/retry",
    "post /api/v1/judges/{name}/pause",
    "post /api/v1/judges/{name}/resume",
    "post /api/v1/metrics/calibration",
    "post /api/v1/queue/pause",
    "post /api/v1/queue/resume",
    "post /api/v1/rescore",
    "post /api/v1/scores/{score_id}/ratings",
    "post /api/v1/scoring/criteria",
    "post /api/v1/scoring/criteria/{criteria_hash}/current",
    "post /api/v1/scoring/criteria/{criteria_hash}/name",
    "post /api/v1/scoring/sessions/{session_id}/score",
    "post /api/v1/sessions",
    "post /api/v1/sessions/import",
    "post /api/v1/sessions/imports/{import_id}/cancel",
    "post /api/v1/sessions/{session_id}/ratings",
    "post /api/v1/webhooks",
    "post /api/v1/webhooks/deliveries/{delivery_id}/resend",
    "post /api/v1/webhooks/{webhook_id}/delete",
    "put /api/v1/sessions/{session_id}",
    "delete /api/v1/sessions/{session_id}",
];

fn document() -> Value {
    serde_json::from_str(&gavel::api::openapi_json()).unwrap()
}

fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            all.push((method.clone(), path.clone(), operation.clone()));
        }
    }
    all
}

#[test]
fn document_is_openapi_3_1_and_lists_every_route() {
    let document = document();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let listed: BTreeSet<String> = operations(&document)
        .iter()
        .map(|(method, path, _)| format!("{method} {path}"))
        .collect();
    assert_eq!(listed, ROUTES.map(str::to_owned).into());
}

#[test]
fn routes_are_registered_only_through_the_document() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/api");
    let mut folders = vec![std::path::PathBuf::from(folder)];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let list = if path.is_dir() {
                &mut folders
            } else {
                &mut files
            };
            list.push(path);
        }
    }
    for path in files {
        // The worker's health port isn't part of the API.
        if path.ends_with("worker_health.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for way in [".route(", ".route_service(", ".nest(", ".nest_service("] {
            assert!(
                !text.contains(way),
                "{} adds a route by {way}",
                path.display()
            );
        }
    }
}

#[tokio::test]
async fn router_serves_every_route_of_the_document() {
    let server = Server::with(Setup::default()).await;
    // Streams end at once, so that their responses can be read like others.
    server.stopping.cancel();
    for (method, path, _) in operations(&document()) {
        let path = path
            .replace("{session_id}", "0190d3e8-1c2b-7d4e-8f90-1a2b3c4d5e6f")
            .replace("{job_id}", "0190d3e8-1c2b-7d4e-8f90-1a2b3c4d5e6f")
            .replace("{batch_id}", "0190d3e8-1c2b-7d4e-8f90-1a2b3c4d5e6f")
            .replace("{report}", "report.json")
            .replace("{criteria_hash}", &"0".repeat(64))
            .replace("{name}", "judge-a");
        let method: Method = method.to_uppercase().parse().unwrap();
        let text = server
            .request(method.clone(), &path)
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap();
        for problem in [":not-found\"", ":method-not-allowed\""] {
            assert!(!text.contains(problem), "{method} {path}: {text}");
        }
    }
}

#[tokio::test]
async fn every_body_has_an_accepted_example() {
    let server = Server::with(Setup::default()).await;
    let (session, score) = server.scored(50).await;
    let batch = server.batch(1).await;
    let mut bodies = 0;
    for (method, path, operation) in operations(&document()) {
        let Some(body) = operation.get("requestBody") else {
            continue;
        };
        bodies += 1;
        let example = &body["content"]["application/json"]["example"];
        assert!(example.is_object(), "{method} {path} has no example");
        let schema = &body["content"]["application/json"]["schema"];
        assert_eq!(
            schema::schema_violations(schema, example),
            [""; 0],
            "{method} {path}"
        );
        let path = path
            .replace("{session_id}", &session.to_string())
            .replace("{batch_id}", batch["batch_id"].as_str().unwrap())
            .replace("{score_id}", &score.to_string())
            .replace("{criteria_hash}", "current")
            .replace("{name}", "judge-a");
        let method: Method = method.to_uppercase().parse().unwrap();
        // No worker runs: requests that would wait return their job.
        let sent = server
            .request(method.clone(), &path)
            .header("prefer", "respond-async")
            .json(example);
        let answer = sent.send().await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert!(status.is_success(), "{method} {path}: {status} {text}");
        if let Ok(answer) = serde_json::from_str(&text) {
            schema::check_answer(&path, status.as_u16(), &answer);
        }
    }
    assert_eq!(bodies, 17);
}

#[tokio::test]
async fn every_value_of_a_closed_parameter_is_accepted() {
    let server = Server::with(Setup::default()).await;
    let document = document();
    let mut values = 0;
    for (method, path, operation) in operations(&document) {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        for parameter in parameters.filter(|it| it["in"] == "query" && method == "get") {
            for value in schema::closed_set(&parameter["schema"])
                .into_iter()
                .flatten()
            {
                values += 1;
                let name = parameter["name"].as_str().unwrap();
                let asked = server.get(&format!("{path}?{name}={}", value.as_str().unwrap()));
                let text = asked.send().await.unwrap().text().await.unwrap();
                let fault = format!("{{\"pointer\":\"/{name}\"");
                assert!(!text.contains(&fault), "{path} {name}={value}: {text}");
            }
        }
    }
    assert!(values > 20, "{values}");
}

#[test]
fn query_body_lists_every_field_that_is_read() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    let listed: BTreeSet<&str> = schemas["ScoreQueryRequest"]["properties"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let read: BTreeSet<&str> = gavel::score::query::FIELDS
        .iter()
        .map(|field| field.name)
        .collect();
    assert_eq!(listed, read);
    assert_eq!(
        schemas["ScoreQueryRequest"]["required"],
        json!(["generated_kql", "expected_kql"])
    );
}

#[tokio::test]
async fn unknown_query_parameter_is_rejected_where_documented() {
    let server = Server::with(Setup::default()).await;
    let id = "0190d3e8-1c2b-7d4e-8f90-1a2b3c4d5e6f";
    for (method, path, operation) in operations(&document()) {
        if method != "get" {
            continue;
        }
        let asked = path
            .replace("{session_id}", id)
            .replace("{job_id}", id)
            .replace("{batch_id}", id)
            .replace("{criteria_hash}", &"0".repeat(64));
        let answer = server.get(&format!("{asked}?no_such=1")).send().await;
        let status = answer.unwrap().status().as_u16().to_string();
        let documented = operation["responses"].get(&status).is_some();
        assert!(documented, "get {path}: {status} is not documented");
    }
}

#[test]
fn every_operation_documents_parameters_responses_and_scope() {
    let document = document();
    for (method, path, operation) in operations(&document) {
        let place = format!("{method} {path}");
        let responses = operation["responses"].as_object().unwrap();
        assert!(
            responses.keys().any(|status| status.starts_with('2')),
            "{place}"
        );
        assert!(
            operation["summary"].is_string() && operation["tags"][0].is_string(),
            "{place}"
        );
        let open = matches!(path.as_str(), "/livez" | "/readyz" | "/openapi.json");
        assert_eq!(operation.get("security").is_none(), open, "{place}");
        assert_eq!(responses.contains_key("401"), !open, "{place}");
        let named = path.matches('{').count();
        let parameters = operation["parameters"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        assert_eq!(
            parameters.iter().filter(|p| p["in"] == "path").count(),
            named,
            "{place}"
        );
        for (status, response) in responses {
            if status.starts_with(['4', '5']) && path != "/readyz" {
                let schema = &response["content"]["application/problem+json"]["schema"]["$ref"];
                assert_eq!(schema, "#/components/schemas/Problem", "{place} {status}");
            }
        }
    }
    let optional = ["/score", "/pause", "/import"];
    for (method, path, operation) in operations(&document) {
        if let Some(body) = operation.get("requestBody") {
            let left_out = optional.iter().any(|end| path.ends_with(end));
            assert_eq!(body["required"], !left_out, "{method} {path}");
        }
    }
    assert_eq!(
        document["components"]["securitySchemes"]["bearer"]["scheme"],
        "bearer"
    );
}

/// Returns whether an operation's parameters or a response's headers refer to this component.
fn refers(to: &Value, place: &str) -> bool {
    to.to_string()
        .contains(&format!("\"#/components/{place}\""))
}

#[test]
fn posts_document_their_key_and_operations_their_request_id() {
    let mut posts = 0;
    for (method, path, operation) in operations(&document()) {
        let place = format!("{method} {path}");
        assert!(
            refers(&operation["parameters"], "parameters/RequestId"),
            "{place}"
        );
        for (status, answer) in operation["responses"].as_object().unwrap() {
            assert!(
                refers(&answer["headers"], "headers/RequestId"),
                "{place} {status}"
            );
            let replayed = method == "post" && status.starts_with('2');
            assert_eq!(
                refers(&answer["headers"], "headers/IdempotencyReplayed"),
                replayed,
                "{place} {status}"
            );
        }
        let keyed = refers(&operation["parameters"], "parameters/IdempotencyKey");
        assert_eq!(keyed, method == "post", "{place}");
        let coded = refers(&operation["parameters"], "parameters/ContentEncoding");
        assert_eq!(coded, operation.get("requestBody").is_some(), "{place}");
        if method == "post" {
            posts += 1;
            for (status, slug) in [
                ("409", "idempotency-key-in-use"),
                ("422", "idempotency-key-reused"),
            ] {
                let described = operation["responses"][status]["description"]
                    .as_str()
                    .unwrap();
                assert!(described.contains(slug), "{place} {status}: {described}");
            }
        }
    }
    assert!(posts > 0);
}

#[tokio::test]
async fn responses_with_an_etag_document_it_and_304() {
    let server = Server::with(Setup::default()).await;
    let (session, _) = server.scored(70).await;
    let job = server.json_of("/api/v1/jobs").await["items"][0]["job_id"].clone();
    let batch = server.batch(1).await;
    server.stopping.cancel();
    for (method, path, operation) in operations(&document()) {
        if method != "get" {
            continue;
        }
        let asked = path
            .replace("{session_id}", &session.to_string())
            .replace("{job_id}", job.as_str().unwrap())
            .replace("{batch_id}", batch["batch_id"].as_str().unwrap())
            .replace("{criteria_hash}", &server.enqueue.current_criteria().hash.0);
        let answer = server.get(&asked).send().await.unwrap();
        let etag = header(&answer, "etag");
        let documented = operation["responses"].get("304").is_some();
        assert_eq!(etag.is_some(), documented, "{path}");
        let headers = &operation["responses"]["200"]["headers"];
        assert_eq!(headers.get("ETag").is_some(), documented, "{path}");
        let Some(etag) = etag else {
            continue;
        };
        for (sent, status) in [
            (etag.clone(), 304),
            (format!("\"other\", {etag}"), 304),
            ("*".to_owned(), 304),
            ("W/\"other\"".to_owned(), 200),
        ] {
            let again = server.get(&asked).header("If-None-Match", &sent);
            let again = again.send().await.unwrap();
            assert_eq!(again.status(), status, "{path} {sent}");
            assert_eq!(
                header(&again, "etag").as_ref(),
                Some(&etag),
                "{path} {sent}"
            );
            assert_eq!(
                again.bytes().await.unwrap().is_empty(),
                status == 304,
                "{path}"
            );
        }
    }
}

#[test]
fn every_reference_of_the_document_resolves() {
    let document = document();
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let pointer = reference.split('"').next().unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer}");
    }
}

#[test]
fn every_schema_can_be_satisfied() {
    let document = document();
    let resolved = |schema: &Value| match schema["$ref"].as_str() {
        Some(place) => document
            .pointer(place.trim_start_matches('#'))
            .unwrap()
            .clone(),
        None => schema.clone(),
    };
    let parts = |schema: &Value, of: &str| -> Vec<Value> {
        schema[of]
            .as_array()
            .into_iter()
            .flatten()
            .map(resolved)
            .collect()
    };
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        // With `allOf`, a closed part rejects the fields of the other parts.
        for part in parts(schema, "allOf") {
            assert_ne!(part["additionalProperties"], false, "{name}");
        }
        // With `oneOf`, a branch that accepts any object overlaps with the others.
        let branches = parts(schema, "oneOf");
        let any = |part: &Value| part["type"] == "object" && part["properties"].is_null();
        let objects = branches
            .iter()
            .filter(|part| part["type"] == "object")
            .count();
        assert!(objects < 2 || !branches.iter().any(any), "{name}");
    }
    let report = "/paths/~1api~1v1~1batches~1{batch_id}~1{report}/get/responses/200/content/application~1json/schema";
    let items = document.pointer(report).unwrap()["properties"]["items"].clone();
    assert_eq!(items["type"], "array");
}

#[test]
fn schema_names_are_unique() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut seen = std::collections::BTreeMap::new();
    let mut folders = vec![root.join("src"), root.join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            // Closed enums (`text_enum!`) have a schema as well.
            let schemas = text.split("ToSchema").skip(1);
            for part in schemas.chain(text.split("text_enum! {").skip(1)) {
                let declared = part.lines().map(str::trim).find_map(|line| {
                    if let Some(name) = line.strip_prefix("#[schema(as = ") {
                        return Some(name.trim_end_matches(")]").to_owned());
                    }
                    let (before, name) = line.split_once("struct ").or(line.split_once("enum "))?;
                    let name = name.split([' ', '<', '(', ';']).next()?;
                    (before.is_empty() || before.starts_with("pub")).then(|| name.to_owned())
                });
                let Some(name) = declared.filter(|name| !name.starts_with('$')) else {
                    continue;
                };
                if let Some(other) = seen.insert(name.clone(), path.clone()) {
                    panic!("{name} is in {} and {}", other.display(), path.display());
                }
            }
        }
    }
    let document = document();
    for name in document["components"]["schemas"]
        .as_object()
        .unwrap()
        .keys()
    {
        assert!(
            seen.contains_key(name),
            "{name} is declared where this test doesn't look"
        );
    }
}

#[test]
fn every_problem_in_the_document_is_in_the_table() {
    use gavel::api::problem::ALL;
    let slugs: BTreeSet<&str> = ALL.iter().map(|kind| kind.slug).collect();
    assert_eq!(slugs.len(), ALL.len(), "each type once");
    for (method, path, operation) in operations(&document()) {
        for (status, response) in operation["responses"].as_object().unwrap() {
            let described = response["description"].as_str().unwrap();
            if response["content"]
                .get("application/problem+json")
                .is_none()
            {
                continue;
            }
            for part in described.split([',', ';']) {
                let slug = part.trim().split([' ', ':']).next().unwrap();
                let kind = ALL.iter().find(|kind| kind.slug == slug);
                let known = kind.map(|kind| kind.status.to_string());
                assert_eq!(known.as_ref(), Some(status), "{method} {path}: {slug}");
            }
        }
    }
}

#[tokio::test]
async fn api_viewer_loads_no_external_resources() {
    let server = Server::with(Setup::default()).await;
    let moved = server.get("/docs").send().await.unwrap();
    assert_eq!(header(&moved, "location").as_deref(), Some("/docs/"));
    let page = server.text_of("/docs/").await;
    assert!(
        !page.contains("http://") && !page.contains("https://"),
        "{page}"
    );
    let mut loaded = 0;
    for part in page
        .split(['"', '\''])
        .filter(|part| part.ends_with(".js") || part.ends_with(".css"))
    {
        let file = server
            .get(&format!("/docs/{}", part.trim_start_matches("./")))
            .send()
            .await
            .unwrap();
        assert_eq!(file.status(), OK, "{part}");
        loaded += 1;
    }
    assert!(loaded >= 3, "{page}");
    let setup = server.text_of("/docs/swagger-initializer.js").await;
    assert!(
        setup.contains("/openapi.json") && setup.contains("\"validatorUrl\": \"none\""),
        "{setup}"
    );
    assert!(!setup.contains("https://"), "{setup}");
    let served: Value = server.json_of("/openapi.json").await;
    assert_eq!(served, document());
}
