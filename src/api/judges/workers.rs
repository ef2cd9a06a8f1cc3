//! Which workers are alive, and which judges they can ask, as they published it.

use std::collections::HashMap;

use uuid::Uuid;

use crate::api::ApiState;
use crate::store::{StoreError, WorkerRow};

/// What each live worker can ask; `None`: it published nothing, as older versions don't, and may be able to ask every judge.
#[derive(Debug, Default)]
pub(crate) struct LiveWorkers(Vec<Option<Vec<String>>>);

impl LiveWorkers {
    /// Reads them.
    pub(crate) async fn load(state: &ApiState) -> Result<Self, StoreError> {
        let workers = state.store.workers().list(state.worker_stale_after).await?;
        let alive = workers.into_iter().filter(|worker| worker.alive).collect();
        let listed = with_judges(state, alive).await?;
        Ok(Self(listed.into_iter().map(|(_, judges)| judges).collect()))
    }

    /// Whether none is alive.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them can ask a judge. `None`: no judge is needed, which every worker can do without.
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

/// Workers, each with the judges that it published.
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
    fn a_judge_can_be_asked_if_its_name_or_any_model_of_its_entry_was_published() {
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
