//! An earlier run that a run is to be held against, looked at before anything is run: hours and money that end in "these two can't be
//! compared" are told of at once.

use std::collections::BTreeSet;
use std::path::Path;

use super::mixed;
use crate::cli::outcome::CliError;
use crate::client::{Client, ClientError, list, text};
use crate::job::Kind;
use crate::report::{Lines, Simulated, Source as _};
use crate::suite::run::RunFolder;
use crate::suite::run::folder::{Bench, RESULTS};
use crate::suite::run::gate;

/// What is known of a baseline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Baseline {
    kinds: BTreeSet<Kind>,
    /// Whether a simulated judge had a part in any of its scores.
    is_simulated: bool,
}

impl Baseline {
    /// Reads the items of an earlier run.
    pub(super) fn read(dir: &Path) -> Result<Self, CliError> {
        let unreadable = |error| CliError::usage(format!("--baseline: {error}"));
        let lines = Lines::open(&dir.join(RESULTS)).map_err(unreadable)?;
        let mut baseline = Self {
            // A folder from elsewhere has no header; what its lines say holds for both.
            kinds: RunFolder::header_of(dir)
                .map(|header| header.kind)
                .into_iter()
                .collect(),
            is_simulated: false,
        };
        let read = lines.each(&mut |item| {
            baseline.kinds.insert(item.kind);
            baseline.is_simulated |= item.simulated;
            Ok(())
        });
        read.map_err(unreadable)?;
        Ok(baseline)
    }

    /// Totals of two kinds are not of one measure.
    pub(super) fn fits(&self, kind: Kind) -> Result<(), CliError> {
        match self.kinds.iter().find(|other| **other != kind) {
            None => Ok(()),
            Some(other) => Err(CliError::usage(format!(
                "--baseline: that is a run of kind {other}, and this suite is of kind {kind}: their scores don't measure the same"
            ))),
        }
    }

    /// Refuses a simulated baseline of a run that no simulated judge will have a part in.
    pub(super) fn fits_a_real_run(&self, gates: &gate::Gates) -> Result<(), CliError> {
        match gates.simulated {
            Simulated::Refused if self.is_simulated => Err(CliError::usage(mixed("--baseline"))),
            Simulated::Refused | Simulated::Allowed => Ok(()),
        }
    }
}

/// Whether the judge of a run is a real one; `None` where the service doesn't tell.
pub(super) async fn is_real(client: &Client, bench: &Bench) -> Result<Option<bool>, CliError> {
    let Some(judge) = &bench.judge else {
        return Ok(None);
    };
    let judges = match client.judges().await {
        Ok(judges) => judges,
        // Whoever may ask for scores alone is told no more.
        Err(ClientError::Refused(problem)) if problem.status == 403 => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let entry = judge
        .split_once(':')
        .map_or(judge.as_str(), |(entry, _)| entry);
    let known = list(&judges, "/items").iter();
    let found = known
        .filter(|known| [entry, judge].contains(&text(known, "/name")))
        .find_map(|known| known.get("simulated")?.as_bool());
    Ok(found.map(|simulated| !simulated))
}
