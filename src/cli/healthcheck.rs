//! `gavel healthcheck`: for containers without another HTTP client.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use clap::Args;

use super::Global;
use super::context::{Context, LogProfile};
use super::outcome::{CliError, Exit};
use super::output;
use crate::client::Client;
use crate::wire::ReadinessStatus;

/// Check the health of a server; for container health checks
#[derive(Debug, Args)]
#[command(
    long_about = "Check whether a running server is alive, or with --ready whether it can serve requests. Without \
        --server the command checks the address in `bind`, with --worker the address in `worker.health_bind`. Exit 0: \
        healthy, 3: unhealthy.",
    after_help = "Examples:\n  gavel healthcheck\n  gavel healthcheck --ready --server http://gavel:8080\n  gavel healthcheck --worker --ready\n  HEALTHCHECK CMD [\"gavel\", \"healthcheck\"]"
)]
pub(super) struct Healthcheck {
    /// Address of the server [default: http:// and the bind address]
    #[arg(long, value_name = "URL", env = "GAVEL_SERVER")]
    server: Option<String>,
    /// Check this host's worker on its separate port (worker.health_bind, GAVEL_WORKER_HEALTH_BIND) instead of the API
    #[arg(long)]
    worker: bool,
    /// Check /readyz (database reachable and migrated) instead of /livez
    #[arg(long)]
    ready: bool,
}

impl Healthcheck {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        let context = Context::new(global, [], LogProfile::Results)?;
        let server = match self.server.as_deref().filter(|server| !server.is_empty()) {
            _ if self.worker => worker_url(&context)?,
            Some(server) => server.to_owned(),
            None => url_of(context.bind()?),
        };
        let client = Client::new(&server, None)?;
        if self.ready {
            let ready = client.ready().await.map_err(CliError::incomplete)?;
            if ready.status == ReadinessStatus::Unavailable {
                return Err(CliError::incomplete(ready.reasons.join("; ")));
            }
        } else {
            client.alive().await.map_err(CliError::incomplete)?;
        }
        output::line("ok")?;
        Ok(Exit::Done)
    }
}

fn worker_url(context: &Context) -> Result<String, CliError> {
    let address = context.health_bind()?.ok_or_else(|| {
        CliError::usage(
            "the worker has no health port: worker.health_bind is empty; set it to an address, such as 127.0.0.1:9465",
        )
    })?;
    Ok(url_of(address))
}

/// Returns the local URL of a process that binds this address.
fn url_of(mut bind: SocketAddr) -> String {
    if bind.ip().is_unspecified() {
        bind.set_ip(match bind.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    format!("http://{bind}")
}
