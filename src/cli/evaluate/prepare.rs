//! Prepares a run before any connection is opened: checks the suite, creates or reads the header, chooses the folder.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::args::Evaluate;
use super::checks::Baseline;
use crate::cli::outcome::CliError;
use crate::clock::{Clock as _, SystemClock};
use crate::job::Kind;
use crate::suite::run::agents::{AgentName, Agents, AnswersFrom};
use crate::suite::run::folder::{
    Bench, FolderError, RunFolder, RunHeader, RunOptions, SuiteRef, passed_items,
};
use crate::suite::run::plan::{BadSuite, digest};
use crate::suite::run::{Plan, wanted};

const RUNS: &str = "reports/evaluation-runs";
/// Maximum number of names in a message.
const MAX_NAMES: usize = 5;

pub(super) struct Prepared {
    pub(super) header: RunHeader,
    pub(super) retry_errors: bool,
    pub(super) baseline: Option<Baseline>,
    /// Address of the batch's page, once it exists.
    pub(super) page: OnceCell<String>,
    plan: Plan,
    /// Folder for a new run. `None`: a new one in [`RUNS`], named by the start time.
    output: Option<PathBuf>,
    /// Folder of the resumed run, until [`Prepared::open`] moves it out.
    resumed: RefCell<Option<RunFolder>>,
}

impl Evaluate {
    /// Reads and checks everything possible before the run costs money.
    pub(super) fn prepare(&self) -> Result<Prepared, CliError> {
        let resumed = self.place.resume.as_deref().map(RunFolder::open);
        let resumed = resumed.transpose()?;
        let (header, plan) = match &resumed {
            Some(folder) => self.resumed(folder)?,
            None => self.new_run()?,
        };
        Ok(Prepared {
            baseline: baseline(&header, &plan)?,
            header,
            retry_errors: self.place.retry_errors,
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

    fn resumed(&self, folder: &RunFolder) -> Result<(RunHeader, Plan), CliError> {
        let (dir, mut header) = (folder.path(), folder.header().clone());
        let path = self.suite.clone().unwrap_or(header.suite.path.clone());
        if !path.exists() && self.suite.is_none() {
            return Err(CliError::usage(format!(
                "--resume {dir}: the run's suite {path} does not exist in this folder: name its new place: gavel evaluate SUITE --resume {dir}",
                dir = dir.display(),
                path = path.display(),
            )));
        }
        // Checked before the rows, because the rows of another suite may all be invalid.
        let sha256 = digest(&path).map_err(|bad| unreadable(&path, &bad.into()))?;
        if sha256 != header.suite.sha256 {
            return Err(CliError::usage(format!(
                "--resume {}: that run used another suite: {} has the digest {}, the run's suite {} had {}; restore the \
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
    /// Returns the reason why no item is selected.
    pub(super) fn nothing_to_run(&self) -> Option<String> {
        let header = &self.header;
        let is_empty = header.suite.items == 0;
        let all_passed = header.only.as_ref().is_some_and(BTreeSet::is_empty);
        match header.options.limit {
            Some(0) if is_empty => Some("--limit is 0".to_owned()),
            _ if is_empty => Some("the suite is empty".to_owned()),
            Some(limit) if all_passed => Some(format!("the first {limit} items (--limit) passed")),
            None if all_passed => Some("every item of that run passed".to_owned()),
            Some(_) | None => None,
        }
    }

    /// Creates the folder of a new run, judged by `judged_by`, or returns that of a resumed run.
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

    /// Agents of the unanswered questions.
    pub(super) fn agents_needed(&self) -> BTreeSet<AgentName> {
        let folder = self.resumed.borrow();
        let folder = folder.as_ref();
        let is_answered = |item_no| folder.is_some_and(|folder| folder.has_answer(item_no));
        self.plan
            .agents(|item_no| self.is_wanted(folder, item_no) && !is_answered(item_no))
    }

    /// Whether the criteria's judge scores any remaining item, if known before the agents answer.
    pub(super) fn needs_judge(&self) -> bool {
        let folder = self.resumed.borrow();
        let mut judged = self.plan.judged.iter();
        judged.any(|item_no| self.is_wanted(folder.as_ref(), *item_no))
    }

    fn is_wanted(&self, resumed: Option<&RunFolder>, item_no: u64) -> bool {
        match resumed {
            Some(folder) => wanted(folder, self.retry_errors, item_no),
            None => {
                let only = self.header.only.as_ref();
                only.is_none_or(|only| only.contains(&item_no))
            }
        }
    }

    /// Known judges of the items: those they name, and `judge` of the criteria if any item names none.
    pub(super) fn judges<'a>(&'a self, judge: Option<&'a str>) -> Vec<&'a str> {
        let named = self.plan.judges.iter().map(String::as_str);
        named
            .chain(judge.filter(|_| self.plan.leaves_judge))
            .collect()
    }

    /// Warning about unused answers. `None` if only the first items are read.
    pub(super) fn unasked(&self, agents: &Agents) -> Option<String> {
        let is_whole = self.header.options.limit.is_none();
        let names = agents.unasked(|name| !is_whole || self.plan.names.contains_key(name));
        let first = names.get(..MAX_NAMES).unwrap_or(&names).join(", ");
        let more = if names.len() > MAX_NAMES { ", ..." } else { "" };
        (!names.is_empty()).then(|| {
            format!(
                "--agent-results: {} of its answers are to no question of this suite: {first}{more}",
                names.len()
            )
        })
    }

    pub(super) fn todo(&self, folder: &RunFolder) -> usize {
        (0..self.header.suite.items)
            .filter(|item_no| wanted(folder, self.retry_errors, *item_no))
            .count()
    }
}

/// Reads the baseline and runs the checks that are possible before the run.
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

/// Items selected by an earlier run that did not pass in it.
fn not_passed(dir: &Path, plan: &Plan) -> Result<BTreeSet<u64>, CliError> {
    let earlier = RunFolder::header_of(dir)?;
    if earlier.suite.sha256 != plan.sha256 {
        return Err(CliError::usage(format!(
            "--only-failed {}: that run used another suite, or an earlier state of it: its digest is {}, this suite's digest is {}",
            dir.display(),
            short(&earlier.suite.sha256),
            short(&plan.sha256)
        )));
    }
    let passed = passed_items(dir)?;
    // The earlier run may itself have been limited to some items.
    let asked = earlier
        .only
        .unwrap_or_else(|| (0..earlier.suite.items).collect());
    let left = asked.difference(&passed).copied();
    Ok(left.filter(|item_no| *item_no < plan.items).collect())
}

fn short(sha256: &str) -> &str {
    sha256.get(..12).unwrap_or(sha256)
}

/// A new run's folder that can't be created is a usage error, because no item has run.
fn unwritable(error: FolderError) -> CliError {
    match error {
        FolderError::Unfit(message) => CliError::usage(message),
        error @ FolderError::Io { .. } => CliError::usage(format!(
            "{error}: name a folder for the run that can be written, with --output"
        )),
    }
}
