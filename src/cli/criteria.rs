//! `gavel criteria`: criteria of each kind. No command promotes a version: replace the criteria file.

mod compared;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Global;
use super::connection::{Common, Connection, Needs};
use super::context::{Context, LogProfile};
use super::outcome::{CliError, Exit};
use super::output::{self, Column, Printable, Row, Text, WithText, optional_time, or_empty};
use crate::client::Client;
use crate::config::yaml::{FileError, resolve};
use crate::config::{Settings, env_with_default};
use crate::job::Kind;
use crate::score::Criteria;
use crate::wire::{CriteriaAdded, CriteriaDetail, CriteriaList, CriteriaVersion, words};

/// Length of a hash in lists. Commands accept it and pages show it.
const SHORT_HASH_CHARS: usize = 8;
/// Number of sessions with the largest change that a comparison prints.
const MAX_MOVERS: u32 = 10;
/// Maximum length of a name in lists, so that a row fits 80 columns.
const MAX_NAME_CHARS: usize = 16;

/// List, show, add, check and compare criteria
#[derive(Debug, Subcommand)]
#[command(
    long_about = "List, show, add, check and compare criteria. A definition is identified by the SHA-256 of its \
        content after ${VARIABLES} are filled in. It is for one kind: session, unless its file names another, such \
        as `kind: qas`. New requests use the current definition of their kind: the file in --scoring-config \
        (GAVEL_SCORING_CONFIG) of the API. For other kinds the variable is GAVEL_CRITERIA_ plus the kind \
        (GAVEL_CRITERIA_QAS).",
    after_help = "Examples:\n  gavel criteria check my_criteria.yaml\n  gavel criteria add my_criteria.yaml\n  gavel criteria diff current 1f3a9c02\n  gavel criteria compare current 1f3a9c02\n  gavel score --criteria-hash HASH session.json   # try it on one session\n\nTo make it current: replace the file that the variable of its kind names and send SIGHUP, or restart."
)]
pub(super) enum CriteriaArgs {
    /// List stored criteria, newest first
    List(Common),
    /// Show one version with its content
    Show {
        /// Hash (at least 8 digits), or current
        hash: String,
        #[command(flatten)]
        common: Common,
    },
    /// Check and store criteria without making them current; ${VARIABLES} are filled in here, also with --server
    Add {
        /// Criteria file (YAML)
        file: PathBuf,
        #[command(flatten)]
        common: Common,
    },
    /// Check a file and print its hash, without storing it
    Check {
        /// Criteria file (YAML)
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Compare the scores of two versions for the same sessions
    #[command(
        long_about = "Compare the scores of the same sessions by two definitions. It uses sessions with a score by \
            both, and the newest score by each. It prints both means and their difference, with a bootstrap interval \
            (95 %, deterministic). It also prints whether both rank the sessions in the same order (Kendall's \
            tau-b), the changes of ratings, and the sessions with the largest changes. Simulated scores count only \
            if all scores are simulated.\n\nExit codes: 0 compared, 2 a hash matches no definition or several, 4 no \
            session has a score by both."
    )]
    Compare {
        #[command(flatten)]
        pair: Pair,
        #[command(flatten)]
        common: Common,
    },
    /// Show the text changes between two versions, as a unified diff
    Diff {
        #[command(flatten)]
        pair: Pair,
        #[command(flatten)]
        common: Common,
    },
    /// Show the current criteria of a kind
    Current {
        /// Kind
        #[arg(long, default_value_t = Criteria::DEFAULT_KIND, value_name = "KIND")]
        kind: Kind,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, Args)]
pub(super) struct Pair {
    /// First version: a hash (at least 8 digits), or current
    a: String,
    /// Second version
    b: String,
}

impl CriteriaArgs {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        match self {
            Self::List(common) => common.print(global, Client::criteria_list).await,
            Self::Show { hash, common } => {
                let show = async |client: &Client| client.criteria(hash).await;
                common.print(global, show).await
            }
            Self::Compare { pair, common } => {
                let compare = async |client: &Client| {
                    let Pair { a, b } = pair;
                    client.compare_criteria(a, b, MAX_MOVERS).await
                };
                common.print(global, compare).await
            }
            Self::Diff { pair, common } => {
                let diff = async |client: &Client| client.diff_criteria(&pair.a, &pair.b).await;
                common.print(global, diff).await
            }
            Self::Add { file, common } => {
                let add = async |connection: Connection<'_>| {
                    let criteria = read_for(&connection, file)?;
                    let answer = connection.client.add_criteria(&criteria.content).await?;
                    Ok(added(answer, file))
                };
                common.run(global, Needs::Store, add).await
            }
            Self::Check { file, json } => {
                let context = Context::new(global, [], LogProfile::Results)?;
                let criteria = read(&context.settings, file)?;
                output::print(&checked(&criteria, file), *json)
            }
            Self::Current { kind, common } => {
                let current = async |connection: Connection<'_>| {
                    Ok(connection.client.current_criteria(*kind).await?)
                };
                common.run(global, Needs::Store, current).await
            }
        }
    }
}

