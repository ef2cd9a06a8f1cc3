//! Monitoring: a worker's port, cluster metrics, and a judge that no worker can call.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command as BlockingCommand;

use sqlx::Connection as _;

use super::{DEADLINE, private_postgres, shared, without_heartbeats};
use crate::support::client::{Api, PATIENCE};
use crate::support::home::{JUDGE, built_in, providers};
use crate::support::judge_server::{JudgeServer, Reply};
use crate::support::process::{Fleet, Process, free_address, gavel, run};
use crate::support::sessions::session;
use crate::support::wait::eventually;

/// Starts a worker with this judges file and a separate port.
fn worker(fleet: &Fleet, name: &str, judges: &str) -> (Process, Api) {
    let path = fleet.home.dir().join(format!("judges-{name}.yaml"));
    std::fs::write(&path, judges).unwrap();
    let address = free_address().to_string();
    let mut env = fleet.home.env().clone();
    for (key, value) in [
        ("GAVEL_LLM_PROVIDERS", path.display().to_string()),
        ("GAVEL_WORKER_HEALTH_BIND", address.clone()),
    ] {
        env.insert(key.to_owned(), value);
    }
    let worker = Process::spawn(name, fleet.home.dir(), gavel(&env, &["worker"]));
    (worker, Api::new(&address))
}

async fn is_ready(port: &Api) {
    eventually(PATIENCE, "the worker is ready", || async {
        let ready = port.try_send("GET", "/readyz", None, &[]).await?;
        (ready.status == 200).then_some(())
    })
    .await;
}

async fn is_not_ready(port: &Api, for_sake_of: &str) {
    let reasons = eventually(DEADLINE, "the worker is not ready", || async {
        let ready = port.get("/readyz").await;
        (ready.status == 503).then(|| ready.body["reasons"].clone())
    })
    .await;
    let first = reasons[0].as_str().unwrap();
    assert!(first.contains(for_sake_of), "{reasons}");
}

async fn scrape(api: &Api) -> String {
    let answer = api.get("/metrics").await;
    let kind = answer.header("content-type").unwrap().to_owned();
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    answer.expect(200).as_str().unwrap().to_owned()
}

