//! `gavel ratings`: what people say of scores and sessions, and how far they and the judge agree.

mod file;

use std::io;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use uuid::Uuid;

use super::Global;
use super::connection::{Connection, ConnectionArgs, Needs};
use super::outcome::{CliError, Exit};
use super::output::{self, or_empty};
use crate::client::{Rated, RatingPut};
use crate::clock::{Clock as _, SystemClock};
use crate::wire::words;
use crate::wire::{Agreement, AgreementReport, HumanRating, Kappa, Strength};
use file::{FileRating, Ratings as RatingsFile};

/// Import and list what people say of scores, and show how far they and the judge agree
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gavel ratings import reviews.csv --dry-run\n  gavel ratings import reviews.csv\n  gavel ratings list 6f1c8f0e-7f0a-4c56-9a53-1f0c5ad6a1b2\n  gavel ratings agreement"
)]
pub(super) struct Ratings {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Store ratings from a file: CSV, XLSX, JSON or JSONL
    #[command(
        long_about = "Store ratings from a file: CSV, XLSX, JSON or JSONL. Columns: session_id or score_id; one of total (0-100), \
                      rating (failed, weak, adequate, good, near_perfect) and quality (inaccurate, partially_accurate, accurate); \
                      and, if you like, by (who gave it), comment and at (RFC 3339). A person has one rating of a score and one \
                      of a session as such: a new one takes its place, so that the same file can be imported again; two in \
                      one file are a fault.\n\nThe whole \
                      file is checked first, also whether there is what it rates: with one fault in it nothing is stored.\n\nExit \
                      codes: 0 all stored, 2 the file has faults, 3 the service is down, 4 the file holds no rating."
    )]
    Import(Import),
    /// List the ratings of a session and its scores, newest first
    List {
        /// The session's id
        #[arg(required_unless_present = "score", conflicts_with = "score")]
        session: Option<Uuid>,
        /// The ratings of this score alone
        #[arg(long, value_name = "ID")]
        score: Option<Uuid>,
        /// At most this many
        #[arg(long, default_value_t = 50)]
        limit: usize,
        #[command(flatten)]
        common: Common,
    },
    /// Show how far people and the judge agree under one version of the criteria
    #[command(
        long_about = "Show how far people and the judge agree under one version of the criteria: the share of ratings where both \
                      say the same word, Cohen's kappa with quadratic weights and its 95 % interval, and which word met which. \
                      How to read them is in docs/trust.md.\n\nExit codes: 0 shown, 2 the hash names no definition or several, 4 \
                      no rating meets a score."
    )]
    Agreement {
        /// The criteria: a hash, at least its first 8 digits, or current
        #[arg(long, default_value = "current", value_name = "HASH")]
        criteria: String,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, Args)]
struct Import {
    /// The file; its name's ending says what it is written in
    file: PathBuf,
    /// Check the file, store nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Common {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

impl Ratings {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        match &self.what {
            What::Import(import) => import.run(global).await,
            What::List {
                session,
                score,
                limit,
                common,
            } => {
                let rated = match (session, score) {
                    (_, Some(id)) => Rated::Score(*id),
                    (Some(id), None) => Rated::Session(*id),
                    (None, None) => return Err(CliError::usage("name a session, or --score ID")),
                };
                show_list(global, rated, *limit, common).await
            }
            What::Agreement { criteria, common } => {
                let command = async |connection: Connection<'_>| {
                    let found = connection.client.agreement(Some(criteria)).await?;
                    print_agreement(&found, common.json)
                };
                common
                    .connection
                    .run(global, Needs::Existing, command)
                    .await
            }
        }
    }
}

