//! Program under test as processes: separate environment, stopped by signal, killed at the end of a test.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command as BlockingCommand, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::process::{Child, Command};

use super::client::{Api, PATIENCE};
use super::home::{Home, providers};
use super::wait::eventually;

pub(crate) struct Process {
    name: String,
    child: Child,
    /// Open file, readable after its folder is deleted.
    log: File,
}

impl Drop for Process {
    /// A failed test prints the output of its processes; `GAVEL_TEST_LOGS` always prints it.
    fn drop(&mut self) {
        if std::thread::panicking() || std::env::var_os("GAVEL_TEST_LOGS").is_some() {
            eprintln!("--- {}\n{}", self.name, self.output());
        }
    }
}

impl Process {
    /// Starts a command with its output in a file in `dir`.
    pub(crate) fn spawn(name: &str, dir: &Path, mut command: Command) -> Self {
        let log = dir.join(format!("{name}.log"));
        let out = File::options()
            .create(true)
            .append(true)
            .read(true)
            .open(&log)
            .unwrap();
        command
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out.try_clone().unwrap())
            .kill_on_drop(true);
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("starting {name}: {error}"));
        Self {
            name: name.to_owned(),
            child,
            log: out,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn terminate(&self) {
        self.signal("-TERM");
    }

    fn signal(&self, signal: &str) {
        let sent = BlockingCommand::new("kill")
            .args([signal, &self.pid().to_string()])
            .status();
        assert!(sent.unwrap().success(), "signalling {}", self.name);
    }

    /// Reloads the settings (SIGHUP).
    pub(crate) fn reload(&self) {
        self.signal("-HUP");
    }

    /// Stops the process (SIGSTOP), like a suspended host.
    pub(crate) fn freeze(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn thaw(&self) {
        self.signal("-CONT");
    }

    /// Sends SIGKILL, like the kernel on memory shortage.
    pub(crate) fn kill(&mut self) {
        self.child.start_kill().unwrap();
    }

    pub(crate) async fn exit_code(&mut self) -> Option<i32> {
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        let ended =
            ended.unwrap_or_else(|_| panic!("{} doesn't end:\n{}", self.name, self.output()));
        ended.unwrap().code()
    }

    /// Sends SIGTERM, and fails the test unless it ends with code 0.
    pub(crate) async fn stop(&mut self) {
        self.terminate();
        let code = self.exit_code().await;
        assert_eq!(code, Some(0), "{}:\n{}", self.name, self.output());
    }

    pub(crate) fn output(&self) -> String {
        use std::os::unix::fs::FileExt as _;
        let length = self.log.metadata().map_or(0, |metadata| metadata.len());
        let mut text = vec![0; usize::try_from(length).unwrap_or_default()];
        let read = self.log.read_at(&mut text, 0).unwrap_or_default();
        String::from_utf8_lossy(&text[..read]).into_owned()
    }
}

/// The binary under test, with exactly this environment.
pub(crate) fn gavel(env: &BTreeMap<String, String>, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gavel"));
    command.args(args).env_clear().envs(env);
    for kept in ["PATH", "HOME", "LLVM_PROFILE_FILE"] {
        if let Ok(value) = std::env::var(kept) {
            command.env(kept, value);
        }
    }
    command
}

/// Unused loopback address. Its port is outside the ephemeral range, and other tests count from different ports, so a
/// server that starts soon finds it free.
pub(crate) fn free_address() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let n = std::process::id() * 16 + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 10_000 + u16::try_from(n % 22_000).unwrap();
        if let Ok(free) = std::net::TcpListener::bind(("127.0.0.1", port)) {
            return free.local_addr().unwrap();
        }
    }
}

/// Environment with a wall clock at this offset; empty for no offset. `None`, with a message, without libfaketime.
pub(crate) fn clock_at(offset: &str) -> Option<BTreeMap<String, String>> {
    const LIBRARY: &str = "faketime/libfaketime.so.1";
    if offset.is_empty() {
        return Some(BTreeMap::new());
    }
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"];
    let Some(library) = program(LIBRARY, &folders) else {
        eprintln!("NOT TESTED: there is no libfaketime (Debian: apt install faketime)");
        return None;
    };
    let preload = ("LD_PRELOAD".to_owned(), library.display().to_string());
    Some(BTreeMap::from([
        preload,
        ("FAKETIME".to_owned(), offset.to_owned()),
    ]))
}

pub(crate) struct Fleet {
    pub(crate) home: Home,
    pub(crate) api: Api,
    pub(crate) serve: Process,
}

impl Fleet {
    pub(crate) async fn start(home: Home) -> Self {
        run_to_end(&home, &["migrate"]).await;
        Self::start_migrated(home).await
    }

    pub(crate) async fn start_migrated(mut home: Home) -> Self {
        let address = free_address();
        home.set("GAVEL_BIND", address);
        if home.get("GAVEL_LLM_PROVIDERS").is_empty() && home.get("GAVEL_SIMULATED_URL").is_empty()
        {
            // The API calls no judge, but requires a configured one.
            home.judge_at("http://127.0.0.1:9/v1", "");
        }
        let serve = Process::spawn("serve", home.dir(), gavel(home.env(), &["serve"]));
        let api = Api::new(&address.to_string());
        let mut fleet = Self { home, api, serve };
        fleet.is_live().await;
        fleet
    }

