//! Bodies that need far more memory than their length: they queue for memory, or are rejected if they can't fit.

use futures::future::join_all;

use super::*;

fn with_budget(mebibytes: u64) -> Setup {
    Setup {
        memory: MemoryBudget::new(mebibytes << 20).with_timeout(Duration::ZERO),
        ..Setup::default()
    }
}

fn case(rows: usize, columns: usize) -> Value {
    let rows = vec![vec![1; columns]; rows];
    json!({"kind": "query", "payload": {
        "generated_kql": "T | count", "expected_kql": "T | count",
        "generated_results": rows, "expected_results": rows,
    }})
}

async fn post(server: &Server, body: &Value) -> Response {
    server.post("/api/v1/jobs").json(body).send().await.unwrap()
}

#[tokio::test]
async fn body_is_weighed_by_its_values_and_rejected_if_too_heavy() {
    let server = Server::with(with_budget(64)).await;
    let large = case(500, 400);
    let length = large.to_string().len();
    assert!(length < 1 << 20);
    let refused = post(&server, &large).await;
    let problem = problem_of(refused, 413, "payload-too-large").await;
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        detail.contains("the budget is 56 MiB") && detail.contains("memory_budget_bytes"),
        "{detail}"
    );
    // A long text needs no more memory than its length.
    let mut long = case(1, 1);
    long["payload"]["generated_results"] = json!([["x".repeat(length)]]);
    json_of(post(&server, &long).await, 202).await;
}

#[tokio::test]
async fn request_without_memory_gets_retry_but_small_ones_pass() {
    let setup = with_budget(64);
    let memory = setup.memory.clone();
    let server = Server::with(setup).await;
    let others = memory.take(56 << 20).await.unwrap();
    let refused = post(&server, &case(100, 200)).await;
    assert_eq!(header(&refused, "retry-after").as_deref(), Some("5"));
    problem_of(refused, 503, "memory-busy").await;
    json_of(post(&server, &case(2, 2)).await, 202).await;
    drop(others);
    json_of(post(&server, &case(100, 200)).await, 202).await;
}

#[tokio::test]
async fn concurrent_heavy_bodies_are_queued() {
    let setup = Setup {
        memory: MemoryBudget::new(64 << 20),
        ..Setup::default()
    };
    let server = Server::with(setup).await;
    let body = case(100, 300);
    let answers = join_all((0..8).map(|_| post(&server, &body))).await;
    for answer in answers {
        json_of(answer, 202).await;
    }
}

#[tokio::test]
async fn item_file_is_queued_by_its_heaviest_item() {
    let setup = with_budget(64);
    let memory = setup.memory.clone();
    let server = Server::with(setup).await;
    let send = |item: Value| {
        server
            .post("/api/v1/batches?kind=query")
            .header("Content-Type", "application/x-ndjson")
            .body(format!("{item}\n"))
            .send()
    };
    let heavy = case(100, 100)["payload"].clone();
    let others = memory.take(56 << 20).await.unwrap();
    let refused = send(heavy.clone()).await.unwrap();
    problem_of(refused, 503, "memory-busy").await;
    drop(others);
    json_of(send(heavy).await.unwrap(), 202).await;
    let never = send(case(500, 400)["payload"].clone()).await.unwrap();
    problem_of(never, 413, "payload-too-large").await;
}