impl Import {
    async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        let ratings = RatingsFile::read(&self.file, SystemClock.now())?;
        if ratings.rows.is_empty() {
            ratings.check(&self.file)?;
            let file = self.file.display();
            output::note(&format!("nothing to import: {file} holds no rating"));
            return Ok(Exit::Nothing);
        }
        let command = async |connection: Connection<'_>| {
            ratings.check_there(&self.file, connection.client).await?;
            let (mut new, mut replaced) = (0_u64, 0_u64);
            let stored = if self.dry_run {
                &[]
            } else {
                ratings.rows.as_slice()
            };
            for FileRating { rated, body, .. } in stored {
                match connection.client.rate(*rated, body).await? {
                    RatingPut::New => new += 1,
                    RatingPut::Replaced => replaced += 1,
                }
            }
            let n = ratings.rows.len();
            if self.common.json {
                output::json(&json!({
                    "ratings": n, "new": new, "replaced": replaced, "dry_run": self.dry_run,
                }))?;
            } else if self.dry_run {
                output::line(&format!(
                    "{}, all good; nothing stored",
                    words::counted(n, "rating")
                ))?;
            } else {
                output::line(&format!(
                    "{new} new, {replaced} in the place of earlier ones"
                ))?;
            }
            Ok(Exit::Done)
        };
        let connection = &self.common.connection;
        let ended = connection.run(global, Needs::Existing, command).await;
        if let Err(error) = &ended
            && error.exit == Exit::Incomplete
        {
            // What is wrong with the rows themselves is known even while nobody says whether there is what they rate.
            ratings.check(&self.file)?;
        }
        ended
    }
}

async fn show_list(
    global: &Global,
    rated: Rated,
    limit: usize,
    common: &Common,
) -> Result<Exit, CliError> {
    let command = async |connection: Connection<'_>| {
        let client = connection.client;
        if common.json {
            let items: Vec<Value> = client.ratings(rated, limit).await?;
            output::json(&json!({ "items": items }))?;
            return Ok(Exit::Done);
        }
        let items: Vec<HumanRating> = client.ratings(rated, limit).await?;
        let rows: Vec<Vec<String>> = items.iter().map(row).collect();
        output::table(&["at", "by", "gave", "to score", "comment"], &rows)?;
        Ok(Exit::Done)
    };
    common
        .connection
        .run(global, Needs::Existing, command)
        .await
}

fn row(rating: &HumanRating) -> Vec<String> {
    let given = rating.total.map(|total| total.to_string());
    let given = given.or(rating.rating.map(|word| word.to_string()));
    let given = given.or(rating.quality.map(|word| word.to_string()));
    vec![
        output::time(rating.at),
        rating.by.clone(),
        given.unwrap_or_default().replace('_', " "),
        or_empty(rating.score_id),
        rating.comment.clone().unwrap_or_default(),
    ]
}

fn print_agreement(found: &AgreementReport, as_json: bool) -> Result<Exit, CliError> {
    let exit = match found.scales.is_empty() {
        true => Exit::Nothing,
        false => Exit::Done,
    };
    if as_json {
        output::json(found)?;
        return Ok(exit);
    }
    output::line(&format!("criteria  {}", found.criteria_hash))?;
    if found.simulated {
        output::line("SIMULATED: the scores were made up by a simulated judge")?;
    }
    if found.scales.is_empty() {
        output::note("no rating meets a score under these criteria: gavel ratings import FILE");
    }
    for scale in &found.scales {
        print_scale(scale)?;
    }
    Ok(exit)
}

fn print_scale(found: &Agreement) -> io::Result<()> {
    output::line(&format!(
        "\n{}: ratings {}, raters {}, scores {}; the same word in {}",
        found.scale,
        found.n,
        found.raters,
        found.scores,
        words::percent(found.raw.unwrap_or_default()),
    ))?;
    let strength = found
        .strength
        .map_or("", Strength::as_str)
        .replace('_', " ");
    let kappa = match found.kappa_quadratic {
        None => "kappa isn't defined".to_owned(),
        Some(Kappa { value, low, high }) => {
            let interval = match low.zip(high) {
                None => String::new(),
                Some((low, high)) => format!(", 95 % from {low:.2} to {high:.2}"),
            };
            format!("kappa {value:.2} (quadratic){interval}: {strength}")
        }
    };
    output::line(&kappa)?;
    if let (Some(apart), Some(above)) = (found.mean_absolute_difference, found.mean_difference) {
        output::line(&format!(
            "totals lie {apart:.2} points apart on average, the judge's {above:.2} above people's"
        ))?;
    }
    output::line("")?;
    output::counts("people \\ judge", &found.confusion)?;
    for warning in &found.warnings {
        output::note(&format!("note: {warning}"));
    }
    Ok(())
}
