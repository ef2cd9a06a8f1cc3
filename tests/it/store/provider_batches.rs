//! Batches whose replies are collected: nothing of them runs meanwhile, and each answer counts once.

use std::time::Duration;

use gavel::job::{Force, JobId, Usage};
use gavel::judge::{CacheKey, CallLog as _, CallRecord};
use gavel::store::{BacklogPlan, ChunkRow, ItemAnswer, Moved, NewBacklog, NewChunk, Store};
use uuid::Uuid;

use super::backlogs::{begun, new_backlog, stored, whole};
use super::fixtures::{claim, item_ids, job, minutes, now};
use crate::support;
use gavel::wire::{ChunkState, ProviderBatchState};

const SILENT: Duration = Duration::from_secs(60);
const OWNER: Uuid = Uuid::from_u128(77);

/// A batch with so many items, all there, whose replies are being fetched.
async fn asked(store: &Store, items: usize) -> (Uuid, Vec<JobId>) {
    stored(store, items).await;
    let new = new_backlog();
    let new = NewBacklog {
        plan: BacklogPlan {
            economy: true,
            ..new.plan
        },
        ..new
    };
    let id = begun(store, new).await;
    whole(store, id, 100).await;
    (id, item_ids(store, id).await)
}

fn new_chunk(batch_id: Uuid, items: &[JobId]) -> NewChunk {
    let keyed = |id: &JobId| (*id, CacheKey(id.0));
    NewChunk {
        chunk_id: Uuid::now_v7(),
        batch_id,
        judge: "main".to_owned(),
        owner: OWNER,
        items: items.iter().map(keyed).collect(),
        left_out: Vec::new(),
        at: now(),
    }
}

/// A chunk, made by who looks after the batch.
async fn chunk_of(store: &Store, batch_id: Uuid, items: &[JobId]) -> ChunkRow {
    let new = new_chunk(batch_id, items);
    assert!(
        store
            .provider_batches()
            .lease(batch_id, OWNER, SILENT)
            .await
            .unwrap()
    );
    assert!(store.provider_batches().make_chunk(&new).await.unwrap());
    let chunks = store.provider_batches().chunks(batch_id).await.unwrap();
    chunks
        .into_iter()
        .find(|chunk| chunk.chunk_id == new.chunk_id)
        .unwrap()
}

fn answer(job_id: JobId, cost_usd: Option<f64>) -> ItemAnswer {
    ItemAnswer {
        job_id,
        error: None,
        usage: Usage {
            tokens_in: 100,
            tokens_out: 10,
            cost_usd,
        },
    }
}

async fn claimable(store: &Store, items: &[JobId]) -> usize {
    let claimed = store
        .jobs()
        .claim(items, Uuid::now_v7(), now() + minutes(1));
    claimed.await.unwrap().len()
}

#[tokio::test]
async fn nothing_runs_while_replies_are_fetched_whatever_moves_the_batch() {
    for test in support::stores().await {
        let store = &test.store;
        let (id, items) = asked(store, 2).await;
        assert_eq!(claimable(store, &items).await, 0);
        let paused = store.batches().pause(id).await.unwrap();
        assert!(matches!(paused, Moved::Now(_)));
        let resumed = store.batches().resume(id, now()).await.unwrap();
        assert!(matches!(resumed, Moved::Now(_)));
        assert_eq!(claimable(store, &items).await, 0);
        store.provider_batches().end(id).await.unwrap();
        let economy = store.provider_batches().get(id).await.unwrap().unwrap();
        assert_eq!(economy.state, ProviderBatchState::Collected);
        claim(store, items[0], Uuid::now_v7()).await;
    }
}

#[tokio::test]
async fn one_worker_at_a_time_looks_after_a_batch() {
    for test in support::stores().await {
        let store = &test.store;
        let provider_batches = store.provider_batches();
        let (id, _) = asked(store, 1).await;
        let (one, other) = (Uuid::now_v7(), Uuid::now_v7());
        assert!(provider_batches.lease(id, one, SILENT).await.unwrap());
        assert!(!provider_batches.lease(id, other, SILENT).await.unwrap());
        assert!(
            provider_batches
                .due(other, SILENT)
                .await
                .unwrap()
                .is_empty()
        );
        assert_eq!(provider_batches.due(one, SILENT).await.unwrap(), [id]);
        // The first one was silent for too long.
        while !provider_batches
            .lease(id, other, Duration::ZERO)
            .await
            .unwrap()
        {
            // The database's clock hasn't moved on yet.
        }
        assert!(!provider_batches.lease(id, one, SILENT).await.unwrap());
        // What the first one says doesn't count any more.
        provider_batches.leave(id, one, Some("no")).await.unwrap();
        assert!(!provider_batches.lease(id, one, SILENT).await.unwrap());
        provider_batches
            .leave(id, other, Some("it waits"))
            .await
            .unwrap();
        let economy = provider_batches.get(id).await.unwrap().unwrap();
        assert_eq!(economy.note.as_deref(), Some("it waits"));
        assert!(provider_batches.lease(id, one, SILENT).await.unwrap());
        provider_batches.end(id).await.unwrap();
        assert!(!provider_batches.lease(id, one, SILENT).await.unwrap());
    }
}

