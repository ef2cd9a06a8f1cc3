//! Tokens, scopes, forwarded users, hosts and origins.

use super::*;

pub(super) fn guarded() -> Setup {
    let mut setup = Setup::default();
    setup.auth.tokens = [
        "viewer:read:r-token-of-a-test",
        "ci:enqueue:e-token-of-a-test",
        "ops:admin:a-token-of-a-test",
    ]
    .map(|token| token.to_owned().into())
    .to_vec();
    setup
}

const ROUTES: [(&str, &str, u8); 20] = [
    ("GET", "/api/v1/sessions", 1),
    (
        "GET",
        "/api/v1/sessions/0190d3e8-1c2b-7d4e-8f90-1a2b3c4d5e6f",
        1,
    ),
    (
        "PUT",
        "/api/v1/sessions/0190d3e8-1c2b-7d4e-8f90-1a2b3c4d5e6f",
        2,
    ),
    (
        "DELETE",
        "/api/v1/sessions/0190d3e8-1c2b-7d4e-8f90-1a2b3c4d5e6f",
        3,
    ),
    (
        "POST",
        "/api/v1/scoring/sessions/0190d3e8-1c2b-7d4e-8f90-1a2b3c4d5e6f/score",
        2,
    ),
    (
        "GET",
        "/api/v1/scoring/sessions/0190d3e8-1c2b-7d4e-8f90-1a2b3c4d5e6f/score",
        1,
    ),
    (
        "GET",
        "/api/v1/scoring/sessions/0190d3e8-1c2b-7d4e-8f90-1a2b3c4d5e6f/scores",
        1,
    ),
    ("GET", "/api/v1/scoring/criteria", 1),
    ("POST", "/api/v1/scoring/criteria", 3),
    ("GET", "/api/v1/jobs", 1),
    (
        "GET",
        "/api/v1/jobs/0190d3e8-1c2b-7d4e-8f90-1a2b3c4d5e6f",
        1,
    ),
    (
        "POST",
        "/api/v1/jobs/0190d3e8-1c2b-7d4e-8f90-1a2b3c4d5e6f/cancel",
        2,
    ),
    (
        "POST",
        "/api/v1/jobs/0190d3e8-1c2b-7d4e-8f90-1a2b3c4d5e6f/retry",
        2,
    ),
    ("GET", "/api/v1/judges", 1),
    ("POST", "/api/v1/judges/judge-a/pause", 3),
    ("POST", "/api/v1/judges/judge-a/resume", 3),
    ("POST", "/api/v1/queue/pause", 3),
    ("POST", "/api/v1/queue/resume", 3),
    ("GET", "/api/v1/workers", 1),
    ("GET", "/metrics", 1),
];

#[tokio::test]
async fn each_route_needs_its_scope_or_a_wider_one() {
    let server = Server::with(guarded()).await;
    let names = ["", "read", "enqueue", "admin"];
    for (method, path, needed) in ROUTES {
        let method: Method = method.parse().unwrap();
        let request = || server.request(method.clone(), path);
        let response = request().send().await.unwrap();
        assert_eq!(
            header(&response, "www-authenticate").as_deref(),
            Some("Bearer realm=\"gavel\"")
        );
        problem_of(response, 401, "unauthorized").await;
        for (scope, token) in [
            (1, "r-token-of-a-test"),
            (2, "e-token-of-a-test"),
            (3, "a-token-of-a-test"),
        ] {
            let response = request().bearer_auth(token).send().await.unwrap();
            if scope < needed {
                let problem = problem_of(response, 403, "forbidden").await;
                let lacks = format!("doesn't have the scope {}", names[usize::from(needed)]);
                assert!(
                    problem["detail"].as_str().unwrap().contains(&lacks),
                    "{problem}"
                );
            } else {
                assert!(
                    !matches!(response.status().as_u16(), 401 | 403),
                    "{method} {path} {token}"
                );
            }
        }
    }
}

