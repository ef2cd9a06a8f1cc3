//! Batch API of a judge: chunks in both wire formats, their results, and errors.

use std::sync::Arc;

use chrono::Utc;
use gavel::judge::gate::{Gate, GateOptions};
use gavel::judge::{
    Added, AskContext, BatchEndpoint, CallUsage, ChunkLookup, ChunkSize, Collected, ErrorClass,
    HandedOver, Judge, JudgeError, Precomputed, Progress, Question,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::stage::{KEY, Memory, context, is_about, judges, question, reply_of};
use crate::support::batch_server::{BatchServer, Fate};

const GOOD: &str = r#"{"why": "because", "total": 61}"#;
const FAMILIES: [&str; 2] = ["openai", "anthropic"];
const ROOM: ChunkSize = ChunkSize {
    calls: 100,
    bytes: 1_000_000,
};

struct Lane {
    server: BatchServer,
    judge: Arc<Judge>,
    memory: Arc<Memory>,
}

impl Lane {
    async fn of(family: &str) -> Self {
        Self::with(family, json!({})).await
    }

    async fn with(family: &str, more: Value) -> Self {
        let server = BatchServer::start(Fate::Content(GOOD.to_owned())).await;
        let mut entry = json!({ "type": family, "batch_price_factor": 0.5 });
        for (key, value) in more.as_object().unwrap() {
            entry[key] = value.clone();
        }
        let gate = Arc::new(Gate::new(GateOptions::default()));
        let memory = Arc::new(Memory::default());
        let judge = judges(&server.url(family), &entry, &gate, &memory)
            .get("test")
            .unwrap();
        Self {
            server,
            judge,
            memory,
        }
    }

    fn batch_endpoint(&self) -> BatchEndpoint {
        self.judge.batch_endpoint().unwrap()
    }

    fn ends(&self, rule: fn(&str) -> Fate) {
        self.server.rule(move |body| {
            let text = body["messages"][0]["content"].as_str().unwrap_or_default();
            rule(text.split_whitespace().nth(3).unwrap_or_default())
        });
    }

    async fn hand_over(&self, askers: &[u128]) -> Result<String, JudgeError> {
        let endpoint = self.batch_endpoint();
        let mut chunk = endpoint.chunk(Uuid::from_u128(7), ROOM);
        for asker in askers {
            let added = endpoint
                .add(&mut chunk, id(*asker), &about(*asker))
                .unwrap();
            assert_eq!(added, Added::In);
        }
        assert_eq!(chunk.calls(), askers.len());
        let uploaded = endpoint.upload(chunk).await?;
        endpoint.submit(uploaded).await
    }

    async fn collect(&self, batch: &str) -> Result<Vec<(u128, Collected)>, JudgeError> {
        let endpoint = self.batch_endpoint();
        let mut answers = endpoint.collect(batch).await?;
        let mut accepted = Vec::new();
        while let Some(answer) = answers.next().await? {
            let asker = answer.asked_for.as_u128();
            let chunk = HandedOver {
                batch,
                at: Utc::now(),
            };
            accepted.push((asker, endpoint.accept(chunk, &about(asker), answer)));
        }
        accepted.sort_by_key(|(asker, _)| *asker);
        Ok(accepted)
    }
}

fn id(asker: u128) -> Uuid {
    Uuid::from_u128(asker)
}

fn about(asker: u128) -> Question {
    question(&format!("evidence {asker} \n \"quoted\" é"))
}

fn by(asker: u128) -> AskContext {
    AskContext {
        asked_for: id(asker),
        precomputed: Precomputed::Collected,
        skip_cache: true,
        ..context()
    }
}

fn half(usage: CallUsage) -> bool {
    // The batch server reports no cached tokens: 1,000 in, 200 out.
    is_about(usage.cost_usd, (1000.0 * 0.15 + 200.0 * 0.6) / 1e6 / 2.0)
}

#[tokio::test]
async fn chunk_has_the_call_bodies_and_its_results_cost_half() {
    for family in FAMILIES {
        let lane = Lane::of(family).await;
        reply_of(lane.judge.ask(&about(1), context()).await);
        let batch = lane.hand_over(&[1, 2, 3]).await.unwrap();
        let held = &lane.server.batches()[0];
        assert_eq!((&held.id, held.calls.len()), (&batch, 3), "{family}");
        // Entries of a chunk equal the bodies of single calls.
        assert_eq!(
            held.calls[0],
            (id(1).to_string(), lane.server.asked()[0].clone())
        );

        let running = lane.batch_endpoint().look(&batch).await.unwrap();
        assert_eq!(running, Progress::Running { done: 0 }, "{family}");
        lane.server.finish();
        assert_eq!(
            lane.batch_endpoint().look(&batch).await.unwrap(),
            Progress::Ended
        );

        let accepted = lane.collect(&batch).await.unwrap();
        let askers: Vec<u128> = accepted.iter().map(|(asker, _)| *asker).collect();
        assert_eq!(askers, [1, 2, 3], "{family}");
        for (_, one) in &accepted {
            assert!(half(one.usage), "{family}: {:?}", one.usage);
            assert!(one.error.is_none(), "{family}: {:?}", one.error);
        }
        let logged = lane.memory.calls.lock().unwrap().clone();
        assert_eq!(logged.len(), 1 + 3, "{family}");
        assert!(
            half(logged[1].usage) && logged[1].error.is_none(),
            "{family}"
        );
        assert_eq!(logged[1].reply.as_deref(), Some(GOOD), "{family}");
    }
}

#[tokio::test]
async fn collected_reply_is_only_found_by_its_caller() {
    for family in FAMILIES {
        let lane = Lane::of(family).await;
        let batch = lane.hand_over(&[1]).await.unwrap();
        lane.server.finish();
        lane.collect(&batch).await.unwrap();

        let (reply, _, usage) = reply_of(lane.judge.ask(&about(1), by(1)).await);
        assert_eq!(
            (reply.value["total"].as_u64(), reply.cached),
            (Some(61), false)
        );
        // It was billed when it was collected.
        assert_eq!((usage.tokens_in, usage.cost_usd), (0, Some(0.0)));
        assert_eq!(lane.server.asked().len(), 0, "{family}");

        let nobody_looks = AskContext {
            precomputed: Precomputed::None,
            ..by(1)
        };
        for (question, context) in [
            (about(1), nobody_looks),
            (about(1), by(2)),
            (about(2), by(1)),
        ] {
            let before = lane.server.asked().len();
            reply_of(lane.judge.ask(&question, context).await);
            assert_eq!(lane.server.asked().len(), before + 1, "{family}");
        }
    }
}

/// Chunks submitted by an older release are collected by this one. The hash comes from another program.
#[tokio::test]
async fn key_is_the_first_half_of_the_hash_of_older_releases() {
    const NOTED: &str = "270abb21eb5ee29efa3b9dd59d1faa5fc482540e7120482a1023eb22987951d1";
    let entry = json!({
        "batch_price_factor": 0.5, "temperature": 0.5, "max_output_tokens": 100, "extra_body": { "seed": 1 },
    });
    let gate = Arc::new(Gate::new(GateOptions::default()));
    let judges = judges("http://judge.invalid/v1", &entry, &gate, &Arc::default());
    let endpoint = judges.get("test").unwrap().batch_endpoint().unwrap();
    let key = endpoint.key(id(1), &question("evidence"));
    assert_eq!(key.0.simple().to_string(), NOTED[..32]);
}

#[tokio::test]
async fn repeated_collection_is_the_same_call() {
    for family in FAMILIES {
        let lane = Lane::of(family).await;
        let batch = lane.hand_over(&[1, 2]).await.unwrap();
        lane.server.finish();
        lane.collect(&batch).await.unwrap();
        lane.collect(&batch).await.unwrap();
        let calls = lane.memory.calls.lock().unwrap().clone();
        let ids: Vec<Uuid> = calls.iter().map(|call| call.call_id).collect();
        assert_eq!(ids[..2], ids[2..], "{family}");
        assert_ne!(ids[0], ids[1], "{family}");
    }
}

#[tokio::test]
async fn unusable_result_has_a_reason_and_its_cost() {
    for family in FAMILIES {
        let lane = Lane::of(family).await;
        lane.ends(|asker| match asker {
            "1" => Fate::Content("not JSON".to_owned()),
            "2" => Fate::Errored(400),
            "3" => Fate::Expired,
            "4" => Fate::Content(r#"{"why": "because", "total": 7000}"#.to_owned()),
            _ => Fate::Content(GOOD.to_owned()),
        });
        let batch = lane.hand_over(&[1, 2, 3, 4, 5]).await.unwrap();
        lane.server.finish();
        let accepted = lane.collect(&batch).await.unwrap();
        let ends: Vec<_> = accepted
            .iter()
            .map(|(asker, one)| (*asker, one.error.as_ref().map(|error| error.class)))
            .collect();
        let expected = [
            (1, Some(ErrorClass::Unparsable)),
            (2, Some(ErrorClass::Rejected)),
            (3, Some(ErrorClass::Transient)),
            (4, Some(ErrorClass::Unparsable)),
            (5, None),
        ];
        assert_eq!(ends, expected, "{family}");
        for (asker, one) in &accepted {
            match asker {
                2 | 3 => assert_eq!(one.usage.cost_usd, Some(0.0), "{family}"),
                _ => assert!(half(one.usage), "{family}"),
            }
        }
        let expired = accepted[2].1.error.as_ref().unwrap();
        assert!(expired.message.contains("unanswered"), "{expired}");
        let classes: Vec<_> = lane
            .memory
            .calls
            .lock()
            .unwrap()
            .iter()
            .filter_map(|call| call.error)
            .collect();
        assert_eq!(classes.len(), 4, "{family}");
    }
}

#[tokio::test]
async fn missing_or_empty_result_line_leaves_its_call_open() {
    for family in FAMILIES {
        let lane = Lane::of(family).await;
        lane.ends(|asker| match asker {
            "1" => Fate::Rubbish,
            "2" => Fate::Missing,
            _ => Fate::Content(GOOD.to_owned()),
        });
        let batch = lane.hand_over(&[1, 2, 3]).await.unwrap();
        lane.server.finish();
        let accepted = lane.collect(&batch).await.unwrap();
        let askers: Vec<u128> = accepted.iter().map(|(asker, _)| *asker).collect();
        assert_eq!(askers, [3], "{family}");
    }
}

#[tokio::test]
async fn overlong_result_line_is_skipped_and_the_next_one_read() {
    for family in FAMILIES {
        let lane = Lane::of(family).await;
        lane.ends(|asker| match asker {
            "2" => Fate::Content("x".repeat(5 << 20)),
            _ => Fate::Content(GOOD.to_owned()),
        });
        let batch = lane.hand_over(&[1, 2, 3]).await.unwrap();
        lane.server.finish();
        let accepted = lane.collect(&batch).await.unwrap();
        let askers: Vec<u128> = accepted.iter().map(|(asker, _)| *asker).collect();
        assert_eq!(askers, [1, 3], "{family}");
    }
}

#[tokio::test]
async fn interrupted_results_are_an_error_and_collected_again() {
    for family in FAMILIES {
        let lane = Lane::of(family).await;
        let batch = lane.hand_over(&[1, 2]).await.unwrap();
        lane.server.finish();
        lane.server.truncate_response_at(40);
        let error = lane.collect(&batch).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Transient, "{family}: {error}");
        assert_eq!(lane.collect(&batch).await.unwrap().len(), 2, "{family}");
    }
}

#[tokio::test]
async fn chunk_is_found_by_its_tag_where_supported() {
    let lane = Lane::of("openai").await;
    let tag = Uuid::from_u128(7);
    assert_eq!(
        lane.batch_endpoint().find(tag).await.unwrap(),
        ChunkLookup::Nowhere
    );
    let batch = lane.hand_over(&[1]).await.unwrap();
    // By then it is on the third page.
    for _ in 0..4 {
        lane.server.add_foreign_batch();
    }
    assert_eq!(
        lane.batch_endpoint().find(tag).await.unwrap(),
        ChunkLookup::As(batch)
    );
    let other = lane
        .batch_endpoint()
        .find(Uuid::from_u128(8))
        .await
        .unwrap();
    assert_eq!(other, ChunkLookup::Nowhere);

    let lane = Lane::of("anthropic").await;
    lane.hand_over(&[1]).await.unwrap();
    assert_eq!(
        lane.batch_endpoint().find(tag).await.unwrap(),
        ChunkLookup::CantTell
    );
}

#[tokio::test]
async fn full_chunk_stays_unchanged_and_is_submitted() {
    for family in FAMILIES {
        let lane = Lane::of(family).await;
        let endpoint = lane.batch_endpoint();
        for most in [
            ChunkSize { calls: 2, ..ROOM },
            // Room for two entries and their envelope.
            ChunkSize {
                bytes: 1_000,
                ..ROOM
            },
        ] {
            let mut chunk = endpoint.chunk(Uuid::from_u128(9), most);
            let added = [1, 2, 3, 4].map(|n| endpoint.add(&mut chunk, id(n), &about(n)).unwrap());
            assert_eq!(added.last(), Some(&Added::Full), "{family}");
            let calls = chunk.calls();
            let uploaded = endpoint.upload(chunk).await.unwrap();
            endpoint.submit(uploaded).await.unwrap();
            let held = lane.server.batches();
            assert_eq!(held.last().unwrap().calls.len(), calls, "{family}");
        }
        // An entry that exceeds the limit is still submitted.
        let most = ChunkSize { bytes: 10, ..ROOM };
        let mut chunk = endpoint.chunk(Uuid::from_u128(9), most);
        assert_eq!(
            endpoint.add(&mut chunk, id(1), &about(1)).unwrap(),
            Added::In
        );
        assert_eq!(
            endpoint.add(&mut chunk, id(2), &about(2)).unwrap(),
            Added::Full
        );
    }
}

#[tokio::test]
async fn errors_have_the_class_of_a_call_error_and_show_no_key() {
    let table = [
        (503, ErrorClass::Transient),
        (529, ErrorClass::Transient),
        (429, ErrorClass::Throttled),
        (401, ErrorClass::Misconfigured),
        (404, ErrorClass::Misconfigured),
        (400, ErrorClass::Rejected),
        (307, ErrorClass::Rejected),
        // HTML page of a gateway.
        (200, ErrorClass::Transient),
    ];
    for family in FAMILIES {
        let lane = Lane::of(family).await;
        let batch = lane.hand_over(&[1]).await.unwrap();
        for (status, class) in table {
            lane.server.fail_requests("", status);
            let endpoint = lane.batch_endpoint();
            let errors = [
                lane.hand_over(&[1]).await.unwrap_err(),
                endpoint.look(&batch).await.unwrap_err(),
                endpoint.cancel(&batch).await.unwrap_err(),
                lane.collect(&batch).await.unwrap_err(),
            ];
            for error in errors {
                assert_eq!(error.class, class, "{family} {status}: {error}");
                assert!(error.message.contains("test") && !error.message.contains(KEY));
            }
            lane.server.clear_failures();
        }
        // The results have a location, but the download fails.
        lane.server.finish();
        let results = match family {
            "openai" => "GET /v1/files/",
            _ => "GET /v1/messages/batches/batch_0/results",
        };
        lane.server.fail_requests(results, 503);
        let error = lane.collect(&batch).await.unwrap_err();
        assert_eq!(
            (error.class, error.status),
            (ErrorClass::Transient, Some(503))
        );
    }
}

#[tokio::test]
async fn unreachable_provider_is_a_transient_error() {
    for family in FAMILIES {
        let lane = Lane::with(family, json!({ "base_url": "http://127.0.0.1:1" })).await;
        let error = lane.hand_over(&[1]).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Transient, "{error}");
    }
}

