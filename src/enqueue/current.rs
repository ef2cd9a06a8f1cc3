//! Current criteria, one definition per kind, and definitions named by requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use tokio::sync::Mutex;

use super::{Enqueue, EnqueueError, JudgeProblem};
use crate::job::Kind;
use crate::score::Criteria;
use crate::store::{CriteriaChoice, StoreError};

/// Definitions of the criteria files of a process.
#[derive(Debug, Clone)]
pub struct CurrentCriteria(BTreeMap<Kind, Arc<Criteria>>);

impl CurrentCriteria {
    /// Reads one definition per kind. Errors: that of `read`.
    pub fn read<E>(read: impl Fn(Kind) -> Result<Arc<Criteria>, E>) -> Result<Self, E> {
        let each = Kind::ALL.iter().map(|kind| Ok((*kind, read(*kind)?)));
        each.collect::<Result<_, E>>().map(Self)
    }

    pub fn for_kind(&self, kind: Kind) -> &Arc<Criteria> {
        &self.0[&kind]
    }
}

/// Current definitions, and a cache of stored ones.
pub(super) struct Definitions {
    files: RwLock<CurrentCriteria>,
    /// Versions that a user made current instead.
    chosen: RwLock<BTreeMap<Kind, Arc<Criteria>>>,
    /// Restricts the chosen versions to simulated judges (`true`) or real judges (`false`).
    only_simulated: OnceLock<bool>,
    /// Kind and judge of each stored definition that was requested. Definitions are immutable.
    stored: RwLock<BTreeMap<String, (Kind, String)>>,
    /// Chosen versions that can't be read here; logged once.
    unread: RwLock<BTreeSet<String>>,
    /// Locked while choices are loaded, so that an older read can't replace a newer one.
    looking: Mutex<()>,
}

impl Definitions {
    pub(super) fn new(files: CurrentCriteria) -> Self {
        Self {
            files: RwLock::new(files),
            chosen: RwLock::default(),
            only_simulated: OnceLock::new(),
            stored: RwLock::default(),
            unread: RwLock::default(),
            looking: Mutex::default(),
        }
    }
}

fn other_sort(judge: String) -> JudgeProblem {
    let remedy = format!(
        "these criteria name {judge}, and this service was started for judges of another sort (--simulate, or the demo with or without \
         --judge): edit a copy of the current criteria, or start it otherwise"
    );
    JudgeProblem {
        judge,
        named: remedy.clone(),
        remedy,
    }
}

impl Enqueue {
    pub fn current_criteria(&self) -> Arc<Criteria> {
        self.current_criteria_of(Kind::Session)
    }

    pub fn current_criteria_of(&self, kind: Kind) -> Arc<Criteria> {
        let files = self.file_criteria_of(kind);
        // Scoring disabled in the files stays disabled, even if another version is chosen.
        let chosen = self.definitions.chosen.read().get(&kind).cloned();
        chosen.filter(|_| files.enabled).unwrap_or(files)
    }

    /// Returns the criteria of the file of a kind. They are current unless a user made other ones current.
    pub fn file_criteria_of(&self, kind: Kind) -> Arc<Criteria> {
        self.definitions.files.read().for_kind(kind).clone()
    }

    /// Returns, for each kind whose file isn't current, the file's criteria and the chosen ones.
    pub fn overruled(&self) -> impl Iterator<Item = (Arc<Criteria>, Arc<Criteria>)> {
        let both = |kind: &Kind| {
            (
                self.file_criteria_of(*kind),
                self.current_criteria_of(*kind),
            )
        };
        let each = Kind::ALL.iter().map(both);
        each.filter(|(file, current)| file.hash != current.hash)
    }

    /// Replaces the criteria of all files (a reload). Chosen versions stay current.
    pub fn set_current(&self, criteria: CurrentCriteria) {
        *self.definitions.files.write() = criteria;
    }

    pub fn set_current_criteria(&self, criteria: Arc<Criteria>) {
        let mut files = self.definitions.files.write();
        files.0.insert(criteria.kind, criteria);
    }

    /// Makes a stored version current in all processes. Naming the file's version removes the choice. Other processes follow within
    /// seconds.
    pub async fn make_current(
        &self,
        (kind, hash): (Kind, &str),
        by: String,
    ) -> Result<(), EnqueueError> {
        let (file, now) = (self.file_criteria_of(kind), self.clock.now());
        let is_of_file = file.hash.0 == hash;
        // Stored so that a user can select the file's version again.
        self.store.criteria().put(&file, now).await?;
        let judge = self.judge_of(hash, &self.current_criteria_of(kind)).await?;
        self.check_configured(&judge)
            .map_err(EnqueueError::JudgeNotConfigured)?;
        if !is_of_file && !self.is_followed(&judge) {
            return Err(EnqueueError::JudgeNotConfigured(other_sort(judge)));
        }
        let choice = CriteriaChoice {
            kind,
            criteria_hash: (!is_of_file).then(|| hash.to_owned()),
            by,
            at: now,
        };
        self.store.criteria().choose(&choice).await?;
        Ok(self.take_over_choices().await?)
    }

    /// Ignores chosen versions whose judge isn't simulated (`true`) or is (`false`) from now on.
    pub fn follow_only(&self, simulated: bool) {
        let _said_once = self.definitions.only_simulated.set(simulated);
    }

