//! Rescore page: options and conflicts between them.

use super::*;

#[tokio::test]
async fn plan_shows_the_effect_of_repeats_and_juries() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    server.scored(70).await;
    server.scored(60).await;
    let form = browser.page("/rescore").await;
    for part in ["value=\"repeat\"", "value=\"judge-b\"", "name=\"economy\""] {
        assert!(form.contains(part), "{part}: {form}");
    }
    assert!(!form.contains("no-key"), "{form}");

    let fields = [("purpose", "repeat"), ("repeats", "3"), ("sample", "1")];
    let plan = browser.form("/rescore", &fields).await;
    assert_eq!(plan.status, 200, "{}", plan.text);
    in_order(
        &plan.text,
        &[
            "<dt>jobs</dt><dd>3</dd>",
            "repeats: each of 1 session 3 times by the same judge",
            "name=\"repeats\" value=\"3\"",
            "Score 1 session<",
        ],
    );
    let fields = [
        ("purpose", "jury"),
        ("judge", "judge-a"),
        ("judge", "judge-b"),
    ];
    let plan = browser.form("/rescore", &fields).await;
    in_order(
        &plan.text,
        &[
            "<dt>jobs</dt><dd>4</dd>",
            "judge-a, judge-b",
            "a judge&#39;s model has no price",
            "a jury: each of 2 sessions once by each of 2 judges",
            "name=\"judge\" value=\"judge-a\"",
            "name=\"judge\" value=\"judge-b\"",
        ],
    );
    let begun = browser.form("/rescore/go", &fields).await;
    assert_eq!(begun.status, 303, "{}", begun.text);
    let batch = server.json_of("/api/v1/batches").await;
    let batch = &batch["items"][0];
    assert_eq!(
        (&batch["purpose"], &batch["counts"]["total"]),
        (&json!("jury"), &json!(4))
    );
    // Totals of sessions aren't fractions of 1, so their batches can't be compared.
    let id = batch["batch_id"].as_str().unwrap();
    let other = server.get(&format!("/compare?a={id}&b={}", Uuid::now_v7()));
    let refused = browser.send(other).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text.contains("is a batch of sessions"));
}

#[tokio::test]
async fn preview_without_sessions_gives_a_reason() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    server.session().await;
    for (purpose, says) in [("preview", true), ("score", false)] {
        let fields = [("purpose", purpose), ("criteria", "current")];
        let plan = browser.form("/rescore", &fields).await;
        assert_eq!(plan.status, 200, "{}", plan.text);
        assert!(plan.text.contains("No sessions to score"), "{}", plan.text);
        let told = plan
            .text
            .contains("A preview needs sessions with a score by the current criteria");
        assert_eq!(told, says, "{}", plan.text);
    }
}

#[tokio::test]
async fn conflicting_options_are_reported_at_the_field_with_all_input() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    server.scored(70).await;
    let name = "\"><script>alert(1)</script>";
    for (fields, id, told) in [
        (
            vec![("repeats", "3")],
            "repeats",
            "The number of repeats is for purpose repeat",
        ),
        (
            vec![("purpose", "repeat")],
            "repeats",
            "The number of repeats is missing",
        ),
        (
            vec![("repeats", "many")],
            "repeats",
            "is not an integer above 0",
        ),
        (
            vec![("purpose", "jury")],
            "judge",
            "The list of judges is missing",
        ),
        (
            vec![("purpose", "jury"), ("judge", "judge-b")],
            "judge",
            "The list of judges must name 2-9 judges",
        ),
        (vec![("judge", "judge-b")], "judge", "is for purpose jury"),
        (vec![("economy", "1")], "economy", "has no batch endpoint"),
        (
            vec![("economy", "1"), ("budget_usd", "5")],
            "economy",
            "no budget can stop",
        ),
        (
            vec![("budget_usd", "-1")],
            "budget_usd",
            "The budget must be above 0",
        ),
        (
            vec![("sample", "0")],
            "sample",
            "The size of the sample must be 1-100000",
        ),
    ] {
        let mut filled = vec![("tag", "checkout"), ("force", "1"), ("name", name)];
        filled.extend(&fields);
        for path in ["/rescore", "/rescore/go"] {
            let shown = browser.form(path, &filled).await;
            assert_eq!(shown.status, 422, "{fields:?}: {}", shown.text);
            harmless(path, &shown.text);
            let said = format!("id=\"{id}-fault\"");
            assert_eq!(
                shown.text.matches(&said).count(),
                1,
                "{fields:?}: {}",
                shown.text
            );
            for part in [
                told,
                "Scoring was not started.",
                "name=\"tag\" value=\"checkout\"",
                "name=\"force\" value=\"1\" checked",
                "alert(1)",
            ] {
                assert!(
                    shown.text.contains(part),
                    "{fields:?} {part}: {}",
                    shown.text
                );
            }
            for (name, value) in &fields {
                let kept = match *name {
                    "purpose" => format!("<option value=\"{value}\" selected>"),
                    "judge" | "economy" => format!("name=\"{name}\" value=\"{value}\" checked"),
                    name => format!("name=\"{name}\" value=\"{value}\""),
                };
                assert!(shown.text.contains(&kept), "{kept}: {}", shown.text);
            }
        }
    }
    assert_eq!(server.json_of("/api/v1/batches").await["items"], json!([]));
}

#[tokio::test]
async fn filter_errors_are_shown_above_the_form() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    let fields = [("min_score", "90"), ("max_score", "10")];
    let shown = browser.form("/rescore", &fields).await;
    assert_eq!(shown.status, 422, "{}", shown.text);
    in_order(
        &shown.text,
        &[
            "Scoring was not started.",
            "<b>min score</b> must not be more than max_score",
            "Which sessions",
        ],
    );
    // The API receives the ids of a filter as a list.
    let unknown = Uuid::now_v7().to_string();
    let plan = browser.form("/rescore", &[("ids", unknown.as_str())]).await;
    assert_eq!(plan.status, 200, "{}", plan.text);
    assert!(plan.text.contains("No sessions to score"), "{}", plan.text);
}
