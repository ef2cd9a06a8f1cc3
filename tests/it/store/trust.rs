//! Criteria comparison and panels: counted and excluded rows.

use gavel::job::{BatchPlace, Kind, NewJob, Purpose};
use gavel::score::trust::PairCount;
use gavel::store::{Basis, Store};
use uuid::Uuid;

use super::fixtures::{accept, claim, hash, new_job, new_score, now, record, scored_with, session};
use crate::support;

pub(super) async fn stored(store: &Store) -> Uuid {
    let id = Uuid::now_v7();
    store.sessions().put(&session(id), now()).await.unwrap();
    id
}

#[derive(Clone, Copy)]
pub(super) struct Scored {
    pub(super) session: Uuid,
    pub(super) criteria: char,
    pub(super) purpose: Purpose,
    pub(super) total: u8,
    pub(super) simulated: bool,
}

/// By a real judge under these criteria, as a regular score.
pub(super) fn real(session: Uuid, criteria: char, total: u8) -> Scored {
    Scored {
        session,
        criteria,
        purpose: Purpose::Score,
        total,
        simulated: false,
    }
}

pub(super) async fn score(store: &Store, scored: Scored) -> Uuid {
    let job = NewJob {
        purpose: scored.purpose,
        criteria_hash: hash(scored.criteria),
        ..new_job(Some(scored.session))
    };
    score_job(store, job, scored).await
}

async fn score_job(store: &Store, job: NewJob, scored: Scored) -> Uuid {
    let id = job.job_id;
    if job.batch.is_none() {
        accept(store, job).await;
    }
    let claimed = claim(store, id, Uuid::now_v7()).await;
    let mut new = new_score(scored.session, scored.total);
    new.criteria_hash = hash(scored.criteria);
    new.purpose = scored.purpose;
    new.score.simulated = scored.simulated;
    let score_id = new.score_id;
    record(store, &claimed, scored_with(new)).await;
    score_id
}

fn pair(a: u8, b: u8, n: u64) -> PairCount {
    PairCount { a, b, n }
}

