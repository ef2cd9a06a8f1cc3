//! Opens connections to Postgres, and distinguishes a rejected connection from a server that doesn't answer.

use std::path::PathBuf;
use std::str::FromStr as _;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, PgConnection};

use super::error::{Outage, Rejection};

/// Address and role. A password file (`password_file`, else `~/.pgpass` if the address has no password) is read for each
/// connection.
#[derive(Clone)]
pub(in crate::store) struct PgAddress {
    url: String,
    password_file: Option<PathBuf>,
}

impl PgAddress {
    /// Fails if the address is invalid.
    pub(in crate::store) fn new(url: &str, password_file: Option<PathBuf>) -> sqlx::Result<Self> {
        PgConnectOptions::from_str(url)?;
        Ok(Self {
            url: url.to_owned(),
            password_file,
        })
    }

    /// Opens a connection without timeouts or settings. Boxed, because otherwise every calling future would contain the
    /// options.
    pub(in crate::store) fn connect(&self) -> BoxFuture<'_, sqlx::Result<PgConnection>> {
        async {
            let options = self.options().await?;
            let connected = options.connect().await;
            connected.map_err(|error| refused(error, &options))
        }
        .boxed()
    }

    async fn options(&self) -> sqlx::Result<PgConnectOptions> {
        let options = PgConnectOptions::from_str(&self.url)?
            .application_name("gavel")
            // Poolers reject this parameter, and floats are read in binary format.
            .extra_float_digits(None)
            .disable_statement_logging();
        let Some(path) = &self.password_file else {
            return Ok(options);
        };
        let password = tokio::fs::read_to_string(path)
            .await
            .map_err(|error| std::io::Error::other(Rejection::by_password_file(path, &error)))?;
        Ok(options.password(password.trim_end_matches(['\r', '\n'])))
    }
}

/// Classifies the error of a failed connection. A proxy without its server closes the connection during the handshake, which
/// counts as a lost connection.
fn refused(error: sqlx::Error, options: &PgConnectOptions) -> sqlx::Error {
    if let sqlx::Error::Protocol(text) = error {
        return sqlx::Error::Io(std::io::Error::other(text));
    }
    let passes = Outage::of(&error).is_some_and(Outage::is_transient);
    match error.as_database_error() {
        Some(said) if !passes => {
            let role = options.get_username();
            let database = options.get_database().unwrap_or(role);
            sqlx::Error::Io(std::io::Error::other(Rejection::by_server(
                said, role, database,
            )))
        }
        Some(_) | None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aborted_handshake_is_transient() {
        let options = PgConnectOptions::new_without_pgpass();
        let broken = refused(sqlx::Error::Protocol("early eof".to_owned()), &options);
        assert_eq!(Outage::of(&broken), Some(Outage::NoAnswer), "{broken}");
        let other = refused(sqlx::Error::RowNotFound, &options);
        assert!(matches!(other, sqlx::Error::RowNotFound), "{other}");
    }
}
