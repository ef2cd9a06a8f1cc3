//! `gavel ratings`: user ratings of scores and sessions, and their agreement with the judge.

mod file;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use uuid::Uuid;

use super::Global;
use super::connection::{Common, Connection, Listing, Needs};
use super::outcome::{CliError, Exit};
use super::output::{self, Column, Printable, Row, Text, WithText, or_empty};
use crate::client::{Client, Rated, RatingPut};
use crate::clock::{Clock as _, SystemClock};
use crate::wire::words;
use crate::wire::{Agreement, AgreementReport, HumanRating, Kappa, Strength};
use file::{FileRating, Ratings as RatingsFile};

/// Import and list user ratings, and show their agreement with the judge
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  gavel ratings import reviews.csv --dry-run\n  gavel ratings import reviews.csv\n  gavel ratings list 6f1c8f0e-7f0a-4c56-9a53-1f0c5ad6a1b2\n  gavel ratings agreement"
)]
pub(super) enum Ratings {
    /// Store ratings from a CSV, XLSX, JSON or JSONL file
    #[command(
        long_about = "Store ratings from a file: CSV, XLSX, JSON or JSONL. Each row needs session_id or score_id, \
            and one of total (0-100), rating (failed, weak, adequate, good, near_perfect) and quality (inaccurate, \
            partially_accurate, accurate). Optional columns are by (name of the rater), comment and at (RFC 3339). A \
            rater has one rating per score and one per session. A new rating replaces it, so you can import the same \
            file again. Two ratings of the same subject in one file are an error.\n\nThe command validates the \
            complete file first, including that the rated sessions and scores exist. If it has an error, no rating \
            is stored.\n\nExit codes:\n  0 all stored\n  2 the file has errors\n  3 the service is down\n  4 the \
            file contains no rating"
    )]
    Import(Import),
    /// List the ratings of a session and its scores, newest first
    List {
        /// Id of the session
        #[arg(required_unless_present = "score", conflicts_with = "score")]
        session: Option<Uuid>,
        /// Only the ratings of this score
        #[arg(long, value_name = "ID")]
        score: Option<Uuid>,
        #[command(flatten)]
        list: Listing,
    },
    /// Show the agreement between users and the judge under one version of the criteria
    #[command(
        long_about = "Show the agreement between ratings and the judge for one version of the criteria: the share of \
            equal ratings, the table of ratings by the judge's ratings, and Cohen's kappa with quadratic weights and \
            its 95 % interval. docs/trust.md explains them.\n\nExit codes: 0 shown, 2 the hash matches no definition \
            or several, 4 no rated session or score has a score by these criteria."
    )]
    Agreement {
        /// Criteria: a hash (at least 8 digits), or current
        #[arg(long, default_value = "current", value_name = "HASH")]
        criteria: String,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, Args)]
pub(super) struct Import {
    /// File; its extension determines the format
    file: PathBuf,
    /// Check the file without storing it
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    common: Common,
}

impl Ratings {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        match self {
            Self::Import(import) => import.run(global).await,
            Self::List {
                session,
                score,
                list,
            } => {
                let rated = match (session, score) {
                    (_, Some(id)) => Rated::Score(*id),
                    (Some(id), None) => Rated::Session(*id),
                    (None, None) => return Err(CliError::usage("name a session, or --score ID")),
                };
                list.print(global, async |client: &Client, limit| {
                    client.ratings(rated, limit).await
                })
                .await
            }
            Self::Agreement { criteria, common } => {
                let ask = async |client: &Client| client.agreement(criteria).await;
                common.print(global, ask).await
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
            output::note(&format!("no ratings to import: {file} contains no rating"));
            return Ok(Exit::Nothing);
        }
        let command = async |connection: Connection<'_>| {
            ratings.check_there(&self.file, connection.client).await?;
            let (mut new, mut replaced) = (0_u64, 0_u64);
            let stored = ratings.rows.iter().filter(|_| !self.dry_run);
            for FileRating { rated, body, .. } in stored {
                match connection.client.rate(*rated, body).await? {
                    RatingPut::New => new += 1,
                    RatingPut::Replaced => replaced += 1,
                }
            }
            let n = ratings.rows.len();
            let answer = json!({
                "ratings": n, "new": new, "replaced": replaced, "dry_run": self.dry_run,
            });
            let words = match self.dry_run {
                true => format!("{}, all valid; not stored", words::counted(n, "rating")),
                false => format!("{new} new, {replaced} in the place of earlier ones"),
            };
            Ok(WithText::line(answer, words))
        };
        let ended = self.common.run(global, Needs::Existing, command).await;
        if let Err(error) = &ended
            && error.exit == Exit::Incomplete
        {
            // Errors of the rows are reported even if the service can't check that the rated subjects exist.
            ratings.check(&self.file)?;
        }
        ended
    }
}

impl Row for HumanRating {
    const COLUMNS: &'static [Column<Self>] = &[
        ("at", |it| output::time(it.at)),
        ("by", |it| it.by.clone()),
        ("gave", |it| {
            let total = it.total.map(|total| total.to_string());
            let word = it.rating.map(|word| word.to_string());
            let quality = it.quality.map(|word| word.to_string());
            or_empty(total.or(word).or(quality)).replace('_', " ")
        }),
        ("to score", |it| or_empty(it.score_id)),
        ("comment", |it| or_empty(it.comment.as_deref())),
    ];
}

impl Printable for AgreementReport {
    fn text(&self, out: &mut Text) {
        out.line(format!("criteria  {}", self.criteria_hash));
        if self.simulated {
            out.line("SIMULATED: the scores were made up by a simulated judge");
        }
        if self.scales.is_empty() {
            out.note("no ratings of scores by these criteria: gavel ratings import FILE");
        }
        for scale in &self.scales {
            print_scale(scale, out);
        }
        if self.unmet > 0 {
            let of_others = words::counted(self.unmet, "rating");
            out.note(format!(
                "{of_others} more: of sessions and scores without a score by these criteria"
            ));
        }
    }

    fn exit(&self) -> Exit {
        Exit::nothing_if(self.scales.is_empty())
    }
}

fn print_scale(found: &Agreement, out: &mut Text) {
    out.line(format!(
        "\n{}: ratings {}, raters {}, scores {}; the same label in {}",
        found.scale,
        found.n,
        found.raters,
        found.scores,
        words::percent(found.raw.unwrap_or_default()),
    ));
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
    out.line(&kappa);
    if let (Some(apart), Some(above)) = (found.mean_absolute_difference, found.mean_difference) {
        let side = if above < 0.0 { "below" } else { "above" };
        out.line(format!(
            "totals differ by {apart:.2} points on average, the judge's {:.2} {side} the raters'",
            above.abs()
        ));
    }
    out.line("");
    out.counts("people \\ judge", &found.confusion);
    out.warnings(&found.warnings);
}
