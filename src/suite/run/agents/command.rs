//! Agent command: started once per question, which it reads from stdin. Its answer is JSON on stdout.

use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use super::{Agent, AgentAnswer, AgentFault, LARGEST};
use crate::config::AgentSettings;
use crate::suite::run::{AgentQuestion, Stopped};

/// Bytes stored from the end of stderr.
const STDERR: usize = 2_048;
/// Exit codes of the shell if the command doesn't exist or can't be run.
const NO_COMMAND: [i32; 2] = [126, 127];

pub(super) struct CommandAgent {
    command: String,
    settings: AgentSettings,
    timeout: Duration,
}

struct Ran {
    code: Option<i32>,
    out: Vec<u8>,
    err: String,
}

impl CommandAgent {
    pub(super) fn new(command: &str, settings: &AgentSettings, timeout_s: f64) -> Self {
        Self {
            command: command.to_owned(),
            settings: settings.clone(),
            timeout: Duration::from_secs_f64(timeout_s),
        }
    }

    async fn run(&self, question: &AgentQuestion) -> Result<Ran, String> {
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(&self.command)
            .env("GAVEL_TEST_ID", &question.test_id)
            .env("GAVEL_AGENT", question.agent.as_str())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A separate process group, so that child processes of the command are killed as well.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("can't be started: {error}"))?;
        let mut group = ProcessGroup(child.id());
        let ran = tokio::time::timeout(self.timeout, talk(&mut child, &question.text)).await;
        if let Ok(Ok(_)) = ran {
            group.0 = None; // it has ended and closed its outputs
        }
        ran.unwrap_or_else(|_| {
            Err(format!(
                "did not answer within {} s (agents.timeout_s)",
                self.timeout.as_secs_f64()
            ))
        })
    }
}

#[async_trait]
impl Agent for CommandAgent {
    async fn ask(&self, question: &AgentQuestion) -> Result<AgentAnswer, AgentFault> {
        let fault = |reason: String| {
            AgentFault::Question(format!("the command {:?} {reason}", self.command))
        };
        let ran = self.run(question).await.map_err(fault)?;
        let said = match ran.err.trim() {
            "" => "; its stderr is empty".to_owned(),
            words => format!("; its stderr: {words}"),
        };
        match ran.code {
            Some(0) => {}
            Some(code) if NO_COMMAND.contains(&code) => {
                return Err(AgentFault::Down(Stopped::Usage(format!(
                    "--agent-command {:?} can't be run (exit code {code}){said}",
                    self.command
                ))));
            }
            Some(code) => return Err(fault(format!("ended with exit code {code}{said}"))),
            None => return Err(fault(format!("was killed by a signal{said}"))),
        }
        AgentAnswer::parse(&ran.out, &self.settings)
            .map_err(|reason| fault(format!("is not understood: {reason}{said}")))
    }
}

/// Writes the question, reads both outputs concurrently, and waits for the exit.
async fn talk(child: &mut Child, question: &str) -> Result<Ran, String> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let asking = async {
        if let Some(mut stdin) = stdin {
            // A command that doesn't read its question closes the pipe. Its answer decides.
            let _ = stdin.write_all(question.as_bytes()).await;
            let _ = stdin.write_all(b"\n").await;
        }
    };
    let ((), out, tail) = tokio::join!(asking, read_limited(stdout), tail(stderr));
    let (out, tail) = (out?, tail?);
    if out.len() > LARGEST {
        return Err(format!("wrote more than {LARGEST} bytes"));
    }
    let status = child.wait().await.map_err(|error| error.to_string())?;
    Ok(Ran {
        code: status.code(),
        out,
        err: String::from_utf8_lossy(&tail).into_owned(),
    })
}

/// Reads a pipe up to one byte beyond the limit.
async fn read_limited(pipe: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let mut pipe = pipe.take(LARGEST as u64 + 1);
        let read = pipe.read_to_end(&mut bytes).await;
        read.map_err(|error| format!("can't be read: {error}"))?;
    }
    Ok(bytes)
}

/// Returns the end of a pipe's output. Reads all of it, so that its writer isn't blocked.
async fn tail(pipe: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, String> {
    let (mut kept, mut part) = (Vec::new(), vec![0; 8_192]);
    let Some(mut pipe) = pipe else {
        return Ok(kept);
    };
    loop {
        let read = pipe.read(&mut part).await;
        match read.map_err(|error| format!("can't be read: {error}"))? {
            0 => return Ok(kept),
            length => kept.extend_from_slice(&part[..length]),
        }
        let surplus = kept.len().saturating_sub(STDERR);
        kept.drain(..surplus);
    }
}

/// Process group of a command that hasn't ended. Dropping it kills the group.
struct ProcessGroup(Option<u32>);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let Some(id) = self.0 else { return };
        let _ = std::process::Command::new("kill")
            .args(["-KILL", "--", &format!("-{id}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status(); // it may have ended already, and a failure can't be handled
    }
}
