//! The endpoint lane of a judge: chunks in both wire formats, their answers, and what goes wrong with either.

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

/// A judge with an endpoint lane, and the provider that it asks.
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

    /// From now on calls end as this says, by their askers.
    fn ends(&self, rule: fn(&str) -> Fate) {
        self.server.rule(move |body| {
            let text = body["messages"][0]["content"].as_str().unwrap_or_default();
            rule(text.split_whitespace().nth(3).unwrap_or_default())
        });
    }

    /// Hands over a question for each of these askers.
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

    /// Collects and accepts everything, by asker.
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
    // The batch's server reports no cached tokens: 1,000 in, 200 out.
    is_about(usage.cost_usd, (1000.0 * 0.15 + 200.0 * 0.6) / 1e6 / 2.0)
}

#[tokio::test]
async fn a_part_holds_the_calls_bodies_and_its_answers_cost_half() {
    for family in FAMILIES {
        let lane = Lane::of(family).await;
        reply_of(lane.judge.ask(&about(1), context()).await);
        let batch = lane.hand_over(&[1, 2, 3]).await.unwrap();
        let held = &lane.server.batches()[0];
        assert_eq!((&held.id, held.calls.len()), (&batch, 3), "{family}");
        // What stands in the chunk is what a single call sends.
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
async fn a_reply_that_was_collected_is_found_by_its_asker_alone_and_whatever_the_cache_is_told() {
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
        // It was paid for when it was collected.
        assert_eq!((usage.tokens_in, usage.cost_usd), (0, Some(0.0)));
        assert_eq!(lane.server.asked().len(), 0, "{family}");

        let nobody_looks = AskContext {
            precomputed: Precomputed::None,
            ..by(1)
        };
        for (question, context) in [
            (about(1), nobody_looks),
            (about(1), by(2)),
            // Another question of the same asker.
            (about(2), by(1)),
        ] {
            let before = lane.server.asked().len();
            reply_of(lane.judge.ask(&question, context).await);
            assert_eq!(lane.server.asked().len(), before + 1, "{family}");
        }
    }
}

/// Chunks that an older release handed over are collected by this one. The hash is another program's.
#[tokio::test]
async fn a_key_is_the_first_half_of_the_hash_that_older_releases_noted() {
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
async fn what_is_collected_twice_is_the_same_call() {
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
async fn an_answer_that_cant_be_used_says_why_and_is_paid_for_if_there_was_one() {
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
async fn a_line_that_says_nothing_or_is_not_there_leaves_its_call_unanswered() {
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
async fn a_line_too_long_to_be_a_reply_is_passed_over_and_the_next_one_read() {
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
async fn answers_that_break_off_are_an_error_and_are_collected_anew() {
    for family in FAMILIES {
        let lane = Lane::of(family).await;
        let batch = lane.hand_over(&[1, 2]).await.unwrap();
        lane.server.finish();
        lane.server.cuts_after(40);
        let error = lane.collect(&batch).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Transient, "{family}: {error}");
        assert_eq!(lane.collect(&batch).await.unwrap().len(), 2, "{family}");
    }
}

#[tokio::test]
async fn a_part_is_found_by_its_tag_where_the_family_has_room_for_one() {
    let lane = Lane::of("openai").await;
    let tag = Uuid::from_u128(7);
    assert_eq!(
        lane.batch_endpoint().find(tag).await.unwrap(),
        ChunkLookup::Nowhere
    );
    let batch = lane.hand_over(&[1]).await.unwrap();
    // It stands on the third page by then.
    for _ in 0..4 {
        lane.server.adds_a_strangers_batch();
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
async fn a_part_that_is_full_stays_as_it_is_and_goes_out() {
    for family in FAMILIES {
        let lane = Lane::of(family).await;
        let endpoint = lane.batch_endpoint();
        for most in [
            ChunkSize { calls: 2, ..ROOM },
            // Room for two, and for what stands around them.
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
        // One that is too large by itself isn't left for ever.
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
async fn trouble_has_the_class_that_a_calls_would_have_and_shows_no_key() {
    let table = [
        (503, ErrorClass::Transient),
        (529, ErrorClass::Transient),
        (429, ErrorClass::Throttled),
        (401, ErrorClass::Misconfigured),
        (404, ErrorClass::Misconfigured),
        (400, ErrorClass::Rejected),
        (307, ErrorClass::Rejected),
        // A gateway's page in the place of an answer.
        (200, ErrorClass::Transient),
    ];
    for family in FAMILIES {
        let lane = Lane::of(family).await;
        let batch = lane.hand_over(&[1]).await.unwrap();
        for (status, class) in table {
            lane.server.troubles("", status);
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
            lane.server.recovers();
        }
        // Where they lie is said, and then they can't be had.
        lane.server.finish();
        let results = match family {
            "openai" => "GET /v1/files/",
            _ => "GET /v1/messages/batches/batch_0/results",
        };
        lane.server.troubles(results, 503);
        let error = lane.collect(&batch).await.unwrap_err();
        assert_eq!(
            (error.class, error.status),
            (ErrorClass::Transient, Some(503))
        );
    }
}

#[tokio::test]
async fn nobody_at_the_address_is_a_passing_trouble() {
    for family in FAMILIES {
        let lane = Lane::with(family, json!({ "base_url": "http://127.0.0.1:1" })).await;
        let error = lane.hand_over(&[1]).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Transient, "{error}");
    }
}

#[tokio::test]
async fn nothing_is_learned_of_a_part_since_each_of_its_lines_would_teach_it_again() {
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
async fn a_part_that_is_refused_says_why_and_whether_it_may_be_taken_later() {
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
async fn a_part_that_is_cancelled_ends_and_its_calls_are_unanswered() {
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
async fn results_are_fetched_from_where_the_provider_says_unless_the_key_would_leave_its_server() {
    let lane = Lane::of("anthropic").await;
    let batch = lane.hand_over(&[1]).await.unwrap();
    lane.server.finish();
    let elsewhere = BatchServer::start(Fate::Expired).await;
    let theirs = format!(
        "{}/v1/messages/batches/x/results",
        elsewhere.url("anthropic")
    );
    lane.server.says_that_results_lie_at(&theirs);
    assert_eq!(lane.collect(&batch).await.unwrap().len(), 1);
    assert!(elsewhere.seen().is_empty());

    let ours = format!(
        "{}/v1/messages/batches/gone/results",
        lane.server.url("anthropic")
    );
    lane.server.says_that_results_lie_at(&ours);
    lane.collect(&batch).await.unwrap_err();
    let seen = lane.server.seen();
    assert_eq!(
        seen.last().unwrap(),
        "GET /v1/messages/batches/gone/results"
    );
}

#[tokio::test]
async fn a_judge_has_an_economy_lane_only_where_its_entry_says_what_a_batch_costs() {
    let without = Lane::with("openai", json!({ "batch_price_factor": null })).await;
    assert!(without.judge.batch_endpoint().is_none());
    // A server of one's own sells no batches.
    let own = json!({ "custom_base_url": "http://127.0.0.1:1/v1" });
    let own = Lane::with("openai", own).await;
    assert!(own.judge.batch_endpoint().is_none());
    let factor = Lane::with("openai", json!({ "batch_price_factor": "0.25" })).await;
    assert!((factor.batch_endpoint().price_factor() - 0.25).abs() < f64::EPSILON);
}
