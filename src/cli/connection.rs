//! Connection of client commands. Without `--server`, this process opens the service over the same store and serves it on a loopback port.
//! Commands therefore have a single implementation and the same output.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::pin;

use clap::Args;
use secrecy::SecretString;
use tokio::net::TcpListener;
use uuid::Uuid;

use super::Global;
use super::context::{Context, LogProfile, flag_of, listen};
use super::daemon::{drained, until_interrupted};
use super::outcome::{CliError, Exit};
use super::output::{self, ItemList, Printable, Row};
use crate::app::{App, Migrations, Mode, Stop};
use crate::client::{Client, ClientError};
use crate::config::{Flag, Settings, redacted_url};
use crate::history::imports::Whose;
use crate::lifecycle::Signals;

#[derive(Debug, Clone, Args)]
pub(super) struct ConnectionArgs {
    /// Address of a running `gavel up` or `gavel serve`. Without it the command opens the store itself: Postgres if database.url
    /// (DATABASE_URL) is set, otherwise the data folder
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
    token: Option<SecretString>,
    /// Data folder, without --server and database [env: GAVEL_DATA_DIR] [default: ./gavel-data]
    #[arg(long, value_name = "DIR", help_heading = "Service")]
    data_dir: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Common {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

/// Flags of commands for one object.
#[derive(Debug, Args)]
pub(super) struct One {
    /// Id
    #[arg(value_parser = id)]
    pub(super) id: Uuid,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Args)]
pub(super) struct Listing {
    /// Maximum number of results
    #[arg(long, default_value_t = 50)]
    pub(super) limit: usize,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Common {
    pub(super) async fn print<T: Printable>(
        &self,
        global: &Global,
        ask: impl AsyncFnOnce(&Client) -> Result<T, ClientError>,
    ) -> Result<Exit, CliError> {
        let command = async |connection: Connection<'_>| Ok(ask(connection.client).await?);
        self.run(global, Needs::Existing, command).await
    }

    pub(super) async fn run<T: Printable>(
        &self,
        global: &Global,
        needs: Needs,
        command: impl AsyncFnOnce(Connection<'_>) -> Result<T, CliError>,
    ) -> Result<Exit, CliError> {
        let command = async |connection: Connection<'_>| {
            output::print(&command(connection).await?, self.json)
        };
        self.connection.run(global, needs, command).await
    }
}

impl One {
    pub(super) async fn print<T: Printable>(
        &self,
        global: &Global,
        ask: impl AsyncFnOnce(&Client, Uuid) -> Result<T, ClientError>,
    ) -> Result<Exit, CliError> {
        let ask = async |client: &Client| ask(client, self.id).await;
        self.common.print(global, ask).await
    }
}

impl Listing {
    pub(super) async fn print<T: Row>(
        &self,
        global: &Global,
        ask: impl AsyncFnOnce(&Client, usize) -> Result<Vec<T>, ClientError>,
    ) -> Result<Exit, CliError> {
        let ask = async |client: &Client| {
            let items = ask(client, self.limit).await?;
            Ok(ItemList { items })
        };
        self.common.print(global, ask).await
    }
}

pub(super) fn id(text: &str) -> Result<Uuid, String> {
    text.parse().map_err(|_| {
        "an id is a UUID, such as 0190d3e8-1c2b-7d4e-8f90-1a2b3c4d5e6f; the lists show them. `gavel sessions list` finds a session by another tool's id (--search)"
            .to_owned()
    })
}

pub(super) fn given<const N: usize>(pairs: [(&str, Option<String>); N]) -> Vec<(&str, String)> {
    let pairs = pairs.into_iter();
    pairs
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// Requirements of a command for an embedded service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// An existing store.
    Existing,
    /// A store. A missing data folder is created.
    Store,
    /// A store, and a worker that runs jobs until the command ends.
    Worker,
    /// Like `Worker`, for the items of a suite. The command's summary contains their failures.
    Suite,
    /// A store, and an importer that runs until the command ends.
    Imports,
}

impl Needs {
    fn has_worker(self) -> bool {
        matches!(self, Self::Worker | Self::Suite)
    }
}

pub(super) struct Connection<'a> {
    pub(super) client: &'a Client,
    pub(super) context: &'a Context,
    /// Whether this process is the service and runs the jobs.
    pub(super) works_here: bool,
    /// Whether the service is another process with another environment.
    pub(super) is_remote: bool,
}

impl ConnectionArgs {
    /// Runs `command` against the service. Ctrl-C ends it with exit code 130; jobs stay in the store.
    pub(super) async fn run<T>(
        &self,
        global: &Global,
        needs: Needs,
        command: impl AsyncFnOnce(Connection<'_>) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        self.run_with(global, needs, |_| (), command).await
    }

    pub(super) fn is_remote(&self) -> bool {
        self.server().is_some()
    }

    /// Client of the `--server` service. `None` without the flag.
    pub(super) fn client(&self) -> Result<Option<Client>, CliError> {
        let new = |server| Client::new(server, self.token.clone());
        Ok(self.server().map(new).transpose()?)
    }

    pub(super) fn data_dir_flag(&self) -> Option<Flag> {
        flag_of("--data-dir", "data_dir", self.data_dir.as_ref())
    }

    fn server(&self) -> Option<&str> {
        self.server.as_deref().filter(|server| !server.is_empty())
    }

    /// Like [`ConnectionArgs::run`], with changed settings for an embedded service.
    pub(super) async fn run_with<T>(
        &self,
        global: &Global,
        mut needs: Needs,
        adjust: impl FnOnce(&mut Settings),
        command: impl AsyncFnOnce(Connection<'_>) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let profile = match needs {
            Needs::Worker => LogProfile::Jobs,
            Needs::Suite => LogProfile::Summary,
            Needs::Existing | Needs::Store | Needs::Imports => LogProfile::Results,
        };
        let mut context = Context::new(global, [self.data_dir_flag()], profile)?;
        let mut signals = Signals::listen()?;
        if let Some(client) = self.client()? {
            output::note(&format!("store: {}", client.address("")));
            let connection = Connection {
                client: &client,
                context: &context,
                works_here: false,
                is_remote: true,
            };
            return until_interrupted(&mut signals, Box::pin(command(connection))).await;
        }
        adjust(&mut context.settings);
        let mode = mode(&context, needs)?;
        output::note(&match &mode {
            Mode::Embedded { data_dir } => format!("store: data folder {}", data_dir.display()),
            Mode::Shared => format!("store: {}", redacted_url(&context.settings.database.url)),
        });
        if mode == Mode::Shared && needs.has_worker() {
            needs = Needs::Store; // the workers of the database run the jobs
        }
        let EmbeddedService {
            app,
            client,
            listener,
        } = EmbeddedService::open(context.settings.clone(), mode).await?;
        let connection = Connection {
            client: &client,
            context: &context,
            works_here: needs.has_worker(),
            is_remote: false,
        };
        let stop = Stop::default();
        let work = EmbeddedService::work(&app, listener, (needs, &stop), command(connection));
        let ended = drained(&mut signals, &stop, Box::pin(work)).await;
        app.close().await;
        ended
    }
}

struct EmbeddedService {
    app: App,
    client: Client,
    listener: TcpListener,
}

impl EmbeddedService {
    /// Opens the store of `mode` and listens on a loopback port.
    async fn open(mut settings: Settings, mode: Mode) -> Result<Self, CliError> {
        let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let address = listener.local_addr()?;
        // All users of this machine can connect to the port, so a random token is required.
        let token = super::print::secret();
        settings.bind = address.to_string();
        settings.auth.tokens = vec![format!("cli:admin:{token}").into()];
        settings.auth.tokens_file.clear();
        // Disables authentication by proxy headers.
        settings.auth.proxy.groups.clear();
        settings.http.trusted_proxies.clear();
        // No load balancer needs time to notice the shutdown.
        settings.http.drain_delay_s = 0;
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
            listener,
        })
    }

