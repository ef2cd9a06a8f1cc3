//! `gavel doctor`: checks everything that a process needs and prints a remedy for each problem. Read-only.

mod judges;
mod remote;
mod servers;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::Global;
use super::connection::ConnectionArgs;
use super::context::{Context, LogProfile};
use super::outcome::{CliError, Exit};
use super::output::{self, Printable, Text};
use crate::app::{criteria_of, read_providers};
use crate::job::Kind;

/// Minimum free space, bytes.
const MIN_FREE_BYTES: u64 = 512 * 1024 * 1024;

/// Check settings, files, database, queue and disk, and print remedies
#[derive(Debug, Args)]
#[command(
    long_about = "With --server (GAVEL_SERVER): check that service, its judges and its workers. Otherwise check the \
        requirements of a process: settings, criteria and judges' files, every configured judge (one call of one \
        token each), and the TARSy in history.base_url. If DATABASE_URL is set, also check database, migrations, \
        clock, workers and Redis; otherwise the data folder and its disk. Exit 0: all checks pass, 2: settings are \
        invalid, 3: a check failed.",
    after_help = "Examples:\n  gavel doctor --json\n  gavel doctor --no-probe    # calls no judge\n  gavel doctor --server http://127.0.0.1:8080"
)]
pub(super) struct Doctor {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Don't call judges
    #[arg(long)]
    no_probe: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

struct Check {
    what: String,
    /// Detail, or error and remedy.
    found: Result<String, String>,
}

impl Check {
    fn new(what: impl Into<String>, found: Result<String, impl ToString>) -> Self {
        Self {
            what: what.into(),
            found: found.map_err(|error| error.to_string()),
        }
    }
}

#[derive(Serialize)]
struct Checks {
    items: Vec<Check>,
}

impl Serialize for Check {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (Ok(detail) | Err(detail)) = &self.found;
        json!({"check": self.what, "ok": self.found.is_ok(), "detail": detail}).serialize(to)
    }
}

impl Printable for Checks {
    fn text(&self, out: &mut Text) {
        for Check { what, found } in &self.items {
            let (mark, text) = match found {
                Ok(detail) => ("ok   ", detail),
                Err(fault) => ("FAULT", fault),
            };
            out.line(format!("{mark}  {what}: {text}"));
        }
    }

    fn exit(&self) -> Exit {
        match self.items.iter().all(|check| check.found.is_ok()) {
            true => Exit::Done,
            false => Exit::Incomplete,
        }
    }
}

impl Doctor {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        let flags = [self.connection.data_dir_flag()];
        let context = Context::new(global, flags, LogProfile::Results)?;
        let settings = &context.settings;
        let layers = match &global.config {
            Some(path) => path.display().to_string(),
            None => "defaults and environment".to_owned(),
        };
        let mut checks = vec![Check::new("settings", Ok::<_, String>(layers))];
        if let Some(client) = self.connection.client()? {
            checks.extend(remote::check(&client).await);
            return output::print(&Checks { items: checks }, self.json);
        }
        let mut wanted: Vec<String> = Vec::new();
        for kind in Kind::ALL {
            let criteria = criteria_of(settings, *kind);
            if let Ok(criteria) = &criteria
                && !wanted.contains(&criteria.judge)
            {
                wanted.push(criteria.judge.clone());
            }
            let what = match kind.is_case() {
                true => format!("criteria file of {kind}"),
                false => "criteria file".to_owned(),
            };
            let found = criteria.map(|criteria| format!("hash {}", criteria.hash));
            checks.push(Check::new(what, found));
        }
        let providers = read_providers(settings);
        let names = providers.as_ref().map(|it| it.names().join(", "));
        checks.push(Check::new("judges' file", names));
        if let Ok(providers) = &providers {
            checks.extend(judges::caps(providers));
            if !wanted.is_empty() {
                let slots = settings.worker.concurrency;
                let calls = !self.no_probe;
                checks.extend(judges::check(providers, &wanted, calls, slots).await);
            }
        }
        checks.extend(servers::check_tarsy(settings).await);
        if settings.database.url.is_empty() {
            checks.extend(data_folder(Path::new(&settings.data_dir)));
        } else {
            checks.extend(servers::check(settings).await);
        }
        output::print(&Checks { items: checks }, self.json)
    }
}

/// Checks that the data folder, or the parent it would be created in, is writable and has free space.
fn data_folder(path: &Path) -> Vec<Check> {
    let mut there: PathBuf = path.to_owned();
    while !there.exists() && there.pop() {}
    if there.as_os_str().is_empty() {
        there.push(".");
    }
    let remedy =
        "choose another folder with --data-dir (GAVEL_DATA_DIR), or correct its owner and mode";
    let writable = probe(&there)
        .map(|()| match path.exists() {
            true => format!("{} can be written", path.display()),
            false => format!("{} will be made", path.display()),
        })
        .map_err(|error| format!("{} can't be written: {error}; {remedy}", there.display()));
    let space = match fs4::available_space(&there) {
        Ok(free) if free < MIN_FREE_BYTES => Err(format!(
            "{} MiB are free on the disk of {}; make room, or choose another folder with --data-dir (GAVEL_DATA_DIR)",
            free >> 20,
            path.display()
        )),
        Ok(free) => Ok(format!("{} MiB are free", free >> 20)),
        Err(error) => Err(format!(
            "{}: can't read the free space: {error}",
            there.display()
        )),
    };
    vec![
        Check::new("data folder", writable),
        Check::new("disk", space),
    ]
}

fn probe(folder: &Path) -> std::io::Result<()> {
    let path = folder.join(format!(".gavel-doctor-{}", std::process::id()));
    let mut file = std::fs::File::options()
        .write(true)
        .create_new(true)
        .open(&path)?;
    let written = file.write_all(b"doctor");
    std::fs::remove_file(&path)?;
    written
}
