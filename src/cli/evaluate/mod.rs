//! `gavel evaluate`: runs a suite against its agents and a service, stores the run, and checks its gates.

mod args;
mod checks;
mod jobs;
mod prepare;
mod show;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::jobs::{GivenUpJudges, Service};
use self::prepare::Prepared;
use super::Global;
use super::batches::push;
use super::connection::{Connection, Needs};
use super::context::{Context, LogProfile};
use super::daemon::until_interrupted;
use super::outcome::{CliError, Exit};
use super::output;
use super::progress::{OUTAGE_TIMEOUT, Progress};
use super::simulated::SimulatedJudge;
use crate::app::{criteria_of, read_providers};
use crate::client::Client;
use crate::clock::{Clock as _, SystemClock};
use crate::config::Settings;
use crate::lifecycle::Signals;
use crate::report::live;
use crate::report::summary::Figures;
use crate::report::{
    GateResult, Item, ItemError, Meta, Outcome, ReportError, ResultLines, Simulated, Source as _,
    Verdict, sum_up, write_all,
};
use crate::suite::run::agents::Agents;
use crate::suite::run::compare::RunComparison;
use crate::suite::run::folder::{Bench, RESULTS};
use crate::suite::run::{Computed, Run, RunError, RunFolder, Scorer, run};
use crate::suite::run::{gate, thresholds};

pub(super) use self::args::{Evaluate, share};

/// Timeout for sending a run's batch, so that it doesn't delay the results.
const PUSH_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of items named per error.
const MAX_NAMES: usize = 5;
/// Maximum number of listed items that did not pass.
const MAX_MISSED: usize = 20;