#[tokio::test]
async fn chunk_results_teach_no_limits_because_each_line_would_repeat() {
    let lane = Lane::of("openai").await;
    lane.server.rule(|_| Fate::Errored(400));
    let batch = lane.hand_over(&[1, 2, 3]).await.unwrap();
    lane.server.finish();
    lane.collect(&batch).await.unwrap();
    lane.server.rule(|_| Fate::Content(GOOD.to_owned()));
    reply_of(lane.judge.ask(&about(1), by(1)).await);
    let asked = &lane.server.asked()[0];
    assert_eq!(asked["response_format"]["type"], "json_schema");
    assert_eq!(asked["temperature"], 0.0);
}

#[tokio::test]
async fn rejected_chunk_has_a_reason_and_whether_to_retry() {
    let lane = Lane::of("openai").await;
    let batch = lane.hand_over(&[1]).await.unwrap();
    lane.server.refuse("bad_line");
    let Progress::Refused(why) = lane.batch_endpoint().look(&batch).await.unwrap() else {
        panic!("expected a refusal");
    };
    assert!(why.contains("line 1 is odd"), "{why}");
    assert_eq!(lane.collect(&batch).await.unwrap().len(), 0);

    let batch = lane.hand_over(&[1]).await.unwrap();
    lane.server.refuse("token_limit_exceeded");
    let looked = lane.batch_endpoint().look(&batch).await.unwrap();
    assert!(matches!(looked, Progress::NoRoom(_)), "{looked:?}");
}

