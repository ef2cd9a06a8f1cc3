//! Output and exit code of each command over a service with data, as text and as JSON; and the metrics after that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::golden;
use crate::interfaces::pretty;
use crate::mask::Mask;
use crate::seeded_service::{Output, Service, gavel};
use crate::support::home::built_in;

fn transcript(args: &[&str], output: &Output, mask: &Mask) -> String {
    let code = output
        .code
        .map_or("killed".to_owned(), |code| code.to_string());
    let mut text = format!("$ gavel {}\n", args.join(" "));
    let json: Option<Vec<Value>> = match args.contains(&"--json") {
        true => serde_json::Deserializer::from_str(&output.stdout)
            .into_iter()
            .collect::<Result<_, _>>()
            .ok(),
        false => None,
    };
    let stdout = match json {
        Some(values) => values.iter().map(pretty).collect::<Vec<_>>().join("\n"),
        None => output.stdout.clone(),
    };
    for (name, part) in [("stdout", &stdout), ("stderr", &output.stderr)] {
        if !part.is_empty() {
            text.push_str(&format!("--- {name}\n{}\n", part.trim_end()));
        }
    }
    text.push_str(&format!("--- exit code {code}\n\n"));
    let text = mask.apply(&text);
    match args[0] {
        // Masks the width of the tables, which depends on the length of the process id in worker names.
        "queue" => WIDTHS.replace_all(&text, "$1$1").into_owned(),
        _ => text,
    }
}

static WIDTHS: LazyLock<Regex> = LazyLock::new(|| Regex::new("( ) {2,}|─{2,}|═{2,}").unwrap());

/// Commands that read or change stored data, one line of arguments each. `@` runs a command as text and with `--json`.
fn commands(service: &Service) -> Vec<String> {
    let stored = &service.stored;
    let first = stored.sessions[0];
    let [older, newer] = stored.scores;
    let (current, other) = (&stored.current, &stored.other);
    let (before, preview) = (stored.before, stored.preview);
    let (unfinished, failed) = (stored.unfinished, stored.failed_job);
    let unknown = "00000000-0000-4000-8000-000000000000";
    let sample = stored.samples[3];
    vec![
        "sessions list --limit 5 @".to_owned(),
        "sessions list --rating good @".to_owned(),
        "sessions list --q nobody @".to_owned(),
        format!("sessions show {first} @"),
        format!("sessions show {sample} @"),
        format!("sessions show {unknown} @"),
        "sessions import nowhere.json @".to_owned(),
        "sessions import session.json @".to_owned(),
        "sessions import broken.json @".to_owned(),
        "sessions import".to_owned(),
        "sessions import --from ftp://tarsy".to_owned(),
        "sessions import --from http://me:secret@tarsy".to_owned(),
        format!("sessions delete {sample} @"),
        format!("score {first} @"),
        format!("score {unknown} @"),
        "score sesion.json".to_owned(),
        "jobs list --limit 2 @".to_owned(),
        "jobs list --state waiting @".to_owned(),
        format!("jobs show {failed} @"),
        format!("jobs show {} @", stored.waiting_job),
        format!("jobs show {unknown} @"),
        format!("jobs retry {older} @"),
        format!("jobs cancel {} @", stored.waiting_job),
        "criteria list @".to_owned(),
        format!("criteria show {current} @"),
        "criteria check outcome-first.yaml @".to_owned(),
        "criteria check broken.yaml @".to_owned(),
        "criteria add outcome-first.yaml @".to_owned(),
        "criteria current @".to_owned(),
        "criteria current --kind query @".to_owned(),
        format!("criteria diff {current} {other}"),
        "criteria diff current current".to_owned(),
        format!("criteria compare {current} {other} @"),
        "criteria compare current 00000000".to_owned(),
        format!("ratings list {first} @"),
        "ratings agreement @".to_owned(),
        format!("ratings agreement --criteria {other} @"),
        "ratings import ratings.csv @".to_owned(),
        "ratings import nowhere.csv @".to_owned(),
        "batches list @".to_owned(),
        format!("batches show {before} @"),
        format!("batches show {preview} @"),
        format!("batches show {unfinished} @"),
        format!("batches show {unknown} @"),
        format!("batches spread {before} @"),
        format!("batches pause {unfinished} @"),
        format!("batches watch {unfinished} @"),
        format!("batches resume {unfinished} @"),
        format!("batches budget {unfinished} 2.5 @"),
        format!("batches budget {unfinished} much"),
        format!("batches watch {before} @"),
        format!("batches cancel {unfinished} @"),
        format!("batches retry-errors {unfinished} @"),
        format!("rescore --tag shop --dry-run @"),
        "rescore --tag nobody --dry-run @".to_owned(),
        "rescore --ids-file ids.txt".to_owned(),
        "rescore --ids-file no-ids.txt".to_owned(),
        "rescore --ids-file nowhere.txt".to_owned(),
        "rescore --preview outcome-first.yaml --criteria current".to_owned(),
        format!("rescore --criteria {other} --not-current --dry-run @"),
        format!("report {before}"),
        format!("report {before} --format junit.xml"),
        format!("report {unknown}"),
        "report nowhere".to_owned(),
        "judges list @".to_owned(),
        "queue status @".to_owned(),
        "judges pause judge @".to_owned(),
        "judges resume judge @".to_owned(),
        "judges pause nobody @".to_owned(),
        "queue pause @".to_owned(),
        "queue resume @".to_owned(),
        "costs @".to_owned(),
        "costs --by judge @".to_owned(),
        "costs --by model @".to_owned(),
        "analytics missing-tools @".to_owned(),
        "analytics approaches @".to_owned(),
        "analytics distribution @".to_owned(),
        "analytics trend --every day --days 3660 @".to_owned(),
        "analytics trend --every hour @".to_owned(),
        "export training --min-score 85".to_owned(),
        "export scores --min-score 85".to_owned(),
        "export scores --tag nobody".to_owned(),
        format!("export training --criteria {other}"),
        "export scores --output scores.xlsx".to_owned(),
        "compare run-a run-b @".to_owned(),
        "compare run-a nowhere @".to_owned(),
        "batches push run-a @".to_owned(),
        "evaluate query.jsonl --no-judge --output run-c --concurrency 1 @".to_owned(),
        "evaluate nowhere.jsonl".to_owned(),
        "evaluate wrong.csv".to_owned(),
        "evaluate empty.jsonl".to_owned(),
        "evaluate".to_owned(),
        "evaluate query.jsonl --min-mean 7".to_owned(),
        "evaluate query.jsonl --baseline nowhere".to_owned(),
        "doctor --no-probe @".to_owned(),
        "healthcheck --server".to_owned(),
        "healthcheck --server localhost:1".to_owned(),
        format!("healthcheck --server {}", service.api.base()),
        "tokens new".to_owned(),
        "tokens new --name ann --scopes everything".to_owned(),
        "config show --nothing".to_owned(),
        "nothing".to_owned(),
        format!("jobs show {newer} --log-format colours"),
    ]
}