impl Evaluate {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        let prepared = self.prepare()?;
        if let Some(why) = prepared.nothing_to_run() {
            output::note(&format!("no items to run: {why}"));
            return Ok(Exit::Nothing);
        }
        let opened = OnceCell::new();
        let ended = self.run_prepared(global, &prepared, &opened).await;
        match opened.into_inner() {
            // The run has no results to resume.
            Some(folder) if folder.is_untouched() && was_rejected(&ended) => {
                folder.discard()?;
                ended.map(|()| Exit::Nothing)
            }
            Some(folder) => self.finish(&prepared, folder, ended).await,
            None => ended.map(|()| Exit::Nothing),
        }
    }

    /// Runs with a service, with a simulated judge, or without a judge.
    async fn run_prepared(
        &self,
        global: &Global,
        prepared: &Prepared,
        opened: &OnceCell<RunFolder>,
    ) -> Result<(), CliError> {
        let options = &prepared.header.options;
        if options.no_judge {
            let context = Context::new(global, [], LogProfile::Summary)?;
            let work = self.run_items(&context.settings, None, prepared, opened);
            return until_interrupted(&mut Signals::listen()?, Box::pin(work)).await;
        }
        let command = async |connection: Connection<'_>| {
            let settings = &connection.context.settings;
            Box::pin(self.run_items(settings, Some(&connection), prepared, opened)).await
        };
        // A worker reserves a tenth of its slots for interactive jobs, and the items are bulk jobs.
        let slots = usize::from(self.concurrency);
        let slots = slots + slots.div_ceil(9);
        let adjust = |settings: &mut Settings| settings.worker.concurrency = slots;
        let (service, needs) = (&self.connection, Needs::Suite);
        match options.simulate {
            true => SimulatedJudge::run(service, (global, needs), adjust, command).await,
            false => service.run_with(global, needs, adjust, command).await,
        }
    }

    /// Rejects a run if its judges are unavailable, or of another type than the baseline's.
    async fn check_judges(
        &self,
        client: &Client,
        bench: &Bench,
        prepared: &Prepared,
    ) -> Result<(), CliError> {
        let needs_judge = prepared.needs_judge();
        if !needs_judge && prepared.baseline.is_none() {
            return Ok(());
        }
        let judges = checks::judges_of(client).await?;
        let named = prepared.judges(bench.judge.as_deref());
        if let Some(against) = &prepared.baseline
            && let Some(simulated) = checks::are_simulated(&judges, &named)
        {
            against.fits_judge(simulated, &prepared.header.gates)?;
        }
        match needs_judge {
            true => checks::check_available(&judges, bench),
            false => Ok(()),
        }
    }

    /// Runs the remaining items with `client`'s service, or computes their scores without one.
    async fn run_items(
        &self,
        settings: &Settings,
        connection: Option<&Connection<'_>>,
        prepared: &Prepared,
        opened: &OnceCell<RunFolder>,
    ) -> Result<(), CliError> {
        let header = &prepared.header;
        let criteria = criteria_of(settings, header.kind)?;
        let judged_by = match connection {
            // Computed scores don't depend on criteria.
            None => None,
            Some(connection) => {
                let settings = (!connection.is_remote).then_some(settings);
                checks::bench_of(connection.client, header, settings).await?
            }
        };
        if let (Some(connection), Some(bench)) = (connection, &judged_by) {
            self.check_judges(connection.client, bench, prepared)
                .await?;
        }
        let needed = prepared.agents_needed();
        if let Some(connection) = connection.filter(|it| it.is_remote && !needed.is_empty()) {
            // Checks the permission before agents are called, because their answers couldn't be scored.
            let progress = Progress::new("items", 0);
            let client = progress.retrying(connection.client, OUTAGE_TIMEOUT);
            client.may_ask().await?;
        }
        let agents = Agents::new(prepared.answers_from(), &needed, &settings.agents)?;
        agents.probe().await?;
        if let Some(note) = prepared.unasked(&agents) {
            output::note(&output::clean(&note));
        }
        let folder = prepared.open(judged_by.as_ref())?;
        let todo = prepared.todo(&folder);
        // If no item remains, changed criteria don't matter.
        if let Some(now) = judged_by.as_ref().filter(|_| todo > 0) {
            let began = folder.header().judged_by.as_ref();
            checks::check_unchanged(began, now, (folder.path(), header.kind))?;
        }
        let folder = opened.get_or_init(|| folder);
        output::note(&format!(
            "{}: {todo} of {} items to run, into {}",
            header.suite.path.display(),
            header.suite.items,
            folder.path().display()
        ));
        if let Some(bench) = judged_by.filter(|_| connection.is_some_and(|it| !it.is_remote)) {
            self.note_lower_cap(settings, &bench);
        }
        let progress = Progress::new("items", todo);
        let not_run = ItemError {
            class: "not_run".to_owned(),
            message: "no judge was used (--no-judge): run it with a judge for a total".to_owned(),
        };
        let computed = Computed::new(Arc::new(criteria), Arc::new(SystemClock), not_run);
        let service = connection.map(|connection| Service {
            client: progress.retrying(connection.client, OUTAGE_TIMEOUT),
            header,
            computed: &computed,
            progress: &progress,
            timeout: Duration::from_secs(self.judge.max_wait),
            works_here: connection.works_here,
            given_up: GivenUpJudges::default(),
            hurry: CancellationToken::new(),
        });
        let scorer: &dyn Scorer = match &service {
            Some(service) => service,
            None => &computed,
        };
        let seen = |item: &Item| {
            if self.verbose {
                progress.println(&live::lines(item).join(" / "));
            }
            progress.one(item.outcome == Outcome::Scored);
        };
        let parts = Run {
            folder,
            agents: &agents,
            scorer,
            at_once: self.concurrency.into(),
            retry_errors: prepared.retry_errors,
        };
        run(&parts, &seen).await.map_err(|error| match error {
            RunError::Stopped(why) => why.into(),
            RunError::Suite(fault) => CliError::usage(format!(
                "{}: the suite has changed while it was run: {fault}",
                header.suite.path.display()
            )),
            RunError::Folder(fault) => fault.into(),
            RunError::Report(fault) => CliError::incomplete(fault),
        })?;
        // A batch would score the cancelled jobs again, which the user hasn't requested.
        if let (Some(connection), Some(service)) = (connection, &service)
            && connection.is_remote
            && service.given_up.is_empty()
            && todo > 0
        {
            show_as_batch(connection.client, folder.path(), prepared).await;
        }
        Ok(())
    }

    /// Prints the judge's limit of concurrent calls if it is below the flag's.
    fn note_lower_cap(&self, settings: &Settings, bench: &Bench) {
        let judge = bench.judge.as_deref().unwrap_or_default();
        let providers = read_providers(settings).ok();
        let spec = providers.and_then(|providers| providers.spec(judge).ok());
        let cap = spec.and_then(|spec| spec.max_concurrency());
        if let Some(cap) = cap.filter(|cap| *cap < self.concurrency.into()) {
            output::note(&format!(
                "{judge} gets at most {cap} calls at once, not {}: its max_concurrency in llm_providers.yaml is lower",
                self.concurrency
            ));
        }
    }

    /// Writes the reports, prints the summary, and returns the exit code.
    async fn finish(
        &self,
        prepared: &Prepared,
        folder: RunFolder,
        ended: Result<(), CliError>,
    ) -> Result<Exit, CliError> {
        let header = folder.header();
        let gates = header.gates.clone();
        let bench = header.judged_by.as_ref();
        let meta = Meta {
            name: header.suite.path.display().to_string(),
            run: Some(folder.path().display().to_string()),
            made_at: SystemClock.now(),
            unfinished: header.asked().saturating_sub(folder.lines()),
            simulated: gates.simulated(),
            judging: header.judging(),
            criteria_hash: bench.map(|bench| bench.criteria_hash.clone()),
        };
        let path = folder.path().to_owned();
        let held = gates.clone();
        let reports = move || report(&path, &meta, &held);
        let made = tokio::task::spawn_blocking(reports)
            .await
            .map_err(|error| {
                CliError::incomplete(format!("writing the reports broke off: {error}"))
            })?
            .map_err(CliError::incomplete);
        let (figures, gate_result, against, missed) = match (made, &ended) {
            (Ok(made), _) => made,
            (Err(error), Ok(())) => return Err(error),
            // The error that ended the run has precedence.
            (Err(_), Err(_)) => {
                output::note(&format!(
                    "no reports written; resume with: {}",
                    resume(folder.path())
                ));
                return ended.map(|()| Exit::Incomplete);
            }
        };
        if against.as_ref().is_some_and(|it| is_mixed(it, &gates)) {
            return Err(CliError::usage(mixed("--baseline")));
        }
        let exit = match (&ended, gate_result.decision) {
            (Err(error), _) => error.exit,
            (Ok(()), Verdict::Passed) => Exit::Done,
            (Ok(()), Verdict::Failed) => Exit::GateFailed,
            (Ok(()), Verdict::Incomplete) => Exit::Incomplete,
            (Ok(()), Verdict::Nothing) => Exit::Nothing,
        };
        let shown = show::RunSummary {
            header: folder.header(),
            path: folder.path(),
            figures: &figures,
            gate_result: &gate_result,
            against: against.as_ref(),
            missed: &missed,
            page: prepared.page.get().map(String::as_str),
            exit,
        };
        output::print(&shown, self.json)?;
        if let Err(error) = &ended {
            output::error(error);
        }
        if let Some(hint) = hint(&figures, &folder) {
            output::note(&hint);
        }
        Ok(exit)
    }
}

