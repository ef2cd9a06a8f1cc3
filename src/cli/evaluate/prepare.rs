//! What a run will be, before anything is opened: the suite checked, its header made or read back, its folder chosen.

use std::cell::{OnceCell, Ref, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::args::Evaluate;
use super::baseline::Baseline;
use crate::cli::outcome::CliError;
use crate::cli::output;
use crate::cli::simulated::SimulatedJudge;
use crate::clock::{Clock as _, SystemClock};
use crate::job::Kind;
use crate::suite::run::agents::{AgentName, Agents, AnswersFrom};
use crate::suite::run::folder::{
    Bench, FolderError, RunFolder, RunHeader, RunOptions, SuiteRef, passed_items,
};
use crate::suite::run::plan::{BadSuite, digest};
use crate::suite::run::{Again, Plan, thresholds, wanted};

const RUNS: &str = "reports/evaluation-runs";
/// How many of many names are told.
const NAMED: usize = 5;

/// A run that may begin, or go on.
pub(super) struct Prepared {
    pub(super) header: RunHeader,
    pub(super) baseline: Option<Baseline>,
    /// The page of its batch, once there is one.
    pub(super) page: OnceCell<String>,
    plan: Plan,
    place: FolderChoice,
}

/// Where its folder is.
enum FolderChoice {
    Named(PathBuf),
    /// To be made below the folder of runs, named by when it began.
    Numbered,
    Resumed(RefCell<Option<Box<RunFolder>>>),
}

impl Evaluate {
    pub(super) fn again(&self) -> Again {
        if self.place.retry_errors {
            Again::Errors
        } else {
            Again::Never
        }
    }

    pub(super) fn prepare(&self) -> Result<Prepared, CliError> {
        if self.judge.simulate {
            SimulatedJudge::check(&self.connection)?;
        }
        // What is said of the gates comes before hours are spent on the run.
        match &self.place.resume {
            Some(dir) => {
                let folder = RunFolder::open(dir)?;
                let kept = &folder.header().gates;
                let held = self.gates().over(kept);
                let baseline = measurable(&held).map_err(|fault| match &self.held.baseline {
                    None if kept.baseline.is_some() => CliError::usage(format!(
                        "{}\n  that is the baseline which this run began with; restore it, or name another with --baseline",
                        fault.message
                    )),
                    Some(_) | None => fault,
                })?;
                self.say_gates(kept);
                self.resumed(dir, folder, baseline)
            }
            None => {
                let baseline = measurable(&self.gates())?;
                self.new_run(baseline)
            }
        }
    }

    /// Says what a run that goes on is held to.
    fn say_gates(&self, kept: &thresholds::Gates) {
        let given = self.gates();
        let held = given.clone().over(kept).command_line();
        if held.is_empty() {
            return;
        }
        if kept.flags().is_empty() {
            output::note(&format!(
                "this run is held to{held}; it began without a gate, so that every scored item had to pass"
            ));
            return;
        }
        let given = given.flags();
        let is_replaced =
            |(flag, value): &(_, _)| given.iter().any(|(f, v)| f == flag && v != value);
        let replaced = kept.flags().into_iter().filter(is_replaced);
        let replaced: Vec<String> = replaced
            .map(|(flag, value)| format!("{flag} {value}"))
            .collect();
        let replaced = match replaced.as_slice() {
            [] => String::new(),
            replaced => format!("; {} does not hold any more", replaced.join(", ")),
        };
        output::note(&format!("this run is held to{held}{replaced}"));
    }

    fn new_run(&self, baseline: Option<Baseline>) -> Result<Prepared, CliError> {
        let Some(path) = self.suite.clone() else {
            return Err(CliError::usage("name the suite that is to be run"));
        };
        let plan = plan(&path, self.kind, self.limit)?;
        let gates = self.gates();
        fits(baseline.as_ref(), &plan, (self.judge.no_judge, &gates))?;
        let only = match &self.place.only_failed {
            None => None,
            Some(dir) => Some(not_passed(dir, &plan)?),
        };
        let now = SystemClock.now();
        let place = match &self.place.output {
            Some(dir) => FolderChoice::Named(dir.clone()),
            None => FolderChoice::Numbered,
        };
        let header = RunHeader {
            run_id: Uuid::now_v7(),
            gavel: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: now,
            suite: SuiteRef {
                path,
                sha256: plan.sha256.clone(),
                items: plan.items,
            },
            kind: plan.kind,
            options: self.options(),
            only,
            gates,
            judged_by: None,
            label: self.label.read(),
        };
        Ok(Prepared {
            header,
            baseline,
            page: OnceCell::new(),
            plan,
            place,
        })
    }

    fn resumed(
        &self,
        dir: &Path,
        folder: RunFolder,
        baseline: Option<Baseline>,
    ) -> Result<Prepared, CliError> {
        let mut header = folder.header().clone();
        self.agrees_with(&header)?;
        let path = self.suite.clone().unwrap_or(header.suite.path.clone());
        if self.suite.is_none() && !path.exists() {
            return Err(CliError::usage(format!(
                "--resume {}: the run's suite {} isn't there, seen from this folder: name it where it is now: gavel evaluate SUITE --resume {}",
                dir.display(),
                path.display(),
                dir.display()
            )));
        }
        // Before its rows are read: of another suite every one of them may be at fault.
        let sha256 = digest(&path).map_err(|bad| unreadable(&path, &bad.into()))?;
        if sha256 != header.suite.sha256 {
            return Err(CliError::usage(format!(
                "--resume {}: that run is of another suite: {} has the digest {}, the run's suite {} had {}; restore the \
                 file, or begin a new run",
                dir.display(),
                path.display(),
                short(&sha256),
                header.suite.path.display(),
                short(&header.suite.sha256)
            )));
        }
        let plan = plan(&path, Some(header.kind), header.options.limit)?;
        let held = self.gates().over(&header.gates);
        fits(baseline.as_ref(), &plan, (header.options.no_judge, &held))?;
        header.suite.path = path;
        header.label = self.label.given().or(header.label);
        Ok(Prepared {
            header,
            baseline,
            page: OnceCell::new(),
            plan,
            place: FolderChoice::Resumed(RefCell::new(Some(Box::new(folder)))),
        })
    }

    /// What changes results is part of a run: given again, it must be the same.
    fn agrees_with(&self, header: &RunHeader) -> Result<(), CliError> {
        let was = &header.options;
        if was.simulate && !self.judge.simulate {
            return Err(CliError::usage(
                "that run began with --simulate: give it again, so that no real judge is asked by mistake, or begin a new run",
            ));
        }
        let (agents, judge) = (&self.agents, &self.judge);
        let differs = [
            ("--kind", differs(&self.kind, &Some(header.kind))),
            ("--limit", differs(&self.limit, &was.limit)),
            (
                "--agent-results",
                differs(&agents.agent_results, &was.agent_results),
            ),
            (
                "--agent-command",
                differs(&agents.agent_command, &was.agent_command),
            ),
            (
                "--criteria-hash",
                differs(&judge.criteria_hash, &was.criteria_hash),
            ),
            ("--force", judge.force && !was.force),
            ("--no-judge", judge.no_judge && !was.no_judge),
            ("--simulate", judge.simulate && !was.simulate),
        ];
        match differs.iter().find(|(_, differs)| *differs) {
            None => Ok(()),
            Some((flag, _)) => Err(CliError::usage(format!(
                "{flag} differs from what the run began with; leave it out, or begin a new run"
            ))),
        }
    }

    fn options(&self) -> RunOptions {
        RunOptions {
            limit: self.limit,
            agent_results: self.agents.agent_results.clone(),
            agent_command: self.agents.agent_command.clone(),
            criteria_hash: self.judge.criteria_hash.clone(),
            force: self.judge.force,
            no_judge: self.judge.no_judge,
            simulate: self.judge.simulate,
        }
    }
}

impl Prepared {
    /// Makes the folder of a new run, which is judged so, or gives that of one that goes on.
    pub(super) fn open(&self, judged_by: Option<&Bench>) -> Result<RunFolder, CliError> {
        let header = || RunHeader {
            judged_by: judged_by.cloned(),
            ..self.header.clone()
        };
        let resumed = match &self.place {
            FolderChoice::Named(path) => {
                return RunFolder::create(path, &header()).map_err(unwritable);
            }
            FolderChoice::Numbered => {
                let made = RunFolder::create_below(Path::new(RUNS), &header());
                return made.map_err(unwritable);
            }
            FolderChoice::Resumed(folder) => folder.take(),
        };
        let folder = resumed.ok_or_else(|| CliError::incomplete("the run was opened twice"))?;
        Ok(folder.moved(self.header.suite.path.clone()))
    }

    pub(super) fn answers_from(&self) -> AnswersFrom<'_> {
        let options = &self.header.options;
        match (&options.agent_command, &options.agent_results) {
            (Some(command), _) => AnswersFrom::Command(command),
            (None, Some(file)) => AnswersFrom::File(file),
            (None, None) => AnswersFrom::Http,
        }
    }

    /// The agents of the questions that are still to be answered.
    pub(super) fn agents_needed(&self, again: Again) -> BTreeSet<AgentName> {
        let folder = self.resumed();
        let is_answered = |item_no| {
            let folder = folder.as_deref();
            folder.is_some_and(|folder| folder.has_answer(item_no))
        };
        self.plan.agents(|item_no| {
            self.is_wanted(folder.as_deref(), again, item_no) && !is_answered(item_no)
        })
    }

    /// Whether the judge of the criteria has a part in what is still to be run, as far as is known before agents answer.
    pub(super) fn needs_judge(&self, again: Again) -> bool {
        let folder = self.resumed();
        let mut judged = self.plan.judged.iter();
        judged.any(|item_no| self.is_wanted(folder.as_deref(), again, *item_no))
    }

    /// The folder of the run that goes on.
    fn resumed(&self) -> Option<Ref<'_, RunFolder>> {
        match &self.place {
            FolderChoice::Named(_) | FolderChoice::Numbered => None,
            FolderChoice::Resumed(folder) => {
                Ref::filter_map(folder.borrow(), Option::as_deref).ok()
            }
        }
    }

    /// Whether an item is still to be run: in a new run each that was asked for, in one that goes on as `again` says.
    fn is_wanted(&self, resumed: Option<&RunFolder>, again: Again, item_no: u64) -> bool {
        match resumed {
            Some(folder) => wanted(folder, again, item_no),
            None => {
                let only = self.header.only.as_ref();
                only.is_none_or(|only| only.contains(&item_no))
            }
        }
    }

    /// Who judges the items, as far as they are judged: those that they name, and `judge` of the criteria where any names none.
    pub(super) fn judges<'a>(&'a self, judge: Option<&'a str>) -> Vec<&'a str> {
        let named = self.plan.judges.iter().map(String::as_str);
        named
            .chain(judge.filter(|_| self.plan.leaves_judge))
            .collect()
    }

    /// What is to be said of answers that no item of the suite asks for; nothing where only its beginning is known.
    pub(super) fn unasked(&self, agents: &Agents) -> Option<String> {
        let is_whole = self.header.options.limit.is_none();
        let names = agents.unasked(|name| !is_whole || self.plan.names.contains_key(name));
        let first = names.get(..NAMED).unwrap_or(&names).join(", ");
        let more = if names.len() > NAMED { ", ..." } else { "" };
        (!names.is_empty()).then(|| {
            format!(
                "--agent-results: {} of its answers are to no question of this suite: {first}{more}",
                names.len()
            )
        })
    }

    pub(super) fn todo(&self, folder: &RunFolder, again: Again) -> usize {
        (0..self.header.suite.items)
            .filter(|item_no| wanted(folder, again, *item_no))
            .count()
    }
}

