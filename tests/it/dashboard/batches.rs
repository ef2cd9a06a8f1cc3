//! Batch pages: list, sections, items, uploads and actions.

use gavel::job::Kind;

use super::*;
use crate::support::stores;

const BAD: &str = "<script>alert(1)</script>";

pub(super) fn upload(
    token: &str,
    fields: &[(&str, &str)],
    (name, file): (&str, &str),
) -> (String, String) {
    let boundary = "----gavel";
    let mut body = String::new();
    for (field, value) in [&[("form_token", token)], fields].concat() {
        body.push_str(&format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{field}\"\r\n\r\n{value}\r\n"
        ));
    }
    body.push_str(&format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n{file}\r\n--{boundary}--\r\n"
    ));
    (format!("multipart/form-data; boundary={boundary}"), body)
}

impl Browser<'_> {
    async fn upload(&self, token: &str, kind: &str, file: (&str, &str)) -> Shown {
        let (media_type, body) = upload(token, &[("kind", kind), ("name", BAD)], file);
        let request = self.server.post("/batches/upload");
        self.send(request.header("content-type", media_type).body(body))
            .await
    }

    async fn batches(&self) -> usize {
        let listed = self.server.json_of("/api/v1/batches").await;
        listed["items"].as_array().unwrap().len()
    }
}

#[tokio::test]
async fn upload_becomes_a_batch_or_lists_its_errors() {
    for db in stores().await {
        let server = Server::over(db).await;
        let browser = Browser::of(&server);
        let token = browser.form_token.as_str();
        assert!(browser.page("/batches").await.contains("No batches yet"));
        let wrong = "id,generated_kql,expected_kql\na,T,T\nb,T,\nc,T,T\n";
        let refused = browser.upload(token, "query", ("suite.csv", wrong)).await;
        assert_eq!(refused.status, 422);
        harmless("the refusal", &refused.text);
        let row = "<td class=\"num\">3</td><td class=\"mono\">expected_kql</td>";
        in_order(&refused.text, &["No item was queued", row]);
        for (kind, file, fault) in [
            ("query", ("suite.doc", "x"), "does not end in one of"),
            ("qas", ("questions.json", "[]"), "gavel evaluate FILE"),
            (
                "query",
                ("metrics.csv", "id,generatedSql\na,select 1\n"),
                "is a field of kind sql_metrics: choose that kind",
            ),
            ("query", ("", ""), "choose one"),
            ("tea", ("suite.csv", "id\n"), "kind"),
        ] {
            let refused = browser.upload(token, kind, file).await;
            assert_eq!(refused.status, 422, "{kind}");
            assert!(refused.text.contains(fault), "{fault}: {}", refused.text);
        }
        let stale = browser.upload("other", "query", ("suite.csv", wrong)).await;
        assert_eq!(stale.status, 403, "{}", stale.text);
        let right = "id,generated_kql,expected_kql\na,T,T\nb,T,T\n";
        let (media_type, whole) = upload(token, &[("kind", "query")], ("suite.csv", right));
        let (half, _) = whole.split_once("b,T,T").unwrap();
        let half = server.post("/batches/upload").body(half.to_owned());
        let broken = browser.send(half.header("content-type", media_type)).await;
        assert_eq!(broken.status, 422, "{}", broken.text);
        assert!(broken.text.contains("broke off"), "{}", broken.text);
        assert_eq!(browser.batches().await, 0);

        let taken = browser.upload(token, "query", ("suite.csv", right)).await;
        assert_eq!(taken.status, 303, "{}", taken.text);
        let page = browser.page(taken.location.as_deref().unwrap()).await;
        in_order(&page, &["INCOMPLETE", "2 items still to come", "0 of 2"]);
        let list = browser.page("/batches").await;
        assert!(list.contains("&#60;script&#62;"), "{list}");
        assert!(list.contains("0 of 2") && list.contains("data-live=\"batch:"));
    }
}

