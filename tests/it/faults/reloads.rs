//! SIGHUP: a running process reloads its tokens, and retains the previous ones on an error.

use std::path::Path;

use super::shared;
use crate::support::client::{Api, PATIENCE};
use crate::support::home::Home;
use crate::support::process::{Process, free_address, gavel, run_to_end};
use crate::support::wait::eventually;

async fn status(api: &Api, token: &str) -> Option<u16> {
    let bearer = [("authorization", &*format!("Bearer {token}"))];
    let answer = api.try_send("GET", "/api/v1/jobs", None, &bearer).await;
    answer.map(|answer| answer.status)
}

/// Waits until `/readyz` reports, or no longer reports, a failed reload.
async fn told(api: &Api, expected: bool) {
    eventually(PATIENCE, "/readyz tells of the reload", || async {
        let ready = api.get("/readyz?verbose").await.expect(200).to_string();
        assert!(!ready.contains("too-short"), "{ready}");
        (ready.contains("failed to reload the tokens") == expected).then_some(())
    })
    .await;
}

#[tokio::test]
async fn tokens_are_reloaded_and_retained_on_an_error() {
    let mut homes = vec![(Home::embedded(), "up")];
    homes.extend(shared().await.map(|home| (home, "serve")));
    for (mut home, command) in homes {
        let write = |path: &Path, text: &str| std::fs::write(path, text).unwrap();
        let tokens = home.dir().join("tokens");
        let settings = home.dir().join("gavel.toml");
        let names_them = format!("[auth]\ntokens_file = {:?}\n", tokens.to_str().unwrap());
        write(&tokens, "ci:read:the-first-token-of-ci\n");
        write(&settings, &names_them);
        let address = free_address();
        home.judge_at("http://127.0.0.1:9/v1", "");
        home.set("GAVEL_BIND", address)
            .set("GAVEL_CONFIG", settings.display());
        if command == "serve" {
            run_to_end(&home, &["migrate"]).await;
        }
        let mut process = Process::spawn(command, home.dir(), gavel(home.env(), &[command]));
        let api = Api::new(&address.to_string());
        let takes = async |token: &'static str| {
            eventually(PATIENCE, token, || async {
                let status = status(&api, token).await;
                status.filter(|status| *status == 200)
            })
            .await;
        };
        takes("the-first-token-of-ci").await;
        assert_eq!(status(&api, "the-second-token-of-ci").await, Some(401));

        write(&tokens, "ci:read:the-second-token-of-ci\n");
        process.reload();
        takes("the-second-token-of-ci").await;
        assert_eq!(status(&api, "the-first-token-of-ci").await, Some(401));

        write(&tokens, "# none yet\nci:read:too-short\n");
        process.reload();
        told(&api, true).await;
        assert_eq!(status(&api, "the-second-token-of-ci").await, Some(200));
        let output = process.output();
        for part in ["tokens:2: ", "fewer than 16 characters"] {
            assert!(output.contains(part), "{part}: {output}");
        }

        write(&settings, "[auth]\nsign_in_hours = 0\n");
        process.reload();
        eventually(PATIENCE, "the field is logged", || async {
            process
                .output()
                .contains("auth.sign_in_hours")
                .then_some(())
        })
        .await;
        assert_eq!(status(&api, "the-second-token-of-ci").await, Some(200));

        write(&settings, &names_them);
        write(&tokens, "ci:read:the-third-token-of-ci\n");
        process.reload();
        takes("the-third-token-of-ci").await;
        told(&api, false).await;
        process.stop().await;
        home.remove().await;
    }
}
