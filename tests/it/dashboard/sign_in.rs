//! How a browser's cookies travel.

use super::*;

/// The cookies that signing in sets, asked for with these headers.
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
        .header("cookie", &browser.cookie)
        .send()
        .await
        .unwrap();
    assert_eq!(signed_in.status(), 303);
    let answers = [signed_in, fresh.send().await.unwrap()];
    let cookie = |response: &Response| header(response, "set-cookie").unwrap();
    answers.iter().map(cookie).collect()
}

#[tokio::test]
async fn cookies_of_a_browser_behind_tls_never_leave_in_the_clear() {
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
            assert_eq!(
                cookie.ends_with("; Secure"),
                secure,
                "{protocol:?}: {cookie}"
            );
        }
    }
}

#[tokio::test]
async fn a_stranger_is_not_believed_that_he_came_over_tls() {
    let mut setup = guarded();
    setup.http.trusted_proxies = vec!["10.0.0.0/8".to_owned()];
    let server = Server::with(setup).await;
    for cookie in cookies(&server, Some("https")).await {
        assert!(!cookie.contains("Secure"), "{cookie}");
    }
}
