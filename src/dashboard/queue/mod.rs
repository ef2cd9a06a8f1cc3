//! `/queue`: waiting, running and failed jobs, workers, judges, and their holds.

mod rows;

use std::collections::{BTreeSet, HashMap};

use askama::Template;
use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use uuid::Uuid;

use rows::{Control, JobRow, JudgeRow, WorkerRow};

use super::confirm::{self, Confirmation, is_sure};
use super::form::Form;
use super::frame::Frame;
use super::infrastructure::{self, Infrastructure};
use super::links::segment;
use super::page::{Page, PageError, html};
use super::session::LEFT;
use super::session_item::looked_up;
use super::state::PageState;
use super::user::SessionUser;
use super::words;
use crate::api::jobs::{self, JobsQuery};
use crate::api::judges::{self, queue};
use crate::api::{OptionalJson, Path, Query};
use crate::wire::{JobState, Jobs, Judge, PageQuery, PauseRequest, SessionItem};

const RUNNING: &str = "Running";
/// Maximum number of jobs shown per state.
const SHOWN: u32 = 20;

pub(super) fn routes() -> Router<PageState> {
    Router::new()
        .route("/queue", get(queue))
        .route("/queue/body", get(body))
        .route("/queue/pause", post(pause_queue))
        .route("/queue/resume", post(resume_queue))
        .route("/judges/{name}/pause", post(pause_judge))
        .route("/judges/{name}/resume", post(resume_judge))
        .route("/jobs/{id}/retry", post(retry_job))
        .route("/jobs/{id}/cancel", post(cancel_job))
}

struct JobGroup {
    name: &'static str,
    empty: &'static str,
    /// Whether to show a reason. Running jobs have none.
    has_why: bool,
    rows: Vec<JobRow>,
    more: bool,
}

#[derive(Template)]
#[template(path = "queue_body.html")]
struct Body {
    counts: Vec<(&'static str, String)>,
    held: Option<String>,
    groups: Vec<JobGroup>,
    workers: Vec<WorkerRow>,
    judges: Vec<JudgeRow>,
    /// Judges that aren't configured and that no job needs.
    unused: Vec<JudgeRow>,
    may_admin: bool,
    may_enqueue: bool,
    form_token: String,
}

#[derive(Template)]
#[template(path = "queue.html")]
struct QueuePage {
    frame: Frame,
    body: Body,
}

impl Body {
    async fn read(state: &PageState, user: &SessionUser) -> Result<Self, PageError> {
        let api = state.api(user)?;
        let of = |state| {
            let query = JobsQuery {
                state: Some(state),
                ..JobsQuery::default()
            };
            jobs::list_jobs(api.clone(), Query((query, PageQuery::first(SHOWN))))
        };
        let (infrastructure, Json(waiting), Json(queued), Json(running), Json(failed)) = tokio::try_join!(
            state.infrastructure(user),
            of(JobState::Waiting),
            of(JobState::Queued),
            of(JobState::Running),
            of(JobState::Failed),
        )?;
        let jobs = [waiting, queued, running, failed];
        let ids = jobs.iter().flat_map(|jobs| &jobs.items);
        let ids = ids.filter_map(|job| job.subject_id);
        let sessions = looked_up(state, user, ids).await?;
        Ok(Self::new(
            infrastructure,
            (jobs, &sessions),
            user,
            state.about.clock.now(),
        ))
    }

    /// Builds the page. `jobs` are the waiting, queued, running and failed ones; `sessions` the sessions of the jobs.
    fn new(
        Infrastructure {
            queue,
            workers,
            judges,
            ..
        }: Infrastructure,
        ([waiting, queued, running, failed], sessions): ([Jobs; 4], &HashMap<Uuid, SessionItem>),
        user: &SessionUser,
        now: DateTime<Utc>,
    ) -> Self {
        let (judges, unused): (Vec<Judge>, Vec<Judge>) = judges
            .into_iter()
            .partition(|judge| judge.is_used() || judge.stop_reason().is_some());
        let counts = queue.counts;
        // Jobs in state running although no worker is alive.
        let left = workers
            .iter()
            .all(|worker| infrastructure::is_gone(worker, now));
        // Only the first job with a wait shows its remedy.
        let mut known = BTreeSet::new();
        let mut group = |name, empty, jobs: Jobs| {
            let mut rows: Vec<JobRow> = Vec::new();
            for job in jobs.items {
                let session = job.subject_id.and_then(|id| sessions.get(&id));
                let mut row = JobRow::new(job, session, now);
                if left && name == RUNNING {
                    LEFT.clone_into(&mut row.why);
                }
                if row.cancel && !known.insert(row.remedy.clone()) {
                    row.remedy.clear();
                }
                rows.push(row);
            }
            JobGroup {
                name,
                empty,
                has_why: name != RUNNING || left,
                more: jobs.next_cursor.is_some(),
                rows,
            }
        };
        Self {
            counts: vec![
                ("queued", words::count(counts.queued)),
                ("waiting", words::count(counts.waiting)),
                ("running", words::count(counts.running)),
                ("scored in 24 h", words::count(counts.succeeded_24h)),
                ("failed in 24 h", words::count(counts.failed_24h)),
            ],
            held: queue.hold.map(|hold| hold.text()),
            groups: vec![
                group("Waiting", "No started jobs wait.", waiting),
                group("Queued", "No queued jobs.", queued),
                group(RUNNING, "No running jobs.", running),
                group("Failed permanently", "No failed jobs.", failed),
            ],
            workers: workers
                .into_iter()
                .map(|w| WorkerRow::new(w, now))
                .collect(),
            judges: judges.into_iter().map(|j| JudgeRow::new(j, now)).collect(),
            unused: unused.into_iter().map(|j| JudgeRow::new(j, now)).collect(),
            may_admin: user.may_admin(),
            may_enqueue: user.may_enqueue(),
            form_token: user.form_token.clone(),
        }
    }

