//! Records: the effects of each outcome, in groups, exactly once.

use futures::future::join_all;
use gavel::job::{FailureClass, JobState, Lane, NewJob, Purpose, Usage, Wait, WaitReason};
use gavel::store::{Dialect, Ending, NewSessionScore, Recorded, StoreError};
use serde_json::json;
use uuid::Uuid;

use super::fixtures::{
    accept, claim, current_score, failed, job, minutes, new_job, new_score, now, record, record_of,
    recorded, run_of, scored, scored_with, session_with_job, waiting,
};
use crate::support;

#[tokio::test]
async fn record_uses_index_lookups_even_in_an_empty_database() {
    for test in support::stores().await {
        if test.store.dialect() != Dialect::Postgres {
            continue;
        }
        let (session_id, id) = session_with_job(&test.store).await;
        let run = claim(&test.store, id, Uuid::now_v7()).await;
        let end = record_of(&run, scored(session_id, 71));
        let plan = test.store.jobs().explain_record(end).await.unwrap();
        let plan = plan.join("\n");
        let of = |from: &str, to: &str| {
            let (_, rest) = plan.split_once(from).unwrap_or_else(|| panic!("{plan}"));
            rest.split_once(to).unwrap_or_else(|| panic!("{plan}")).0
        };
        // A join would read the whole index of current scores for each row.
        let superseded = of("->  Update on session_scores", "SubPlan");
        assert!(superseded.contains("Index Scan using"), "{superseded}");
        for join in ["Join", "Nested Loop"] {
            assert!(!superseded.contains(join), "{superseded}");
        }
        assert!(!plan.contains("Seq Scan"), "{plan}");
    }
}

#[tokio::test]
async fn scored_run_ends_the_job_and_creates_the_current_score() {
    for test in support::stores().await {
        let (session_id, id) = session_with_job(&test.store).await;
        let claimed = claim(&test.store, id, Uuid::now_v7()).await;
        let mut new = new_score(session_id, 71);
        new.score.simulated = true;
        let mut end = record_of(&claimed, scored_with(new.clone()));
        end.retries = 2;
        end.usage = Usage {
            tokens_in: 900,
            tokens_out: 80,
            cost_usd: Some(0.25),
        };
        assert_eq!(recorded(&test.store, end.clone()).await, Recorded::Applied);

        let ended = job(&test.store, id).await;
        assert_eq!(ended.state, JobState::Succeeded);
        assert_eq!(ended.finished_at, Some(end.at));
        assert_eq!(ended.result, Some(json!({"total_score": 71})));
        assert!(ended.simulated);
        assert_eq!((ended.retries, ended.usage), (2, end.usage));
        assert_eq!(ended.worker_id, claimed.worker_id);

        let score = current_score(&test.store, session_id).await;
        assert_eq!(score.score, new.score);
        assert_eq!(score.score_id, new.score_id);
        assert_eq!(score.job_id, id);
        assert_eq!(score.scored_at, end.at);
        assert_eq!(score.usage, end.usage);
        assert_eq!(score.triggered_by, new.triggered_by);
    }
}

#[tokio::test]
async fn new_score_supersedes_the_earlier_one_but_a_failure_does_not() {
    for test in support::stores().await {
        let (session_id, first) = session_with_job(&test.store).await;
        let run = claim(&test.store, first, Uuid::now_v7()).await;
        record(&test.store, &run, scored(session_id, 40)).await;

        let run = run_of(&test.store, new_job(Some(session_id))).await;
        record(&test.store, &run, failed()).await;
        let current = current_score(&test.store, session_id).await;
        assert_eq!(current.score.total_score, 40);

        let run = run_of(&test.store, new_job(Some(session_id))).await;
        record(&test.store, &run, scored(session_id, 90)).await;
        let scores = test.store.scores().of_session(session_id).await.unwrap();
        let totals: Vec<u8> = scores.iter().map(|s| s.score.total_score).collect();
        assert_eq!(totals, [90, 40]);
        assert_eq!(scores[0].superseded_at, None);
        assert_eq!(scores[1].superseded_at, Some(scores[0].scored_at));
        let by_id = async |id| test.store.scores().get(id).await.unwrap();
        let read = by_id(scores[1].score_id).await.unwrap();
        assert_eq!(read, scores[1]);
        assert_eq!(read.score.missing_tools.len(), 2);
        assert!(by_id(Uuid::now_v7()).await.is_none());
    }
}

