//! Redis client for a single server, a cluster, or a primary behind sentinels. Shared by queue, gate and events.
//!
//! `MOVED` replies locate keys in a cluster, so the address of any node is enough. All keys of Gavel with one hash tag
//! are on one node. `ASK` is not followed: while a slot migrates its keys are on two nodes, and a script would see only
//! some of them. The caller continues without Redis until the migration ends. The primary is looked up again if it was
//! demoted (`READONLY`), broke or timed out. Every call has a timeout. Calls that may have run are not repeated.

mod address;
mod link;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures::StreamExt as _;
use parking_lot::{Mutex, MutexGuard};
use redis::aio::{MultiplexedConnection, PubSubSink, PubSubStream};
use redis::{
    Client, Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError, Script, ScriptInvocation, Value,
};
use tokio::time::timeout;

use address::Address;
use link::Link;

/// Timeout of a connection including its handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Default timeout of a call including a new connection.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of redirects per call.
const MAX_REDIRECTS: usize = 3;
/// Maximum silence of a subscription before a ping.
const MAX_SILENCE: Duration = Duration::from_secs(5);

/// Redis client. Clones share their connections.
#[derive(Clone)]
pub struct RedisClient {
    shared: Arc<Shared>,
    response_timeout: Duration,
}

struct Shared {
    address: Address,
    links: Mutex<Links>,
}

#[derive(Default)]
struct Links {
    /// Connection to the server, to the primary, or to any node of a cluster.
    entry: Option<Link>,
    /// Connections to cluster nodes by `host:port`.
    nodes: HashMap<String, Link>,
    /// Node by hash tag, if it isn't the entry's.
    routes: HashMap<String, String>,
    /// Nodes of the cluster, used as further entries if the current one fails.
    known: Vec<String>,
}

impl std::fmt::Debug for RedisClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisClient")
            .field("response_timeout", &self.response_timeout)
            .finish_non_exhaustive()
    }
}

impl RedisClient {
    /// Parses the address. The first call connects.
    pub fn new(url: &str) -> Result<Self, RedisError> {
        Ok(Self::to(Address::parse(url)?, RESPONSE_TIMEOUT))
    }

    fn to(address: Address, response_timeout: Duration) -> Self {
        Self {
            shared: Arc::new(Shared {
                address,
                links: Mutex::default(),
            }),
            response_timeout,
        }
    }

    /// Returns a clone with a different timeout per call. Default 5 s.
    #[must_use]
    pub fn with_response_timeout(&self, response_timeout: Duration) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            response_timeout,
        }
    }

    /// Returns a client with separate connections, for blocking calls.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self::to(self.shared.address.clone(), self.response_timeout)
    }

    /// Runs a script. All its keys must have the hash tag of `key`. See [`is_away`] for outages.
    pub async fn invoke<T: FromRedisValue>(
        &self,
        script: &Script,
        key: &str,
        args: &[String],
    ) -> Result<T, RedisError> {
        let mut invocation = script.key(key);
        for arg in args {
            invocation.arg(arg);
        }
        self.execute(key, &Request::Script(invocation)).await
    }

    /// Runs a command on the server of `key`.
    pub async fn command<T: FromRedisValue>(
        &self,
        key: &str,
        command: &Cmd,
    ) -> Result<T, RedisError> {
        self.execute(key, &Request::Command(command)).await
    }

    /// Runs several commands on `key` in order. Returns the first error of the commands.
    pub async fn pipeline<T: FromRedisValue>(
        &self,
        key: &str,
        commands: &Pipeline,
    ) -> Result<T, RedisError> {
        self.execute(key, &Request::Pipeline(commands)).await
    }

    /// Subscribes to a channel on a separate connection. Receives messages published on any node of a cluster.
    pub async fn subscribe(&self, channel: &str) -> Result<Subscription, RedisError> {
        let subscribing = async {
            let link = self.shared.entry();
            let opened = link.opened().await;
            let server = self.shared.store_nodes(&link, opened)?.server;
            let mut subscription = Client::open(server)?.get_async_pubsub().await?;
            subscription.subscribe(channel).await?;
            Ok(subscription.split())
        };
        let (sink, messages) = timeout(CONNECT_TIMEOUT, subscribing)
            .await
            .unwrap_or_else(|_| Err(timeout_error()))?;
        Ok(Subscription { sink, messages })
    }

    /// Sets `key` for 1 ms by a script. This fails if the server is full, was demoted or forbids scripts, although
    /// reads or plain commands may still succeed.
    pub async fn probe(&self, key: &str) -> Result<(), RedisError> {
        static PROBE: LazyLock<Script> =
            LazyLock::new(|| Script::new("redis.call('SET', KEYS[1], '1', 'PX', 1)"));
        self.invoke(&PROBE, key, &[]).await
    }

    /// Returns the eviction policy of a full server. `None` if the server doesn't report it.
    pub async fn maxmemory_policy(&self) -> Option<String> {
        let mut info = redis::cmd("INFO");
        info.arg("memory");
        let text: String = self.execute("", &Request::Command(&info)).await.ok()?;
        let mut lines = text.lines();
        lines.find_map(|line| Some(line.strip_prefix("maxmemory_policy:")?.trim().to_owned()))
    }

    async fn execute<T: FromRedisValue>(
        &self,
        key: &str,
        request: &Request<'_>,
    ) -> Result<T, RedisError> {
        let tag = hash_tag(key);
        let mut used = None;
        let answer = timeout(self.response_timeout, async {
            let mut moves = 0;
            loop {
                let link = self.shared.link_for(tag);
                let opened = link.opened().await;
                let mut connection = self.shared.store_nodes(&link, opened)?.connection;
                used = Some(link.clone());
                let error = match request.send(&mut connection).await {
                    Ok(answer) => return Ok(answer),
                    Err(error) => error,
                };
                let elsewhere = self.shared.after(&link, tag, &error);
                if !elsewhere || moves == MAX_REDIRECTS {
                    return Err(error);
                }
                moves += 1;
            }
        });
        let answer = answer.await;
        answer.unwrap_or_else(|_| {
            // An unresponsive connection doesn't look broken, so the next call opens a new one.
            if let Some(link) = used {
                self.shared.drop_link(&link);
            }
            Err(timeout_error())
        })
    }
}