fn checked(criteria: &Criteria, file: &Path) -> WithText<Value> {
    let dimensions = criteria.dimensions.iter();
    let dimensions: Vec<String> = dimensions
        .map(|dimension| format!("{} {}", dimension.name, dimension.max))
        .collect();
    let mut text = Text::default();
    text.line(format!("{}: good", file.display()));
    text.facts(&[
        ("hash", criteria.hash.to_string()),
        ("kind", criteria.kind.to_string()),
        ("judge", criteria.judge.clone()),
        ("dimensions", dimensions.join(", ")),
    ]);
    if !criteria.enabled {
        text.note("scoring.enabled is false: this kind would not be scored");
    }
    let result = json!({
        "criteria_hash": criteria.hash,
        "kind": criteria.kind,
        "judge": criteria.judge,
        "enabled": criteria.enabled,
        "dimensions": criteria.dimensions,
    });
    WithText::new(result, text)
}

fn added(answer: CriteriaAdded, file: &Path) -> WithText<CriteriaAdded> {
    let (hash, file) = (&answer.criteria_hash, file.display());
    let (trying, variable) = match answer.kind.is_case() {
        // A preview doesn't change current scores.
        false => (
            format!("rescore --preview {file} --sample 20"),
            "GAVEL_SCORING_CONFIG".to_owned(),
        ),
        true => {
            let kind = answer.kind.as_str().to_uppercase();
            let trying = format!("evaluate --criteria-hash {hash} SUITE");
            (trying, format!("GAVEL_CRITERIA_{kind}"))
        }
    };
    let mut text = Text::default();
    text.line(hash);
    text.note(format!(
        "stored; not current. Try it: gavel {trying}\n\
         Make it current: on its page /criteria/{hash}, or, if no version was made current there before, set {variable} of the API to {file}, and \
         send SIGHUP or restart"
    ));
    WithText::new(answer, text)
}

/// Reads criteria for a service and fills in their variables. For a remote service, the judge must be set explicitly, because this
/// process's built-in default judge may not be the service's.
pub(super) fn read_for(connection: &Connection<'_>, file: &Path) -> Result<Criteria, CliError> {
    const DEFAULT_JUDGE: &str = "DEFAULT_LLM_PROVIDER";
    let context = connection.context;
    if connection.is_remote && !context.names_default_judge {
        let (name, text) = text_of(file)?;
        let env = env_with_default(&context.settings);
        let with = |judge: &str| {
            let env = |variable: &str| match variable {
                DEFAULT_JUDGE => Some(judge.to_owned()),
                other => env(other),
            };
            resolve(&name, &text, &env)
        };
        // If two default judges give different criteria, the file depends on the default judge.
        if with("one") != with("another") {
            let message = format!(
                "{DEFAULT_JUDGE} is not set here, and the service's default is unknown: name the judge in the file, or set the \
                 variable to a judge of gavel judges list --server"
            );
            let fault = FileError::at_path(&name, &text, "scoring.llm_provider", message);
            return Err(CliError::usage(fault));
        }
    }
    read(&context.settings, file)
}

/// Reads a criteria file in the same way as the service. Errors include the line.
fn read(settings: &Settings, file: &Path) -> Result<Criteria, CliError> {
    let (name, text) = text_of(file)?;
    let value = resolve(&name, &text, &env_with_default(settings)).map_err(CliError::usage)?;
    Criteria::from_value(&value).map_err(|error| {
        let message = format!("{}: {}", error.path, error.message);
        CliError::usage(FileError::at_path(&name, &text, &error.path, message))
    })
}

fn text_of(file: &Path) -> Result<(String, String), CliError> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| CliError::unreadable(&name, error))?;
    Ok((name, text))
}

impl Printable for CriteriaList {
    fn text(&self, out: &mut Text) {
        out.rows(&self.items);
    }
}

impl Row for CriteriaVersion {
    const COLUMNS: &'static [Column<Self>] = &[
        ("criteria", |it| {
            let short: String = it.criteria_hash.chars().take(SHORT_HASH_CHARS).collect();
            let name = it
                .name
                .as_deref()
                .map(|name| words::clip(name, MAX_NAME_CHARS));
            format!("{short} {}", or_empty(name)).trim_end().to_owned()
        }),
        ("kind", |it| it.kind.to_string()),
        ("judge", |it| it.judge.clone()),
        ("", |it| {
            if it.is_current { "current" } else { "" }.to_owned()
        }),
        ("scores", |it| it.scores.to_string()),
        ("real mean", CriteriaVersion::mean_in_words),
        ("stored", |it| {
            or_empty(it.created_at.map(|at| at.date_naive()))
        }),
    ];
}

impl Printable for CriteriaDetail {
    fn text(&self, out: &mut Text) {
        let version = &self.version;
        out.facts(&[
            ("hash", version.criteria_hash.clone()),
            ("name", or_empty(version.name.as_deref())),
            ("note", or_empty(version.note.as_deref())),
            ("kind", version.kind.to_string()),
            ("current", version.is_current.to_string()),
            ("judge", version.judge.clone()),
            ("scores", version.scores.to_string()),
            ("real mean", version.mean_in_words()),
            ("first score", optional_time(version.first_scored_at)),
            ("stored", optional_time(version.created_at)),
        ]);
        let judge = self.judge_prompt().unwrap_or_default();
        for prompt in [Some(judge), self.answer_prompt()].into_iter().flatten() {
            out.line("");
            out.line(prompt);
        }
    }
}