/// Waits until a process reports a nonzero sample with this prefix.
async fn counts(api: &Api, sample: &str) {
    eventually(PATIENCE, sample, || async {
        let text = scrape(api).await;
        let mut lines = text.lines();
        lines
            .any(|line| line.starts_with(sample) && !line.ends_with(" 0"))
            .then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_shows_that_no_live_worker_has_its_judge() {
    let Some(home) = shared().await else {
        return;
    };
    let judge = JudgeServer::start(Reply::Score(70)).await;
    let fleet = Fleet::start(home).await;
    let has_it = providers(&judge.url("a"), "");
    let has_another = has_it.replacen(&format!("{JUDGE}:"), "elsewhere:", 1);
    let (mut without, port) = worker(&fleet, "without", &has_another);
    is_ready(&port).await;
    let (_, job) = fleet.api.enqueue(session()).await;
    let waits = fleet.api.job(job).await["wait"].clone();
    assert_eq!(waits["reason"], "no_worker_for_judge", "{waits}");
    let remedy = waits["remedy"].as_str().unwrap();
    assert!(remedy.contains(&format!("entry {JUDGE}")), "{remedy}");
    let workers = fleet.api.get("/api/v1/workers").await.expect(200);
    let published = workers["items"][0]["judges"].as_array().unwrap();
    assert!(
        published.iter().any(|name| name == "elsewhere"),
        "{workers}"
    );
    assert!(published.iter().all(|name| name != JUDGE), "{workers}");
    let page = fleet.api.get("/queue").await.expect(200);
    let page = page.as_str().unwrap();
    assert!(
        page.contains(&format!("no live worker can call {JUDGE}")),
        "{page}"
    );
    assert!(page.contains(&format!("has entry {JUDGE}")), "{page}");

    let (mut with, port) = worker(&fleet, "with", &has_it);
    is_ready(&port).await;
    assert_eq!(fleet.api.ended(job).await["state"], "succeeded");
    without.stop().await;
    with.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_port_reports_readiness_and_all_metrics_are_documented() {
    let Some(home) = shared().await else {
        return;
    };
    let judge = JudgeServer::start(Reply::Score(70)).await;
    let fleet = Fleet::start(home).await;
    let paced = providers(&judge.url("a"), "  requests_per_minute: 600\n");
    let (mut working, port) = worker(&fleet, "a", &paced);
    is_ready(&port).await;
    let verbose = port.get("/readyz?verbose").await.expect(200);
    let named: Vec<&str> = verbose["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| check["name"].as_str().unwrap())
        .collect();
    assert_eq!(named, ["database", "heartbeat", "process", "services"]);
    port.get("/livez").await.expect(200);
    port.get("/api/v1/jobs").await.expect(404);

    let (_, job) = fleet.api.enqueue(session()).await;
    assert_eq!(fleet.api.ended(job).await["state"], "succeeded");
    fleet.api.post_judge_action("pause").await;
    counts(&port, "gavel_judge_cost_usd{").await;
    counts(&fleet.api, "gavel_cluster_stopped{").await;
    // The worker has seen the pause: it claims no more jobs of this lane.
    counts(&fleet.api, "gavel_cluster_judge_held{").await;
    fleet.api.enqueue(session()).await;
    let queued = format!(
        "gavel_cluster_jobs{{lane=\"{JUDGE}\",priority=\"interactive\",state=\"queued\"}} 1"
    );
    counts(&fleet.api, &queued).await;
    let cluster = scrape(&fleet.api).await;
    for line in [
        queued.as_str(),
        "gavel_cluster_workers{state=\"running\"} 1",
        &format!("gavel_cluster_judge_calls_total{{judge=\"{JUDGE}\",outcome=\"ok\"}} 1"),
        &format!("gavel_cluster_judge_breakers{{judge=\"{JUDGE}\",state=\"closed\"}} 1"),
        &format!("gavel_cluster_judge_pace_limit{{judge=\"{JUDGE}\",quantity=\"requests\"}} 600"),
    ] {
        assert!(
            cluster.lines().any(|it| it == line),
            "no {line} in\n{cluster}"
        );
    }
    let own = scrape(&port).await;
    assert!(
        own.contains("gavel_runs_total{kind=\"session\",ending=\"scored\"} 1"),
        "{own}"
    );

    let told = [families(&cluster), families(&own)];
    let documented = documented();
    for (name, kind) in told.iter().flatten() {
        assert_eq!(
            documented.get(name),
            Some(kind),
            "docs/operate.md on {name}"
        );
    }
    for name in documented.keys() {
        // All other metrics exist after one job.
        let seen = told.iter().any(|told| told.contains_key(name));
        assert!(
            seen || name == "gavel_judge_unpriced_calls_total",
            "nobody tells {name}"
        );
    }
    for text in [&cluster, &own] {
        parses(fleet.home.dir(), text);
    }
    working.stop().await;
    assert!(port.try_send("GET", "/livez", None, &[]).await.is_none());
}

fn families(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
        .collect()
}

fn documented() -> BTreeMap<String, String> {
    let document = std::fs::read_to_string(built_in("docs/operate.md")).unwrap();
    let rows = document.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("| `gavel_")?.split_once("` | ")?;
        let kind = rest.split(" |").next()?;
        Some((format!("gavel_{name}"), kind.to_owned()))
    });
    rows.collect()
}

/// Parses a scrape with the Python client of Prometheus.
fn parses(dir: &Path, text: &str) {
    const SCRIPT: &str = "
import sys
try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError:
    sys.exit(77)
for family in text_string_to_metric_families(open(sys.argv[1]).read()):
    assert family.documentation, family.name + ' has no help'
    assert family.samples, family.name + ' has no samples'
    print(family.name)
";
    let file = dir.join("scrape.txt");
    std::fs::write(&file, text).unwrap();
    let ran = BlockingCommand::new("python3")
        .arg("-c")
        .arg(SCRIPT)
        .arg(&file)
        .output();
    match ran {
        Ok(ran) if ran.status.success() => {
            let names = String::from_utf8(ran.stdout).unwrap();
            let read: BTreeSet<&str> = names.lines().collect();
            let told = families(text);
            let same = |name: &String| name.strip_suffix("_total").unwrap_or(name).to_owned();
            let told: BTreeSet<String> = told.keys().map(same).collect();
            assert!(told.iter().map(String::as_str).eq(read), "{names}");
        }
        Ok(ran) if ran.status.code() == Some(77) => {
            eprintln!(
                "NOT TESTED: the format of /metrics: there is no Python package prometheus_client"
            );
        }
        Ok(ran) => panic!("{}", String::from_utf8_lossy(&ran.stderr)),
        Err(error) => eprintln!("NOT TESTED: the format of /metrics: python3: {error}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_without_its_database_is_alive_and_not_ready() {
    let Some((home, mut postgres)) = private_postgres().await else {
        return;
    };
    let judge = JudgeServer::start(Reply::Score(70)).await;
    let fleet = Fleet::start(home).await;
    let (mut working, port) = worker(&fleet, "a", &providers(&judge.url("a"), ""));
    is_ready(&port).await;
    postgres.kill().await;
    is_not_ready(&port, "database").await;
    port.get("/livez").await.expect(200);
    postgres.again().await;
    is_ready(&port).await;
    working.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_heartbeat_makes_a_worker_not_ready() {
    let Some(home) = shared().await else {
        return;
    };
    let judge = JudgeServer::start(Reply::Score(70)).await;
    let fleet = Fleet::start(home).await;
    let (mut working, port) = worker(&fleet, "a", &providers(&judge.url("a"), ""));
    is_ready(&port).await;
    let lock = without_heartbeats(&fleet.home).await;
    is_not_ready(&port, "heartbeat").await;
    lock.close().await.unwrap();
    is_ready(&port).await;
    counts(&port, "gavel_heartbeats_missed_total ").await;
    working.stop().await;
}

#[tokio::test]
async fn occupied_explicit_port_ends_a_worker_and_empty_one_disables() {
    let Some(home) = shared().await else {
        return;
    };
    let judge = JudgeServer::start(Reply::Score(70)).await;
    let fleet = Fleet::start(home).await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, output) = run(&fleet.home, &["worker", "--health-bind", &address]).await;
    assert_eq!(code, Some(2), "{output}");
    for said in [&address, "--health-bind", "GAVEL_WORKER_HEALTH_BIND"] {
        assert!(output.contains(said), "{output}");
    }
    let (code, output) = run(&fleet.home, &["worker", "--health-bind", "0.0.0.0:0"]).await;
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains("auth.tokens"), "{output}");
    let (code, output) = run(&fleet.home, &["worker", "--health-bind", "nowhere"]).await;
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains("127.0.0.1:9465"), "{output}");

    // Both workers have the default port, which at most one can bind.
    let start = fleet.starter(1);
    let url = judge.url("a");
    let mut workers = [start("a", &url), start("b", &url)];
    eventually(PATIENCE, "both workers are alive", || async {
        let workers = fleet.api.get("/api/v1/workers").await.expect(200);
        let items = workers["items"].as_array().unwrap();
        (items.iter().filter(|it| it["alive"] == true).count() == 2).then_some(())
    })
    .await;
    let without = workers
        .iter()
        .filter(|it| it.output().contains("no health port"));
    assert!(without.count() >= 1);
    for worker in &mut workers {
        worker.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn container_healthcheck_checks_its_worker() {
    let Some(home) = shared().await else {
        return;
    };
    let judge = JudgeServer::start(Reply::Score(70)).await;
    let mut fleet = Fleet::start(home).await;
    let (mut working, port) = worker(&fleet, "a", &providers(&judge.url("a"), ""));
    is_ready(&port).await;
    let address = port.base().trim_start_matches("http://").to_owned();
    fleet.home.set("GAVEL_WORKER_HEALTH_BIND", &address);
    let check = ["healthcheck", "--worker", "--ready"];
    let (code, output) = run(&fleet.home, &check).await;
    assert_eq!((code, output.trim()), (Some(0), "ok"));
    working.stop().await;
    let (code, output) = run(&fleet.home, &check).await;
    assert_eq!(code, Some(3), "{output}");
    fleet.home.set("GAVEL_WORKER_HEALTH_BIND", " ");
    let (code, output) = run(&fleet.home, &check).await;
    assert_eq!(code, Some(2), "{output}");
}