/// Returns the command that resumes a run.
fn resume(folder: &Path) -> String {
    format!("gavel evaluate --resume {}", folder.display())
}

/// Hint how to continue an incomplete run.
fn hint(figures: &Figures, folder: &RunFolder) -> Option<String> {
    let resume = resume(folder.path());
    if figures.unfinished > 0 {
        return Some(format!("continue with: {resume}"));
    }
    if figures.unscored() == 0 || folder.header().options.no_judge {
        return None;
    }
    // Items that failed without involving the judge would fail again.
    let is_final = |class: &String| class == Outcome::Incomplete.as_str();
    Some(match figures.errors.keys().all(is_final) {
        true => "a retry won't score the items without a score: fix the problems above, or allow some with --max-errors".to_owned(),
        false => format!("retry items without a score with: {resume} --retry-errors"),
    })
}

/// Sends a run as a batch and stores the address of its page. A failure doesn't affect the run.
async fn show_as_batch(client: &Client, folder: &Path, prepared: &Prepared) {
    let pushed = timeout(PUSH_TIMEOUT, push(client, folder, &prepared.header.label));
    let late =
        |_| CliError::incomplete(format!("it took longer than {} s", PUSH_TIMEOUT.as_secs()));
    match pushed.await.map_err(late).flatten() {
        Ok(Some(batch)) => {
            let page = format!("/batches/{}", batch.batch_id);
            prepared.page.get_or_init(|| client.address(&page));
        }
        Ok(None) => {}
        Err(error) => output::note(&format!(
            "no page shows this run ({error}); try again with: gavel batches push {}",
            folder.display()
        )),
    }
}

