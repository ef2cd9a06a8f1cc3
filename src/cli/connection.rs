//! How client commands reach the service: the one that `--server` names, else one that this process opens over the same
//! store and serves to itself on a loopback port. So a command has one way to work, and the same output either way.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use secrecy::SecretString;
use uuid::Uuid;

use super::Global;
use super::context::{Context, Voice, flag_of, listen};
use super::daemon::ending;
use super::outcome::CliError;
use crate::app::{App, Migrations, Mode, Stop};
use crate::client::Client;
use crate::config::Settings;
use crate::history::imports::Whose;
use crate::lifecycle::Signals;
use crate::suite::run::gate::word;

/// How long a command's own worker may finish what it has in hand after Ctrl-C.
const DRAIN: Duration = Duration::from_secs(5);

/// Flags of commands that talk to the service.
#[derive(Debug, Clone, Args)]
pub(super) struct ConnectionArgs {
    /// Address of a running `gavel up` or `gavel serve`. Without it the command opens the store itself: Postgres if
    /// database.url (DATABASE_URL) is set, else the data folder
    #[arg(
        long,
        value_name = "URL",
        env = "GAVEL_SERVER",
        help_heading = "Service"
    )]
    server: Option<String>,
    /// Bearer token for --server
    #[arg(
        long,
        value_name = "TOKEN",
        env = "GAVEL_TOKEN",
        hide_env_values = true,
        help_heading = "Service"
    )]
    token: Option<SecretToken>,
    /// Data folder, when there is neither --server nor a database [env: GAVEL_DATA_DIR] [default: ./gavel-data]
    #[arg(long, value_name = "DIR", help_heading = "Service")]
    data_dir: Option<String>,
}

/// Flags of commands that ask the service for something and print it.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

/// A token that no debug print shows.
#[derive(Debug, Clone)]
struct SecretToken(SecretString);

impl std::str::FromStr for SecretToken {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(SecretString::from(text.to_owned())))
    }
}

/// What a command needs of a service that it opens itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// To look at or change what is there already.
    Existing,
    /// A place to put something; a missing data folder is made.
    Store,
    /// That, and a worker that runs the jobs until the command ends.
    Worker,
    /// A place to put something, and what runs imports until the command ends.
    Imports,
}

/// The service, within reach.
pub(super) struct Connection<'a> {
    /// To talk to it.
    pub(super) client: &'a Client,
    /// The settings of this process.
    pub(super) context: &'a Context,
    /// Whether this process is the service, and runs the jobs itself.
    pub(super) works_here: bool,
    /// Whether the service is another process, with an environment of its own.
    pub(super) is_remote: bool,
}

