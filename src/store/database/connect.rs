//! Opens connections to Postgres. A connection that the server rejects is told from a server that doesn't answer.

use std::path::PathBuf;
use std::str::FromStr as _;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, PgConnection};

use super::error::{Outage, Rejection};

/// Address and role. The password is read again for each connection where it is in a file: `password_file`, or
/// `~/.pgpass` if the address has none.
#[derive(Clone)]
pub(in crate::store) struct PgAddress {
    url: String,
    password_file: Option<PathBuf>,
}

impl PgAddress {
    /// Checks that the address can be read.
    pub(in crate::store) fn new(url: &str, password_file: Option<PathBuf>) -> sqlx::Result<Self> {
        PgConnectOptions::from_str(url)?;
        Ok(Self {
            url: url.to_owned(),
            password_file,
        })
    }

    /// Opens a connection without bounds or settings. Boxed: it is rare, and every future around it would hold the options.
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
            // Poolers refuse it, and floats are read as bytes.
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

/// Sorts the error of a connection that wasn't opened. A proxy without its server breaks the greeting off, which passes
/// like a lost connection.
fn refused(error: sqlx::Error, options: &PgConnectOptions) -> sqlx::Error {
    if let sqlx::Error::Protocol(text) = error {
        return sqlx::Error::Io(std::io::Error::other(text));
    }
    let passes = Outage::of(&error).is_some_and(Outage::is_passing);
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
    fn a_greeting_that_breaks_off_passes_and_other_errors_stay_what_they_are() {
        let options = PgConnectOptions::new_without_pgpass();
        let broken = refused(sqlx::Error::Protocol("early eof".to_owned()), &options);
        assert_eq!(Outage::of(&broken), Some(Outage::NoAnswer), "{broken}");
        let other = refused(sqlx::Error::RowNotFound, &options);
        assert!(matches!(other, sqlx::Error::RowNotFound), "{other}");
    }
}