/// Returns whether Redis is temporarily unusable: unreachable, demoted, out of memory, migrating keys, or rejecting the
/// user. The caller continues without it and retries later.
#[must_use]
pub fn is_away(error: &RedisError) -> bool {
    let kind = matches!(
        error.kind(),
        ErrorKind::Io | ErrorKind::MasterNameNotFoundBySentinel
    );
    let code = |codes: &[&str]| error.code().is_some_and(|code| codes.contains(&code));
    kind || code(AWAY) || is_rejected(error)
}

fn is_rejected(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
        || matches!(error.code(), Some("NOPERM" | "NOAUTH" | "WRONGPASS"))
}

/// Returns the error text, with the fix if an operator must act.
#[must_use]
pub fn explain(error: &RedisError) -> String {
    let remedy = match is_rejected(error) {
        true if error.code() == Some("NOPERM") => {
            "; allow the user of REDIS_URL the keys and channels of Gavel and its commands, scripts included: \
             `ACL SETUSER .. ~{gavel:* &{gavel:* +@all -@admin -@dangerous +info +role`"
        }
        true => "; correct user and password of REDIS_URL",
        false => "",
    };
    format!("{error}{remedy}")
}

const AWAY: &[&str] = &[
    "ASK",
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "MOVED",
    "NOREPLICAS",
    "OOM",
    "READONLY",
    "TRYAGAIN",
    "UNBLOCKED",
];

/// Subscription. It ends when [`Subscription::heard`] returns `None`.
pub struct Subscription {
    sink: PubSubSink,
    messages: PubSubStream,
}

impl Subscription {
    /// Waits for the next message. `None` if the connection is lost or doesn't answer a ping.
    pub async fn heard(&mut self) -> Option<()> {
        loop {
            match timeout(MAX_SILENCE, self.messages.next()).await {
                Ok(message) => return message.map(|_| ()),
                Err(_) => {
                    let answer = timeout(MAX_SILENCE, self.sink.ping::<Value>()).await;
                    answer.ok()?.ok()?;
                }
            }
        }
    }
}