fn write_files(service: &Service) {
    let dir = service.work_dir();
    let session = built_in("examples/sessions/disk-pressure-timed-out.json");
    std::fs::copy(session, dir.join("session.json")).unwrap();
    let suite = built_in("examples/queries/kql-suite.jsonl");
    std::fs::copy(suite, dir.join("query.jsonl")).unwrap();
    let ratings = format!(
        "session_id,rating,by\n{},good,dora\n",
        service.stored.sessions[5]
    );
    for (name, text) in [
        (
            "broken.json",
            "{\"status\": \"completed\", \"conversation\": [{\"role\": 1}]}",
        ),
        (
            "broken.yaml",
            "scoring:\n  enabled: maybe\njudge_prompt: [\n",
        ),
        (
            "wrong.csv",
            "id,prompt,generated_kql,expected_kql,threshold\na,Who?,T,T,much\n",
        ),
        ("empty.jsonl", ""),
        ("empty.jsonl", ""),
        ("ids.txt", "session-7\n"),
        ("no-ids.txt", "# no session\n"),
        ("ratings.csv", &ratings),
    ] {
        std::fs::write(dir.join(name), text).unwrap();
    }
    for (run, limit) in [("run-a", "12"), ("run-b", "9")] {
        let mut env = service.clock_env();
        let data = dir.join("data-of-runs").display().to_string();
        env.push(("GAVEL_DATA_DIR".to_owned(), data));
        let run = [
            "evaluate",
            "query.jsonl",
            "--simulate",
            "--limit",
            limit,
            "--output",
            run,
        ];
        let output = gavel(&dir, &env, &run);
        assert_eq!(output.code, Some(3), "{}{}", output.stdout, output.stderr);
    }
}

/// The description and type of each metric, and its sets of labels without the bounds of buckets.
fn series(metrics: &str) -> String {
    let lines: BTreeSet<String> = metrics
        .lines()
        .filter(|line| !line.is_empty() && !line.contains("_bucket{"))
        .map(|line| match line.rsplit_once(' ') {
            Some((name, _)) if !line.starts_with('#') => name.to_owned(),
            _ => line.to_owned(),
        })
        .collect();
    lines.into_iter().map(|line| line + "\n").collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_and_metrics_match_golden_files() {
    let Some(service) = Service::start().await else {
        return;
    };
    write_files(&service);
    // Masked because the worker publishes the hold with a delay.
    let mask = service
        .mask()
        .pattern(r#"("breaker": "closed",\s+"reason": )"paused""#, "${1}null");
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for line in commands(&service) {
        let mut words: Vec<&str> = line.split(' ').collect();
        let both = words.pop_if(|word| *word == "@").is_some();
        let group = words.iter().find(|word| !word.starts_with("--")).unwrap();
        let text = texts.entry(format!("{group}.txt")).or_default();
        text.push_str(&transcript(&words, &service.run(&words), &mask));
        if both {
            words.push("--json");
            text.push_str(&transcript(&words, &service.run(&words), &mask));
        }
    }
    let metrics = service.api.get("/metrics").await;
    let metrics = series(metrics.body.as_str().unwrap());
    let metrics = mask.apply(&metrics);
    service.stop().await;
    golden::check_folder("commands", &texts);
    golden::check("metrics.txt", &metrics);
}
