use std::net::SocketAddr;
use std::process::Command as BlockingCommand;

use super::postgres_server;
use super::process::{Process, answers, free_address, is_root, program, unprivileged};

/// Private PgBouncer in front of the Postgres server of the tests; stops on drop.
pub(crate) struct Pooler {
    address: SocketAddr,
    ini: String,
    process: Process,
    dir: tempfile::TempDir,
}

impl Pooler {
    /// Starts PgBouncer with these lines in its file; `None`, with a message, if that isn't possible.
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

    pub(crate) fn change(&self, lines: &str) {
        let file = self.dir.path().join("pgbouncer.ini");
        std::fs::write(file, format!("{}{lines}\n", self.ini)).unwrap();
        self.process.reload();
    }

    pub(crate) fn url(&self, database: &str) -> String {
        let (_, name) = database.rsplit_once('/').unwrap();
        format!("postgres://gavel@{}/{name}", self.address)
    }
}
