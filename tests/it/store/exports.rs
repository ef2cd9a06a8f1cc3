//! The scores that go out: good, current and real ones, page by page.

use gavel::store::ScoreFilter;

use super::analytics::{DAY, at, rescored, scored_at, simulated};
use super::fixtures::{score_of, scored_session};
use crate::support;

#[tokio::test]
async fn good_scores_come_page_by_page_and_are_current_and_real() {
    for test in support::stores().await {
        let store = &test.store;
        let mut good = Vec::new();
        for total in [85, 84, 100, 90, 85] {
            let id = scored_session(store, total).await;
            if total >= 85 {
                good.push(id);
            }
        }
        scored_at(store, DAY, simulated(score_of(99)), 'a').await;
        let superseded = scored_at(store, DAY, score_of(99), 'a').await;
        rescored(store, superseded, score_of(20), 'a').await;
        let (all, mut after, mut found) = (ScoreFilter::default(), None, Vec::new());
        for expected in [3, 1, 0] {
            let page = store.good_scores(&all, 85, after, 3).await.unwrap();
            assert_eq!(page.len(), expected);
            after = page.last().map(|row| row.score_id).or(after);
            found.extend(page.into_iter().map(|row| row.session_id));
        }
        assert_eq!(found, good);
        let late = ScoreFilter {
            to: Some(at(DAY)),
            ..ScoreFilter::default()
        };
        assert!(
            store
                .good_scores(&late, 0, None, 3)
                .await
                .unwrap()
                .is_empty()
        );
    }
}