#[tokio::test]
async fn score_for_another_purpose_replaces_no_score() {
    for test in support::stores().await {
        let (session_id, first) = session_with_job(&test.store).await;
        let run = claim(&test.store, first, Uuid::now_v7()).await;
        record(&test.store, &run, scored(session_id, 40)).await;
        for purpose in [Purpose::Preview, Purpose::Repeat, Purpose::Jury] {
            // Two at once: only jobs that create a current score exclude each other.
            for total in [70, 80] {
                let job = NewJob {
                    purpose,
                    ..new_job(Some(session_id))
                };
                let run = run_of(&test.store, job).await;
                let score = NewSessionScore {
                    purpose,
                    ..new_score(session_id, total)
                };
                let score_id = score.score_id;
                record(&test.store, &run, scored_with(score)).await;
                let read = test.store.scores().get(score_id).await.unwrap().unwrap();
                assert_eq!((read.purpose, read.superseded_at), (purpose, None));
            }
        }
        let current = current_score(&test.store, session_id).await;
        assert_eq!(
            (current.score.total_score, current.superseded_at),
            (40, None)
        );
        assert_eq!(
            test.store.scores().of_session(session_id).await.unwrap(),
            [current]
        );
    }
}

#[tokio::test]
async fn failed_run_stores_its_class_and_message() {
    for test in support::stores().await {
        let run = run_of(&test.store, new_job(None)).await;
        record(&test.store, &run, failed()).await;
        let ended = job(&test.store, run.job_id).await;
        let failure = ended.failure.unwrap();
        assert_eq!(ended.state, JobState::Failed);
        assert_eq!(failure.class, FailureClass::Rejected);
        assert_eq!(failure.message, "the judge said 418");
        assert!(ended.finished_at.is_some() && ended.result.is_none());
    }
}

#[tokio::test]
async fn waiting_since_is_the_first_of_the_waits_in_a_row() {
    for test in support::stores().await {
        let id = accept(&test.store, new_job(None)).await;
        let run = claim(&test.store, id, Uuid::now_v7()).await;
        let mut first = record_of(
            &run,
            Ending::Waiting {
                wait: Wait {
                    reason: WaitReason::Exhausted,
                    until: None,
                },
                due_at: now() - minutes(1),
            },
        );
        first.at = now() - minutes(5);
        assert_eq!(
            recorded(&test.store, first.clone()).await,
            Recorded::Applied
        );
        let waits = job(&test.store, id).await;
        assert_eq!(waits.state, JobState::Waiting);
        assert_eq!(
            waits.wait,
            Some(Wait {
                reason: WaitReason::Exhausted,
                until: None
            })
        );
        assert_eq!(waits.waiting_since, Some(first.at));
        assert_eq!(waits.worker_id, None);

        let run = claim(&test.store, id, Uuid::now_v7()).await;
        assert_eq!(run.waiting_since, Some(first.at));
        let due_at = now() - minutes(1);
        record(&test.store, &run, waiting(WaitReason::BreakerOpen, due_at)).await;
        let waits = job(&test.store, id).await;
        assert_eq!(waits.waiting_since, Some(first.at));
        assert_eq!(waits.due_at, due_at);

        let run = claim(&test.store, id, Uuid::now_v7()).await;
        let requeued = record_of(&run, Ending::Requeued);
        assert_eq!(
            recorded(&test.store, requeued.clone()).await,
            Recorded::Applied
        );
        let queued = job(&test.store, id).await;
        assert_eq!(queued.state, JobState::Queued);
        assert_eq!(queued.due_at, requeued.at);
        assert!(queued.waiting_since.is_none() && queued.wait.is_none());
    }
}

#[tokio::test]
async fn unknown_cost_stays_unknown_and_run_without_calls_is_neutral() {
    let usage = |tokens: i64, cost_usd| Usage {
        tokens_in: tokens,
        tokens_out: tokens,
        cost_usd,
    };
    let cases = [
        (
            vec![usage(10, Some(0.5)), usage(20, Some(0.25))],
            usage(30, Some(0.75)),
        ),
        (
            vec![usage(10, Some(0.5)), usage(0, Some(0.0))],
            usage(10, Some(0.5)),
        ),
        // A judge that reports no usage was still called.
        (vec![usage(10, Some(0.5)), usage(0, None)], usage(10, None)),
        (vec![usage(0, None)], usage(0, None)),
        (
            vec![usage(10, None), usage(20, Some(0.25))],
            usage(30, None),
        ),
        (vec![usage(10, Some(0.5)), usage(20, None)], usage(30, None)),
        (vec![usage(10, None), usage(0, Some(0.0))], usage(10, None)),
        (vec![usage(0, Some(0.0))], usage(0, Some(0.0))),
    ];
    for test in support::stores().await {
        for (runs, expected) in &cases {
            let id = accept(&test.store, new_job(None)).await;
            for used in runs {
                let run = claim(&test.store, id, Uuid::now_v7()).await;
                let mut end = record_of(&run, Ending::Requeued);
                end.usage = *used;
                assert_eq!(recorded(&test.store, end).await, Recorded::Applied);
            }
            assert_eq!(job(&test.store, id).await.usage, *expected, "{runs:?}");
        }
    }
}

