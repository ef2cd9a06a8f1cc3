//! Jobs, scores and times to test on.

use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use gavel::job::{
    Failure, FailureClass, Job, JobId, Kind, NewJob, Purpose, Usage, Wait, WaitReason,
};
use gavel::score::session::{AlternativeApproach, Flag, Message, MissingTool, SessionScore};
use gavel::store::{
    Accepted, Aged, Ending, Fence, NewSessionScore, Pruning, Record, Recorded, SessionRecord,
    SessionScoreRow, Store,
};
use gavel::wire::SessionStatus;
use serde_json::json;
use uuid::Uuid;

use super::scores::criteria;

pub(super) fn now() -> DateTime<Utc> {
    Utc::now().trunc_subsecs(6)
}

pub(super) fn minutes(n: i64) -> TimeDelta {
    TimeDelta::minutes(n)
}

pub(super) fn hash(character: char) -> String {
    character.to_string().repeat(64)
}

pub(super) fn new_job(subject_id: Option<Uuid>) -> NewJob {
    NewJob {
        subject_id,
        judge: Some("main".to_owned()),
        criteria_hash: hash('a'),
        ..NewJob::new(
            Kind::Session,
            json!({}),
            crate::support::in_bulk("tester"),
            now(),
        )
    }
}

pub(super) fn session(session_id: Uuid) -> SessionRecord {
    SessionRecord {
        session_id,
        source: "api".to_owned(),
        external_id: None,
        status: SessionStatus::Completed,
        alert_type: Some("PodCrashLoop".to_owned()),
        agent: Some("kubernetes".to_owned()),
        author: Some("ann".to_owned()),
        alert_data: json!({"pod": "web-1"}),
        conversation: vec![Message {
            role: "user".to_owned(),
            content: "look".to_owned(),
            ..Message::default()
        }],
        final_analysis: Some("out of memory".to_owned()),
        tools: vec!["kubectl".to_owned()],
        tags: vec!["prod".to_owned()],
        started_at: Some(now() - minutes(10)),
        completed_at: Some(now()),
    }
}

pub(super) fn score_of(total_score: u8) -> SessionScore {
    SessionScore {
        total_score,
        score_breakdown: serde_json::from_value(json!({ "logical_flow": 12.5, "synthesis": 10 }))
            .unwrap(),
        score_reasoning: "the reasons".to_owned(),
        missing_tools: vec![
            MissingTool {
                tool_name: "logs".to_owned(),
                rationale: "direct evidence".to_owned(),
            },
            MissingTool {
                tool_name: "events".to_owned(),
                rationale: "history".to_owned(),
            },
        ],
        alternative_approaches: vec![
            AlternativeApproach {
                name: "logs first".to_owned(),
                description: "begin with the logs".to_owned(),
                steps: vec!["get logs".to_owned(), "compare".to_owned()],
            },
            AlternativeApproach {
                name: "ask".to_owned(),
                description: "ask the owner".to_owned(),
                steps: vec![],
            },
        ],
        flags: vec![Flag::InputTrimmed, Flag::ReplyRepaired],
        judge_provider: "main".to_owned(),
        judge_model: "model-1".to_owned(),
        simulated: false,
    }
}

pub(super) fn new_score(session_id: Uuid, total_score: u8) -> NewSessionScore {
    NewSessionScore {
        score_id: Uuid::now_v7(),
        session_id,
        criteria_hash: hash('a'),
        purpose: Purpose::Score,
        score: score_of(total_score),
        triggered_by: "tester".to_owned().into(),
    }
}

pub(super) fn scored(session_id: Uuid, total_score: u8) -> Ending {
    scored_with(new_score(session_id, total_score))
}

pub(super) fn scored_with(score: NewSessionScore) -> Ending {
    Ending::Scored {
        result: json!({"total_score": score.score.total_score}),
        score: Box::new(score),
    }
}

pub(super) fn failed() -> Ending {
    Ending::Failed(Failure {
        class: FailureClass::Rejected,
        message: "the judge said 418".to_owned(),
    })
}