enum Request<'a> {
    Script(ScriptInvocation<'a>),
    Command(&'a Cmd),
    Pipeline(&'a Pipeline),
}

impl Request<'_> {
    async fn send<T: FromRedisValue>(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<T, RedisError> {
        match self {
            Self::Script(invocation) => invocation.invoke_async(connection).await,
            Self::Command(command) => command.query_async(connection).await,
            Self::Pipeline(commands) => commands.query_async(connection).await.map_err(first_error),
        }
    }
}

/// Returns the first error of a pipeline, including the address of a `MOVED`.
fn first_error(error: RedisError) -> RedisError {
    let faults = error.clone().into_server_errors();
    let first = faults.and_then(|faults| faults.first().map(|(_, fault)| fault.clone()));
    first.map_or(error, RedisError::from)
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Links> {
        self.links.lock()
    }

    fn entry(&self) -> Link {
        let mut links = self.lock();
        let Links { entry, known, .. } = &mut *links;
        entry
            .get_or_insert_with(|| Link::to_entry(&self.address, known))
            .clone()
    }

    fn link_for(&self, tag: &str) -> Link {
        let mut links = self.lock();
        let Links { nodes, routes, .. } = &mut *links;
        let Some(node) = routes.get(tag) else {
            drop(links);
            return self.entry();
        };
        nodes
            .entry(node.clone())
            .or_insert_with(|| Link::to_node(&self.address, node))
            .clone()
    }

    /// Stores the cluster nodes of a new entry. Drops a link that failed to open.
    fn store_nodes(
        &self,
        link: &Link,
        opened: Result<link::Opened, RedisError>,
    ) -> Result<link::Opened, RedisError> {
        match &opened {
            Ok(opened) if !opened.cluster.is_empty() => {
                self.lock().known.clone_from(&opened.cluster);
            }
            Ok(_) => {}
            Err(_) => self.drop_link(link),
        }
        opened
    }

    /// Handles an error. Returns whether the call did not run and should be repeated on another server.
    fn after(&self, link: &Link, tag: &str, error: &RedisError) -> bool {
        match error.code() {
            Some("MOVED") => {
                let Some((node, _)) = error.redirect_node() else {
                    return false;
                };
                tracing::debug!(node, "redis: keys are on another node");
                self.lock().routes.insert(tag.to_owned(), node.to_owned());
                true
            }
            // The first write of a script is rejected, so no effect has happened.
            Some("READONLY") => {
                self.drop_link(link);
                true
            }
            Some("CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "UNBLOCKED") => {
                self.drop_link(link);
                false
            }
            _ => {
                if error.is_io_error() || error.is_unrecoverable_error() {
                    self.drop_link(link);
                }
                false
            }
        }
    }

    /// Drops a connection and its routes, unless it was already replaced.
    fn drop_link(&self, link: &Link) {
        let mut links = self.lock();
        let Links {
            entry,
            nodes,
            routes,
            ..
        } = &mut *links;
        if entry.as_ref().is_some_and(|entry| entry.is(link)) {
            *entry = None;
        }
        nodes.retain(|node, held| {
            let goes = held.is(link);
            if goes {
                routes.retain(|_, over| over != node);
            }
            !goes
        });
    }
}

/// Returns the part of a key that determines its cluster slot.
fn hash_tag(key: &str) -> &str {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'));
    match tag {
        Some((tag, _)) if !tag.is_empty() => tag,
        Some(_) | None => key,
    }
}

fn timeout_error() -> RedisError {
    std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer in time").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server_error(text: &str) -> RedisError {
        let value = redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap();
        value.extract_error().unwrap_err()
    }

    #[test]
    fn temporary_server_errors_count_as_away() {
        for text in [
            "OOM command not allowed when used memory > 'maxmemory'. script: ab, on @user_script:1.",
            "READONLY You can't write against a read only replica.",
            "LOADING Redis is loading the dataset in memory",
            "CLUSTERDOWN Hash slot not served",
            "ASK 866 127.0.0.1:7001",
            "MOVED 866 127.0.0.1:7001",
            "MISCONF Redis is configured to save RDB snapshots",
            "BUSY Redis is busy running a script.",
            "NOPERM User default has no permissions to run the 'evalsha' command",
            "NOAUTH Authentication required.",
        ] {
            assert!(is_away(&server_error(text)), "{text}");
        }
        assert!(is_away(&timeout_error()));
        for text in ["ERR unknown command", "WRONGTYPE Operation against a key"] {
            assert!(!is_away(&server_error(text)), "{text}");
        }
    }

    #[test]
    fn keys_with_one_hash_tag_share_a_route() {
        for (key, tag) in [
            ("{gavel:main}:ids", "gavel:main"),
            ("{gavel:main}", "gavel:main"),
            ("a{}b", "a{}b"),
            ("plain", "plain"),
            ("a{b", "a{b"),
        ] {
            assert_eq!(hash_tag(key), tag);
        }
    }
}
