//! What a run will be, before anything is opened: the suite checked, its header made or read back, its folder chosen.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::args::Evaluate;
use super::baseline::Baseline;
use crate::cli::outcome::CliError;
use crate::clock::{Clock as _, SystemClock};
use crate::job::Kind;
use crate::suite::run::agents::{AgentName, Agents, AnswersFrom};
use crate::suite::run::folder::{
    Bench, FolderError, RunFolder, RunHeader, RunOptions, SuiteRef, passed_items,
};
use crate::suite::run::plan::{BadSuite, digest};
use crate::suite::run::{Again, Plan, wanted};

const RUNS: &str = "reports/evaluation-runs";
/// How many of many names are told.
const NAMED: usize = 5;

/// A run that is ready to start or to resume.
pub(super) struct Prepared {
    pub(super) header: RunHeader,
    pub(super) again: Again,
    pub(super) baseline: Option<Baseline>,
    /// The page of its batch, once there is one.
    pub(super) page: OnceCell<String>,
    plan: Plan,
    /// The folder that a new run is named to use; `None`: one below [`RUNS`], named by the start time.
    output: Option<PathBuf>,
    /// The folder of the run to resume, until [`Prepared::open`] takes it.
    resumed: RefCell<Option<RunFolder>>,
}

impl Evaluate {
    /// Reads and checks everything that can be checked before the run is paid for.
    pub(super) fn prepare(&self) -> Result<Prepared, CliError> {
        let (header, plan, resumed) = match &self.place.resume {
            Some(dir) => {
                let folder = RunFolder::open(dir)?;
                let (header, plan) = self.resumed(dir, &folder)?;
                (header, plan, Some(folder))
            }
            None => {
                let (header, plan) = self.new_run()?;
                (header, plan, None)
            }
        };
        Ok(Prepared {
            baseline: baseline(&header, &plan)?,
            header,
            again: match self.place.retry_errors {
                true => Again::Errors,
                false => Again::Never,
            },
            page: OnceCell::new(),
            plan,
            output: self.place.output.clone(),
            resumed: RefCell::new(resumed),
        })
    }

    fn new_run(&self) -> Result<(RunHeader, Plan), CliError> {
        let Some(path) = self.suite.clone() else {
            return Err(CliError::usage("name the suite to run"));
        };
        let plan = plan(&path, self.kind, self.limit)?;
        let earlier = self.place.only_failed.as_ref();
        let header = RunHeader {
            run_id: Uuid::now_v7(),
            gavel: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: SystemClock.now(),
            suite: SuiteRef {
                path,
                sha256: plan.sha256.clone(),
                items: plan.items,
            },
            kind: plan.kind,
            options: self.options(),
            only: earlier.map(|dir| not_passed(dir, &plan)).transpose()?,
            gates: self.gates(),
            judged_by: None,
            label: self.label.read(),
        };
        Ok((header, plan))
    }

    fn resumed(&self, dir: &Path, folder: &RunFolder) -> Result<(RunHeader, Plan), CliError> {
        let mut header = folder.header().clone();
        let path = self.suite.clone().unwrap_or(header.suite.path.clone());
        if !path.exists() && self.suite.is_none() {
            return Err(CliError::usage(format!(
                "--resume {dir}: the run's suite {path} does not exist in this folder: name its new place: gavel evaluate SUITE --resume {dir}",
                dir = dir.display(),
                path = path.display(),
            )));
        }
        // Checked before the rows are read: every row of another suite may be invalid.
        let sha256 = digest(&path).map_err(|bad| unreadable(&path, &bad.into()))?;
        if sha256 != header.suite.sha256 {
            return Err(CliError::usage(format!(
                "--resume {}: that run is of another suite: {} has the digest {}, the run's suite {} had {}; restore the \
                 file, or start a new run",
                dir.display(),
                path.display(),
                short(&sha256),
                header.suite.path.display(),
                short(&header.suite.sha256)
            )));
        }
        let plan = plan(&path, Some(header.kind), header.options.limit)?;
        header.suite.path = path;
        Ok((header, plan))
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
    /// Creates the folder of a new run, judged by `judged_by`, or returns the one of a resumed run.
    pub(super) fn open(&self, judged_by: Option<&Bench>) -> Result<RunFolder, CliError> {
        let header = || RunHeader {
            judged_by: judged_by.cloned(),
            ..self.header.clone()
        };
        match (self.resumed.take(), &self.output) {
            (Some(folder), _) => Ok(folder.moved(self.header.suite.path.clone())),
            (None, Some(path)) => RunFolder::create(path, &header()).map_err(unwritable),
            (None, None) => RunFolder::create_below(Path::new(RUNS), &header()).map_err(unwritable),
        }
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
    pub(super) fn agents_needed(&self) -> BTreeSet<AgentName> {
        let folder = self.resumed.borrow();
        let folder = folder.as_ref();
        let is_answered = |item_no| folder.is_some_and(|folder| folder.has_answer(item_no));
        self.plan
            .agents(|item_no| self.is_wanted(folder, item_no) && !is_answered(item_no))
    }

    /// Whether the judge of the criteria scores any remaining item, as far as is known before agents answer.
    pub(super) fn needs_judge(&self) -> bool {
        let folder = self.resumed.borrow();
        let mut judged = self.plan.judged.iter();
        judged.any(|item_no| self.is_wanted(folder.as_ref(), *item_no))
    }

    /// Whether an item is still to run.
    fn is_wanted(&self, resumed: Option<&RunFolder>, item_no: u64) -> bool {
        match resumed {
            Some(folder) => wanted(folder, self.again, item_no),
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

    pub(super) fn todo(&self, folder: &RunFolder) -> usize {
        (0..self.header.suite.items)
            .filter(|item_no| wanted(folder, self.again, *item_no))
            .count()
    }
}

/// The baseline of a run, checked as far as is possible before the run.
fn baseline(header: &RunHeader, plan: &Plan) -> Result<Option<Baseline>, CliError> {
    let gates = &header.gates;
    let Some(dir) = &gates.baseline else {
        return match gates.max_regression {
            None => Ok(None),
            Some(_) => Err(CliError::usage(
                "--max-regression compares with the mean of an earlier run: name its folder with --baseline",
            )),
        };
    };
    let baseline = Baseline::read(dir)?;
    baseline.fits(plan.kind)?;
    if gates.max_regression.is_some() {
        baseline.pairs_with(plan)?;
    }
    if header.options.no_judge {
        baseline.fits_judge(false, gates)?;
    }
    Ok(Some(baseline))
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
