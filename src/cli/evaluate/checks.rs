//! Checks before a run, so that an unavailable judge or an incomparable baseline is reported before the run costs time and money, and that no
//! run resumes with another judge or other criteria.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::time::Duration;

use super::mixed;
use crate::app::model_of;
use crate::cli::judges::find;
use crate::cli::outcome::CliError;
use crate::cli::output;
use crate::cli::progress::Progress;
use crate::client::{Client, ClientError};
use crate::config::Settings;
use crate::job::Kind;
use crate::report::{ResultLines, Simulated, Source as _};
use crate::suite::run::folder::{Bench, RESULTS, RunHeader};
use crate::suite::run::{Plan, RunFolder, compare, thresholds};
use crate::wire::Judge;

/// Time for a service to start, as for an agent.
const START_TIMEOUT: Duration = Duration::from_secs(3);

/// Reads the judge and criteria of the service; the judge's model from `settings` of a service in this process. `None` if the caller may not
/// read them.
pub(super) async fn bench_of(
    client: &Client,
    header: &RunHeader,
    settings: Option<&Settings>,
) -> Result<Option<Bench>, CliError> {
    let client = Progress::new("items", 0).retrying(client, START_TIMEOUT);
    let criteria = match &header.options.criteria_hash {
        Some(hash) => client.criteria(hash).await,
        None => client.current_criteria(header.kind).await,
    };
    let version = match criteria {
        Ok(criteria) => criteria.version,
        // The enqueue scope can't read criteria.
        Err(ClientError::Refused(problem)) if problem.status == 403 => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let model = settings.map(|settings| model_of(settings, &version.judge));
    Ok(Some(Bench {
        model: model.transpose()?.flatten(),
        judge: Some(version.judge),
        criteria_hash: version.criteria_hash,
    }))
}

/// Returns the service's judges. Empty if the caller may not list them.
pub(super) async fn judges_of(client: &Client) -> Result<Vec<Judge>, CliError> {
    let client = Progress::new("items", 0).retrying(client, START_TIMEOUT);
    match client.judges().await {
        Ok(judges) => Ok(judges.items),
        Err(ClientError::Refused(problem)) if problem.status == 403 => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// Rejects a run with an unavailable judge, before any item runs. Callers that may not list judges get the error with the first item.
pub(super) fn check_available(judges: &[Judge], bench: &Bench) -> Result<(), CliError> {
    let judge = bench.judge.as_deref();
    let known = judge.and_then(|name| find(judges, name));
    let Some(unset) = known.filter(|judge| !judge.configured) else {
        return Ok(());
    };
    Err(CliError::usage(format!(
        "judge {:?} can't be called: {}\n  --no-judge evaluates only the computed components",
        unset.name,
        unset.remedy.as_deref().unwrap_or_default()
    )))
}

/// Checks that the judge and the criteria of a resumed run are unchanged.
pub(super) fn check_unchanged(
    began: Option<&Bench>,
    now: &Bench,
    run: (&Path, Kind),
) -> Result<(), CliError> {
    let Some(began) = began.filter(|began| !began.is_that_of(now)) else {
        return Ok(());
    };
    let (folder, kind) = run;
    Err(CliError::usage(format!(
        "--resume {}: that run started with {began}; it would resume with {now}, and its scores would not be \
         comparable. Restore its set-up (GAVEL_CRITERIA_{}, DEFAULT_LLM_PROVIDER, llm_providers.yaml), or start \
         a new run",
        folder.display(),
        kind.as_str().to_ascii_uppercase()
    )))
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Baseline {
    kinds: BTreeSet<Kind>,
    /// Whether a simulated judge contributed to any score.
    is_simulated: bool,
    /// Whether a real judge did.
    is_judged: bool,
    items: usize,
    /// Names that pair the items with a total.
    names: HashSet<String>,
}

impl Baseline {
    pub(super) fn read(dir: &Path) -> Result<Self, CliError> {
        let unreadable = |error| CliError::usage(format!("--baseline: {error}"));
        let lines = ResultLines::open(&dir.join(RESULTS)).map_err(unreadable)?;
        // Result folders made by other tools have no header. Their lines are checked in any case.
        let header = RunFolder::header_of(dir).ok();
        let mut baseline = Self {
            kinds: header.map(|header| header.kind).into_iter().collect(),
            ..Self::default()
        };
        let read = lines.each(&mut |item| {
            baseline.kinds.insert(item.kind);
            baseline.is_simulated |= item.simulated;
            baseline.is_judged |= !item.simulated && item.judge().is_some();
            baseline.items += 1;
            if item.measured().is_some() {
                baseline.names.insert(compare::name(item));
            }
            Ok(())
        });
        read.map_err(unreadable)?;
        Ok(baseline)
    }

    /// Totals of different kinds aren't comparable.
    pub(super) fn fits(&self, kind: Kind) -> Result<(), CliError> {
        match self.kinds.iter().find(|other| **other != kind) {
            None => Ok(()),
            Some(other) => Err(CliError::usage(format!(
                "--baseline: that is a run of kind {other}, and this suite is of kind {kind}: their scores don't measure the same"
            ))),
        }
    }

    /// Rejects a baseline without any common item, because the gate on the mean would have no effect.
    pub(super) fn pairs_with(&self, plan: &Plan) -> Result<(), CliError> {
        if self.names.iter().any(|name| plan.has(name)) {
            return Ok(());
        }
        let what = match (self.items, self.names.iter().min()) {
            (0, _) => "that run has no items".to_owned(),
            (items, None) => format!("no total in that run's {items} items"),
            (_, Some(first)) => format!(
                "no item of this suite has a total in that run; its items have other ids, such as {first}"
            ),
        };
        Err(CliError::usage(output::clean(&format!(
            "--max-regression: {what}; name a run of this suite with --baseline, or leave both out"
        ))))
    }

    /// Rejects a baseline with the other type of judge. `simulated`: whether the run's judge is simulated.
    pub(super) fn fits_judge(
        &self,
        simulated: bool,
        gates: &thresholds::Gates,
    ) -> Result<(), CliError> {
        let is_mixed = match simulated {
            true => self.is_judged && !self.is_simulated,
            false => self.is_simulated,
        };
        match gates.simulated() {
            Simulated::Refused if is_mixed => Err(CliError::usage(mixed("--baseline"))),
            Simulated::Refused | Simulated::Allowed => Ok(()),
        }
    }
}

/// Whether any judge of a run is simulated. Simulated scores aren't comparable with real ones. `None` if the caller may not list judges.
pub(super) fn are_simulated(judges: &[Judge], named: &[&str]) -> Option<bool> {
    let is_simulated = |name: &&str| find(judges, name).map(|judge| judge.simulated);
    match named.iter().map(is_simulated).collect::<BTreeSet<_>>() {
        found if found.contains(&Some(true)) => Some(true),
        found if found.contains(&None) => None,
        found => found.first().copied().flatten(),
    }
}