#[tokio::test]
async fn group_with_every_outcome_is_recorded_individually() {
    for test in support::stores().await {
        let mut records = Vec::new();
        for n in 0..60_u8 {
            let (session_id, id) = session_with_job(&test.store).await;
            let run = claim(&test.store, id, Uuid::now_v7()).await;
            let ending = match n % 4 {
                0 => scored(session_id, n),
                1 => failed(),
                2 => waiting(WaitReason::Paused, now()),
                _ => Ending::Requeued,
            };
            records.push(record_of(&run, ending));
        }
        let outcomes = join_all(records.iter().map(|r| recorded(&test.store, r.clone()))).await;
        assert!(outcomes.iter().all(|outcome| *outcome == Recorded::Applied));
        for (n, record) in records.iter().enumerate() {
            let expected = [
                JobState::Succeeded,
                JobState::Failed,
                JobState::Waiting,
                JobState::Queued,
            ][n % 4];
            let state = job(&test.store, record.fence.job_id).await.state;
            assert_eq!(state, expected);
        }
        // A repeat: no job is running any longer.
        let again = join_all(records.iter().map(|r| recorded(&test.store, r.clone()))).await;
        assert!(again.iter().all(|outcome| *outcome == Recorded::Stale));
    }
}

#[tokio::test]
async fn duplicate_record_in_one_group_is_applied_once() {
    for test in support::stores().await {
        let (session_id, id) = session_with_job(&test.store).await;
        let run = claim(&test.store, id, Uuid::now_v7()).await;
        let end = record_of(&run, scored(session_id, 60));
        let twice = join_all([1, 2].map(|_| recorded(&test.store, end.clone()))).await;
        assert_eq!(twice, [Recorded::Applied, Recorded::Stale]);
        let scores = test.store.scores().of_session(session_id).await.unwrap();
        assert_eq!(scores.len(), 1);
    }
}

#[tokio::test]
async fn texts_with_nul_characters_are_recorded() {
    for test in support::stores().await {
        let (session_id, id) = session_with_job(&test.store).await;
        let run = claim(&test.store, id, Uuid::now_v7()).await;
        let mut new = new_score(session_id, 50);
        new.score.score_reasoning = "a\u{0}b".to_owned();
        new.score.missing_tools[0].tool_name = "t\u{0}".to_owned();
        new.score.alternative_approaches[0].steps = vec!["\u{0}".to_owned(), "Ünï 🦀".to_owned()];
        new.score.score_breakdown = [("x\u{0}".to_owned(), json!(1))].into_iter().collect();
        new.score.flags = vec![];
        let result = json!({"r": "\u{0}"});
        let ending = Ending::Scored {
            score: Box::new(new),
            result,
        };
        record(&test.store, &run, ending).await;
        let score = current_score(&test.store, session_id).await;
        assert_eq!(score.score.score_reasoning, "a\u{fffd}b");
        assert_eq!(score.score.missing_tools[0].tool_name, "t\u{fffd}");
        assert_eq!(
            score.score.alternative_approaches[0].steps,
            ["\u{fffd}", "Ünï 🦀"]
        );
        assert!(score.score.score_breakdown.contains_key("x\u{fffd}"));
        assert!(score.score.flags.is_empty());
        assert_eq!(
            job(&test.store, id).await.result,
            Some(json!({"r": "\u{fffd}"}))
        );
    }
}

#[tokio::test]
async fn records_before_close_are_committed_and_later_ones_rejected() {
    for test in support::stores().await {
        let id = accept(&test.store, new_job(None)).await;
        let run = claim(&test.store, id, Uuid::now_v7()).await;
        let ticket = test
            .store
            .jobs()
            .record(record_of(&run, failed()))
            .await
            .unwrap();
        test.store.close().await;
        assert_eq!(ticket.committed().await.unwrap(), Recorded::Applied);
        let late = test.store.jobs().record(record_of(&run, failed())).await;
        assert!(matches!(late.err(), Some(StoreError::Unavailable { .. })));
        let other = support::reopen(&test).await;
        assert_eq!(job(&other, id).await.state, JobState::Failed);
        assert_eq!(job(&other, id).await.lane, Lane::of_judge("main"));
    }
}
