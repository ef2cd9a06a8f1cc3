//! Imports: one of a kind and one owner at a time; each session is stored and counted together or not at all.

use std::time::Duration;

use chrono::{DateTime, Utc};
use gavel::store::{Aged, ImportEnd, ImportStep, NewImport, Store, WalkPlace, Walked};
use gavel::wire::{ImportCounts, ImportState, SessionStatus};
use uuid::Uuid;

use super::fixtures::{delete_older, minutes, now, session};
use crate::support;
use crate::support::wait::eventually;

const STALE: Duration = Duration::from_secs(60);

fn new_import(same_as: &str) -> NewImport {
    NewImport {
        import_id: Uuid::now_v7(),
        same_as: same_as.to_owned(),
        source: "http://tarsy".to_owned(),
        statuses: vec![SessionStatus::Completed, SessionStatus::TimedOut],
        since_given: Some("30d".to_owned()),
        until_given: None,
        since: Some(now() - minutes(30)),
        until: now(),
        requests_per_second: 0.5,
        refresh: true,
        started_by: "ann".to_owned(),
        now: now(),
    }
}

fn step(import_id: Uuid, owner: Uuid) -> ImportStep {
    ImportStep {
        import_id,
        owner,
        sessions: Vec::new(),
        unchanged: Vec::new(),
        failed: Vec::new(),
        ratings: Vec::new(),
        place: None,
        now: now(),
    }
}

