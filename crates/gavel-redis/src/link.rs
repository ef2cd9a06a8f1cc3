//! Lazily opened connection shared by its users. A failed link is replaced, not reopened.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, select_ok};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionInfo, ErrorKind, RedisError, Value};
use tokio::time::timeout;

use super::address::{Address, host_of, split};
use super::{CONNECT_TIMEOUT, timeout_error};

/// Connection, or the future that opens it.
#[derive(Clone)]
pub(super) struct Link {
    /// Distinguishes the link from its replacement.
    identity: Arc<()>,
    opening: Shared<BoxFuture<'static, Result<Opened, RedisError>>>,
}

#[derive(Clone)]
pub(super) struct Opened {
    pub(super) connection: MultiplexedConnection,
    pub(super) server: ConnectionInfo,
    /// `host:port` of every node, if the server belongs to a cluster.
    pub(super) cluster: Vec<String>,
}

impl Link {
    /// Connects to the server, to any node of the cluster, or to the primary reported by sentinels.
    pub(super) fn to_entry(address: &Address, known: &[String]) -> Self {
        let ways: Vec<BoxFuture<'static, Result<Opened, RedisError>>> = match address {
            Address::Servers { first, more } => {
                let known = known
                    .iter()
                    .filter_map(|node| split(node))
                    .map(|(host, port)| address.server_at(host, port));
                let servers = std::iter::once(first.clone()).chain(more.iter().cloned());
                servers
                    .chain(known)
                    .map(|server| connect_entry(server).boxed())
                    .collect()
            }
            Address::Sentinels {
                sentinels, service, ..
            } => sentinels
                .iter()
                .map(|sentinel| primary(sentinel.clone(), service.clone(), address.clone()).boxed())
                .collect(),
        };
        // Tries all concurrently, so that an unresponsive one doesn't delay the others.
        Self::by(async { Ok(select_ok(ways).await?.0) })
    }

    pub(super) fn to_node(address: &Address, node: &str) -> Self {
        let server = split(node).map(|(host, port)| address.server_at(host, port));
        let node = node.to_owned();
        Self::by(async move {
            let server = server.ok_or_else(|| invalid_node(&node))?;
            let connection = connect(&server).await?;
            Ok(Opened {
                connection,
                server,
                cluster: Vec::new(),
            })
        })
    }

    fn by(opening: impl Future<Output = Result<Opened, RedisError>> + Send + 'static) -> Self {
        let in_time = async {
            timeout(CONNECT_TIMEOUT, opening)
                .await
                .unwrap_or_else(|_| Err(timeout_error()))
        };
        Self {
            identity: Arc::new(()),
            opening: in_time.boxed().shared(),
        }
    }

    /// Returns the connection, opened by the first caller. If that caller is cancelled, the next one continues.
    pub(super) async fn opened(&self) -> Result<Opened, RedisError> {
        self.opening.clone().await
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.identity, &other.identity)
    }
}

async fn connect(server: &ConnectionInfo) -> Result<MultiplexedConnection, RedisError> {
    // The caller's timeout covers both the connection and the call.
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None);
    Client::open(server.clone())?
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

async fn connect_entry(server: ConnectionInfo) -> Result<Opened, RedisError> {
    let mut connection = connect(&server).await?;
    let mut slots = redis::cmd("CLUSTER");
    // A single server or an access list may reject this. Then only the configured addresses are used.
    let slots: Option<Value> = slots.arg("SLOTS").query_async(&mut connection).await.ok();
    let cluster = slots.map_or_else(Vec::new, |slots| nodes(slots, &host_of(&server)));
    Ok(Opened {
        connection,
        server,
        cluster,
    })
}

/// Connects to the primary of a service, as reported by one sentinel.
async fn primary(
    sentinel: ConnectionInfo,
    service: String,
    address: Address,
) -> Result<Opened, RedisError> {
    let mut asked = connect(&sentinel).await?;
    let mut which = redis::cmd("SENTINEL");
    which.arg("get-master-addr-by-name").arg(&service);
    let named: Option<(String, u16)> = which.query_async(&mut asked).await?;
    let (host, port) = named.ok_or_else(|| {
        RedisError::from((
            ErrorKind::MasterNameNotFoundBySentinel,
            "the sentinel has no such service",
            service.clone(),
        ))
    })?;
    let server = address.server_at(&host, port);
    let mut connection = connect(&server).await?;
    // Shortly after a failover a sentinel may still report the old primary.
    let role = redis::cmd("ROLE").query_async(&mut connection).await.ok();
    match role.and_then(|role: Value| texts(role).into_iter().next()) {
        Some(role) if role != "master" => Err(RedisError::from((
            ErrorKind::MasterNameNotFoundBySentinel,
            "the server named by the sentinel is not a primary",
            service,
        ))),
        Some(_) | None => Ok(Opened {
            connection,
            server,
            cluster: Vec::new(),
        }),
    }
}

/// Parses the nodes of `CLUSTER SLOTS`: `[[first, last, [host, port, ..], ..], ..]`. A node without a host is the
/// queried one.
fn nodes(slots: Value, asked: &str) -> Vec<String> {
    let mut found = Vec::new();
    for range in items(slots) {
        for node in items(range).into_iter().skip(2) {
            let parts = items(node);
            let port = parts
                .get(1)
                .and_then(|port| redis::from_redis_value_ref::<u16>(port).ok());
            let host = parts
                .first()
                .and_then(|host| redis::from_redis_value_ref::<String>(host).ok());
            let host = host.filter(|host| !host.is_empty());
            if let Some(port) = port {
                found.push(format!("{}:{port}", host.as_deref().unwrap_or(asked)));
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn items(value: Value) -> Vec<Value> {
    if let Value::Array(items) = value {
        items
    } else {
        Vec::new()
    }
}

fn texts(value: Value) -> Vec<String> {
    let texts = items(value).into_iter();
    texts
        .filter_map(|text| redis::from_redis_value(text).ok())
        .collect()
}

fn invalid_node(node: &str) -> RedisError {
    RedisError::from((
        ErrorKind::Io,
        "a node of the cluster has no usable address",
        node.to_owned(),
    ))
}
