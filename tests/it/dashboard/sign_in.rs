//! Session cookies.

use super::*;

async fn cookies(server: &Server, protocol: Option<&str>) -> Vec<String> {
    let browser = Browser::of(server);
    let fields = [
        ("form_token", browser.form_token.as_str()),
        ("token", "r-token-of-a-test"),
    ];
    let mut asked = fields_of(server.post("/sign-in"), &fields);
    let mut fresh = server.get("/sign-in");
    if let Some(protocol) = protocol {
        asked = asked.header("x-forwarded-proto", protocol);
        fresh = fresh.header("x-forwarded-proto", protocol);
    }
    let signed_in = asked
        .header("cookie", format!("{0}; __Host-{0}", browser.cookie))
        .send()
        .await
        .unwrap();
    assert_eq!(signed_in.status(), 303);
    let answers = [signed_in, fresh.send().await.unwrap()];
    let cookie = |response: &Response| header(response, "set-cookie").unwrap();
    answers.iter().map(cookie).collect()
}

#[tokio::test]
async fn cookies_set_behind_tls_are_secure() {
    let server = Server::with(guarded()).await;
    for (protocol, secure) in [
        (None, false),
        (Some("http"), false),
        (Some("https"), true),
        (Some("HTTPS, http"), true),
        (Some("http, https"), false),
    ] {
        for cookie in cookies(&server, protocol).await {
            assert!(cookie.contains("HttpOnly; SameSite=Lax"), "{cookie}");
            assert_eq!(cookie.starts_with("__Host-"), secure, "{cookie}");
            assert_eq!(
                cookie.ends_with("; Secure"),
                secure,
                "{protocol:?}: {cookie}"
            );
        }
    }
}

#[tokio::test]
async fn forwarded_proto_of_untrusted_clients_is_ignored() {
    let mut setup = guarded();
    setup.http.trusted_proxies = vec!["10.0.0.0/8".to_owned()];
    let server = Server::with(setup).await;
    for cookie in cookies(&server, Some("https")).await {
        assert!(!cookie.contains("Secure"), "{cookie}");
    }
}

#[tokio::test]
async fn sign_in_is_valid_for_all_apis_until_sign_out_or_new_token() {
    for db in crate::support::stores().await {
        let beside = || db.beside();
        let first = Server::start(beside(), guarded()).await;
        let second = Server::start(beside(), guarded()).await;
        let mut changed = guarded();
        for line in &mut changed.auth.tokens {
            line.push_str("-2");
        }
        let changed = Server::start(beside(), changed).await;
        let browser = Browser::signed_in(&first, "e-token-of-a-test").await;
        let other = Browser::signed_in(&first, "e-token-of-a-test").await;
        assert_ne!(browser.cookie, other.cookie);
        let status = async |server: &Server, cookie: &str| {
            let asked = server.get("/api/v1/jobs").header("cookie", cookie);
            asked.send().await.unwrap().status().as_u16()
        };
        assert_eq!(status(&first, &browser.cookie).await, 200);
        assert_eq!(status(&second, &browser.cookie).await, 200);
        assert_eq!(status(&changed, &browser.cookie).await, 401);
        // A proxy may require basic authentication as well.
        let asked = first.get("/api/v1/jobs").header("cookie", &browser.cookie);
        let asked = asked.basic_auth("jo", Some("secret"));
        assert_eq!(asked.send().await.unwrap().status(), 200);
        let (id, _) = browser.cookie.split_once("; ").unwrap();
        assert_eq!(status(&first, id).await, 200);
        assert_eq!(status(&first, &format!("{id}0")).await, 401);
        let token = "652d746f6b656e2d6f662d612d74657374";
        assert!(!browser.cookie.contains(token), "a cookie tells no token");
        assert_eq!(status(&first, &format!("gavel_sign_in={token}")).await, 401);

        let out = browser.form("/sign-out", &[]).await;
        assert_eq!(out.status, 303, "{}", out.text);
        for server in [&first, &second] {
            assert_eq!(status(server, &browser.cookie).await, 401);
            assert_eq!(status(server, &other.cookie).await, 200);
        }
    }
}