    /// Serves and does the background work until `command` ends or `stop` is cancelled.
    async fn work<T>(
        app: &App,
        listener: TcpListener,
        (needs, stop): (Needs, &Stop),
        command: impl Future<Output = Result<T, CliError>>,
    ) -> Result<T, CliError> {
        let serving = app.serve(listener, stop.clone());
        let working = async {
            match needs {
                Needs::Worker | Needs::Suite => app.work(stop.clone()).await,
                Needs::Imports => app.import(Whose::Own, stop.clone()).await,
                Needs::Existing | Needs::Store => Ok(()),
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

fn mode(context: &Context, needs: Needs) -> Result<Mode, CliError> {
    if !context.settings.database.url.is_empty() {
        return Ok(Mode::Shared);
    }
    let data_dir = PathBuf::from(&context.settings.data_dir);
    if needs == Needs::Existing && !Path::new(&data_dir).exists() {
        return Err(CliError::usage(format!(
            "no data in {}: name a running service with --server (GAVEL_SERVER), a database with DATABASE_URL, \
             or another --data-dir (GAVEL_DATA_DIR)",
            data_dir.display()
        )));
    }
    Ok(Mode::Embedded { data_dir })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;
    use crate::config::{Sources, load};

    #[tokio::test]
    async fn embedded_service_ignores_proxy_authentication() {
        let dir = tempfile::tempdir().unwrap();
        let env = [
            ("GAVEL_AUTH_PROXY_GROUPS", "ops:admin"),
            ("GAVEL_HTTP_TRUSTED_PROXIES", "127.0.0.1"),
            ("GAVEL_HTTP_ALLOWED_HOSTS", "gavel.example"),
        ];
        let sources = Sources {
            env: env.map(|(name, value)| (name.into(), value.into())).into(),
            ..Sources::default()
        };
        let settings = load(&sources).unwrap().settings;
        let data_dir = dir.path().to_owned();
        let here = EmbeddedService::open(settings, Mode::Embedded { data_dir }).await;
        let here = here.unwrap();
        let address = here.listener.local_addr().unwrap();
        let asked = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let forged = "GET /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                          x-forwarded-user: boss\r\nx-forwarded-groups: ops\r\n\r\n";
            stream.write_all(forged.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            Ok(answer)
        };
        let stop = Stop::default();
        let part = (Needs::Store, &stop);
        let answer = EmbeddedService::work(&here.app, here.listener, part, asked).await;
        here.app.close().await;
        let answer = answer.unwrap();
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    }
}