#[tokio::test]
async fn an_item_is_in_one_chunk_until_that_is_known_not_to_have_arrived() {
    for test in support::stores().await {
        let store = &test.store;
        let provider_batches = store.provider_batches();
        let (id, items) = asked(store, 3).await;
        let chunk = chunk_of(store, id, &items[..2]).await;
        let left = provider_batches
            .items_in_no_chunk(id, -1, 10)
            .await
            .unwrap();
        assert_eq!(
            left.iter().map(|job| job.job_id).collect::<Vec<_>>(),
            items[2..]
        );
        let again = new_chunk(id, &items[1..]);
        provider_batches.make_chunk(&again).await.unwrap_err();
        assert_eq!(provider_batches.chunks(id).await.unwrap().len(), 1);

        provider_batches
            .turn_chunk_away(chunk.chunk_id, "it never arrived")
            .await
            .unwrap();
        let left = provider_batches
            .items_in_no_chunk(id, -1, 10)
            .await
            .unwrap();
        assert_eq!(left.len(), 3);
        provider_batches.make_chunk(&again).await.unwrap();
        let left_out = NewChunk {
            chunk_id: Uuid::now_v7(),
            items: Vec::new(),
            left_out: vec![(items[0], "no question".to_owned())],
            ..again
        };
        provider_batches.make_chunk(&left_out).await.unwrap();
        let chunks = provider_batches.chunks(id).await.unwrap();
        let states: Vec<ChunkState> = chunks.iter().map(|chunk| chunk.state).collect();
        assert_eq!(
            states,
            [ChunkState::Failed, ChunkState::Making, ChunkState::Failed]
        );
        assert!(chunks.iter().all(|chunk| !chunk.was_turned_away()));
        assert_eq!(provider_batches.get(id).await.unwrap().unwrap().failed, 1);
    }
}

#[tokio::test]
async fn an_answer_counts_once_however_often_it_is_kept() {
    for test in support::stores().await {
        let store = &test.store;
        let provider_batches = store.provider_batches();
        let (id, items) = asked(store, 3).await;
        let chunk = chunk_of(store, id, &items).await;
        provider_batches
            .chunk_submitted(chunk.chunk_id, "batch_1", now())
            .await
            .unwrap();
        let ids: Vec<Uuid> = items.iter().map(|item| item.0).collect();
        let waiting = provider_batches
            .unanswered_of_chunk(chunk.chunk_id, &ids)
            .await
            .unwrap();
        assert_eq!(waiting.len(), 3);
        for (job, asked) in &waiting {
            assert_eq!(*asked, Some(CacheKey(job.job_id.0)));
        }
        let unusable = ItemAnswer {
            error: Some("not JSON".to_owned()),
            ..answer(items[1], None)
        };
        let answers = [answer(items[0], Some(0.5)), unusable];
        let logged = CallRecord {
            cache_key: Some(CacheKey(items[0].0)),
            ..support::call(items[0])
        };
        for _ in 0..2 {
            store.log(logged.clone());
            provider_batches
                .keep_answers(&chunk, &answers)
                .await
                .unwrap();
            // Whoever sees the outcome finds the reply, in another process too.
            let other = support::reopen(&test).await;
            let found = other.find(CacheKey(items[0].0), now() - minutes(1)).await;
            assert_eq!(found.as_ref(), Some(&logged));
        }
        let first = job(store, items[0]).await;
        assert_eq!((first.usage.tokens_in, first.usage.tokens_out), (100, 10));
        assert_eq!(first.usage.cost_usd, Some(0.5));
        // What it cost isn't known, and so it stays.
        assert_eq!(job(store, items[1]).await.usage.cost_usd, None);
        let waiting = provider_batches
            .unanswered_of_chunk(chunk.chunk_id, &ids)
            .await
            .unwrap();
        assert_eq!(waiting.len(), 1);

        provider_batches
            .end_chunk(chunk.chunk_id, ChunkState::Collected, None)
            .await
            .unwrap();
        let economy = provider_batches.get(id).await.unwrap().unwrap();
        assert_eq!((economy.replied, economy.failed), (1, 2));
        let chunk = &economy.chunks[0];
        assert_eq!((chunk.state, chunk.done), (ChunkState::Collected, 3));
        assert_eq!(chunk.provider_id.as_deref(), Some("batch_1"));
    }
}

