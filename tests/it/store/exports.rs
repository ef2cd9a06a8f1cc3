//! Exported scores: good, current and real ones, in pages.

use gavel::store::{GoodScores, ScoreFilter, SessionFilter};

use super::analytics::{DAY, at, rescored, scored_at, simulated};
use super::fixtures::{now, score_of, scored_session};
use crate::support;

fn current_good(filter: ScoreFilter, min_score: u8) -> GoodScores {
    GoodScores {
        filter,
        sessions: SessionFilter::default(),
        min_score,
        at: now(),
    }
}

#[tokio::test]
async fn good_current_real_scores_are_paged() {
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
        let all = current_good(ScoreFilter::default(), 85);
        let (mut after, mut found) = (None, Vec::new());
        for expected in [3, 1, 0] {
            let page = store.scores().good(&all, after, 3).await.unwrap();
            assert_eq!(page.len(), expected);
            after = page.last().map(|row| row.session_id).or(after);
            found.extend(page.into_iter().map(|row| row.session_id));
        }
        assert_eq!(found, good);
        let late = ScoreFilter {
            to: Some(at(DAY)),
            ..ScoreFilter::default()
        };
        let late = store.scores().good(&current_good(late, 0), None, 3).await;
        assert!(late.unwrap().is_empty());
    }
}

#[tokio::test]
async fn session_rescored_between_two_pages_is_returned_once() {
    for test in support::stores().await {
        let store = &test.store;
        let mut sessions = Vec::new();
        for total in [90, 91, 92, 93] {
            sessions.push(scored_session(store, total).await);
        }
        let good = current_good(ScoreFilter::default(), 85);
        let mut found = store.scores().good(&good, None, 2).await.unwrap();
        // One already sent, one not yet sent, and one newly good.
        rescored(store, sessions[0], score_of(95), 'b').await;
        rescored(store, sessions[3], score_of(20), 'b').await;
        scored_session(store, 99).await;
        let after = found.last().map(|row| row.session_id);
        found.extend(store.scores().good(&good, after, 9).await.unwrap());
        let came: Vec<_> = found
            .iter()
            .map(|row| (row.session_id, row.score.total_score))
            .collect();
        let as_it_was: Vec<_> = sessions.into_iter().zip([90, 91, 92, 93]).collect();
        assert_eq!(came, as_it_was);
    }
}
