//! What calls say of a judge that nobody has stopped: that it answers, that it fails, or nothing, since it wasn't asked.

/// How a judge does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    /// No live worker has asked it lately.
    Unasked,
    /// The last call of each worker was answered.
    Answers,
    /// So many calls in a row failed.
    Fails(i32),
}

/// How a judge does whose workers count so many failures in a row, one number a worker.
pub(super) fn of(failures_in_row: impl Iterator<Item = i32>) -> Health {
    match failures_in_row.max() {
        None => Health::Unasked,
        Some(calls) if calls > 0 => Health::Fails(calls),
        Some(_) => Health::Answers,
    }
}

/// Failures in words.
pub(super) fn failed(calls: i32) -> String {
    match calls {
        1 => "its last call failed".to_owned(),
        calls => format!("its last {calls} calls failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judge_answers_only_if_it_was_asked_and_did() {
        assert_eq!(of([].into_iter()), Health::Unasked);
        assert_eq!(of([0, 0].into_iter()), Health::Answers);
        assert_eq!(of([0, 4].into_iter()), Health::Fails(4));
        assert_eq!(failed(1), "its last call failed");
        assert_eq!(failed(4), "its last 4 calls failed");
    }
}
