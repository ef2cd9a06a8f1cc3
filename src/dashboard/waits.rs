//! Why a job isn't running yet, in words: what is stopped, by whom, why, and until when.

use chrono::{DateTime, Utc};

use super::words;
use crate::wire::{JobWaitReason as Reason, Wait, WaitTarget as Target};

/// What pages say of a wait.
pub(super) trait WaitWords {
    /// All that is known of it, in a line.
    fn says(&self, judge: Option<&str>, now: DateTime<Utc>) -> String;
    /// What somebody has to do before it goes on; `None`: nothing, it goes on by itself.
    fn remedy(&self) -> Option<&'static str>;
    /// Whether all it lacks is a worker: the head of every page says how to start one.
    fn lacks_a_worker(&self) -> bool;
    /// Whether it goes on by itself at a time that is known.
    fn goes_on(&self) -> bool;
}

impl WaitWords for Wait {
    fn says(&self, judge: Option<&str>, now: DateTime<Utc>) -> String {
        if (self.reason, self.position) == (Reason::Queued, Some(1)) {
            return "it is the next in line".to_owned();
        }
        let mut says = self.in_short(judge);
        if let Some(until) = self.until {
            // Pages stay open: what is counted from now soon isn't true any more, the time of day is.
            let at = until.format("%H:%M:%S UTC");
            let ago = words::moment(until, now).ago;
            says.push_str(&format!(", tried again {ago} (at {at})"));
        }
        if let Some(place) = self.position {
            says.push_str(&format!(", number {} in line", words::count(place)));
        }
        let is_shown = |said: &&String| {
            self.message
                .as_ref()
                .is_some_and(|shown| shown.contains(said.as_str()))
        };
        if let Some(said) = self.last_error.as_ref().filter(|said| !is_shown(said)) {
            says.push_str(&format!("; it said last: {said}"));
        }
        says
    }

    fn remedy(&self) -> Option<&'static str> {
        match (self.reason, self.target) {
            (Reason::Paused, Some(Target::Batch)) => Some("Resume its batch on the batch's page."),
            (Reason::Paused, _) => {
                Some("It waits until somebody resumes that, on the queue's page.")
            }
            (Reason::Misconfigured, _) => Some(
                "Correct the judge's key, model or address and restart the workers: it goes on then. Where nothing was wrong here, resume the judge on the queue's page.",
            ),
            (Reason::Exhausted, _) if self.until.is_none() => Some(
                "Top up the provider's quota or spend limit, then resume the judge on the queue's page.",
            ),
            (Reason::Budget, Some(Target::Batch)) => Some(
                "The batch's page says what was spent: a larger budget there, or none, lets it go on.",
            ),
            (Reason::Budget, _) => Some(
                "It goes on when the cap's day or month is over; to go on now, raise the cap and restart the workers.",
            ),
            (Reason::NoWorker, _) => Some(
                "Start a worker with the same settings as this server (gavel worker); where this server is gavel up, start it again.",
            ),
            (Reason::NoWorkerForJudge, _) => Some(
                "Start a worker whose llm_providers.yaml has the judge's entry and its key; or cancel the job, and ask again with criteria that name another judge.",
            ),
            (_, _) => None,
        }
    }

    fn lacks_a_worker(&self) -> bool {
        self.reason == Reason::NoWorker
    }

    fn goes_on(&self) -> bool {
        self.remedy().is_none() && self.until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_names_what_is_stopped_by_whom_and_why() {
        let now: DateTime<Utc> = "2026-11-22T18:15:30Z".parse().unwrap();
        let wait = |fields: serde_json::Value| serde_json::from_value::<Wait>(fields).unwrap();
        for (fields, says) in [
            (
                serde_json::json!({"reason": "paused", "target": "queue", "set_by": "ann", "message": "lunch"}),
                "the queue is paused by ann (lunch)",
            ),
            (
                serde_json::json!({"reason": "paused", "target": "judge", "set_by": "ann"}),
                "gpt is paused by ann",
            ),
            (
                serde_json::json!({"reason": "paused", "target": "batch"}),
                "its batch is paused",
            ),
            (
                serde_json::json!({"reason": "budget", "target": "judge", "set_by": "cap", "message": "the daily cap of gpt, 2 USD, is reached", "until": "2026-11-22T20:15:30Z"}),
                "gpt has reached its spending cap (the daily cap of gpt, 2 USD, is reached), tried again in 2 h (at 20:15:30 UTC)",
            ),
            (
                serde_json::json!({"reason": "queued", "position": 1}),
                "it is the next in line",
            ),
            (
                serde_json::json!({"reason": "queued", "position": 1_200}),
                "it waits for its turn, number 1,200 in line",
            ),
            (
                serde_json::json!({"reason": "breaker_open", "until": "2026-11-22T18:16:00Z", "last_error": "HTTP 503"}),
                "its judge failed too often in a row and is left alone for a while, tried again in 30 s (at 18:16:00 UTC); it said last: HTTP 503",
            ),
        ] {
            assert_eq!(wait(fields).says(Some("gpt"), now), says);
        }
        // A cause is told once.
        let refused = wait(
            serde_json::json!({"reason": "misconfigured", "target": "judge", "message": "gpt: HTTP 401, no such key", "last_error": "HTTP 401, no such key"}),
        );
        let says = refused.says(Some("gpt"), now);
        assert_eq!(says.matches("no such key").count(), 1, "{says}");
    }

    #[test]
    fn what_somebody_must_do_is_told_and_nothing_where_it_goes_on_by_itself() {
        let wait = |reason: &str, target: Option<&str>, until: Option<&str>| {
            let fields = serde_json::json!({"reason": reason, "target": target, "until": until});
            serde_json::from_value::<Wait>(fields).unwrap()
        };
        let soon = Some("2026-11-22T20:15:30Z");
        for (wait, told) in [
            (wait("paused", Some("queue"), None), "resumes that"),
            (wait("paused", Some("batch"), None), "batch's page"),
            (wait("misconfigured", Some("judge"), None), "key, model"),
            (wait("exhausted", Some("judge"), None), "Top up"),
            (wait("budget", Some("batch"), None), "larger budget"),
            (wait("budget", Some("judge"), soon), "raise the cap"),
            (wait("no_worker", None, None), "gavel worker"),
            (
                wait("no_worker_for_judge", None, None),
                "llm_providers.yaml",
            ),
        ] {
            assert!(wait.remedy().unwrap().contains(told), "{wait:?}");
            assert!(!wait.goes_on(), "{wait:?}");
        }
        for wait in [
            wait("breaker_open", None, soon),
            wait("exhausted", Some("judge"), soon),
            wait("queued", None, None),
        ] {
            assert_eq!(wait.remedy(), None);
            assert_eq!(wait.goes_on(), wait.until.is_some());
        }
    }
}
