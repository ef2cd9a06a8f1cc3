//! Whether the rules take so long over a case that they must not stand in the way of other runs.

use serde_json::Value;

use crate::store::Ending;

/// Above so many values a payload is heavy: rows whose columns go by values, all nearly equal, take a tenth of a second then, and
/// other runs on the same thread notice.
const LIGHT_VALUES: usize = 10_000;
/// So many bytes of text weigh as much as a value: two queries of the longest take as long to parse.
const BYTES_OF_A_VALUE: usize = 8;

/// How long the rules take over a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// No time to speak of.
    Light,
    /// Up to some seconds: in a thread of its own.
    Heavy,
}

impl Weight {
    /// The weight of a payload, by how many values it holds and how long its texts are.
    pub(super) fn of(payload: &Value) -> Self {
        let mut left = LIGHT_VALUES;
        match counted(payload, &mut left) {
            Some(()) => Self::Light,
            None => Self::Heavy,
        }
    }

    /// Does the work: here, or beside the tasks of other runs. A panic goes through.
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
        Value::String(text) => {
            *left = left.checked_sub(text.len() / BYTES_OF_A_VALUE)?;
            Some(())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Some(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn many_cells_are_heavy_and_so_are_long_texts() {
        let rows = |rows: usize, cells: usize| json!({"rows": vec![vec![1; cells]; rows]});
        assert_eq!(Weight::of(&rows(200, 20)), Weight::Light);
        assert_eq!(Weight::of(&rows(200, 50)), Weight::Heavy);
        let texts = |bytes: usize| json!({"one": "x".repeat(bytes), "other": "x".repeat(bytes)});
        assert_eq!(Weight::of(&texts(16 * 1024)), Weight::Light);
        assert_eq!(Weight::of(&texts(64 * 1024)), Weight::Heavy);
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
