//! Tests of the real binary: output and exit codes. Each run has a separate folder and environment.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

mod baselines;
mod doctor;
mod embedded;
mod evaluate;
mod going_on;
mod ratings;
mod report;
mod rescore;
mod servers;
mod settings;
mod terminal;

/// Folder to run `gavel` in, without the environment of this process.
struct Sandbox {
    dir: TempDir,
    env: Vec<(String, String)>,
}

struct Run {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Sandbox {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            env: Vec::new(),
        }
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gavel"));
        command
            .args(args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(self.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Passes the coverage profile path on to the binary.
        if let Ok(profile) = std::env::var("LLVM_PROFILE_FILE") {
            command.env("LLVM_PROFILE_FILE", profile);
        }
        command
    }

    fn run(&self, args: &[&str]) -> Run {
        Run::of(self.command(args).output().unwrap())
    }
}

impl Run {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    fn ends(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "stdout:\n{}\nstderr:\n{}",
            self.out,
            self.err
        );
        self
    }

    #[track_caller]
    fn says(self, part: &str) -> Self {
        assert!(
            self.err.contains(part),
            "{part:?} is not in stderr:\n{}",
            self.err
        );
        self
    }

    #[track_caller]
    fn prints(self, part: &str) -> Self {
        assert!(
            self.out.contains(part),
            "{part:?} is not in stdout:\n{}\nstderr:\n{}",
            self.out,
            self.err
        );
        self
    }

    #[track_caller]
    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}:\n{}", self.out))
    }
}
