//! Criteria definitions and what was scored with them; scores of sessions are in `record`.

use gavel::job::Kind;
use gavel::score::{Criteria, CriteriaHash};
use serde_json::json;
use uuid::Uuid;

use gavel::score::criteria::{Frame, Prompt};

use super::fixtures::{
    accept, claim, hash, minutes, new_job, new_score, now, record, scored, scored_session,
    scored_with, session_with_job,
};
use crate::support;

pub(super) fn criteria(character: char) -> Criteria {
    Criteria {
        hash: CriteriaHash(hash(character)),
        content: json!({"judge_prompt": "Prüfe {{ALERT_DATA}}", "empty": []}),
        enabled: true,
        judge: "main".to_owned(),
        kind: Kind::Session,
        prompt: Prompt {
            text: "Prüfe {{ALERT_DATA}}".to_owned(),
            frame: Frame::default(),
        },
        answer_prompt: None,
        dimensions: vec![],
        trim: gavel::score::Trim::Auto,
        case: gavel::score::criteria::Case::Ignored,
    }
}

#[tokio::test]
async fn a_definition_is_stored_once_and_never_changed() {
    for test in support::stores().await {
        let store = &test.store;
        let at = now();
        assert!(store.criteria().get(&hash('a')).await.unwrap().is_none());
        assert!(store.criteria().put(&criteria('a'), at).await.unwrap());
        let mut other = criteria('a');
        other.content = json!({});
        let later = at + minutes(1);
        assert!(!store.criteria().put(&other, later).await.unwrap());
        let stored = store.criteria().get(&hash('a')).await.unwrap().unwrap();
        assert_eq!(stored.content, criteria('a').content);
        assert_eq!((stored.kind, stored.created_at), (Kind::Session, at));
        assert_eq!((stored.scores, stored.mean_total), (0, None));
        store.criteria().put(&criteria('b'), later).await.unwrap();
        let listed = store.criteria().list().await.unwrap();
        let hashes: Vec<&str> = listed.iter().map(|c| c.criteria_hash.as_str()).collect();
        assert_eq!(hashes, [hash('b'), hash('a')]);
    }
}

#[tokio::test]
async fn views_return_current_scores_and_their_details() {
    for test in support::stores().await {
        let session_id = scored_session(&test.store, 40).await;
        let again = accept(&test.store, new_job(Some(session_id))).await;
        let run = claim(&test.store, again, Uuid::now_v7()).await;
        record(&test.store, &run, scored(session_id, 71)).await;
        let others = "delete from session_scores where score_id not in (select score_id from current_session_scores)";
        support::execute(&test.url, others).await.unwrap();
        let left = test.store.scores().of_session(session_id).await.unwrap();
        let totals: Vec<u8> = left.iter().map(|row| row.score.total_score).collect();
        assert_eq!(totals, [71]);
        let details = |view: &str| {
            format!("delete from score_missing_tools where id not in (select id from {view})")
        };
        let kept = left[0].score.missing_tools.len();
        support::execute(&test.url, details("current_missing_tools").leak())
            .await
            .unwrap();
        let left = test.store.scores().get(left[0].score_id).await.unwrap();
        assert_eq!(left.unwrap().score.missing_tools.len(), kept);
    }
}

#[tokio::test]
async fn a_mean_counts_superseded_scores_and_no_simulated_ones() {
    for test in support::stores().await {
        let store = &test.store;
        store.criteria().put(&criteria('a'), now()).await.unwrap();
        let session_id = scored_session(store, 40).await;
        let again = accept(store, new_job(Some(session_id))).await;
        let run = claim(store, again, Uuid::now_v7()).await;
        record(store, &run, scored(session_id, 71)).await;
        let (simulated, id) = session_with_job(store).await;
        let run = claim(store, id, Uuid::now_v7()).await;
        let mut new = new_score(simulated, 100);
        new.score.simulated = true;
        record(store, &run, scored_with(new)).await;
        let stored = store.criteria().get(&hash('a')).await.unwrap().unwrap();
        assert_eq!((stored.scores, stored.mean_total), (3, Some(55.5)));
        assert_eq!(store.criteria().list().await.unwrap(), [stored]);
        let (scores, nobody) = (store.scores(), Uuid::now_v7());
        assert!(scores.current(nobody).await.unwrap().is_none());
        assert!(scores.of_session(nobody).await.unwrap().is_empty());
    }
}
