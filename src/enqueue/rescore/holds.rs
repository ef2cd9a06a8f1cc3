//! What stops or slows a backlog's judges at the moment: its plan's time is told without it.

use chrono::{DateTime, TimeDelta, Utc};

use crate::store::{Brake, BrakeTarget, JudgeRow};

/// How long what a worker said of its judges holds.
pub(super) const HEARD: TimeDelta = TimeDelta::seconds(60);

/// What a plan says of a brake: its time begins once that is gone.
pub(super) fn stopped(brakes: &[Brake], target: &BrakeTarget) -> Option<String> {
    let brake = brakes.iter().find(|brake| brake.target == *target)?;
    let what = match target {
        BrakeTarget::Queue => "the queue".to_owned(),
        BrakeTarget::Judge(name) => format!("judge {name:?}"),
    };
    let until = brake.until.map_or_else(
        || "somebody resumes it".to_owned(),
        |until| until.format("%Y-%m-%d %H:%M UTC").to_string(),
    );
    let why = match brake.message.as_str() {
        "" => brake.reason.brief().to_owned(),
        said => format!("{}; {said}", brake.reason.brief()),
    };
    Some(format!(
        "{what} is stopped now ({why}): nothing starts until {until}, and the time begins then"
    ))
}

/// What a plan says of a judge that holds itself back for the moment: at that pace it takes longer.
pub(super) fn slowed(gates: &[JudgeRow], judge: &str, now: DateTime<Utc>) -> Option<String> {
    let own = gates.iter().filter(|gate| gate.name == judge);
    let held = own.filter_map(|gate| {
        let shrunk = gate.pace.as_ref().and_then(|pace| pace.shrunk_until);
        match (gate.breaker.as_str(), shrunk.filter(|until| *until > now)) {
            ("open" | "half_open", _) => {
                Some("fails, and is asked but now and then until it answers".to_owned())
            }
            (_, Some(until)) => Some(format!(
                "said that it is asked too often (429), and is asked more slowly until {}",
                until.format("%H:%M:%S UTC")
            )),
            (_, None) => None,
        }
    });
    let why = held.min()?;
    Some(format!(
        "judge {judge:?} {why}: it may take longer than this plan says"
    ))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::store::PaceRow;

    fn now() -> DateTime<Utc> {
        "2026-11-22T12:00:00Z".parse().unwrap()
    }

    fn gate(name: &str, breaker: &str, shrunk_s: Option<i64>) -> JudgeRow {
        JudgeRow {
            name: name.to_owned(),
            worker_id: Uuid::nil(),
            breaker: breaker.to_owned(),
            closed: None,
            closed_until: None,
            failures_in_row: 0,
            in_flight: 0,
            last_error: None,
            last_error_at: None,
            pace: Some(PaceRow {
                shrunk_until: shrunk_s.map(|s| now() + TimeDelta::seconds(s)),
                ..PaceRow::default()
            }),
            updated_at: now(),
        }
    }

    #[test]
    fn a_judge_that_holds_back_is_told_of_and_no_other() {
        let told = |gates: &[JudgeRow]| slowed(gates, "gpt", now());
        assert_eq!(told(&[gate("gpt", "closed", None)]), None);
        assert_eq!(told(&[gate("gpt", "closed", Some(-1))]), None, "it is over");
        assert_eq!(told(&[gate("other", "open", Some(60))]), None);
        assert_eq!(
            told(&[gate("gpt", "closed", None), gate("gpt", "closed", Some(90))]).unwrap(),
            "judge \"gpt\" said that it is asked too often (429), and is asked more slowly until 12:01:30 UTC: it may take longer than this plan says"
        );
        assert_eq!(
            told(&[gate("gpt", "open", Some(90))]).unwrap(),
            "judge \"gpt\" fails, and is asked but now and then until it answers: it may take longer than this plan says"
        );
    }
}
