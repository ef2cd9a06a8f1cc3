//! Live workers and the judges that they can call, as published by them.

use std::collections::HashMap;

use uuid::Uuid;

use crate::api::ApiState;
use crate::store::{StoreError, WorkerRow};

/// Callable judges of each live worker. `None`: not published by older versions, so that any judge may be callable.
#[derive(Debug, Default)]
pub(crate) struct LiveWorkers(Vec<Option<Vec<String>>>);

impl LiveWorkers {
    pub(crate) async fn load(state: &ApiState) -> Result<Self, StoreError> {
        let workers = state.store.workers().list(state.worker_stale_after).await?;
        let alive = workers.into_iter().filter(|worker| worker.alive).collect();
        let listed = with_judges(state, alive).await?;
        Ok(Self(listed.into_iter().map(|(_, judges)| judges).collect()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a worker can call a judge. `None`: no judge is needed, so that any worker suffices.
    pub(crate) fn can_ask(&self, judge: Option<&str>) -> bool {
        let Some(judge) = judge else {
            return !self.is_empty();
        };
        let any_model = judge.split_once(':').map(|(entry, _)| format!("{entry}:*"));
        let is_it = |name: &String| name == judge || Some(name) == any_model.as_ref();
        self.0.iter().any(|judges| {
            judges
                .as_ref()
                .is_none_or(|judges| judges.iter().any(is_it))
        })
    }
}

pub(crate) async fn with_judges(
    state: &ApiState,
    workers: Vec<WorkerRow>,
) -> Result<Vec<(WorkerRow, Option<Vec<String>>)>, StoreError> {
    let ids: Vec<Uuid> = workers.iter().map(|worker| worker.worker_id).collect();
    let mut judges: HashMap<Uuid, Vec<String>> = state.store.workers().judges_of(&ids).await?;
    Ok(workers
        .into_iter()
        .map(|worker| {
            let published = judges.remove(&worker.worker_id);
            (worker, published)
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn can_ask_judge_by_name_or_any_model_of_entry() {
        let workers = |lists: &[Option<&[&str]>]| {
            let owned = |names: &&[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            LiveWorkers(lists.iter().map(|list| list.as_ref().map(owned)).collect())
        };
        let some = workers(&[Some(&["a", "a:small", "b", "b:*"]), Some(&["c"])]);
        for (judge, can) in [
            ("a", true),
            ("a:small", true),
            ("a:large", false),
            ("b:any", true),
            ("c", true),
            ("c:any", false),
            ("d", false),
        ] {
            assert_eq!(some.can_ask(Some(judge)), can, "{judge}");
        }
        assert!(some.can_ask(None), "no judge is needed");
        assert!(!workers(&[Some(&[])]).can_ask(Some("a")));
        assert!(
            workers(&[Some(&["c"]), None]).can_ask(Some("a")),
            "an older worker says nothing"
        );
        assert!(!workers(&[]).can_ask(None));
    }
}
