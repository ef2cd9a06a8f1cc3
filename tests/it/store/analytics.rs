//! What current scores come to, counted by the database: the same on both.

use chrono::{DateTime, NaiveDate, Utc};
use gavel::score::session::{AlternativeApproach, MissingTool, SessionScore};
use gavel::store::{
    By, MadeBy, Named, NewSessionScore, ScoreFilter, SessionFilter, SessionOrder, SessionRecord,
    Store,
};
use uuid::Uuid;

use super::fixtures::{
    hash, new_job, new_score, now, record, run_of, score_of, scored_with, session,
};
use crate::support;

pub(super) fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

/// A score that misses these tools.
fn missing(total: u8, tools: &[&str]) -> SessionScore {
    let tool = |name: &&str| MissingTool {
        tool_name: (*name).to_owned(),
        rationale: "why".to_owned(),
    };
    SessionScore {
        missing_tools: tools.iter().map(tool).collect(),
        ..score_of(total)
    }
}

pub(super) fn simulated(score: SessionScore) -> SessionScore {
    SessionScore {
        simulated: true,
        ..score
    }
}

/// A session that completed then, with this score under criteria of this letter.
pub(super) async fn scored_at(
    store: &Store,
    completed: &str,
    score: SessionScore,
    criteria: char,
) -> Uuid {
    let session_id = Uuid::now_v7();
    let record = SessionRecord {
        completed_at: Some(at(completed)),
        started_at: None,
        ..session(session_id)
    };
    store.sessions().put(&record, now()).await.unwrap();
    rescored(store, session_id, score, criteria).await;
    session_id
}

pub(super) async fn rescored(store: &Store, session_id: Uuid, score: SessionScore, criteria: char) {
    let run = run_of(store, new_job(Some(session_id))).await;
    let score = NewSessionScore {
        score,
        criteria_hash: hash(criteria),
        ..new_score(session_id, 0)
    };
    record(store, &run, scored_with(score)).await;
}

pub(super) const DAY: &str = "2026-01-02T12:00:00Z";

async fn tools(store: &Store, filter: &ScoreFilter, limit: u32) -> Vec<(String, i64)> {
    let names = store
        .analytics()
        .names(Named::MissingTools, filter, MadeBy::Judge, limit)
        .await
        .unwrap();
    names
        .into_iter()
        .map(|name| (name.key, name.sessions))
        .collect()
}

fn counts(of: &[(&str, i64)]) -> Vec<(String, i64)> {
    of.iter().map(|(key, n)| ((*key).to_owned(), *n)).collect()
}