/// Error for a comparison of a real with a simulated run.
pub(super) fn mixed(what: &str) -> String {
    format!(
        "{what}: one of the two runs has scores of a simulated judge and the other has none, so their difference is not \
         meaningful; use --allow-simulated to compare them anyway"
    )
}

/// Checks the gates and the baseline, and writes the reports. Blocks.
fn report(
    path: &Path,
    meta: &Meta,
    gates: &thresholds::Gates,
) -> Result<(Figures, GateResult, Option<RunComparison>, Vec<String>), ReportError> {
    let lines = ResultLines::open(&path.join(RESULTS))?;
    let against = gates
        .baseline
        .as_deref()
        .map(|dir| {
            let found = RunComparison::between(&ResultLines::open(&dir.join(RESULTS))?, &lines)?;
            // Result folders made by other tools have no header.
            let bench = |dir: &Path| RunFolder::header_of(dir).ok()?.judged_by;
            Ok::<_, ReportError>(found.under(bench(dir).as_ref(), bench(path).as_ref()))
        })
        .transpose()?;
    let mut figures = sum_up(&lines, meta)?;
    let gate_result = match against.as_ref().filter(|it| is_mixed(it, gates)) {
        Some(_) => GateResult {
            decision: Verdict::Incomplete,
            reasons: vec![mixed("--baseline")],
        },
        None => gate::decide(&figures, gates, meta.judging, against.as_ref()),
    };
    figures.gate = Some(gate_result.clone());
    write_all(path, &lines, (&figures, meta))?;
    let missed = missed(&lines)?;
    Ok((figures, gate_result, against, missed))
}

/// Lists the first items that did not pass, each with its score or error. Items with the same error class are grouped.
fn missed(lines: &ResultLines) -> Result<Vec<String>, ReportError> {
    let (mut missed, mut more) = (Vec::new(), 0);
    let mut unscored: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    lines.each(&mut |item| {
        let has_passed = item.outcome == Outcome::Scored && item.passed != Some(false);
        if has_passed {
            return Ok(());
        }
        if let Some(error) = &item.error {
            let alike = unscored.entry(error.class.clone());
            let (_, names) = alike.or_insert_with(|| (live::score(item), Vec::new()));
            names.push(item.name());
        } else if missed.len() < MAX_MISSED {
            let why = live::obstacle(item).map_or_else(String::new, |why| format!(" · {why}"));
            missed.push(format!("{}  {}{why}", item.name(), live::score(item)));
        } else {
            more += 1;
        }
        Ok(())
    })?;
    let line = |(text, names): (String, Vec<String>)| match names.as_slice() {
        [name] => format!("{name}  {text}"),
        names => {
            let (n, first) = (names.len(), names.get(..MAX_NAMES).unwrap_or(names));
            let more = if n > MAX_NAMES { ", .." } else { "" };
            format!("{n} items  {text}: {}{more}", first.join(", "))
        }
    };
    missed.extend(unscored.into_values().map(line));
    if more > 0 {
        missed.push(format!("and {more} more: summary.md"));
    }
    Ok(missed)
}

/// Whether the run was rejected as requested, for example because no judge is available.
fn was_rejected(ended: &Result<(), CliError>) -> bool {
    ended.as_ref().is_err_and(|error| error.exit == Exit::Usage)
}

/// Whether this compares a real with a simulated run although that isn't allowed.
fn is_mixed(against: &RunComparison, gates: &thresholds::Gates) -> bool {
    match gates.simulated() {
        Simulated::Allowed => false,
        Simulated::Refused => against.mixes_simulated(),
    }
}