#[tokio::test]
async fn every_template_is_an_accepted_suite() {
    let server = Server::with(Setup::default()).await;
    let browser = Browser::of(&server);
    for kind in Kind::ALL.iter().filter(|kind| kind.is_case()) {
        for (end, media_type) in [
            ("csv", "text/csv"),
            ("jsonl", "application/x-ndjson"),
            (
                "xlsx",
                "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            ),
        ] {
            let file = server.get(&format!("/batches/template/{kind}.{end}"));
            let file = file.send().await.unwrap();
            let named = header(&file, "content-disposition").unwrap();
            assert!(named.contains(&format!("gavel-{kind}.{end}")), "{named}");
            let made = server
                .post(&format!("/api/v1/batches?kind={kind}"))
                .header("content-type", media_type)
                .body(file.bytes().await.unwrap());
            let batch = json_of(made.send().await.unwrap(), 202).await;
            assert_eq!(batch["counts"]["total"], 2, "{kind}.{end}");
        }
    }
    let unknown = browser.send(server.get("/batches/template/tea.csv")).await;
    assert_eq!(unknown.status, 422);
}

#[tokio::test]
async fn batch_lists_failures_first_and_each_item_has_a_page() {
    for db in stores().await {
        let server = Server::over(db).await;
        let browser = Browser::of(&server);
        let (id, jobs) = server.cases(&["good", BAD, "broken", "open"]).await;
        server.score_case(jobs[0], 0.925).await;
        server.score_case(jobs[1], 0.5).await;
        server.fail(jobs[2]).await;
        let page = browser.page(&format!("/batches/{id}")).await;
        let sections = [
            "INCOMPLETE",
            "3 of 4",
            "<h2>Errors (missed)</h2>",
            "Score: 50% (FAIL &#60;90%)",
            "It <strong>counts</strong>",
            "<h2>Without a score</h2>",
            "What to do:",
            "<h2>Success</h2>",
            "Query: T | count",
            "Query executed (results: 1)",
            "Score: 92.5% (PASS ≥90%)",
            "<h2>Not ended</h2>",
        ];
        in_order(&page, &sections);
        let failures = browser.page(&format!("/batches/{id}?show=failures")).await;
        assert!(
            failures.contains("<h2>Errors (missed)</h2>") && !failures.contains("<h2>Success</h2>")
        );
        let one = browser.page(&format!("/batches/{id}?show=passed")).await;
        assert!(one.contains("<h2>Success</h2>") && !one.contains("<h2>Errors (missed)</h2>"));
        let body = browser
            .page(&format!("/batches/{id}/body?show=failures"))
            .await;
        assert!(!body.contains("<html") && body.contains("<h2>Errors (missed)</h2>"));
        let item = browser.page(&format!("/batches/{id}/items/1")).await;
        in_order(
            &item,
            &[
                "50%",
                "<del>take 1</del>",
                "<ins>count</ins>",
                "Matched",
                "No rows",
                "<td>1</td>",
                "It <strong>counts</strong>",
                "<summary>Payload</summary>",
            ],
        );
        browser.page(&format!("/batches/{id}/items/3")).await;
        let gone = browser
            .send(server.get(&format!("/batches/{id}/items/4")))
            .await;
        assert_eq!(gone.status, 404);
        let report = server
            .get(&format!("/batches/{id}/report.csv"))
            .send()
            .await
            .unwrap();
        let named = header(&report, "content-disposition").unwrap();
        assert!(
            named.starts_with("attachment; filename=\"batch-"),
            "{named}"
        );
        assert!(report.text().await.unwrap().contains("good"));
    }
}

#[tokio::test]
async fn batch_is_paused_resumed_limited_retried_and_cancelled() {
    for db in stores().await {
        let server = Server::over(db).await;
        let browser = Browser::of(&server);
        let (id, jobs) = server.cases(&["a", "b"]).await;
        server.fail(jobs[0]).await;
        let this = format!("/batches/{id}");
        let state = async || server.json_of(&format!("/api/v1/batches/{id}")).await;
        let done = async |verb: &str, fields: &[(&str, &str)]| {
            let shown = browser.form(&format!("{this}/{verb}"), fields).await;
            assert_eq!(shown.status, 303, "{verb}: {}", shown.text);
            assert_eq!(shown.location.as_deref(), Some(this.as_str()));
        };
        done("pause", &[]).await;
        assert_eq!(state().await["state"], "paused");
        assert!(browser.page(&this).await.contains("Resume"));
        done("resume", &[]).await;
        done("budget", &[("budget_usd", "12.5")]).await;
        assert_eq!(state().await["budget_usd"], 12.5);
        done("budget", &[("budget_usd", "")]).await;
        assert_eq!(state().await["budget_usd"], Value::Null);
        let refused = browser
            .form(&format!("{this}/budget"), &[("budget_usd", "much")])
            .await;
        assert_eq!(refused.status, 422);
        // The form is shown again.
        let parts = [
            "<b>Budget, USD:</b> is not an amount of US dollars",
            "aria-invalid=\"true\" value=\"much\"",
        ];
        in_order(&refused.text, &parts);
        assert_eq!(state().await["budget_usd"], Value::Null);
        let asked = browser.page(&format!("{this}/retry-errors")).await;
        assert!(asked.contains("1 item failed"), "{asked}");
        done("retry-errors", &[]).await;
        assert_eq!(state().await["counts"]["failed"], 0);
        let asked = browser.page(&format!("{this}/cancel")).await;
        assert!(asked.contains("2 items will not be scored"), "{asked}");
        assert_eq!(state().await["state"], "running");
        done("cancel", &[]).await;
        assert_eq!(state().await["state"], "cancelled");
        for verb in ["pause", "resume", "cancel", "retry-errors", "budget"] {
            let path = format!("{this}/{verb}");
            let bare = browser
                .send(fields_of(server.post(&path), &[("a", "b")]))
                .await;
            assert_eq!(bare.status, 403, "{verb}");
        }
    }
}

#[tokio::test]
async fn reader_sees_all_data_and_no_action() {
    let server = Server::with(guarded()).await;
    let made = server.post("/api/v1/batches").bearer_auth("e-token-of-a-test").json(
        &json!({"kind": "query", "items": [{"generated_kql": "T | take 1", "expected_kql": "T"}]}),
    );
    let batch = json_of(made.send().await.unwrap(), 202).await;
    let this = format!("/batches/{}", batch["batch_id"].as_str().unwrap());
    let reader = Browser::signed_in(&server, "r-token-of-a-test").await;
    for path in [
        "/batches",
        &this,
        &format!("{this}/items/0"),
        &format!("{this}/cancel"),
        "/compare",
    ] {
        let page = reader.page(path).await;
        let forms = page.matches("method=\"post\"").count();
        assert_eq!(
            forms,
            page.matches("action=\"/sign-out\"").count(),
            "{path}: {page}"
        );
    }
    let refused = reader.form(&format!("{this}/cancel"), &[]).await;
    assert_eq!(refused.status, 403);
    let file = ("suite.csv", "id,generated_kql,expected_kql\na,T,T\n");
    let token = reader.form_token.clone();
    assert_eq!(reader.upload(&token, "query", file).await.status, 403);
    let writer = Browser::signed_in(&server, "e-token-of-a-test").await;
    assert!(writer.page(&this).await.contains("Cancel …"));
    let token = writer.form_token.clone();
    assert_eq!(writer.upload(&token, "query", file).await.status, 303);
}
