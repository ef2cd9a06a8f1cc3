use super::*;

const HERE: &str = "127.0.0.1:8080";
const PUBLIC: &str = "0.0.0.0:8080";

fn settings(tokens: &[&str]) -> AuthSettings {
    AuthSettings {
        tokens: tokens
            .iter()
            .map(|line| (*line).to_owned().into())
            .collect(),
        tokens_file: String::new(),
        insecure_no_auth: false,
        sign_in_hours: 12,
        proxy: ProxySettings {
            groups_header: "X-Forwarded-Groups".to_owned(),
            groups: Vec::new(),
        },
    }
}

fn auth_of(settings: &AuthSettings, proxies: &[String], bind: SocketAddr) -> Result<Auth, String> {
    Auth::new(Tokens::default(), settings, proxies, bind)
}

fn error(settings: &AuthSettings, bind: &str) -> String {
    auth_of(settings, &[], bind.parse().unwrap()).unwrap_err()
}

#[test]
fn public_bind_needs_tokens_or_opt_out() {
    let text = error(&settings(&[]), PUBLIC);
    assert!(
        text.contains("auth.tokens") && text.contains("insecure_no_auth"),
        "{text}"
    );
    let mut open = settings(&[]);
    open.insecure_no_auth = true;
    assert!(auth_of(&open, &[], PUBLIC.parse().unwrap()).is_ok());
    assert!(
        auth_of(
            &settings(&["ci:read:long-enough-token"]),
            &[],
            PUBLIC.parse().unwrap()
        )
        .is_ok()
    );
    assert!(auth_of(&settings(&[]), &[], HERE.parse().unwrap()).is_ok());
    assert!(auth_of(&settings(&[]), &[], "[::1]:80".parse().unwrap()).is_ok());
}

#[test]
fn invalid_token_line_is_located_but_not_shown() {
    for (lines, part) in [
        (vec!["secret-token"], "name:scopes:token"),
        (
            vec!["ci:write:secret-token-0123"],
            "known: read, enqueue, admin",
        ),
        (vec!["ci:read:"], "fewer than 16"),
        (vec!["ci:read:secret-token"], "gavel tokens new"),
        (vec![":read:secret-token-0123"], "the name must be"),
        (
            vec!["a:read:secret-token-0123", "a:read:another-token-0123"],
            "is duplicated",
        ),
        (
            vec!["a:read:secret-token-0123", "b:read:secret-token-0123"],
            "another entry",
        ),
    ] {
        let text = error(&settings(&lines), HERE);
        assert!(text.contains("entry") && text.contains(part), "{text}");
        assert!(!text.contains("secret-token"), "{text}");
    }
}

#[test]
fn token_allows_colons_and_widest_scope_includes_others() {
    let auth = auth_of(
        &settings(&["ci:read,admin:a:b:c:0123456789"]),
        &[],
        HERE.parse().unwrap(),
    )
    .unwrap();
    let found = auth.tokens.find(b"a:b:c:0123456789").unwrap();
    assert_eq!((found.name.as_str(), found.scope), ("ci", Scope::Admin));
    assert!(auth.tokens.find(b"a:b:c").is_none());
    assert!(Scope::Admin > Scope::Enqueue && Scope::Enqueue > Scope::Read);
}

#[test]
fn reads_tokens_from_file_with_comments() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        file.path(),
        "# who\n\nci:enqueue:the-token-of-ci-01\nops:admin:the-token-of-ops-2\n",
    )
    .unwrap();
    let mut from_file = settings(&[]);
    from_file.tokens_file = file.path().display().to_string();
    let auth = auth_of(&from_file, &[], PUBLIC.parse().unwrap()).unwrap();
    assert_eq!(auth.tokens.find(b"the-token-of-ops-2").unwrap().name, "ops");
    std::fs::write(file.path(), "# who\nbroken\n").unwrap();
    assert!(error(&from_file, HERE).contains(":2: must be"));
}

#[test]
fn rejected_reload_keeps_current_tokens() {
    let tokens = Tokens::default();
    let ci = settings(&["ci:read:the-token-of-ci-01"]);
    tokens.load(&ci).unwrap();
    let shared = tokens.clone();
    let mut missing = settings(&[]);
    missing.tokens_file = "/nowhere/tokens".to_owned();
    for (refused, part) in [
        (settings(&[]), "need a restart"),
        (settings(&["broken"]), "entry 1"),
        (missing, "auth.tokens_file"),
    ] {
        let text = tokens.reload(&refused).unwrap_err();
        assert!(text.contains(part), "{text}");
        assert!(shared.find(b"the-token-of-ci-01").is_some());
    }
    let first = Tokens::default().reload(&settings(&["ci:read:the-token-of-ci-02"]));
    assert!(first.unwrap_err().contains("need a restart"));
    let count = tokens.reload(&settings(&["ci:admin:the-token-of-ci-02"]));
    assert_eq!(count, Ok(1));
    assert!(shared.find(b"the-token-of-ci-01").is_none());
    let found = shared.find(b"the-token-of-ci-02").unwrap();
    assert_eq!(found.scope, Scope::Admin);
}