#[tokio::test]
async fn cancelled_chunk_ends_and_its_calls_stay_open() {
    for family in FAMILIES {
        let lane = Lane::of(family).await;
        let batch = lane.hand_over(&[1, 2]).await.unwrap();
        lane.batch_endpoint().cancel(&batch).await.unwrap();
        assert!(lane.server.batches()[0].is_cancelled(), "{family}");
        assert_eq!(
            lane.batch_endpoint().look(&batch).await.unwrap(),
            Progress::Ended
        );
        for (_, one) in lane.collect(&batch).await.unwrap() {
            assert_eq!(one.error.unwrap().class, ErrorClass::Transient);
            assert_eq!(one.usage.cost_usd, Some(0.0), "{family}");
        }
    }
}

#[tokio::test]
async fn results_url_is_used_unless_it_would_leak_the_key() {
    let lane = Lane::of("anthropic").await;
    let batch = lane.hand_over(&[1]).await.unwrap();
    lane.server.finish();
    let elsewhere = BatchServer::start(Fate::Expired).await;
    let theirs = format!(
        "{}/v1/messages/batches/x/results",
        elsewhere.url("anthropic")
    );
    lane.server.set_results_url(&theirs);
    assert_eq!(lane.collect(&batch).await.unwrap().len(), 1);
    assert!(elsewhere.seen().is_empty());

    let ours = format!(
        "{}/v1/messages/batches/gone/results",
        lane.server.url("anthropic")
    );
    lane.server.set_results_url(&ours);
    lane.collect(&batch).await.unwrap_err();
    let seen = lane.server.seen();
    assert_eq!(
        seen.last().unwrap(),
        "GET /v1/messages/batches/gone/results"
    );
}

#[tokio::test]
async fn judge_has_a_batch_lane_only_with_a_batch_price() {
    let without = Lane::with("openai", json!({ "batch_price_factor": null })).await;
    assert!(without.judge.batch_endpoint().is_none());
    // Self-hosted servers have no batch API.
    let own = json!({ "custom_base_url": "http://127.0.0.1:1/v1" });
    let own = Lane::with("openai", own).await;
    assert!(own.judge.batch_endpoint().is_none());
    let factor = Lane::with("openai", json!({ "batch_price_factor": "0.25" })).await;
    assert!((factor.batch_endpoint().price_factor() - 0.25).abs() < f64::EPSILON);
}