    fn has_worker(&self) -> bool {
        self.workers.iter().any(|worker| !worker.gone)
    }
}

async fn queue(State(state): State<PageState>, user: SessionUser) -> Page {
    let body = Body::read(&state, &user).await?;
    let frame = Frame::load(&state, user, "Queue", "Queue")
        .await
        .moving(true);
    html(&QueuePage { frame, body })
}

async fn body(State(state): State<PageState>, user: SessionUser) -> Page {
    html(&Body::read(&state, &user).await?)
}

async fn pause_queue(State(state): State<PageState>, form: Form) -> Page {
    if form.user.may_admin() && !is_sure(&form) {
        let confirmation = Confirmation {
            title: "Pause the queue?".to_owned(),
            consequence: "Workers stop within a second: no job starts until you resume the queue. Running jobs finish.".to_owned(),
            button: "Pause the queue",
            stops: true,
            part: "Queue",
        };
        return confirm::show(&state, &form, "/queue/pause".to_owned(), confirmation).await;
    }
    let pause = |api, request| queue::pause_queue(api, OptionalJson(request));
    form.post(&state, queue::PAUSE, pause_request(&form), pause)
        .await?;
    form.back_to("/queue")
}

async fn resume_queue(State(state): State<PageState>, form: Form) -> Page {
    let resume = |api, ()| queue::resume_queue(api);
    form.post(&state, queue::RESUME, (), resume).await?;
    form.back_to("/queue")
}

async fn pause_judge(State(state): State<PageState>, Path(name): Path<String>, form: Form) -> Page {
    if form.user.may_admin() && !is_sure(&form) {
        let confirmation = Confirmation {
            title: format!("Pause {name}?"),
            consequence: "Workers stop within a second: its jobs wait until you resume it. Running jobs finish.".to_owned(),
            button: "Pause the judge",
            stops: true,
            part: "Queue",
        };
        let action = format!("/judges/{}/pause", segment(&name));
        return confirm::show(&state, &form, action, confirmation).await;
    }
    let pause = |api, (name, request)| judges::pause_judge(api, name, OptionalJson(request));
    let request = (Path(name), pause_request(&form));
    form.post(&state, judges::PAUSE, request, pause).await?;
    form.back_to("/queue")
}

async fn resume_judge(
    State(state): State<PageState>,
    Path(name): Path<String>,
    form: Form,
) -> Page {
    form.post(&state, judges::RESUME, Path(name), judges::resume_judge)
        .await?;
    form.back_to("/queue")
}

fn pause_request(form: &Form) -> PauseRequest {
    PauseRequest {
        message: form.text("message").map(str::to_owned),
        ..PauseRequest::default()
    }
}

async fn retry_job(State(state): State<PageState>, Path(id): Path<Uuid>, form: Form) -> Page {
    form.post(&state, jobs::RETRY, Path(id), jobs::retry)
        .await?;
    form.back_to("/queue")
}

async fn cancel_job(State(state): State<PageState>, Path(id): Path<Uuid>, form: Form) -> Page {
    if form.user.may_enqueue() && !is_sure(&form) {
        let confirmation = Confirmation {
            title: "Cancel this job?".to_owned(),
            consequence: "It ends without a score.".to_owned(),
            button: "Cancel the job",
            stops: true,
            part: "Queue",
        };
        let action = format!("/jobs/{id}/cancel");
        return confirm::show(&state, &form, action, confirmation).await;
    }
    form.post(&state, jobs::CANCEL, Path(id), jobs::cancel_job)
        .await?;
    form.back_to("/queue")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::infrastructure::tests as fake;
    use super::*;

    fn now() -> DateTime<Utc> {
        "2026-11-23T12:00:00Z".parse().unwrap()
    }

    fn jobs(items: &[Value]) -> Jobs {
        serde_json::from_value(json!({"items": items, "next_cursor": null})).unwrap()
    }

    fn job(change: &Value) -> Value {
        let mut job = crate::tests::job(change);
        job["triggered_by"] = "<script>ann</script>".into();
        job
    }

    fn infrastructure(hold: &Value) -> Infrastructure {
        let counts = json!({"queued": 12_345, "running": 1, "waiting": 2, "succeeded_24h": 3, "failed_24h": 1, "cancelled_24h": 0});
        let queue = json!({"paused": !hold.is_null(), "hold": hold, "counts": counts});
        Infrastructure {
            queue: serde_json::from_value(queue).unwrap(),
            workers: Vec::new(),
            judges: Vec::new(),
            readiness: fake::ready(),
        }
    }

    fn page(hold: &Value, groups: [&[Value]; 4]) -> Body {
        Body::new(
            infrastructure(hold),
            (groups.map(jobs), &HashMap::new()),
            &SessionUser::without_tokens(),
            now(),
        )
    }

    #[test]
    fn empty_queue_explains_how_to_start_a_worker() {
        let text = page(&Value::Null, [&[], &[], &[], &[]]).render().unwrap();
        for part in [
            "10,000+",
            "No started jobs wait.",
            "No queued jobs.",
            "No running jobs.",
            "No failed jobs.",
            "gavel worker",
            "No judges.",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn late_worker_is_silent_before_gone() {
        let worker = |state: &str, alive: bool, heard: &str| {
            let row = WorkerRow::new(fake::worker(state, alive, heard), now());
            (row.state, row.gone, row.in_hand)
        };
        let shown = |state: &str, gone, in_hand: &str| (state.to_owned(), gone, in_hand.to_owned());
        assert_eq!(
            worker("running", true, "2026-11-23T11:59:59Z"),
            shown("running", false, "2")
        );
        assert_eq!(
            worker("running", false, "2026-11-23T11:59:52Z"),
            shown("running", false, "2")
        );
        assert_eq!(
            worker("running", false, "2026-11-23T11:59:10Z"),
            shown("silent", false, "–")
        );
        assert_eq!(
            worker("running", false, "2026-11-23T11:58:59Z"),
            shown("gone", true, "–")
        );
        assert_eq!(
            worker("stopped", false, "2026-11-23T11:59:59Z"),
            shown("stopped", true, "–")
        );
    }

    #[test]
    fn paused_queue_shows_user_and_resume_button() {
        let hold = fake::hold("paused", "until the <b>move</b>");
        let mut body = page(&hold, [&[], &[], &[], &[]]);
        body.may_admin = false;
        let reader = body.render().unwrap();
        assert!(
            !reader.contains("<form"),
            "a reader sees no actions: {reader}"
        );
        body.may_admin = true;
        let text = body.render().unwrap();
        assert!(text.contains("Resume the queue") && !text.contains("Pause the queue"));
        assert!(
            text.contains("by ann since 2026-11-23 11:00:00 UTC") && !text.contains("<b>move"),
            "{text}"
        );
    }

    #[test]
    fn jobs_show_actions_and_reasons() {
        let failed =
            job(&json!({"error": {"class": "too_large", "message": "m", "remedy": "trim it"}}));
        let running = [job(&json!({}))];
        let groups = [&[], &[], &running[..], std::slice::from_ref(&failed)];
        let infrastructure = Infrastructure {
            workers: vec![fake::worker("running", true, "2026-11-23T11:59:59Z")],
            ..infrastructure(&Value::Null)
        };
        let body = Body::new(
            infrastructure,
            (groups.map(jobs), &HashMap::new()),
            &SessionUser::without_tokens(),
            now(),
        );
        let text = body.render().unwrap();
        assert_eq!(
            (
                text.matches(">Cancel<").count(),
                text.matches(">Retry<").count()
            ),
            (1, 1)
        );
        assert!(
            text.contains("too large: m") && text.contains("trim it"),
            "{text}"
        );
        assert_eq!(
            text.matches("<th scope=\"col\">Why</th>").count(),
            1,
            "{text}"
        );
        assert!(!text.contains("<script>"), "{text}");
        // Without a live worker, no job is really running.
        let left = page(&Value::Null, groups).render().unwrap();
        assert_eq!(left.matches("restarts as soon as").count(), 1, "{left}");
    }

    #[test]
    fn failure_scored_since_needs_no_action() {
        let shown = |scored_at: &str, batch: Value| {
            let score = json!({"score_id": uuid::Uuid::nil(), "total_score": 70, "rating": "adequate", "criteria_hash": "c", "is_current_criteria": true,
                "simulated": false, "scored_at": scored_at, "scored_triggered_by": "ann"});
            let session =
                serde_json::from_value(crate::tests::session_item(&json!({"score": score})))
                    .unwrap();
            let mut failed =
                job(&json!({"error": {"class": "refused", "message": "m", "remedy": "mend it"}}));
            failed["times"]["finished_at"] = json!("2026-11-23T11:00:00Z");
            failed["batch_id"] = batch;
            let failed: Jobs = jobs(std::slice::from_ref(&failed));
            let id = failed.items[0].subject_id.unwrap();
            let groups = [jobs(&[]), jobs(&[]), jobs(&[]), failed];
            let known = HashMap::from([(id, session)]);
            let user = SessionUser::without_tokens();
            let body = Body::new(infrastructure(&Value::Null), (groups, &known), &user, now());
            body.render().unwrap()
        };
        let since = shown("2026-11-23T11:30:00Z", Value::Null);
        assert!(since.contains("PodCrashLooping · kubernetes"), "{since}");
        assert!(since.contains("it was scored since") && !since.contains(">Retry<"));
        let before = shown("2026-11-23T10:30:00Z", Value::Null);
        let of_batch = shown("2026-11-23T11:30:00Z", json!(uuid::Uuid::nil()));
        for text in [before, of_batch] {
            assert!(text.contains("mend it") && text.contains(">Retry<"));
        }
    }

    #[test]
    fn wait_remedy_is_shown_once() {
        let waits = |reason: &str| {
            let wait = json!({"reason": reason, "target": "judge", "until": null, "remedy": format!("mend {reason}")});
            let waits = json!({"state": "queued", "wait": wait, "error": null});
            job(&waits)
        };
        let queued = [
            waits("paused"),
            waits("paused"),
            waits("no_worker"),
            waits("misconfigured"),
        ];
        let text = page(&Value::Null, [&[], &queued, &[], &[]])
            .render()
            .unwrap();
        for remedy in ["mend paused", "mend misconfigured"] {
            assert_eq!(text.matches(remedy).count(), 1, "{text}");
        }
        // Only the head of the page explains how to start a worker.
        assert_eq!(
            text.matches("<code>gavel worker</code>").count(),
            1,
            "{text}"
        );
        assert!(!text.contains("mend no_worker"), "{text}");
    }

    #[test]
    fn judge_row_shows_available_action() {
        let gate = |said: &str, hour: Option<u8>| {
            json!({"worker_id": uuid::Uuid::nil(), "updated_at": "2026-11-23T12:00:00Z", "breaker": "closed", "failures_in_row": 0, "reason": null, "until": null, "in_flight": 0, "pace": null,
                "last_error": said, "last_error_at": hour.map(|hour| format!("2026-11-23T{hour:02}:00:00Z"))})
        };
        let judge = |reason: Option<&str>| {
            let gates = [
                gate("old 502", Some(9)),
                gate("new 503", Some(11)),
                gate("older", None),
            ];
            let spent = json!({"today_usd": 6.5, "month_usd": 6.5, "today_unpriced_calls": 1, "unpriced_calls": 1});
            let hold = reason.map(|reason| fake::hold(reason, "m"));
            let change =
                json!({"kinds": ["session"], "hold": hold, "gates": gates, "spent": spent});
            let infrastructure = Infrastructure {
                judges: vec![fake::judge("gpt", &change)],
                ..infrastructure(&Value::Null)
            };
            let none: [&[Value]; 4] = [&[]; 4];
            let body = Body::new(
                infrastructure,
                (none.map(jobs), &HashMap::new()),
                &SessionUser::without_tokens(),
                now(),
            );
            body.render().unwrap()
        };
        for (reason, pause, resume) in [
            (None, 1, 0),
            (Some("paused"), 0, 1),
            (Some("misconfigured"), 0, 1),
            (Some("budget"), 0, 0),
        ] {
            let text = judge(reason);
            let found = [">Pause<", ">Resume<"].map(|word| text.matches(word).count());
            assert_eq!(found, [pause, resume], "{reason:?}: {text}");
            assert!(text.contains("more than 6.50 USD"), "{text}");
            // The newest error of all workers with its age, because the judge may have recovered since.
            assert_eq!(text.matches("new 503").count(), 2, "{text}");
            assert!(
                text.contains("1 h ago") && !text.contains("old 502"),
                "{text}"
            );
        }
        assert!(judge(Some("budget")).contains("raise the cap"));
    }
}