/// The baseline that a run would be held against, if what it is held to can be measured.
fn measurable(gates: &thresholds::Gates) -> Result<Option<Baseline>, CliError> {
    match (&gates.baseline, gates.max_regression) {
        (None, Some(_)) => Err(CliError::usage(
            "--max-regression: the mean is held against that of an earlier run; name its folder with --baseline",
        )),
        (Some(dir), _) => Baseline::read(dir).map(Some),
        (None, None) => Ok(None),
    }
}

/// Whether the baseline of a run is one that its scores can be held against, as far as that is known before it.
fn fits(
    baseline: Option<&Baseline>,
    plan: &Plan,
    (no_judge, gates): (bool, &thresholds::Gates),
) -> Result<(), CliError> {
    let Some(baseline) = baseline else {
        return Ok(());
    };
    baseline.fits(plan.kind)?;
    if gates.max_regression.is_some() {
        baseline.pairs_with(plan)?;
    }
    match no_judge {
        // No simulated judge has a part in it.
        true => baseline.fits_judge(false, gates),
        false => Ok(()),
    }
}

/// Whether a flag is given, and another than before.
fn differs<T: PartialEq>(given: &Option<T>, was: &Option<T>) -> bool {
    given.is_some() && given != was
}

fn plan(path: &Path, kind: Option<Kind>, limit: Option<u64>) -> Result<Plan, CliError> {
    Plan::read(path, kind, limit).map_err(|bad| unreadable(path, &bad))
}