#[tokio::test]
async fn a_chunk_goes_out_only_while_its_batch_runs_and_by_who_looks_after_it() {
    for test in support::stores().await {
        let store = &test.store;
        let provider_batches = store.provider_batches();
        let (id, items) = asked(store, 2).await;
        let new = new_chunk(id, &items);
        assert!(
            !provider_batches.make_chunk(&new).await.unwrap(),
            "nobody holds it"
        );
        assert!(provider_batches.lease(id, OWNER, SILENT).await.unwrap());
        store.batches().pause(id).await.unwrap();
        assert!(
            !provider_batches.make_chunk(&new).await.unwrap(),
            "it is paused"
        );
        assert!(provider_batches.chunks(id).await.unwrap().is_empty());
        store.batches().resume(id, now()).await.unwrap();
        assert!(provider_batches.make_chunk(&new).await.unwrap());
        assert!(
            provider_batches
                .may_hand_over(new.chunk_id, OWNER)
                .await
                .unwrap()
        );
        let other = Uuid::now_v7();
        assert!(
            !provider_batches
                .may_hand_over(new.chunk_id, other)
                .await
                .unwrap()
        );
        store.batches().pause(id).await.unwrap();
        assert!(
            !provider_batches
                .may_hand_over(new.chunk_id, OWNER)
                .await
                .unwrap()
        );
        provider_batches
            .forget_chunk(new.chunk_id, other)
            .await
            .unwrap();
        assert_eq!(provider_batches.chunks(id).await.unwrap().len(), 1);
        provider_batches
            .forget_chunk(new.chunk_id, OWNER)
            .await
            .unwrap();
        assert!(provider_batches.chunks(id).await.unwrap().is_empty());
        let left = provider_batches
            .items_in_no_chunk(id, -1, 10)
            .await
            .unwrap();
        assert_eq!(left.len(), 2, "its items go into another one");
    }
}

#[tokio::test]
async fn a_chunk_that_was_given_up_has_not_arrived_whoever_says_so() {
    for test in support::stores().await {
        let store = &test.store;
        let provider_batches = store.provider_batches();
        let (id, items) = asked(store, 2).await;
        let chunk = chunk_of(store, id, &items[..1]).await;
        for _ in 0..2 {
            let arrived = provider_batches.chunk_submitted(chunk.chunk_id, "batch_1", now());
            assert!(
                arrived.await.unwrap(),
                "by the same name as often as you like"
            );
        }
        assert!(
            !provider_batches
                .chunk_submitted(chunk.chunk_id, "batch_2", now())
                .await
                .unwrap()
        );
        let lost = chunk_of(store, id, &items[1..]).await;
        provider_batches
            .turn_chunk_away(lost.chunk_id, "it never arrived")
            .await
            .unwrap();
        assert!(
            !provider_batches
                .chunk_submitted(lost.chunk_id, "batch_3", now())
                .await
                .unwrap()
        );
    }
}

#[tokio::test]
async fn an_item_that_somebody_waits_for_runs_while_the_others_replies_are_fetched() {
    for test in support::stores().await {
        let store = &test.store;
        let (id, items) = asked(store, 2).await;
        store
            .jobs()
            .raise(items[0], Force::AsIs)
            .await
            .unwrap()
            .unwrap();
        let left = store
            .provider_batches()
            .items_in_no_chunk(id, -1, 10)
            .await
            .unwrap();
        assert_eq!(left.len(), 1, "it isn't handed over any more");
        // Nor does a pause of the batch hold up what somebody waits for.
        store.batches().pause(id).await.unwrap();
        assert_eq!(claimable(store, &items).await, 1);
        store.batches().resume(id, now()).await.unwrap();
        assert_eq!(store.batches().collecting(&[id]).await.unwrap(), [id]);
    }
}
