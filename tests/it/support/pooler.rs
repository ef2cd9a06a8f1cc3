//! A PgBouncer of a test's own.

use std::net::SocketAddr;
use std::process::Command as BlockingCommand;

use super::postgres_server;
use super::process::{Process, answers, free_address, is_root, program, unprivileged};

/// A PgBouncer before the Postgres server to test on. It ends with this value.
pub(crate) struct Pooler {
    address: SocketAddr,
    ini: String,
    process: Process,
    dir: tempfile::TempDir,
}

impl Pooler {
    /// Starts one with these lines in its file; `None`, with a line that says so, where that can't be done.
    pub(crate) async fn start(lines: &str) -> Option<Self> {
        let Some(pgbouncer) = program("pgbouncer", &["/usr/sbin", "/usr/local/sbin"]) else {
            eprintln!(
                "NOT TESTED BEHIND A POOLER: there is no pgbouncer (Debian: apt install pgbouncer)"
            );
            return None;
        };
        let server = reqwest::Url::parse(&postgres_server()?).unwrap();
        let address = free_address();
        let password = server.password().map(|word| format!("password={word}"));
        let ini = format!(
            "[databases]\n* = host={} port={} user={} {}\n\
             [pgbouncer]\nauth_type = any\nlisten_addr = 127.0.0.1\nlisten_port = {}\nunix_socket_dir =\n",
            server.host_str().unwrap(),
            server.port().unwrap_or(5432),
            server.username(),
            password.unwrap_or_default(),
            address.port(),
        );
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pgbouncer.ini");
        std::fs::write(&file, format!("{ini}{lines}\n")).unwrap();
        if is_root() {
            let mut own = BlockingCommand::new("chown");
            own.args(["-R", "postgres"]).arg(dir.path());
            if !own.status().is_ok_and(|status| status.success()) {
                eprintln!(
                    "NOT TESTED BEHIND A POOLER: it can't run as root, and there is no user postgres"
                );
                return None;
            }
        }
        let mut command = unprivileged(&pgbouncer);
        command.arg(&file);
        let process = Process::spawn("pgbouncer", dir.path(), command);
        answers(address).await;
        Some(Self {
            address,
            ini,
            process,
            dir,
        })
    }

    /// Changes its file: these lines instead of those that it was started with.
    pub(crate) fn change(&self, lines: &str) {
        let file = self.dir.path().join("pgbouncer.ini");
        std::fs::write(file, format!("{}{lines}\n", self.ini)).unwrap();
        self.process.reload();
    }

    /// The address of a database through it.
    pub(crate) fn url(&self, database: &str) -> String {
        let (_, name) = database.rsplit_once('/').unwrap();
        format!("postgres://gavel@{}/{name}", self.address)
    }
}