#[tokio::test]
async fn newest_score_of_a_session_counts_per_version_with_previews() {
    for test in support::stores().await {
        let store = &test.store;
        let [both, only_a, only_b, same, repeated] = [
            stored(store).await,
            stored(store).await,
            stored(store).await,
            stored(store).await,
            stored(store).await,
        ];
        let preview = |scored: Scored| Scored {
            purpose: Purpose::Preview,
            ..scored
        };
        score(store, real(both, 'a', 40)).await;
        score(store, real(both, 'a', 50)).await;
        score(store, preview(real(both, 'b', 70))).await;
        score(store, real(only_a, 'a', 80)).await;
        let simulated = Scored {
            simulated: true,
            ..real(only_a, 'b', 81)
        };
        score(store, simulated).await;
        score(store, preview(real(only_b, 'b', 10))).await;
        score(store, real(same, 'b', 60)).await;
        score(store, real(same, 'a', 60)).await;
        let repeat = Scored {
            purpose: Purpose::Repeat,
            ..real(repeated, 'a', 99)
        };
        score(store, repeat).await;
        score(store, real(repeated, 'b', 1)).await;
        let (a, b) = (hash('a'), hash('b'));
        let found = store.criteria().pairs(&a, &b).await.unwrap();
        assert_eq!(found.pairs, [pair(50, 70, 1), pair(60, 60, 1)]);
        assert_eq!((found.only_a, found.only_b), (1, 2));
        assert_eq!((found.basis, found.simulated_left_out), (Basis::Real, 1));
        let turned = store.criteria().pairs(&b, &a).await.unwrap();
        assert_eq!(turned.pairs, [pair(60, 60, 1), pair(70, 50, 1)]);
        let movers = store.criteria().movers((&a, &b), Basis::Real, 20);
        let movers = movers.await.unwrap();
        assert_eq!(movers.len(), 1, "one that didn't move is no mover");
        assert_eq!(
            (movers[0].session_id, movers[0].a, movers[0].b),
            (both, 50, 70)
        );
        let none = store.criteria().movers((&a, &b), Basis::Real, 0);
        assert!(none.await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn simulated_scores_are_compared_only_without_real_ones() {
    for test in support::stores().await {
        let store = &test.store;
        let id = stored(store).await;
        for (criteria, total) in [('a', 30), ('b', 90)] {
            let simulated = Scored {
                simulated: true,
                ..real(id, criteria, total)
            };
            score(store, simulated).await;
        }
        let (a, b) = (hash('a'), hash('b'));
        let found = store.criteria().pairs(&a, &b).await.unwrap();
        assert_eq!(found.basis, Basis::Simulated);
        assert_eq!(
            (found.pairs, found.simulated_left_out),
            (vec![pair(30, 90, 1)], 0)
        );
        let movers = store.criteria().movers((&a, &b), found.basis, 5);
        assert_eq!(movers.await.unwrap().len(), 1);
        score(store, real(stored(store).await, 'a', 50)).await;
        let found = store.criteria().pairs(&a, &b).await.unwrap();
        assert_eq!((found.basis, found.simulated_left_out), (Basis::Real, 2));
        assert_eq!((found.pairs, found.only_a), (vec![], 1));
    }
}

#[tokio::test]
async fn largest_changes_are_listed_first_up_to_the_limit() {
    for test in support::stores().await {
        let store = &test.store;
        for (a, b) in [(50, 55), (50, 20), (50, 90), (50, 50)] {
            let id = stored(store).await;
            score(store, real(id, 'a', a)).await;
            score(store, real(id, 'b', b)).await;
        }
        let (a, b) = (hash('a'), hash('b'));
        let movers = store.criteria().movers((&a, &b), Basis::Real, 2).await;
        let totals: Vec<u8> = movers.unwrap().iter().map(|mover| mover.b).collect();
        assert_eq!(totals, [90, 20]);
    }
}

#[tokio::test]
async fn criteria_are_found_by_a_hash_prefix() {
    for test in support::stores().await {
        let criteria = test.store.criteria();
        let found = criteria.beginning_with("aaaaaaaa").await.unwrap();
        assert!(found.is_empty());
        for (n, end) in ["00", "01"].iter().enumerate() {
            let statement = match n {
                0 => {
                    "insert into scoring_criteria_definitions values ('abcdef1200', 'session', '{}', '2026-01-01T00:00:00Z')"
                }
                _ => {
                    "insert into scoring_criteria_definitions values ('abcdef1201', 'query', '{}', '2026-01-01T00:00:00Z')"
                }
            };
            support::execute(&test.url, statement).await.unwrap();
            let one = criteria.beginning_with(&format!("abcdef12{end}")).await;
            assert_eq!(one.unwrap().len(), 1);
        }
        let both = criteria.beginning_with("abcdef12").await.unwrap();
        let kinds: Vec<Kind> = both.iter().map(|(_, kind)| *kind).collect();
        assert_eq!(kinds, [Kind::Session, Kind::Query]);
    }
}

#[tokio::test]
async fn panel_items_are_read_by_session_with_their_scores() {
    for test in support::stores().await {
        let store = &test.store;
        let batches = store.batches();
        let batch = support::new_batch(Kind::Session, now());
        let batch_id = batch.batch_id;
        batches.begin(&batch).await.unwrap();
        let (one, other) = (stored(store).await, stored(store).await);
        let item = |item_no: i64, session: Uuid, purpose: Purpose, judge: &str| NewJob {
            purpose,
            judge: Some(judge.to_owned()),
            batch: Some(BatchPlace { batch_id, item_no }),
            ..new_job(Some(session))
        };
        let items = [
            item(0, other, Purpose::Jury, "x"),
            item(1, one, Purpose::Jury, "x"),
            item(2, one, Purpose::Jury, "y"),
            item(3, one, Purpose::Score, "z"),
        ];
        batches.add_items(batch_id, &items).await.unwrap();
        batches.start(batch_id).await.unwrap();
        let scored = Scored {
            purpose: Purpose::Jury,
            simulated: true,
            ..real(one, 'a', 64)
        };
        score_job(store, items[2].clone(), scored).await;
        let found = batches
            .asked_of_panels(batch_id, (Uuid::nil(), Uuid::nil()))
            .await
            .unwrap();
        let after = (found[0].session_id, found[0].job_id);
        let rest = batches.asked_of_panels(batch_id, after).await.unwrap();
        assert_eq!(rest, found[1..]);
        let found: Vec<_> = found
            .iter()
            .map(|item| {
                let judge = item.judge.as_deref().unwrap();
                (item.session_id, judge, item.total, item.simulated)
            })
            .collect();
        assert_eq!(
            found,
            [
                (one, "x", None, false),
                (one, "y", Some(64), true),
                (other, "x", None, false),
            ]
        );
        let none = batches
            .asked_of_panels(Uuid::now_v7(), (Uuid::nil(), Uuid::nil()))
            .await
            .unwrap();
        assert!(none.is_empty());
    }
}
