//! Live workers, and the judges that they can call, as reported.

use crate::api::ApiState;
use crate::store::StoreError;

/// Judges that each live worker can call; `None`: not reported, so it may call every judge.
#[derive(Debug, Default)]
pub(crate) struct LiveWorkers(Vec<Option<Vec<String>>>);

impl LiveWorkers {
    /// Reads them.
    pub(crate) async fn load(state: &ApiState) -> Result<Self, StoreError> {
        let workers = state.store.workers().list().await?;
        let alive = workers.into_iter().filter(|worker| worker.alive);
        Ok(Self(alive.map(|worker| worker.judges).collect()))
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
            "it reported nothing"
        );
        assert!(!workers(&[]).can_ask(None));
    }
}