#[tokio::test]
async fn health_and_docs_need_no_token_but_unknown_routes_do() {
    let server = Server::with(guarded()).await;
    for path in ["/livez", "/readyz", "/openapi.json", "/docs/"] {
        assert_eq!(
            server.get(path).send().await.unwrap().status(),
            OK,
            "{path}"
        );
    }
    problem_of(
        server.get("/api/v2").send().await.unwrap(),
        401,
        "unauthorized",
    )
    .await;
    let known = server
        .get("/api/v2")
        .bearer_auth("r-token-of-a-test")
        .send()
        .await
        .unwrap();
    problem_of(known, 404, "not-found").await;
}

#[tokio::test]
async fn auth_scheme_is_only_bearer_case_insensitively() {
    let server = Server::with(guarded()).await;
    for (value, status) in [
        ("bearer r-token-of-a-test", 200),
        ("BEARER   r-token-of-a-test", 200),
        ("Basic r-token-of-a-test", 401),
        ("Bearer ", 401),
        ("r-token-of-a-test", 401),
        ("Bearer r-token2", 401),
        ("Bearer viewer:read:r-token-of-a-test", 401),
    ] {
        let response = server
            .get("/api/v1/jobs")
            .header("authorization", value)
            .send()
            .await
            .unwrap();
        assert_eq!(response.status().as_u16(), status, "{value}");
    }
}

#[tokio::test]
async fn conflicting_auth_settings_are_rejected() {
    let server = Server::with(Setup::default()).await;
    let state = |auth: AuthSettings, proxies: &[&str], bind: &str| ApiParts {
        store: server.db.store.clone(),
        enqueue: server.enqueue.clone(),
        imports: imports(server.db.store.clone(), None),
        clock: Arc::new(SystemClock),
        http: HttpSettings {
            trusted_proxies: proxies.iter().map(|p| (*p).to_owned()).collect(),
            ..Setup::default().http
        },
        auth,
        tokens: Tokens::default(),
        health: server.health.clone(),
        metrics: None,
        judges: Setup::default().judges,
        fallback_of: Arc::new(|_| None),
        caps: SpendingCaps::default(),
        max_wait: Duration::from_secs(60),
        events: server.events.clone(),
        streams: server.streams.clone(),
        keyed: TaskTracker::new(),
        memory: Setup::default().memory,
        bind: bind.parse().unwrap(),
    };
    let error = router(
        state(Setup::default().auth, &[], "0.0.0.0:80"),
        Pages::none(),
    )
    .unwrap_err();
    assert!(
        error.contains("auth.tokens") && error.contains("GAVEL_AUTH_INSECURE_NO_AUTH"),
        "{error}"
    );
    assert!(router(state(guarded().auth, &[], "0.0.0.0:80"), Pages::none()).is_ok());
    let error = router(
        state(guarded().auth, &["nowhere"], "0.0.0.0:80"),
        Pages::none(),
    )
    .unwrap_err();
    assert!(error.contains("http.trusted_proxies"), "{error}");
}

async fn score_response(
    server: &Server,
    headers: &[(&str, &[u8])],
    token: Option<&str>,
) -> Response {
    let id = Uuid::now_v7();
    let session = server.request(Method::PUT, &format!("/api/v1/sessions/{id}"));
    let mut put = session.json(&session_body());
    let mut asked = server.post(&score_path(id));
    if let Some(token) = token {
        (put, asked) = (put.bearer_auth(token), asked.bearer_auth(token));
    }
    for (name, value) in headers {
        asked = asked.header(*name, *value);
    }
    json_of(put.send().await.unwrap(), 201).await;
    asked.send().await.unwrap()
}