    pub(crate) fn serve_again(&mut self) {
        let serve = gavel(self.home.env(), &["serve"]);
        self.serve = Process::spawn("serve-again", self.home.dir(), serve);
    }

    pub(crate) fn worker(&self, name: &str, judge_url: &str, concurrency: usize) -> Process {
        self.starter(concurrency)(name, judge_url)
    }

    /// Returns a function that starts a worker by name and judge address.
    pub(crate) fn starter(&self, concurrency: usize) -> impl Fn(&str, &str) -> Process + use<> {
        let (dir, mut env) = (self.home.dir().to_owned(), self.home.env().clone());
        env.insert(
            "GAVEL_WORKER_CONCURRENCY".to_owned(),
            concurrency.to_string(),
        );
        move |name, judge_url| {
            let path = dir.join(format!("judges-{name}.yaml"));
            std::fs::write(&path, providers(judge_url, "")).unwrap();
            let mut env = env.clone();
            env.insert("GAVEL_LLM_PROVIDERS".to_owned(), path.display().to_string());
            Process::spawn(name, &dir, gavel(&env, &["worker"]))
        }
    }

    async fn is_live(&mut self) {
        let (api, serve) = (&self.api, &mut self.serve);
        let serve = std::cell::RefCell::new(serve);
        eventually(PATIENCE, "the API is live", || async {
            let runs = serve.borrow_mut().runs();
            assert!(runs, "serve ended:\n{}", serve.borrow().output());
            api.try_send("GET", "/livez", None, &[])
                .await
                .filter(|answer| answer.status == 200)
        })
        .await;
    }
}

pub(crate) async fn run_to_end(home: &Home, args: &[&str]) -> String {
    let (code, output) = run(home, args).await;
    assert_eq!(code, Some(0), "gavel {}:\n{output}", args.join(" "));
    output
}

pub(crate) async fn run(home: &Home, args: &[&str]) -> (Option<i32>, String) {
    let output = gavel(home.env(), args)
        .current_dir(home.dir())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(PATIENCE, output).await;
    let output = output
        .unwrap_or_else(|_| panic!("gavel {} doesn't end", args.join(" ")))
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// First executable of that name in `PATH` or these folders.
pub(crate) fn program(name: &str, folders: &[&str]) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let found = path.split(':').chain(folders.iter().copied());
    found
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.is_file())
}

/// Redis of one test; can be killed and restarted empty.
pub(crate) struct PrivateRedis {
    program: PathBuf,
    dir: tempfile::TempDir,
    address: SocketAddr,
    more: Vec<String>,
    process: Option<Process>,
}

impl PrivateRedis {
    /// Starts Redis; `None`, with a message, if it isn't installed.
    pub(crate) async fn start() -> Option<Self> {
        Self::start_with(&[]).await
    }

