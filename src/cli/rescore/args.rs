//! Flags of `gavel rescore`, and their conversion to a request.

use std::path::PathBuf;

use clap::{ArgGroup, Args, value_parser};
use uuid::Uuid;

use crate::cli::batches::dollars;
use crate::cli::connection::ConnectionArgs;
use crate::job::{Priority, Purpose};
use crate::wire::{RescoreRequest, Sample, SessionFilter};

/// Default sample size of a preview.
const PREVIEW_SAMPLE: u64 = 50;

/// Score many stored sessions again, selected by a filter
#[derive(Debug, Args)]
#[command(
    long_about = "Score many stored sessions again, in one batch that the service runs. Without a filter the batch \
        contains every session.\n\nTwo flags select criteria. --criteria sets the criteria to judge by (default: the \
        current ones); --scored-with selects sessions by the criteria of their score. Sessions with a score by \
        the target criteria are skipped unless you give --force or --scored failed. Sessions with an active job are \
        skipped too.\n\nThe command first prints the plan: number of sessions, cost and duration. On a terminal it \
        then waits for your confirmation (not with --yes); --dry-run only prints the plan. The batch runs without \
        this command; use --watch to follow it, and `gavel batches` to show, pause or cancel it.\n\n--preview, \
        --repeat and --judge create additional scores and replace no current score. --preview compares with scores \
        by the current criteria, so it uses only sessions with such a score, unless --scored-with, --not-current, \
        --scored or --ids-file selects others.\n\nExit codes:\n  0 started (with --watch: everything is scored)\n  2 \
        usage or settings\n  3 the service is down (with --watch: some items have no score, or the batch\n    is \
        paused)\n  4 no sessions to score, or not confirmed\n  130 interrupted (a started batch keeps running)",
    after_help = "Examples:\n  gavel rescore --not-current --dry-run\n  gavel rescore --scored-with 9f2c.. --from 2026-01-01 --budget 25 --watch\n  gavel rescore --scored failed --yes\n  gavel rescore --preview new_criteria.yaml --watch\n  gavel rescore --repeat 5 --sample 20\n  gavel rescore --rated --judge a --judge b --watch",
    group = ArgGroup::new("sampled").args(["sample", "preview"]).multiple(true)
)]
pub(in crate::cli) struct Rescore {
    #[command(flatten)]
    pub(super) purpose: PurposeArgs,
    #[command(flatten)]
    pub(super) selection: SelectionArgs,
    #[command(flatten)]
    pub(super) execution: ExecutionArgs,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What for")]
pub(super) struct PurposeArgs {
    /// Judge by these stored criteria: a hash (at least 8 digits), or current [default: current]
    #[arg(long, value_name = "HASH|current")]
    pub(super) criteria: Option<String>,
    /// Try a criteria file on a sample without replacing scores. Stores the definition, even with --dry-run; its ${VARIABLES} are filled in
    /// here, even with --server
    #[arg(long, value_name = "FILE", conflicts_with_all = ["criteria", "repeat", "force"])]
    pub(super) preview: Option<PathBuf>,
    /// Score each session this many times (2-20), to measure judge consistency; replaces no score
    #[arg(long, value_name = "K", conflicts_with_all = ["judge", "force"], value_parser = value_parser!(u8).range(2..=20))]
    pub(super) repeat: Option<u8>,
    /// Score each session with this judge; repeat for 2-9 judges. Compares them with each other and with user ratings; replaces no score
    #[arg(long, value_name = "NAME", conflicts_with = "force")]
    pub(super) judge: Vec<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Which sessions")]
pub(super) struct SelectionArgs {
    /// Sessions scored with these criteria: a hash, or current
    #[arg(long, value_name = "HASH|current", conflicts_with = "not_current")]
    scored_with: Option<String>,
    /// Sessions scored with other criteria than the current ones
    #[arg(long)]
    not_current: bool,
    #[command(flatten)]
    filter: SessionFilter,
    /// Only the ids in this file, one per line; - is stdin, which on a terminal requires --yes or --dry-run
    #[arg(long, value_name = "FILE")]
    pub(super) ids_file: Option<PathBuf>,
    /// Random sample of this size [default with --preview: 50]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    sample: Option<u64>,
    /// Seed of the sample: the same seed selects the same sessions
    #[arg(long, value_name = "S", default_value_t = 1, requires = "sampled")]
    seed: u64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "How")]
pub(super) struct ExecutionArgs {
    /// Also score sessions that have a score by the target criteria. Call the judge even if its reply is cached
    #[arg(long)]
    force: bool,
    /// Maximum number of sessions, newest first
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Pause when the cost reaches this amount
    #[arg(long, value_name = "USD", value_parser = dollars)]
    budget: Option<f64>,
    /// Name of the batch
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Use the provider's batch endpoint: within a day, for about half the price
    #[arg(long, conflicts_with_all = ["budget", "interactive", "judge"])]
    economy: bool,
    /// Run before bulk work
    #[arg(long)]
    interactive: bool,
    /// Show the plan without starting
    #[arg(long, conflicts_with_all = ["yes", "watch"])]
    pub(super) dry_run: bool,
    /// Start without confirmation
    #[arg(long, short)]
    pub(super) yes: bool,
    /// Watch the batch until it ends
    #[arg(long)]
    pub(super) watch: bool,
}

impl Rescore {
    /// Builds the request without its dry-run flag. `ids`: the sessions of --ids-file; `hash`: the criteria to judge by, the current ones
    /// if `None`.
    pub(super) fn request(&self, ids: Option<&[Uuid]>, hash: Option<&str>) -> RescoreRequest {
        let (PurposeArgs { preview, judge, .. }, execution) = (&self.purpose, &self.execution);
        let purpose = match (preview, self.purpose.repeat, judge.is_empty()) {
            (_, _, false) => Purpose::Jury,
            (Some(_), _, true) => Purpose::Preview,
            (None, Some(_), true) => Purpose::Repeat,
            (None, None, true) => Purpose::Score,
        };
        let priority = match execution.interactive {
            true => Priority::Interactive,
            false => Priority::Bulk,
        };
        let sampled = self
            .selection
            .sample
            .or(preview.as_ref().map(|_| PREVIEW_SAMPLE));
        let seed = self.selection.seed;
        RescoreRequest {
            name: execution.name.clone(),
            filter: SessionFilter {
                criteria: self.criteria_filter().map(str::to_owned),
                ids: ids.map(<[Uuid]>::to_vec).unwrap_or_default(),
                ..self.selection.filter.clone()
            },
            criteria_hash: hash.map(str::to_owned),
            force_rescore: execution.force,
            dry_run: false,
            max: execution.limit,
            budget_usd: execution.budget,
            priority: Some(priority),
            purpose: Some(purpose),
            sample: sampled.map(|size| Sample { size, seed }),
            economy: execution.economy,
            repeats: self.purpose.repeat.map(u32::from),
            judges: (!judge.is_empty()).then(|| judge.clone()),
        }
    }
}

impl Rescore {
    /// Whether a preview is limited to comparable sessions: with a score by the current criteria.
    pub(super) fn limits_to_comparable(&self) -> bool {
        let selection = &self.selection;
        let is_chosen = selection.scored_with.is_some()
            || selection.not_current
            || selection.filter.scored.is_some()
            || selection.ids_file.is_some();
        self.purpose.preview.is_some() && !is_chosen
    }