async fn claimed(store: &Store) -> (Uuid, Uuid) {
    let new = new_import(&Uuid::now_v7().to_string());
    store.imports().start(&new).await.unwrap();
    let owner = Uuid::now_v7();
    let row = store
        .imports()
        .claim(owner, STALE, None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((row.import_id, row.owner), (new.import_id, Some(owner)));
    (new.import_id, owner)
}

#[tokio::test]
async fn import_reads_back_unchanged_and_equal_imports_start_once() {
    for test in support::stores().await {
        let imports = test.store.imports();
        let first = new_import("same");
        let (row, new) = imports.start(&first).await.unwrap();
        assert!(new);
        assert_eq!(row, imports.get(first.import_id).await.unwrap().unwrap());
        assert_eq!(
            (row.statuses.clone(), row.since, row.until),
            (first.statuses.clone(), first.since, first.until)
        );
        assert_eq!((row.requests_per_second, row.refresh), (0.5, true));
        let place = WalkPlace {
            until: first.until,
            page: 1,
            total: None,
        };
        assert_eq!(
            (row.place, row.state, row.owner),
            (place, ImportState::Running, None)
        );
        let (again, new) = imports.start(&new_import("same")).await.unwrap();
        assert_eq!((again.import_id, new), (first.import_id, false));
        assert!(imports.start(&new_import("other")).await.unwrap().1);
        // An ended import doesn't block others.
        assert!(
            imports
                .cancel(first.import_id, now())
                .await
                .unwrap()
                .unwrap()
                .1
        );
        assert!(imports.start(&new_import("same")).await.unwrap().1);
        let listed = imports.list(None, 2).await.unwrap();
        assert_eq!(listed.items.len(), 2);
        let rest = imports.list(listed.next_cursor.as_ref(), 2).await.unwrap();
        assert_eq!(
            rest.items.last().map(|row| row.import_id),
            Some(first.import_id)
        );
    }
}

#[tokio::test]
async fn concurrent_equal_imports_start_once() {
    for test in support::stores().await {
        let begin = (0..16).map(|_| async {
            test.store
                .imports()
                .start(&new_import("same"))
                .await
                .unwrap()
        });
        let rows = futures::future::join_all(begin).await;
        assert_eq!(rows.iter().filter(|(_, new)| *new).count(), 1);
        let ids: std::collections::BTreeSet<Uuid> =
            rows.iter().map(|(row, _)| row.import_id).collect();
        assert_eq!(ids.len(), 1);
    }
}

#[tokio::test]
async fn import_has_one_owner_until_it_is_silent_or_releases_it() {
    for test in support::stores().await {
        let store = &test.store;
        let imports = store.imports();
        let (id, owner) = claimed(store).await;
        assert_eq!(
            imports.heartbeat(id, owner).await.unwrap(),
            Some(0.5),
            "it learns its pace"
        );
        let next = Uuid::now_v7();
        assert!(imports.claim(next, STALE, None).await.unwrap().is_none());
        let taken = eventually(STALE, "it is stale", || async {
            imports
                .claim(next, Duration::from_millis(5), None)
                .await
                .unwrap()
        })
        .await;
        assert_eq!(taken.import_id, id);
        assert_eq!(imports.heartbeat(id, owner).await.unwrap(), None);
        assert_eq!(
            imports.record(&step(id, owner)).await.unwrap(),
            Walked::Lost
        );
        assert!(
            !imports
                .finish(id, owner, &ImportEnd::Completed, now())
                .await
                .unwrap()
        );
        // A former owner can't release it.
        imports.release(id, owner).await.unwrap();
        assert!(imports.claim(owner, STALE, None).await.unwrap().is_none());
        imports.release(id, next).await.unwrap();
        assert!(imports.claim(owner, STALE, None).await.unwrap().is_some());
        imports.release_all().await.unwrap();
        assert!(imports.claim(next, STALE, None).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn repeated_step_stores_and_counts_each_id_once() {
    for test in support::stores().await {
        let store = &test.store;
        let (id, owner) = claimed(store).await;
        let old = session(Uuid::now_v7());
        store.sessions().put(&old, now()).await.unwrap();
        let changed = session(Uuid::now_v7());
        store.sessions().put(&changed, now()).await.unwrap();
        let mut other = changed.clone();
        other.final_analysis = Some("the disk was full".to_owned());
        let place = WalkPlace {
            until: now() - minutes(3),
            page: 7,
            total: Some(12),
        };
        let one = ImportStep {
            sessions: vec![session(Uuid::now_v7()), other.clone(), old],
            unchanged: vec!["listed".to_owned()],
            failed: vec![("bad".to_owned(), "too large".to_owned())],
            place: Some(place),
            ..step(id, owner)
        };
        let counts = ImportCounts {
            new: 1,
            updated: 1,
            unchanged: 2,
            failed: 1,
            total: 5,
        };
        assert_eq!(
            store.imports().record(&one).await.unwrap(),
            Walked::On(counts)
        );
        // A repeated page isn't counted again.
        assert_eq!(
            store.imports().record(&one).await.unwrap(),
            Walked::On(counts)
        );
        let row = store.imports().get(id).await.unwrap().unwrap();
        assert_eq!((row.counts, row.place), (counts, place));
        assert_eq!(
            store.sessions().get(other.session_id).await.unwrap(),
            Some(other)
        );
        let names = ["listed", "bad", "not yet"].map(str::to_owned);
        let seen = store.imports().seen(id, &names).await.unwrap();
        assert_eq!(seen, ["listed", "bad"].map(str::to_owned).into());
    }
}

#[tokio::test]
async fn ended_import_has_counts_and_reasons_only() {
    for test in support::stores().await {
        let store = &test.store;
        let imports = store.imports();
        let (id, owner) = claimed(store).await;
        assert!(imports.note_source(id, owner, "go", Some(9)).await.unwrap());
        let failed = (0..1_005).map(|n| (format!("{n:04}"), format!("reason {n}")));
        let one = ImportStep {
            unchanged: vec!["listed".to_owned()],
            failed: failed.collect(),
            ..step(id, owner)
        };
        imports.record(&one).await.unwrap();
        let more = ImportStep {
            failed: vec![("late".to_owned(), "too late to be kept".to_owned())],
            ..step(id, owner)
        };
        imports.record(&more).await.unwrap();
        let end = ImportEnd::Failed("TARSy is away".to_owned());
        assert!(imports.finish(id, owner, &end, now()).await.unwrap());
        let row = imports.get(id).await.unwrap().unwrap();
        assert_eq!((row.state, row.owner), (ImportState::Failed, None));
        assert_eq!(row.last_error.as_deref(), Some("TARSy is away"));
        assert_eq!(
            (row.counts.failed, row.expected, row.generation.as_deref()),
            (1_006, Some(9), Some("go"))
        );
        let kept = imports.failures(id).await.unwrap();
        assert_eq!(kept.len(), 1_000);
        assert_eq!(kept[0], ("0000".to_owned(), "reason 0".to_owned()));
        let names = ["listed", "late"].map(str::to_owned);
        assert!(imports.seen(id, &names).await.unwrap().is_empty());
        assert!(imports.claim(owner, STALE, None).await.unwrap().is_none());
        let (row, ended) = imports.cancel(id, now()).await.unwrap().unwrap();
        assert_eq!((row.state, ended), (ImportState::Failed, false));
        assert!(
            imports
                .cancel(Uuid::now_v7(), now())
                .await
                .unwrap()
                .is_none()
        );
    }
}

#[tokio::test]
async fn cancelled_import_accepts_no_more_steps() {
    for test in support::stores().await {
        let store = &test.store;
        let imports = store.imports();
        let (id, owner) = claimed(store).await;
        imports.cancel(id, now()).await.unwrap();
        let late = session(Uuid::now_v7());
        let one = ImportStep {
            sessions: vec![late.clone()],
            ..step(id, owner)
        };
        assert_eq!(imports.record(&one).await.unwrap(), Walked::Lost);
        assert!(
            store
                .sessions()
                .get(late.session_id)
                .await
                .unwrap()
                .is_none()
        );
        assert_eq!(imports.heartbeat(id, owner).await.unwrap(), None);
        assert!(!imports.note_source(id, owner, "go", None).await.unwrap());
    }
}

#[tokio::test]
async fn session_states_are_read_by_id() {
    for test in support::stores().await {
        let store = &test.store;
        let one = session(Uuid::now_v7());
        store.sessions().put(&one, now()).await.unwrap();
        let ids = [one.session_id, Uuid::now_v7()];
        let known = store.sessions().stored(&ids).await.unwrap();
        assert_eq!(known.len(), 1);
        let known = &known[&one.session_id];
        let ended: Option<DateTime<Utc>> = one.completed_at;
        assert_eq!(
            (known.source.as_str(), known.status, known.completed_at),
            ("api", one.status, ended)
        );
        assert!(store.sessions().stored(&[]).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn new_pace_reaches_the_owner_but_no_ended_import() {
    for test in support::stores().await {
        let store = &test.store;
        let (id, owner) = claimed(store).await;
        let paced = store.imports().pace(id, 20.0).await.unwrap().unwrap();
        assert_eq!(
            (paced.requests_per_second, paced.owner),
            (20.0, Some(owner))
        );
        let heard = store.imports().heartbeat(id, owner).await.unwrap();
        assert_eq!(heard, Some(20.0));
        store.imports().cancel(id, now()).await.unwrap();
        assert_eq!(store.imports().pace(id, 2.0).await.unwrap(), None);
    }
}

#[tokio::test]
async fn owner_of_certain_imports_claims_no_others() {
    for test in support::stores().await {
        let imports = test.store.imports();
        let [older, own] = ["older", "own"].map(new_import);
        for new in [&older, &own] {
            imports.start(new).await.unwrap();
        }
        let claim = async |only: &[Uuid]| {
            let claimed = imports.claim(Uuid::now_v7(), STALE, Some(only)).await;
            claimed.unwrap().map(|row| row.import_id)
        };
        assert_eq!(claim(&[]).await, None);
        assert_eq!(claim(&[own.import_id]).await, Some(own.import_id));
        assert_eq!(claim(&[own.import_id]).await, None);
        let rest = imports.claim(Uuid::now_v7(), STALE, None).await;
        assert_eq!(
            rest.unwrap().map(|row| row.import_id),
            Some(older.import_id)
        );
    }
}

#[tokio::test]
async fn old_import_is_pruned_with_its_reasons_but_no_running_one() {
    for test in support::stores().await {
        let store = &test.store;
        let long_ago = now() - minutes(60 * 24 * 91);
        let mut kept = Vec::new();
        for (end, at) in [(true, long_ago), (true, now()), (false, long_ago)] {
            let (id, owner) = claimed(store).await;
            let seen = ImportStep {
                unchanged: vec!["listed".to_owned()],
                failed: vec![("bad".to_owned(), "too large".to_owned())],
                ..step(id, owner)
            };
            store.imports().record(&seen).await.unwrap();
            if end {
                let end = ImportEnd::Completed;
                assert!(store.imports().finish(id, owner, &end, at).await.unwrap());
            }
            kept.push(id);
        }
        let [old, young, running] = kept[..] else {
            panic!("three")
        };
        // State after a crash right after the end.
        let left = "insert into session_import_items (import_id, item, outcome)
                    select import_id, 'left', 'new' from session_imports where state = 'completed'";
        support::execute(&test.url, left).await.unwrap();
        assert_eq!(store.retention().prune(now()).await.unwrap(), 2);
        let limit = long_ago + minutes(1);
        assert_eq!(delete_older(store, Aged::Imports, limit).await, 1);
        assert!(store.imports().get(old).await.unwrap().is_none());
        assert!(store.imports().failures(old).await.unwrap().is_empty());
        assert_eq!(store.imports().failures(young).await.unwrap().len(), 1);
        let names = ["listed", "bad", "left"].map(str::to_owned);
        let seen = store.imports().seen(young, &names).await.unwrap();
        assert_eq!(seen, ["bad"].map(str::to_owned).into());
        let seen = store.imports().seen(running, &names).await.unwrap();
        assert_eq!(seen, ["listed", "bad"].map(str::to_owned).into());
    }
}