    pub(crate) async fn start_with(more: &[&str]) -> Option<Self> {
        let Some(program) = program("redis-server", &["/usr/local/bin"]) else {
            eprintln!("NOT TESTED: there is no redis-server in PATH");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let mut redis = Self {
            program,
            dir,
            address: free_address(),
            more: more.iter().map(|&argument| argument.to_owned()).collect(),
            process: None,
        };
        redis.again().await;
        Some(redis)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) async fn tell(&self, words: &[&str]) -> String {
        let client = redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        let answer: redis::Value = command.query_async(&mut connection).await.unwrap();
        redis::from_redis_value(answer.clone()).unwrap_or_else(|_| format!("{answer:?}"))
    }

    /// Starts a sentinel that monitors it as `mymaster`; stops on drop.
    pub(crate) async fn sentinel(&self) -> (SocketAddr, Process) {
        let address = free_address();
        let file = self.dir.path().join("sentinel.conf");
        let text = format!(
            "port {}\nbind 127.0.0.1\nsentinel monitor mymaster 127.0.0.1 {} 1\n\
             sentinel down-after-milliseconds mymaster 1000\nsentinel failover-timeout mymaster 4000\n",
            address.port(),
            self.port()
        );
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(&self.program);
        command.arg(&file).arg("--sentinel");
        let process = Process::spawn("sentinel", self.dir.path(), command);
        answers(address).await;
        (address, process)
    }

    /// Kills it: its data is lost.
    pub(crate) async fn kill(&mut self) {
        let mut process = self.process.take().expect("it runs");
        process.kill();
        process.exit_code().await;
    }

    /// Suspends it: connections stay open without responses.
    pub(crate) fn freeze(&self) {
        self.process.as_ref().expect("it runs").freeze();
    }

    pub(crate) fn thaw(&self) {
        self.process.as_ref().expect("it runs").thaw();
    }

    pub(crate) async fn again(&mut self) {
        let mut command = Command::new(&self.program);
        command.args(["--port", &self.address.port().to_string()]);
        command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.args(&self.more);
        self.process = Some(Process::spawn("redis", self.dir.path(), command));
        let address = self.address;
        answers(address).await;
    }
}

/// Postgres of one test; can be killed and restarted.
pub(crate) struct PrivatePostgres {
    program: PathBuf,
    dir: tempfile::TempDir,
    address: SocketAddr,
    clock: BTreeMap<String, String>,
    process: Option<Process>,
}

impl PrivatePostgres {
    /// Creates a data folder and starts a server; `None`, with a message, if that isn't possible.
    pub(crate) async fn start() -> Option<Self> {
        let folders = [
            "/usr/lib/postgresql/17/bin",
            "/usr/lib/postgresql/16/bin",
            "/usr/lib/postgresql/15/bin",
        ];
        let (Some(initdb), Some(postgres)) =
            (program("initdb", &folders), program("postgres", &folders))
        else {
            eprintln!(
                "NOT TESTED: there is no initdb and postgres in PATH or in /usr/lib/postgresql"
            );
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        std::fs::create_dir(&data).unwrap();
        if is_root() {
            let owned = BlockingCommand::new("chown")
                .arg("-R")
                .arg("postgres")
                .arg(dir.path())
                .status();
            if !owned.is_ok_and(|status| status.success()) {
                eprintln!("NOT TESTED: Postgres can't run as root, and there is no user postgres");
                return None;
            }
        }
        let mut make = unprivileged(&initdb);
        make.args([
            "--auth=trust",
            "--username=gavel",
            "--no-sync",
            "--no-locale",
            "--encoding=UTF8",
            "-D",
        ]);
        let made = make
            .arg(&data)
            .current_dir(dir.path())
            .output()
            .await
            .unwrap();
        assert!(
            made.status.success(),
            "initdb: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        let mut server = Self {
            program: postgres,
            dir,
            address: free_address(),
            clock: BTreeMap::new(),
            process: None,
        };
        server.again().await;
        Some(server)
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://gavel@{}/postgres", self.address)
    }

    /// Address of a database of it, for a role.
    pub(crate) fn url_of(&self, role: &str, database: &str) -> String {
        format!("postgres://{role}@{}/{database}", self.address)
    }

    /// Writes `pg_hba.conf`, effective after a reload.
    pub(crate) fn admit(&self, lines: &str) {
        std::fs::write(self.dir.path().join("data/pg_hba.conf"), lines).unwrap();
    }

    /// Immediate shutdown (SIGQUIT).
    pub(crate) async fn kill(&mut self) {
        let mut process = self.process.take().expect("it runs");
        let pid = std::fs::read_to_string(self.dir.path().join("data/postmaster.pid")).unwrap();
        let pid = pid.lines().next().unwrap().to_owned();
        assert!(
            BlockingCommand::new("kill")
                .args(["-QUIT", &pid])
                .status()
                .unwrap()
                .success()
        );
        process.exit_code().await;
    }

    /// Restarts it with a wall clock at this offset, like [`Home::set_clock`].
    pub(crate) async fn again_at(&mut self, offset: &str) -> Option<()> {
        self.clock = clock_at(offset)?;
        self.kill().await;
        self.again().await;
        Some(())
    }

    pub(crate) async fn again(&mut self) {
        // The library's semaphore belongs to the first process that loads it, which must not run as root.
        let mut command = unprivileged(Path::new("/usr/bin/env"));
        command.args(
            self.clock
                .iter()
                .map(|(name, value)| format!("{name}={value}")),
        );
        command
            .arg(&self.program)
            .arg("-D")
            .arg(self.dir.path().join("data"));
        command.args([
            "-p",
            &self.address.port().to_string(),
            "-c",
            "listen_addresses=127.0.0.1",
        ]);
        command.args(["-c", "unix_socket_directories=", "-c", "fsync=off"]);
        self.process = Some(Process::spawn("postgres", self.dir.path(), command));
        let url = self.url();
        eventually(
            Duration::from_secs(30),
            "the private Postgres answers",
            || async {
                use sqlx::Connection as _;
                let connection = sqlx::PgConnection::connect(&url).await.ok()?;
                connection.close().await.ok()
            },
        )
        .await;
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        // A killed parent leaves its children running; SIGQUIT ends them as well.
        let pid = std::fs::read_to_string(self.dir.path().join("data/postmaster.pid"));
        if let Some(pid) = pid
            .ok()
            .and_then(|text| text.lines().next().map(str::to_owned))
        {
            let _ = BlockingCommand::new("kill").args(["-QUIT", &pid]).status();
        }
    }
}

pub(super) fn is_root() -> bool {
    let id = BlockingCommand::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// Server program, run as the user postgres if the test runs as root.
pub(super) fn unprivileged(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=postgres", "--regid=postgres", "--clear-groups"])
        .arg(program);
    command
}

pub(super) async fn answers(address: SocketAddr) {
    eventually(Duration::from_secs(30), "the server answers", || async {
        tokio::net::TcpStream::connect(address).await.ok()
    })
    .await;
}
