//! Decides on a request to score a session: the table of POST `/api/v1/scoring/sessions/{id}/score` as a pure function of the stored state
//! and the request.

use uuid::Uuid;

use super::ScoreSession;
use crate::job::{Force, Job, JobState};
use crate::store::ScoringFacts;

#[derive(Debug, PartialEq)]
pub(super) enum Decision {
    Scored(Uuid),
    InProgress(Box<Job>),
    Raise(Box<Job>),
    Running(Box<Job>),
    New,
}

/// Applies the table of POST `/api/v1/scoring/sessions/{id}/score`, after the rows that reject the session. The first matching row wins.
/// `simulates`: whether the judge is simulated. A simulated score doesn't replace a real one.
pub(super) fn decide(
    facts: &ScoringFacts,
    request: &ScoreSession,
    hash: &str,
    simulates: bool,
) -> Decision {
    if request.options.force == Force::AsIs
        && let Some(score) = &facts.current_score
        && (simulates || !score.simulated)
        && request
            .criteria_hash
            .as_ref()
            .is_none_or(|asked| *asked == score.criteria_hash)
    {
        return Decision::Scored(score.score_id);
    }
    let Some(job) = &facts.active_job else {
        return Decision::New;
    };
    let job = Box::new(job.clone());
    if job.criteria_hash != hash {
        return Decision::InProgress(job);
    }
    match (job.state, request.options.force) {
        (JobState::Queued | JobState::Waiting, _) => Decision::Raise(job),
        (JobState::Running, Force::AsIs) => Decision::Running(job),
        (JobState::Running, Force::Yes) => Decision::InProgress(job),
        // An active job isn't terminal: its row changed after the read, so treat it as absent.
        (JobState::Succeeded | JobState::Failed | JobState::Cancelled, _) => Decision::New,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobOptions, NewJob, Priority};
    use crate::store::KnownScore;
    use crate::wire::SessionStatus;

    const CURRENT: &str = "current";
    const OTHER: &str = "other";

    fn job(state: JobState, criteria_hash: &str) -> Job {
        let at = "2026-01-01T00:00:00Z".parse().unwrap();
        let new = NewJob {
            criteria_hash: criteria_hash.to_owned(),
            ..NewJob::of_session(Uuid::from_u128(1), "j".to_owned(), options(Force::AsIs), at)
        };
        Job {
            state,
            ..Job::from(new)
        }
    }

    fn options(force: Force) -> JobOptions {
        JobOptions {
            force,
            ..JobOptions::new("test".to_owned(), Priority::Interactive)
        }
    }

    /// (score under, active job, requested, force) -> name of the decision.
    fn decided(
        scored_under: Option<&str>,
        active: Option<(JobState, &str)>,
        asked: Option<&str>,
        force: Force,
    ) -> &'static str {
        let facts = ScoringFacts {
            status: SessionStatus::Completed,
            has_conversation: true,
            active_job: active.map(|(state, hash)| job(state, hash)),
            last_failed_job: None,
            current_score: scored_under.map(|hash| KnownScore {
                score_id: Uuid::from_u128(9),
                criteria_hash: hash.to_owned(),
                simulated: false,
            }),
        };
        let request = ScoreSession {
            new_id: crate::enqueue::NewId::Any,
            session_id: Uuid::from_u128(1),
            criteria_hash: asked.map(str::to_owned),
            options: options(force),
        };
        match decide(&facts, &request, asked.unwrap_or(CURRENT), false) {
            Decision::Scored(_) => "scored",
            Decision::InProgress(_) => "in progress",
            Decision::Raise(_) => "raise",
            Decision::Running(_) => "running",
            Decision::New => "new",
        }
    }

    #[test]
    fn first_matching_row_decides() {
        use Force::{AsIs, Yes};
        use JobState::{Queued, Running, Waiting};
        let cases = [
            (None, None, None, AsIs, "new"),
            (None, None, Some(OTHER), Yes, "new"),
            // A score is returned, unless it has other criteria than requested or is to be skipped.
            (Some(CURRENT), None, None, AsIs, "scored"),
            (Some(OTHER), None, None, AsIs, "scored"),
            (Some(OTHER), None, Some(OTHER), AsIs, "scored"),
            (Some(OTHER), None, Some(CURRENT), AsIs, "new"),
            (Some(CURRENT), None, None, Yes, "new"),
            (
                Some(CURRENT),
                Some((Running, CURRENT)),
                None,
                AsIs,
                "scored",
            ),
            // A job under other criteria blocks the request in any state.
            (None, Some((Queued, OTHER)), None, AsIs, "in progress"),
            (
                None,
                Some((Waiting, CURRENT)),
                Some(OTHER),
                Yes,
                "in progress",
            ),
            (
                Some(CURRENT),
                Some((Running, OTHER)),
                None,
                Yes,
                "in progress",
            ),
            // A job that hasn't started is raised and a running one returned, unless its result is to be skipped.
            (None, Some((Queued, CURRENT)), None, AsIs, "raise"),
            (None, Some((Waiting, CURRENT)), None, AsIs, "raise"),
            (None, Some((Queued, CURRENT)), None, Yes, "raise"),
            (Some(CURRENT), Some((Waiting, CURRENT)), None, Yes, "raise"),
            (None, Some((Running, CURRENT)), None, AsIs, "running"),
            (None, Some((Running, CURRENT)), None, Yes, "in progress"),
            (None, Some((Running, OTHER)), Some(OTHER), AsIs, "running"),
        ];
        for (score, active, asked, force, expected) in cases {
            assert_eq!(
                decided(score, active, asked, force),
                expected,
                "score {score:?}, active {active:?}, asked {asked:?}, {force:?}"
            );
        }
    }

    #[test]
    fn simulated_score_counts_only_for_simulated_judge() {
        let facts = ScoringFacts {
            status: SessionStatus::Completed,
            has_conversation: true,
            active_job: None,
            last_failed_job: None,
            current_score: Some(KnownScore {
                score_id: Uuid::from_u128(9),
                criteria_hash: CURRENT.to_owned(),
                simulated: true,
            }),
        };
        let request = ScoreSession {
            new_id: crate::enqueue::NewId::Any,
            session_id: Uuid::from_u128(1),
            criteria_hash: None,
            options: options(Force::AsIs),
        };
        let decided = |simulates| decide(&facts, &request, CURRENT, simulates);
        assert_eq!(decided(true), Decision::Scored(Uuid::from_u128(9)));
        assert_eq!(decided(false), Decision::New);
    }

    #[test]
    fn ended_job_is_ignored() {
        for state in [JobState::Succeeded, JobState::Failed, JobState::Cancelled] {
            assert_eq!(
                decided(None, Some((state, CURRENT)), None, Force::AsIs),
                "new"
            );
        }
    }
}