#[tokio::test]
async fn a_session_counts_once_for_a_tool_however_it_is_spelled() {
    for test in support::stores().await {
        let store = &test.store;
        let spelled = missing(
            70,
            &["kubectl-logs", "Kubectl Logs", "kubectlLogs", "events"],
        );
        scored_at(store, DAY, spelled, 'a').await;
        scored_at(store, DAY, missing(70, &["kubectl_logs"]), 'a').await;
        scored_at(store, DAY, missing(70, &["kubectl_logs", " "]), 'a').await;
        scored_at(store, DAY, simulated(missing(70, &["events"])), 'a').await;
        let all = ScoreFilter::default();
        let expected = counts(&[("kubectllogs", 3), ("events", 1)]);
        assert_eq!(tools(store, &all, 10).await, expected);
        assert_eq!(tools(store, &all, 1).await, expected[..1]);
        let names = store
            .analytics()
            .names(Named::MissingTools, &all, MadeBy::Judge, 10);
        let spellings = names.await.unwrap().remove(0).spellings;
        // The first spelling of a score is the one that counts.
        assert_eq!(
            spellings,
            counts(&[("kubectl_logs", 2), ("kubectl-logs", 1)])
        );
        let names = store
            .analytics()
            .names(Named::MissingTools, &all, MadeBy::Simulated, 10);
        assert_eq!(names.await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn approaches_are_counted_as_tools_are() {
    for test in support::stores().await {
        let store = &test.store;
        for name in ["Logs first", "logs-first"] {
            let approach = AlternativeApproach {
                name: name.to_owned(),
                description: "how".to_owned(),
                steps: vec!["a step".to_owned(), "another".to_owned()],
            };
            let score = SessionScore {
                alternative_approaches: vec![approach],
                ..score_of(70)
            };
            scored_at(store, DAY, score, 'a').await;
        }
        let all = ScoreFilter::default();
        let names = store
            .analytics()
            .names(Named::Approaches, &all, MadeBy::Judge, 10);
        let names = names.await.unwrap();
        assert_eq!(
            (names.len(), names[0].key.as_str(), names[0].sessions),
            (1, "logsfirst", 2)
        );
    }
}

#[tokio::test]
async fn only_current_scores_count_and_criteria_and_the_sessions_time_narrow_them() {
    for test in support::stores().await {
        let store = &test.store;
        let analytics = store.analytics();
        let old = scored_at(store, "2025-12-31T23:59:59Z", missing(10, &["old"]), 'a').await;
        rescored(store, old, missing(90, &["new"]), 'b').await;
        scored_at(store, DAY, missing(50, &["other"]), 'a').await;
        let totals = async |filter: &ScoreFilter| {
            let mut totals: Vec<_> = analytics
                .totals(filter)
                .await
                .unwrap()
                .into_iter()
                .map(|count| (count.total, count.scores))
                .collect();
            totals.sort_unstable();
            totals
        };
        let all = ScoreFilter::default();
        assert_eq!(totals(&all).await, [(50, 1), (90, 1)]);
        assert_eq!(
            tools(store, &all, 10).await,
            counts(&[("new", 1), ("other", 1)])
        );
        let of_b = ScoreFilter {
            criteria_hash: Some(hash('b')),
            ..ScoreFilter::default()
        };
        assert_eq!(totals(&of_b).await, [(90, 1)]);
        assert_eq!(tools(store, &of_b, 10).await, counts(&[("new", 1)]));
        let of_2026 = ScoreFilter {
            from: Some(at("2026-01-01T00:00:00Z")),
            ..ScoreFilter::default()
        };
        assert_eq!(totals(&of_2026).await, [(50, 1)]);
        assert_eq!(tools(store, &of_2026, 10).await, counts(&[("other", 1)]));
        assert_eq!(analytics.sessions_in(&of_2026).await.unwrap(), 1);
        let before = ScoreFilter {
            to: of_2026.from,
            ..ScoreFilter::default()
        };
        assert_eq!(totals(&before).await, [(90, 1)]);
        assert_eq!(analytics.sessions_in(&all).await.unwrap(), 2);
    }
}

#[tokio::test]
async fn totals_are_counted_by_the_day_of_their_session_in_utc() {
    for test in support::stores().await {
        let store = &test.store;
        scored_at(store, "2026-01-02T23:59:59.999Z", score_of(60), 'a').await;
        scored_at(store, "2026-01-03T00:00:00+02:00", score_of(60), 'a').await;
        scored_at(store, "2026-01-03T00:00:00Z", simulated(score_of(80)), 'b').await;
        let all = ScoreFilter::default();
        let days = store
            .analytics()
            .totals_over_time(&all, By::Day)
            .await
            .unwrap();
        let found: Vec<_> = days
            .iter()
            .map(|count| (count.day, count.total, count.scores, count.made_by))
            .collect();
        let day = |text: &str| Some(text.parse::<NaiveDate>().unwrap());
        let expected = [
            (day("2026-01-02"), 60, 2, MadeBy::Judge),
            (day("2026-01-03"), 80, 1, MadeBy::Simulated),
        ];
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn sessions_are_found_by_a_tool_that_their_current_score_misses() {
    for test in support::stores().await {
        let store = &test.store;
        let found = scored_at(store, DAY, missing(70, &["kubectl-logs"]), 'a').await;
        let rescored_since = scored_at(store, DAY, missing(70, &["kubectl-logs"]), 'a').await;
        rescored(store, rescored_since, missing(70, &["events"]), 'a').await;
        let filter = SessionFilter {
            missing_tool: Some("KubectlLogs".to_owned()),
            ..SessionFilter::default()
        };
        let page = store
            .sessions()
            .list(&filter, SessionOrder::Newest, None, 10)
            .await
            .unwrap();
        let ids: Vec<Uuid> = page.items.iter().map(|line| line.session_id).collect();
        assert_eq!(ids, [found]);
    }
}
