//! One way to Redis for whoever runs scripts there: a client whose calls end within a bound.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, FromRedisValue, RedisError, Script};

/// A client; clones share their connection.
#[derive(Clone)]
pub struct RedisClient {
    client: Client,
    connection: Arc<Mutex<Option<ConnectionManager>>>,
    response_timeout: Duration,
}

impl RedisClient {
    /// Prepares a client; connects with the first call.
    ///
    /// # Errors
    /// For an address that can't be used.
    pub fn new(url: &str) -> Result<Self, RedisError> {
        Ok(Self {
            client: Client::open(url)?,
            connection: Arc::default(),
            response_timeout: Duration::from_secs(5),
        })
    }

    /// The same server, with another bound for each call (5 s by default).
    #[must_use]
    pub fn with_response_timeout(&self, response_timeout: Duration) -> Self {
        Self {
            client: self.client.clone(),
            connection: Arc::default(),
            response_timeout,
        }
    }

    /// Runs a script whose keys all have the hash tag of `key`, its only declared one.
    ///
    /// # Errors
    /// What the server says, or that it is away.
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
        let mut connection = self.connection()?;
        invocation.invoke_async(&mut connection).await
    }

    /// Runs one command on `key`.
    ///
    /// # Errors
    /// As [`RedisClient::invoke`].
    pub async fn command<T: FromRedisValue>(
        &self,
        _key: &str,
        command: &Cmd,
    ) -> Result<T, RedisError> {
        let mut connection = self.connection()?;
        command.query_async(&mut connection).await
    }

    fn connection(&self) -> Result<ConnectionManager, RedisError> {
        let mut known = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = &*known {
            return Ok(connection.clone());
        }
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(0)
            .set_connection_timeout(Some(self.response_timeout))
            .set_response_timeout(Some(self.response_timeout));
        let connection = ConnectionManager::new_lazy_with_config(self.client.clone(), config)?;
        *known = Some(connection.clone());
        Ok(connection)
    }
}
