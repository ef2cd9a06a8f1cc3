//! Criteria are edited, previewed, compared and made current in the browser.

use std::sync::Arc;

use gavel::job::Kind;
use gavel::score::Criteria;
use gavel::store::CriteriaChoice;

use super::*;
use crate::support::stores;

fn typed(page: &str, field: &str) -> String {
    let (_, behind) = page.split_once(&format!("id=\"{field}\"")).unwrap();
    let (_, behind) = behind.split_once('>').unwrap();
    let (text, _) = behind.split_once("</textarea>").unwrap();
    let marks = [
        ("&#34;", "\""),
        ("&#38;", "&"),
        ("&#60;", "<"),
        ("&#62;", ">"),
        ("&#39;", "'"),
    ];
    let text = marks
        .into_iter()
        .fold(text.to_owned(), |text, (mark, sign)| {
            text.replace(mark, sign)
        });
    text.replace('\n', "\r\n")
}

#[tokio::test]
async fn criteria_are_edited_previewed_compared_and_made_current() {
    for db in stores().await {
        let server = Server::over(db).await;
        let browser = Browser::of(&server);
        server.scored(80).await;
        let current = async || server.enqueue.current_criteria().hash.0.clone();
        let file = current().await;

        let page = browser.page(&format!("/criteria/{file}/edit")).await;
        let (prompt, settings) = (typed(&page, "judge_prompt"), typed(&page, "settings"));
        let edit = format!("/criteria/{file}/edit");
        let same = [("judge_prompt", prompt.as_str()), ("settings", &settings)];
        let home = format!("/criteria/{file}");
        let judge = server.enqueue.current_criteria().judge.clone();
        let of_nobody = settings.replace(&format!("{judge:?}"), "\"nobody\"");
        assert_ne!(of_nobody, settings);
        for (field, text, fault) in [
            ("settings", "{", "is no JSON object"),
            ("settings", settings.as_str(), "is unchanged"),
            ("settings", of_nobody.as_str(), "unknown judge"),
            ("judge_prompt", "<b>short</b>", "SESSION_CONVERSATION"),
        ] {
            let mut fields = vec![("name", "strict"), (field, text)];
            fields.extend(same.iter().filter(|(name, _)| *name != field));
            let refused = browser.form(&edit, &fields).await;
            assert_eq!(refused.status, 422, "{}", refused.text);
            in_order(&refused.text, &[fault, "value=\"strict\""]);
            assert_eq!(typed(&refused.text, field).replace("\r\r\n", "\r\n"), text);
        }

        let stricter = format!("{prompt} Be strict.");
        let fields = [
            ("name", "strict"),
            ("note", "Asks for more."),
            ("judge_prompt", stricter.as_str()),
            ("settings", &settings),
        ];
        let sent = browser.form(&edit, &fields).await;
        let new = sent.location.unwrap();
        assert_ne!(new, home);
        let hash = new.trim_start_matches("/criteria/");
        let parts = [
            "<h1>strict",
            &format!("/compare?a={file}&amp;b={hash}"),
            &format!("/rescore?with={hash}&amp;purpose=preview&amp;sample=20&amp;criteria=current"),
            "Edit a copy",
            "Make current",
            "Asks for more.",
        ];
        in_order(&browser.page(&new).await, &parts);
        let preview = format!("/rescore?with={hash}&purpose=preview&sample=20&criteria=current");
        in_order(
            &browser.page(&preview).await,
            &[hash, "value=\"preview\" selected", "value=\"20\""],
        );
        let compared = browser.page(&format!("/compare?a={file}&b={hash}")).await;
        in_order(&compared, &["strict (", "Be strict."]);

        let choose = format!("{new}/current");
        in_order(
            &browser.form(&choose, &[]).await.text,
            &["Make these criteria current?"],
        );
        assert_eq!(current().await, file, "before anybody said yes");
        let sure = [("sure", "1")];
        assert_eq!(browser.form(&choose, &sure).await.status, 303);
        assert_eq!(current().await, hash);
        in_order(
            &browser.page("/criteria").await,
            &["strict</a>", "current", "by api-client, "],
        );
        in_order(&browser.page("/sessions").await, &["outdated"]);
        in_order(
            &browser.page("/").await,
            &["Some scores are by other criteria"],
        );
        let job = server.queued(server.session().await).await;
        assert_eq!(server.job(job).await.criteria_hash, hash);
        // A reload doesn't change the choice. Choosing the file's own version returns control to the file.
        server
            .enqueue
            .set_current_criteria(server.enqueue.file_criteria_of(Kind::Session));
        assert_eq!(current().await, hash);
        let chosen = browser.form(&format!("{home}/current"), &sure).await;
        assert_eq!(chosen.status, 303);
        assert_eq!(current().await, file);
        assert_eq!(
            server.store().criteria().chosen().await.unwrap()[0].criteria_hash,
            None
        );

        // A choice made by another process is applied.
        let choice = CriteriaChoice {
            kind: Kind::Session,
            criteria_hash: Some(hash.to_owned()),
            by: "ann".to_owned(),
            at: SystemClock.now(),
        };
        server.store().criteria().choose(&choice).await.unwrap();
        server.enqueue.take_over_choices().await.unwrap();
        assert_eq!(current().await, hash);
        in_order(&browser.page(&new).await, &["Made current by ann"]);
    }
}

#[tokio::test]
async fn criteria_are_changed_only_by_admins() {
    let server = Server::with(guarded()).await;
    let browser = Browser::signed_in(&server, "e-token-of-a-test").await;
    let hash = server.enqueue.current_criteria().hash.0.clone();
    let page = browser.page(&format!("/criteria/{hash}")).await;
    assert!(
        !page.contains("Edit a copy") && !page.contains("Make current"),
        "{page}"
    );
    for path in ["name", "current", "edit"] {
        let fields = [("name", "x"), ("sure", "1"), ("settings", "{}")];
        let sent = browser
            .form(&format!("/criteria/{hash}/{path}"), &fields)
            .await;
        assert_eq!(sent.status, 403, "{path}: {}", sent.text);
    }
}

#[tokio::test]
async fn file_reloaded_under_other_criteria_is_listed_as_an_option() {
    for db in stores().await {
        let server = Server::over(db).await;
        let browser = Browser::of(&server);
        let file = server.enqueue.file_criteria_of(Kind::Session);
        let with = |more: &str| {
            let mut content = file.content.clone();
            let prompt = content["judge_prompt"].as_str().unwrap();
            content["judge_prompt"] = format!("{prompt} {more}").into();
            Arc::new(Criteria::from_value(&content).unwrap())
        };
        let [chosen, other] = ["Be strict.", "Be mild."].map(with);
        let now = SystemClock.now();
        server.store().criteria().put(&chosen, now).await.unwrap();
        let choice = CriteriaChoice {
            kind: Kind::Session,
            criteria_hash: Some(chosen.hash.0.clone()),
            by: "ann".to_owned(),
            at: now,
        };
        server.store().criteria().choose(&choice).await.unwrap();
        server.enqueue.set_current_criteria(other.clone());
        server.enqueue.take_over_choices().await.unwrap();
        assert_eq!(server.enqueue.current_criteria().hash, chosen.hash);

        let back = format!("/criteria/{}/current", other.hash.0);
        in_order(&browser.page("/criteria").await, &[&other.hash.0]);
        let sent = browser.form(&back, &[("sure", "1")]).await;
        assert_eq!(sent.status, 303);
        assert_eq!(server.enqueue.current_criteria().hash, other.hash);
    }
}