fn unreadable(path: &Path, bad: &BadSuite) -> CliError {
    CliError::usage(format!("{}: {bad}", path.display()))
}

/// The items that an earlier run of a suite was asked for and that did not pass in it.
fn not_passed(dir: &Path, plan: &Plan) -> Result<BTreeSet<u64>, CliError> {
    let earlier = RunFolder::header_of(dir)?;
    if earlier.suite.sha256 != plan.sha256 {
        return Err(CliError::usage(format!(
            "--only-failed {}: that run is of another suite, or of an earlier state of it: its digest is {}, that of this one {}",
            dir.display(),
            short(&earlier.suite.sha256),
            short(&plan.sha256)
        )));
    }
    let passed = passed_items(dir)?;
    // What that run wasn't asked for it says nothing of: it may itself have been of some items alone.
    let asked = earlier
        .only
        .unwrap_or_else(|| (0..earlier.suite.items).collect());
    let left = asked.difference(&passed).copied();
    Ok(left.filter(|item_no| *item_no < plan.items).collect())
}

fn short(sha256: &str) -> &str {
    sha256.get(..12).unwrap_or(sha256)
}

/// The folder of a new run can't be made: that is how it was asked for, and nothing was run.
fn unwritable(error: FolderError) -> CliError {
    match error {
        FolderError::Unfit(message) => CliError::usage(message),
        error @ FolderError::Io { .. } => CliError::usage(format!(
            "{error}: name a folder for the run that can be written, with --output"
        )),
    }
}
