//! Whether the rules take so long over a case that they must not stand in the way of other runs.

use serde_json::Value;

use crate::store::Ending;

/// Above so many values a payload is heavy: the rules may take long enough over it for other runs to notice.
const LIGHT_VALUES: usize = 200_000;

/// How long the rules take over a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// No time to speak of.
    Light,
    /// Up to some seconds: in a thread of its own.
    Heavy,
}

impl Weight {
    /// The weight of a payload, by how many values it holds.
    pub(super) fn of(payload: &Value) -> Self {
        let mut left = LIGHT_VALUES;
        match counted(payload, &mut left) {
            Some(()) => Self::Light,
            None => Self::Heavy,
        }
    }

    /// Does the work: here, or beside the tasks of other runs. A panic goes through.
    ///
    /// # Errors
    /// The process ends before it is done: the job goes back.
    pub(super) async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Ending> {
        match self {
            Self::Light => Ok(work()),
            Self::Heavy => match tokio::task::spawn_blocking(work).await {
                Ok(done) => Ok(done),
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => Err(Ending::Requeued),
                },
            },
        }
    }
}

/// Takes each value from `left`; `None` once there are too many. The JSON reader bounds the depth.
fn counted(value: &Value, left: &mut usize) -> Option<()> {
    *left = left.checked_sub(1)?;
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| counted(item, left)),
        Value::Object(map) => map.values().try_for_each(|item| counted(item, left)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn many_cells_are_heavy_and_long_texts_are_not() {
        let rows = |rows: usize, cells: usize| json!({"rows": vec![vec![1; cells]; rows]});
        assert_eq!(Weight::of(&rows(100, 1_000)), Weight::Light);
        assert_eq!(Weight::of(&rows(200, 1_000)), Weight::Heavy);
        assert_eq!(
            Weight::of(&json!({"text": "x".repeat(1 << 20)})),
            Weight::Light
        );
    }

    #[tokio::test]
    async fn both_weights_do_the_work() {
        for weight in [Weight::Light, Weight::Heavy] {
            assert_eq!(weight.run(|| 7).await.unwrap(), 7);
        }
    }

    #[tokio::test]
    async fn a_panic_of_heavy_work_is_the_runs_own() {
        let run = tokio::spawn(Weight::Heavy.run(|| panic!("a bug")));
        assert!(run.await.unwrap_err().is_panic());
    }
}