#[tokio::test]
async fn score_is_attributed_to_token_and_forwarded_user() {
    let open = Server::with(Setup::default()).await;
    let closed = Server::with(guarded()).await;
    let mut far = guarded();
    far.http.trusted_proxies = vec!["10.0.0.0/8".to_owned()];
    let far = Server::with(far).await;
    let (mut usual, mut usual_closed) = (Setup::default(), guarded());
    usual.http.trusted_proxies.clear();
    usual_closed.http.trusted_proxies.clear();
    let (usual, usual_closed) = (Server::with(usual).await, Server::with(usual_closed).await);
    let user: (&str, &[u8]) = ("x-forwarded-user", "  Jörg ".as_bytes());
    let mail: (&str, &[u8]) = ("x-forwarded-email", b"j@example.org");
    let remote: (&str, &[u8]) = ("x-remote-user", b"remote");
    let cases = [
        (&open, vec![remote, mail, user], None, "Jörg"),
        (&open, vec![remote, mail], None, "j@example.org"),
        (
            &open,
            vec![("x-forwarded-user", b"  ".as_slice()), remote],
            None,
            "remote",
        ),
        (&open, vec![], None, "api-client"),
        (&closed, vec![user], Some("e-token-of-a-test"), "Jörg"),
        (&usual, vec![user], None, "Jörg"),
        (&usual_closed, vec![user], Some("e-token-of-a-test"), "ci"),
        (&closed, vec![], Some("e-token-of-a-test"), "ci"),
        (
            &far,
            vec![user, mail, remote],
            Some("a-token-of-a-test"),
            "ops",
        ),
    ];
    for (server, headers, token, expected) in cases {
        let body = json_of(score_response(server, &headers, token).await, 202).await;
        let by = server.job(job_id(&body)).await.triggered_by;
        let expected_token = match token {
            Some("e-token-of-a-test") => Some("ci"),
            Some("a-token-of-a-test") => Some("ops"),
            _ => None,
        };
        assert_eq!(
            (by.user.as_str(), by.authenticated_as.as_deref()),
            (expected, expected_token)
        );
    }
}

#[tokio::test]
async fn many_wrong_tokens_do_not_block_a_valid_one() {
    let server = Server::with(guarded()).await;
    let ask = |token| server.get("/api/v1/jobs").bearer_auth(token).send();
    for _ in 0..2 {
        let wrong = ask("a-wrong-token-of-a-test").await.unwrap();
        problem_of(wrong, 401, "unauthorized").await;
    }
    assert_eq!(ask("r-token-of-a-test").await.unwrap().status(), OK);
    // Also while the maximum number of wrong tokens waits for a response.
    let wrong = futures::future::join_all((0..40).map(|_| ask("a-wrong-token-of-a-test")));
    let right = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        ask("r-token-of-a-test").await.unwrap().status()
    };
    let (wrong, right) = tokio::join!(wrong, right);
    assert_eq!(right, OK);
    for answer in wrong {
        let status = answer.unwrap().status().as_u16();
        assert!(matches!(status, 401 | 429), "{status}");
    }
}

#[tokio::test]
async fn forwarded_user_is_no_token_and_invalid_name_is_rejected() {
    let closed = Server::with(guarded()).await;
    let forwarded = closed
        .get("/api/v1/jobs")
        .header("x-forwarded-user", "root");
    problem_of(forwarded.send().await.unwrap(), 401, "unauthorized").await;
    let open = Server::with(Setup::default()).await;
    let long = "x".repeat(256);
    for name in [
        "a\tb".as_bytes(),
        "a\u{85}b".as_bytes(),
        b"\xff\xfe",
        long.as_bytes(),
    ] {
        let response = score_response(&open, &[("x-forwarded-user", name)], None).await;
        problem_of(response, 422, "invalid-request").await;
    }
    let body = json_of(
        score_response(&open, &[("x-forwarded-user", &long.as_bytes()[1..])], None).await,
        202,
    )
    .await;
    assert_eq!(open.job(job_id(&body)).await.triggered_by.user.len(), 255);
}