    fn is_followed(&self, judge: &str) -> bool {
        let only = self.definitions.only_simulated.get();
        // A judge that isn't configured matches neither.
        only.is_none_or(|simulated| {
            let spec = self.providers.spec(judge);
            spec.is_ok_and(|spec| spec.simulated() == *simulated)
        })
    }

    pub(super) fn check_configured(&self, judge: &str) -> Result<(), JudgeProblem> {
        let check = self.providers.check(judge);
        check.map_err(|error| JudgeProblem::new(judge, &error))
    }

    /// Checks that a judge is configured. If chosen criteria name it, the error suggests no setting.
    pub fn check_judge(&self, name: &str) -> Result<(), JudgeProblem> {
        self.check_configured(name).map_err(|problem| {
            let mut overruled = self.overruled();
            match overruled.find(|(_, current)| current.judge == problem.judge) {
                Some((file, current)) => JudgeProblem {
                    remedy: format!(
                        "{}; criteria made current name it (/criteria/{}), and override DEFAULT_LLM_PROVIDER: make \
                         the file's criteria current again on /criteria/{}, or edit a copy that names another \
                         judge",
                        problem.named, current.hash, file.hash
                    ),
                    ..problem
                },
                None => problem,
            }
        })
    }

    /// Loads the chosen versions. If a version can't be read here, its kind stays unchanged.
    pub async fn take_over_choices(&self) -> Result<(), StoreError> {
        let _looking = self.definitions.looking.lock().await;
        let mut chosen = BTreeMap::new();
        for choice in self.store.criteria().chosen().await? {
            let Some(hash) = choice.criteria_hash else {
                continue;
            };
            // The file's version must be stored so that it can be made current again.
            let file = self.file_criteria_of(choice.kind);
            if !self.definitions.stored.read().contains_key(&file.hash.0) {
                self.keep(&file).await?;
            }
            let known = self.definitions.chosen.read().get(&choice.kind).cloned();
            let criteria = match known {
                Some(known) if known.hash.0 == hash => Some(known),
                known => match self.stored(&hash).await {
                    Ok(criteria) => Some(Arc::new(criteria)),
                    Err(error @ StoreError::Unexpected { .. }) => {
                        if self.definitions.unread.write().insert(hash) {
                            tracing::warn!(%error, kind = %choice.kind, "failed to read the current criteria, keeping the previous ones");
                        }
                        known
                    }
                    Err(error) => return Err(error),
                },
            };
            let followed = criteria.filter(|criteria| self.is_followed(&criteria.judge));
            chosen.extend(followed.map(|criteria| (choice.kind, criteria)));
        }
        *self.definitions.chosen.write() = chosen;
        Ok(())
    }

    async fn stored(&self, hash: &str) -> Result<Criteria, StoreError> {
        let unexpected = |reason: String| StoreError::Unexpected {
            attempted: "reading a stored criteria definition",
            reason,
        };
        let content = self.store.criteria().content(hash).await?;
        let content = content.ok_or_else(|| unexpected(format!("{hash} isn't stored")))?;
        Criteria::from_value(&content).map_err(|error| unexpected(error.to_string()))
    }

    pub fn kinds_of(&self, judge: &str) -> Vec<Kind> {
        let kinds = Kind::ALL.iter().copied();
        kinds
            .filter(|kind| self.current_criteria_of(*kind).judge == judge)
            .collect()
    }

    /// Returns the judge of a stored definition if it has the kind of `current`. Stores the current definition on first use.
    pub(super) async fn judge_of(
        &self,
        hash: &str,
        current: &Arc<Criteria>,
    ) -> Result<String, EnqueueError> {
        let known = self.definitions.stored.read().get(hash).cloned();
        let (kind, judge) = match known {
            Some(known) => known,
            None => self.look_up(hash, current).await?,
        };
        if kind != current.kind {
            return Err(EnqueueError::CriteriaOfOtherKind {
                hash: hash.to_owned(),
                kind,
                asked: current.kind,
            });
        }
        Ok(judge)
    }

    /// Stores a definition and caches its kind and judge.
    async fn keep(&self, criteria: &Criteria) -> Result<(Kind, String), StoreError> {
        let now = self.clock.now();
        self.store.criteria().put(criteria, now).await?;
        let found = (criteria.kind, criteria.judge.clone());
        let mut stored = self.definitions.stored.write();
        stored.insert(criteria.hash.0.clone(), found.clone());
        Ok(found)
    }

    async fn look_up(
        &self,
        hash: &str,
        current: &Arc<Criteria>,
    ) -> Result<(Kind, String), EnqueueError> {
        if hash == current.hash.0 {
            return Ok(self.keep(current).await?);
        }
        let content = self.store.criteria().content(hash).await?;
        let content = content.ok_or_else(|| EnqueueError::UnknownCriteria(hash.to_owned()))?;
        let read = Criteria::from_value(&content).map_err(|error| StoreError::Unexpected {
            attempted: "reading a stored criteria definition",
            reason: error.to_string(),
        })?;
        let found = (read.kind, read.judge);
        let mut stored = self.definitions.stored.write();
        stored.insert(hash.to_owned(), found.clone());
        Ok(found)
    }
}