#[tokio::test]
async fn sign_in_renews_the_form_token_and_ends_older_sign_ins() {
    let server = Server::with(guarded()).await;
    let browser = Browser::signed_in(&server, "r-token-of-a-test").await;
    let fields = [
        ("token", "e-token-of-a-test"),
        ("form_token", &browser.form_token),
    ];
    let again = fields_of(server.post("/sign-in"), &fields).header("cookie", &browser.cookie);
    let cookies = cookies_of(&again.send().await.unwrap());
    assert_eq!(cookies.len(), 2, "{cookies:?}");
    assert!(!cookies.iter().any(|cookie| browser.cookie.contains(cookie)));
    assert_eq!(browser.send(server.get("/")).await.status, 303);
}

fn grouped() -> Setup {
    let mut setup = guarded();
    setup.auth.proxy.groups = ["eng:read", "role:ops:admin", "two words:enqueue"]
        .map(str::to_owned)
        .to_vec();
    setup
}

#[tokio::test]
async fn groups_grant_the_widest_scope_only_from_trusted_proxies() {
    let near = Server::with(grouped()).await;
    let mut far = grouped();
    far.http.trusted_proxies = vec!["10.0.0.0/8".to_owned()];
    let far = Server::with(far).await;
    let user = ("x-forwarded-user", "jo");
    let groups = |groups| ("x-forwarded-groups", groups);
    let token = ("authorization", "Bearer r-token-of-a-test");
    let basic = ("authorization", "Basic am86c2VjcmV0");
    for (server, headers, read, pause) in [
        (&near, vec![user, groups("eng")], 200, 403),
        (&near, vec![user, groups("none, role:ops ,eng")], 200, 200),
        (&near, vec![user, groups("two words")], 200, 403),
        (&near, vec![user, groups("Eng")], 403, 403),
        (&near, vec![user], 403, 403),
        (
            &near,
            vec![user, groups("eng"), groups("role:ops")],
            403,
            403,
        ),
        (
            &near,
            vec![user, ("x-forwarded-user", "boss"), groups("role:ops")],
            403,
            403,
        ),
        (&near, vec![groups("role:ops")], 401, 401),
        (&near, vec![user, groups("role:ops"), token], 200, 403),
        (&near, vec![user, groups("eng"), basic], 200, 403),
        (&far, vec![user, groups("role:ops")], 401, 401),
    ] {
        for (request, expected) in [
            (server.get("/api/v1/jobs"), read),
            (server.post("/api/v1/queue/pause").json(&json!({})), pause),
        ] {
            let sent = headers.iter().fold(request, |request, (name, value)| {
                request.header(*name, *value)
            });
            let answer = sent.send().await.unwrap();
            assert_eq!(answer.status().as_u16(), expected, "{headers:?}");
        }
    }
    let page = near.get("/").header("accept", "text/html");
    let page = page
        .header(user.0, user.1)
        .header("x-forwarded-groups", "sales");
    let text = page.send().await.unwrap().text().await.unwrap();
    for part in ["A scope is missing", "your groups map to no scope", "sales"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn nginx_login_decides_the_user_despite_client_headers() {
    let server = Server::with(grouped()).await;
    let Some(nginx) = crate::support::nginx::Nginx::start(&server.base).await else {
        return;
    };
    let forged = [
        ("x-forwarded-user", "boss"),
        ("x-forwarded-groups", "role:ops"),
        ("x-forwarded-email", "boss@example.org"),
        ("x-remote-user", "boss"),
    ];
    for (cookie, read, pause) in [
        ("", 401, 401),
        ("login=jo; groups=eng", 200, 403),
        ("login=ann; groups=eng,role:ops", 200, 200),
        ("login=max; groups=sales", 403, 403),
        ("login=max", 403, 403),
    ] {
        for (method, path, expected) in [
            (Method::GET, "/", read),
            (Method::POST, "/api/v1/queue/pause", pause),
        ] {
            let url = format!("http://{}{path}", nginx.address);
            let asked = server.client.request(method, url).header("cookie", cookie);
            let asked = forged
                .iter()
                .fold(asked, |asked, (name, value)| asked.header(*name, *value));
            let answer = asked.json(&json!({})).send().await.unwrap();
            assert_eq!(answer.status().as_u16(), expected, "{cookie} {path}");
        }
    }
    let holds = server.store().holds().list(Clock::now(&SystemClock)).await;
    let by: Vec<_> = holds.unwrap().into_iter().map(|hold| hold.set_by).collect();
    assert_eq!(by, ["ann"]);
}