#[tokio::test]
async fn foreign_host_is_421() {
    let mut setup = Setup::default();
    setup.http.allowed_hosts = vec!["gavel.example".to_owned()];
    let server = Server::with(setup).await;
    let get = |path: &str, host: &str| server.get(path).header("host", host).send();
    for host in [
        "localhost",
        "127.0.0.1:99",
        "gavel.example",
        "GAVEL.example:443",
    ] {
        assert_eq!(
            get("/api/v1/jobs", host).await.unwrap().status(),
            OK,
            "{host}"
        );
    }
    let problem = problem_of(
        get("/api/v1/jobs", "evil.example").await.unwrap(),
        421,
        "host-not-allowed",
    )
    .await;
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .contains("http.allowed_hosts"),
        "{problem}"
    );
    assert_eq!(get("/livez", "10.2.3.4:80").await.unwrap().status(), OK);

    let mut public = guarded();
    public.bind = Some("0.0.0.0:80".parse().unwrap());
    let public = Server::with(public).await;
    let any = public
        .get("/api/v1/jobs")
        .header("host", "any.example")
        .bearer_auth("r-token-of-a-test");
    assert_eq!(any.send().await.unwrap().status(), OK);
}

#[tokio::test]
async fn public_bind_without_tokens_rejects_dns_names() {
    let mut open = Setup::default();
    open.auth.insecure_no_auth = true;
    open.bind = Some("0.0.0.0:80".parse().unwrap());
    let server = Server::with(open).await;
    let asked = async |method: Method, path: &str, hosts: &[&str]| {
        let request = server.request(method, path);
        let named = hosts
            .iter()
            .fold(request, |request, host| request.header("host", *host));
        named.send().await.unwrap()
    };
    for (method, path) in [
        (Method::GET, "/"),
        (Method::GET, "/api/v1/sessions"),
        (Method::GET, "/metrics"),
        (Method::GET, "/openapi.json"),
        (Method::POST, "/api/v1/queue/pause"),
    ] {
        let refused = asked(method, path, &["rebound.example"]).await;
        assert_eq!(refused.status(), 421, "{path}");
    }
    for hosts in [
        &["localhost", "rebound.example"][..],
        &["x@localhost"],
        &["[::1].evil"],
    ] {
        let refused = asked(Method::GET, "/api/v1/jobs", hosts).await;
        problem_of(refused, 422, "invalid-request").await;
    }
    for host in ["localhost:8080", "127.0.0.1:8080"] {
        let answered = asked(Method::GET, "/api/v1/jobs", &[host]).await;
        assert_eq!(answered.status(), OK, "{host}");
    }
}

#[tokio::test]
async fn cross_origin_pages_cannot_change_data() {
    let server = Server::with(Setup::default()).await;
    let own = server.base.clone();
    let by_tls = own.replace("http:", "https:");
    let cases = [
        ("origin", "https://evil.example", true),
        ("origin", "null", true),
        ("origin", "http://127.0.0.1:1", true),
        ("origin", own.as_str(), false),
        ("origin", by_tls.as_str(), true),
        ("sec-fetch-site", "cross-site", true),
        ("sec-fetch-site", "same-origin", false),
        ("sec-fetch-site", "none", false),
    ];
    for (name, value, refused) in cases {
        let response = server
            .post("/api/v1/queue/resume")
            .header(name, value)
            .send()
            .await
            .unwrap();
        if refused {
            problem_of(response, 403, "cross-site").await;
        } else {
            json_of(response, 200).await;
        }
        let read = server
            .get("/api/v1/jobs")
            .header(name, value)
            .send()
            .await
            .unwrap();
        assert_eq!(read.status(), OK, "reading is no change");
        assert!(header(&read, "access-control-allow-origin").is_none());
    }
    let preflight = server
        .request(Method::OPTIONS, "/api/v1/queue/resume")
        .header("origin", "https://evil.example");
    let preflight = preflight
        .header("access-control-request-method", "POST")
        .send()
        .await
        .unwrap();
    assert!(!preflight.status().is_success());
}