    fn criteria_filter(&self) -> Option<&str> {
        match (self.selection.not_current, self.limits_to_comparable()) {
            (true, _) => Some("not_current"),
            (false, true) => Some("current"),
            (false, false) => self.selection.scored_with.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        rescore: Rescore,
    }

    fn read(flags: &str) -> Result<Rescore, String> {
        let words = std::iter::once("rescore").chain(flags.split_whitespace());
        Line::try_parse_from(words)
            .map(|line| line.rescore)
            .map_err(|error| error.to_string())
    }

    fn body(flags: &str, hash: Option<&str>) -> Value {
        serde_json::to_value(read(flags).unwrap().request(None, hash)).unwrap()
    }

    #[test]
    fn no_flags_select_all_sessions() {
        assert_eq!(
            body("", None),
            json!({"filter": {}, "purpose": "score", "force_rescore": false, "priority": "bulk"})
        );
    }

    #[test]
    fn target_criteria_differ_from_scored_with() {
        let flags = "--criteria abc --scored-with def --scored no --min-score 40";
        let scored = body(flags, Some("abc"));
        assert_eq!(scored["criteria_hash"], "abc");
        assert_eq!(
            scored["filter"],
            json!({"criteria": "def", "scored": "no", "min_score": 40})
        );
        let failed = body("--not-current --scored failed --missing-tool kubectl", None);
        assert_eq!(
            failed["filter"],
            json!({"criteria": "not_current", "scored": "failed", "missing_tool": "kubectl"})
        );
    }

    #[test]
    fn flags_of_each_purpose_build_its_request() {
        let of = |flags: &str| body(flags, None);
        let preview = of("--preview new.yaml --seed 7");
        assert_eq!(
            (&preview["purpose"], &preview["sample"]),
            (&json!("preview"), &json!({"size": 50, "seed": 7}))
        );
        // Sessions without a score by the current criteria can't be compared.
        for (flags, filter) in [
            ("--preview f", json!({"criteria": "current"})),
            (
                "--preview f --tag a",
                json!({"criteria": "current", "tag": "a"}),
            ),
            ("--preview f --scored no", json!({"scored": "no"})),
            ("--preview f --scored failed", json!({"scored": "failed"})),
            (
                "--preview f --not-current",
                json!({"criteria": "not_current"}),
            ),
            ("--preview f --scored-with abc", json!({"criteria": "abc"})),
            ("--preview f --ids-file all.txt", json!({})),
            ("--repeat 2", json!({})),
        ] {
            assert_eq!(of(flags)["filter"], filter, "{flags}");
        }
        let repeat = of("--repeat 5 --sample 3");
        assert_eq!(
            (&repeat["purpose"], &repeat["repeats"], &repeat["sample"]),
            (&json!("repeat"), &json!(5), &json!({"size": 3, "seed": 1}))
        );
        let jury = of("--judge a --judge b --limit 4 --budget 2.5 --name n --interactive");
        assert_eq!(
            (&jury["purpose"], &jury["judges"], &jury["max"]),
            (&json!("jury"), &json!(["a", "b"]), &json!(4))
        );
        assert_eq!(
            (&jury["budget_usd"], &jury["name"], &jury["priority"]),
            (&json!(2.5), &json!("n"), &json!("interactive"))
        );
        let both = of("--preview new.yaml --judge a --judge b --rated");
        assert_eq!(
            (&both["purpose"], &both["judges"], &both["filter"]),
            (
                &json!("jury"),
                &json!(["a", "b"]),
                &json!({"rated": true, "criteria": "current"})
            )
        );
        let economy = of("--repeat 2 --economy");
        assert_eq!(
            (&economy["economy"], &economy["repeats"]),
            (&json!(true), &json!(2))
        );
        for (flags, fault) in [
            ("--preview f --criteria abc", "cannot be used with"),
            ("--economy --budget 3", "cannot be used with"),
            ("--repeat 1", "2..=20"),
            ("--seed 3", "--sample <N>"),
            (
                "--scored never",
                "possible values: yes, no, running, failed",
            ),
            ("--min-score 101", "0..=100"),
            ("--rating bad", "near_perfect"),
            ("--status done", "in_progress"),
            ("--budget free", "give an amount of USD"),
            ("--from yesterday", "give a time"),
        ] {
            let said = read(flags).unwrap_err();
            assert!(said.contains(fault), "{flags}: {said}");
        }
    }
}
