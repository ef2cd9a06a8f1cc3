//! Runs the commands of the documents in order against the real program, and compares the output.

mod transcript;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::support::client::{Api, PATIENCE};
use crate::support::home::built_in;
use crate::support::process::{Process, free_address, gavel, program};
use crate::support::wait::eventually;
use transcript::{Step, mismatch, steps};

const PART: char = '\u{1e}';

struct Services {
    dir: tempfile::TempDir,
    open: SocketAddr,
    guarded: SocketAddr,
    /// For services that a document starts.
    spare: SocketAddr,
    _processes: Vec<Process>,
}

impl Services {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let [judge, open, guarded, spare] = std::array::from_fn(|_| free_address());
        let port = judge.port().to_string();
        let none = BTreeMap::new();
        let judging = gavel(&none, &["simulate-judge", "--port", &port]);
        let mut processes = vec![Process::spawn("judge", dir.path(), judging)];
        let url = format!("http://{judge}/v1");
        let up = |name: &str, address: SocketAddr, more: &[(&str, &str)]| {
            let (bind, data) = (address.to_string(), dir.path().join(name));
            let mut env = BTreeMap::from([
                ("GAVEL_BIND".to_owned(), bind),
                ("GAVEL_DATA_DIR".to_owned(), data.display().to_string()),
            ]);
            env.extend(more.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
            Process::spawn(name, dir.path(), gavel(&env, &["up"]))
        };
        let judged = [
            ("DEFAULT_LLM_PROVIDER", "simulated"),
            ("GAVEL_SIMULATED_URL", url.as_str()),
        ];
        let limited = [
            (
                "GAVEL_AUTH_TOKENS",
                "root:admin:admin-secret-0123 reader:read:reader-secret-0123",
            ),
            ("GAVEL_HTTP_MAX_BODY_BYTES", "65536"),
            ("GAVEL_HTTP_MAX_STREAMS", "0"),
        ];
        processes.push(up("open", open, &judged));
        processes.push(up("guarded", guarded, &limited));
        for address in [open, guarded] {
            let api = Api::new(&address.to_string());
            eventually(PATIENCE, "it is live", || async {
                let answer = api.try_send("GET", "/livez", None, &[]).await?;
                (answer.status == 200).then_some(())
            })
            .await;
        }
        Self {
            dir,
            open,
            guarded,
            spare,
            _processes: processes,
        }
    }

    /// Replaces the addresses in a document with the addresses of this run.
    fn here(&self, text: &str) -> String {
        text.replace("127.0.0.1:8080", &self.open.to_string())
            .replace("127.0.0.1:8081", &self.guarded.to_string())
            .replace("127.0.0.1:8082", &self.spare.to_string())
    }

    /// Runs a bash script in a separate folder; returns its stdout.
    async fn run(&self, script: &str) -> String {
        let folder = self.dir.path().join("shell");
        std::fs::create_dir_all(&folder).unwrap();
        // Limits the duration of each command, and ignores the user's proxy settings.
        std::fs::write(folder.join(".curlrc"), "max-time = 90\nnoproxy = \"*\"\n").unwrap();
        let bash = program("bash", &["/bin", "/usr/bin"]).expect("bash, to run the documents with");
        program("curl", &["/bin", "/usr/bin"]).expect("curl, to run the documents with");
        let built = Path::new(env!("CARGO_BIN_EXE_gavel")).parent().unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", built.display());
        let output = tokio::process::Command::new(bash)
            .arg("-c")
            .arg(self.here(script))
            .env("CURL_HOME", &folder)
            .env("PATH", path)
            .env_remove("DATABASE_URL")
            .env_remove("REDIS_URL")
            .current_dir(&folder)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(PATIENCE * 2, output).await;
        let output = output.expect("the document's commands end").unwrap();
        String::from_utf8_lossy(&output.stdout).replace('\r', "")
    }
}

fn document(path: &str) -> String {
    std::fs::read_to_string(built_in(path)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transcripts_of_docs_http_md_match() {
    let services = Services::start().await;
    let steps = steps(&document("docs/http.md"));
    assert!(steps.len() > 40, "{} commands", steps.len());
    // One shell for all commands, so that variables, files and background jobs persist.
    let mut script = String::from("exec 2>&1; trap 'kill $(jobs -p) 2> /dev/null' EXIT\n");
    for step in &steps {
        script.push_str(&format!("{}\nprintf '{PART}'\n", step.command));
    }
    let output = services.run(&script).await;
    let outputs: Vec<&str> = output.split(PART).collect();
    assert_eq!(
        outputs.len(),
        steps.len() + 1,
        "the shell broke off:\n{output}"
    );
    let wrong: Vec<String> = steps
        .iter()
        .zip(outputs)
        .filter_map(|(step, output)| faulty(step, output))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn faulty(step: &Step, output: &str) -> Option<String> {
    let fault = mismatch(&step.expected, output)?;
    Some(format!(
        "docs/http.md:{}: {}\n{fault}\n--- it answered:\n{output}\n",
        step.line, step.command
    ))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readme_curl_lines_store_and_score_a_session() {
    let services = Services::start().await;
    let readme = document("README.md");
    let block = readme
        .split("```sh\n")
        .filter_map(|rest| rest.split("```").next())
        .find(|block| block.contains("curl"))
        .expect("a block with curl");
    let asked = block
        .lines()
        .filter(|line| line.starts_with("curl "))
        .count();
    let output = services.run(block).await;
    let answers: Vec<&str> = output.lines().collect();
    assert_eq!(answers.len(), asked, "{output}");
    for (answer, field) in answers
        .iter()
        .zip(["outcome", "score_id", "score_id", "items"])
    {
        let body: serde_json::Value = serde_json::from_str(answer).unwrap();
        assert!(body.get(field).is_some(), "{field}: {answer}");
    }
}

#[test]
fn every_link_resolves_to_a_file_and_its_heading() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = std::fs::read_dir(root.join("docs")).unwrap();
    let docs = docs.map(|entry| entry.unwrap().path());
    let texts: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"]
        .map(|name| root.join(name))
        .into_iter()
        .chain(docs.filter(|path| path.extension().is_some_and(|kind| kind == "md")))
        .collect();
    let mut dead = Vec::new();
    for from in &texts {
        let text = std::fs::read_to_string(from).unwrap();
        let links = text.split("](").skip(1);
        let links = links.filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://")) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let to = match path {
                "" => from.clone(),
                path => from.parent().unwrap().join(path),
            };
            let leads = match anchor {
                "" => to.exists(),
                anchor => std::fs::read_to_string(&to)
                    .is_ok_and(|text| text.lines().any(|line| heading(line) == anchor)),
            };
            if !leads {
                dead.push(format!("{}: {link}", from.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

/// Anchor of a heading on GitHub.
fn heading(line: &str) -> String {
    let title = line.trim_start_matches('#').trim().to_lowercase();
    title
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            c => Some(c).filter(|c| c.is_alphanumeric()),
        })
        .collect()
}