pub(super) fn waiting(reason: WaitReason, due_at: DateTime<Utc>) -> Ending {
    Ending::Waiting {
        wait: Wait {
            reason,
            until: Some(due_at),
        },
        due_at,
    }
}

pub(super) fn no_usage() -> Usage {
    Usage {
        tokens_in: 0,
        tokens_out: 0,
        cost_usd: Some(0.0),
    }
}

pub(super) fn record_of(job: &Job, ending: Ending) -> Record {
    Record {
        fence: Fence {
            job_id: job.job_id,
            claim_no: job.claim_no,
            worker_id: job.worker_id.unwrap(),
        },
        ending,
        retries: 0,
        usage: no_usage(),
        at: now(),
    }
}

/// Stores a session and accepts a job for it.
pub(super) async fn session_with_job(store: &Store) -> (Uuid, JobId) {
    let session_id = Uuid::now_v7();
    store
        .sessions()
        .put(&session(session_id), now())
        .await
        .unwrap();
    (session_id, accept(store, new_job(Some(session_id))).await)
}

/// Accepts a job that must be new.
pub(super) async fn accept(store: &Store, job: NewJob) -> JobId {
    let id = job.job_id;
    assert_eq!(store.jobs().accept(job).await.unwrap(), Accepted::New);
    id
}

/// Accepts a job that must be new, and claims it.
pub(super) async fn run_of(store: &Store, job: NewJob) -> Job {
    let id = accept(store, job).await;
    claim(store, id, Uuid::now_v7()).await
}

/// Claims one job that must be claimable.
pub(super) async fn claim(store: &Store, id: JobId, worker_id: Uuid) -> Job {
    let mut claimed = store
        .jobs()
        .claim(&[id], worker_id, now() + minutes(1))
        .await
        .unwrap();
    assert_eq!(claimed.len(), 1, "{id} can be claimed");
    claimed.remove(0)
}

/// Records an ending that must be applied.
pub(super) async fn record(store: &Store, job: &Job, ending: Ending) {
    assert_eq!(
        recorded(store, record_of(job, ending)).await,
        Recorded::Applied
    );
}

/// Stores the criteria that a score refers to.
pub(super) async fn define(store: &Store, ending: &Ending) {
    if let Ending::Scored { score, .. } = ending {
        let name = score.criteria_hash.chars().next().unwrap();
        let put = store.criteria().put(&criteria(name), now()).await;
        put.unwrap();
    }
}

pub(super) async fn recorded(store: &Store, record: Record) -> Recorded {
    define(store, &record.ending).await;
    let ticket = store.jobs().record(record).await.unwrap();
    ticket.committed().await.unwrap()
}

pub(super) async fn job(store: &Store, id: JobId) -> Job {
    store.jobs().get(id).await.unwrap().unwrap()
}

/// The jobs of a batch in its items' order; at most 500.
pub(super) async fn item_ids(store: &Store, batch_id: Uuid) -> Vec<JobId> {
    let items = store.batches().items(batch_id, None, None, 500).await;
    items
        .unwrap()
        .into_iter()
        .map(|item| item.job.job_id)
        .collect()
}

/// The current score of a session that has one.
pub(super) async fn current_score(store: &Store, session_id: Uuid) -> SessionScoreRow {
    let current = store.scores().current(session_id).await.unwrap();
    current.expect("it has a score")
}

/// A session that was scored once.
pub(super) async fn scored_session(store: &Store, total_score: u8) -> Uuid {
    let (session_id, id) = session_with_job(store).await;
    let claimed = claim(store, id, Uuid::now_v7()).await;
    record(store, &claimed, scored(session_id, total_score)).await;
    session_id
}

/// Deletes what is older than `before` of a kind and may go; answers how many rows went.
pub(super) async fn delete_older(store: &Store, aged: Aged, before: DateTime<Utc>) -> u64 {
    let counted = store.retention().count(aged, before).await.unwrap();
    let mut pruning = Pruning::new(aged, before);
    let mut gone = 0;
    loop {
        let step = store.retention().step(&mut pruning).await.unwrap();
        gone += step.deleted;
        if !step.more {
            assert!(gone <= counted, "{gone} of {counted}");
            return gone;
        }
    }
}