impl ConnectionArgs {
    /// Runs `command` against the service. Ctrl-C ends it with 130; jobs stay in the store.
    pub(super) async fn run<T>(
        &self,
        global: &Global,
        needs: Needs,
        command: impl AsyncFnOnce(Connection<'_>) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        self.run_with(global, needs, |_| (), command).await
    }

    /// Whether a running service is named.
    pub(super) fn is_remote(&self) -> bool {
        self.server
            .as_deref()
            .is_some_and(|server| !server.is_empty())
    }

    /// What a further command says to reach the same service, or to open it with the same settings: nothing where the
    /// environment says it already.
    pub(super) fn again(&self, global: &Global) -> String {
        let flag = |flag: &str, variable: &str, value: &Option<String>| {
            let value = value.as_deref().filter(|value| !value.is_empty());
            match value {
                Some(value) if std::env::var(variable).as_deref() != Ok(value) => {
                    format!(" {flag} {}", word(value))
                }
                Some(_) | None => String::new(),
            }
        };
        let server = flag("--server", "GAVEL_SERVER", &self.server);
        let folder = flag("--data-dir", "GAVEL_DATA_DIR", &self.data_dir);
        let config = global
            .config
            .as_deref()
            .map(|path| path.display().to_string());
        let config = flag("--config", "GAVEL_CONFIG", &config);
        let criteria = flag(
            "--scoring-config",
            "GAVEL_SCORING_CONFIG",
            &global.scoring_config,
        );
        let judges = flag(
            "--llm-providers",
            "GAVEL_LLM_PROVIDERS",
            &global.llm_providers,
        );
        server + &folder + &config + &criteria + &judges
    }

    /// [`ReachArgs::run`], with settings that the command changes for the service that this process opens.
    pub(super) async fn run_with<T>(
        &self,
        global: &Global,
        needs: Needs,
        adjust: impl FnOnce(&mut Settings),
        command: impl AsyncFnOnce(Connection<'_>) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let flags = flag_of("--data-dir", "data_dir", self.data_dir.clone());
        let voice = match needs {
            Needs::Worker => Voice::Jobs,
            Needs::Existing | Needs::Store | Needs::Imports => Voice::Results,
        };
        let mut context = Context::new(global, flags.into_iter().collect(), voice)?;
        let mut signals = Signals::listen()?;
        let stop = Stop::default();
        if let Some(server) = self.server.as_deref().filter(|server| !server.is_empty()) {
            let token = self.token.clone().map(|token| token.0);
            let client = Client::new(server, token)?;
            let connection = Connection {
                client: &client,
                context: &context,
                works_here: false,
                is_remote: true,
            };
            let work = async {
                tokio::select! {
                    done = command(connection) => done,
                    () = stop.soft.cancelled() => Err(CliError::interrupted()),
                }
            };
            let ended = signals.guard(ending(&stop, DRAIN), work).await;
            return ended.output.unwrap_or_else(|| Err(CliError::interrupted()));
        }
        adjust(&mut context.settings);
        let mode = mode(&context, needs)?;
        let works_here = needs == Needs::Worker && mode != Mode::Shared;
        let here = Here::open(&mut context, mode).await?;
        let connection = Connection {
            client: &here.client,
            context: &context,
            works_here,
            is_remote: false,
        };
        let part = if works_here {
            Part::Worker
        } else if needs == Needs::Imports {
            Part::Imports
        } else {
            Part::Nothing
        };
        let work = here.work(&stop, part, command(connection));
        let ended = signals.guard(ending(&stop, DRAIN), work).await;
        here.app.close().await;
        ended.output.unwrap_or_else(|| Err(CliError::interrupted()))
    }
}

/// What a service in this process runs beside its API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Nothing.
    Nothing,
    /// The jobs.
    Worker,
    /// The imports.
    Imports,
}

/// A service in this process.
pub(super) struct Here {
    /// The process's parts.
    pub(super) app: App,
    /// To talk to it.
    pub(super) client: Client,
    listener: tokio::sync::Mutex<Option<tokio::net::TcpListener>>,
}

impl Here {
    /// Opens the store of `mode` and takes a loopback port.
    pub(super) async fn open(context: &mut Context, mode: Mode) -> Result<Self, CliError> {
        let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let address = listener.local_addr()?;
        // The port is open to everybody on this machine: only who knows this token is answered.
        let token = format!("{}{}", Uuid::now_v7().simple(), Uuid::now_v7().simple());
        let mut settings = context.settings.clone();
        settings.bind = address.to_string();
        settings.auth.tokens = vec![format!("cli:admin:{token}")];
        settings.auth.tokens_file.clear();
        let migrations = match mode {
            Mode::Embedded { .. } => Migrations::Apply,
            Mode::Shared => Migrations::Require,
        };
        let app = App::open(settings, mode, migrations).await?;
        let client = Client::new(
            &format!("http://{address}"),
            Some(SecretString::from(token)),
        )?;
        Ok(Self {
            app,
            client,
            listener: tokio::sync::Mutex::new(Some(listener)),
        })
    }

    /// Serves, and runs `part` beside it, until `command` ends or `stop` says so.
    pub(super) async fn work<T>(
        &self,
        stop: &Stop,
        part: Part,
        command: impl Future<Output = Result<T, CliError>>,
    ) -> Result<T, CliError> {
        let Some(listener) = self.listener.lock().await.take() else {
            return Err(CliError::incomplete("the service was started twice"));
        };
        let serving = self.app.serve(listener, stop.clone());
        let working = async {
            match part {
                Part::Worker => self.app.work(stop.clone()).await,
                Part::Imports => self.app.import(Whose::Own, stop.clone()).await,
                Part::Nothing => Ok(()),
            }
        };
        let mut service = pin!(async { tokio::try_join!(serving, working).map(|_| ()) });
        let given = tokio::select! {
            broken = &mut service => {
                broken?;
                return Err(CliError::interrupted());
            }
            () = stop.soft.cancelled() => Err(CliError::interrupted()),
            given = command => given,
        };
        stop.soft.cancel();
        service.await?;
        given
    }
}

/// Which store a command opens without `--server`.
pub(super) fn mode(context: &Context, needs: Needs) -> Result<Mode, CliError> {
    if !context.settings.database.url.is_empty() {
        return Ok(Mode::Shared);
    }
    let data_dir = PathBuf::from(&context.settings.data_dir);
    if needs == Needs::Existing && !Path::new(&data_dir).exists() {
        return Err(CliError::usage(format!(
            "there is no data in {}: name a running service with --server (GAVEL_SERVER), a database with DATABASE_URL, \
             or another --data-dir (GAVEL_DATA_DIR)",
            data_dir.display()
        )));
    }
    Ok(Mode::Embedded { data_dir })
}
