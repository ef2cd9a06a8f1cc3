//! One suite for all provider families: the same cases in each wire format.
//!
//! `openai`, `anthropic` and `gemini` define each case on the wire; the expected results are the same for all and are
//! defined here. A case that a family doesn't have is skipped by name.

mod anthropic;
mod broken;
mod fallback;
mod family;
mod gemini;
mod openai;

use std::time::Duration;

use gavel::judge::ErrorClass;
use gavel::judge::gate::HeldBack;
use serde_json::{Value, json};
use wiremock::{MockServer, ResponseTemplate};

use super::stage::*;
use family::{Family, Headers, Refusal, Reply, Wire};

const FAMILIES: [&dyn Family; 3] = [&openai::OpenAi, &anthropic::Anthropic, &gemini::Gemini];
const MODEL: &str = "judge-model";
const GOOD: &str = r#"{"why": "because", "total": 61}"#;

fn answers(family: &dyn Family, reply: Reply<'_>) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(family.reply(reply))
}

fn refuses(family: &dyn Family, refusal: Refusal) -> ResponseTemplate {
    family.refusal(refusal).template()
}

async fn stage(family: &dyn Family, answers: Vec<ResponseTemplate>) -> Stage {
    let server = serving(answers).await;
    let address = server.uri();
    stage_at(family, server, &address, json!({}))
}

fn stage_at(family: &dyn Family, server: MockServer, address: &str, more: Value) -> Stage {
    let mut entry = json!({
        "type": family.name(), "model": MODEL,
        "prices": { MODEL: {
            "input_per_mtok": 0.15, "cached_input_per_mtok": 0.075, "output_per_mtok": 0.6,
            "as_of": "2024-10-01", "source": "test",
        }},
    });
    for (key, value) in more.as_object().unwrap() {
        entry[key] = value.clone();
    }
    let base_url = format!("{address}{}", family.base());
    let staging = Staging {
        entry,
        ..Staging::default()
    };
    Stage::at(server, &base_url, staging)
}

#[tokio::test]
async fn call_has_the_path_key_schema_and_cap_of_its_family() {
    for family in FAMILIES {
        let stage = stage(family, vec![answers(family, Reply::Says(GOOD))]).await;
        reply_of(stage.ask().await);
        let received = stage.server.received_requests().await.unwrap();
        assert_eq!(received[0].url.path(), family.path());
        for (name, value) in family.headers() {
            assert_eq!(received[0].headers[name], value, "{}", family.name());
        }
        let question = question("evidence");
        let expected = family.request(&question.prompt.to_string(), question.schema.value());
        let body: Value = received[0].body_json().unwrap();
        assert_eq!(body, expected, "{}", family.name());
        let text = String::from_utf8(received[0].body.clone()).unwrap();
        let order = text.find("\"why\":{") < text.find("\"total\":{");
        assert!(order, "{}", family.name());
    }
}

#[tokio::test]
async fn good_reply_has_its_model_and_usage() {
    for family in FAMILIES {
        for reply in [Reply::Says(GOOD), Reply::AfterThoughts(GOOD)] {
            let stage = stage(family, vec![answers(family, reply)]).await;
            let (reply, retries_spent, usage) = reply_of(stage.ask().await);
            let name = family.name();
            assert_eq!(
                reply.value,
                json!({ "why": "because", "total": 61 }),
                "{name}"
            );
            assert_eq!((&*reply.model, reply.simulated), (MODEL, false), "{name}");
            assert!(!reply.repaired, "{name}");
            let used = (usage.tokens_in, usage.tokens_in_cached, usage.tokens_out);
            assert_eq!((used, retries_spent), ((1000, 400, 100), 0), "{name}");
            assert!(is_about(usage.cost_usd, COST), "{name}: {usage:?}");
        }
    }
}

#[tokio::test]
async fn simulated_model_marks_its_reply() {
    for family in FAMILIES {
        let answer = answers(family, Reply::By("simulated-judge-v1"));
        let stage = stage(family, vec![answer]).await;
        let (reply, ..) = reply_of(stage.ask().await);
        let marked = (&*reply.model, reply.simulated);
        assert_eq!(marked, ("simulated-judge-v1", true), "{}", family.name());
    }
}

#[tokio::test]
async fn each_rejection_has_its_class() {
    use ErrorClass::{
        Capability, Exhausted, Misconfigured, Rejected, Throttled, TooLarge, Transient,
    };
    let table = [
        (Refusal::Overloaded, Transient),
        (Refusal::Throttled, Throttled),
        (Refusal::UsedUp, Exhausted),
        (Refusal::WrongKey, Misconfigured),
        (Refusal::NoSuchModel, Misconfigured),
        (Refusal::Temperature, Capability),
        (Refusal::Schema, Capability),
        (Refusal::TooLong, TooLarge),
        (Refusal::Odd, Rejected),
    ];
    for family in FAMILIES {
        for (refusal, class) in table {
            let status = family.refusal(refusal).0;
            let good = answers(family, Reply::Says(GOOD));
            // The second response belongs to the harmless probe request, if one is sent.
            let refused = || refuses(family, refusal);
            let stage = stage(family, vec![refused(), refused(), good]).await;
            let _either_way = stage.ask().await;
            let call = &stage.calls()[0];
            let read = (call.error, call.status);
            let case = format!("{}: {refusal:?}", family.name());
            assert_eq!(read, (Some(class), Some(status)), "{case}");
            let message = call.message.clone().unwrap();
            assert!(message.contains("SERVER WORDS"), "{case}: {message}");
        }
    }
}

#[tokio::test]
async fn each_status_has_the_same_class_in_all_families() {
    use ErrorClass::{Exhausted, Misconfigured, Rejected, TooLarge, Transient};
    let table = [
        (401, Misconfigured),
        (402, Exhausted),
        (400, Rejected),
        (408, Transient),
        (409, Transient),
        (413, TooLarge),
        (418, Rejected),
        (422, Rejected),
        (425, Transient),
        (500, Transient),
        (501, Rejected),
        (502, Transient),
        (503, Transient),
        (504, Transient),
        (529, Transient),
    ];
    for family in FAMILIES {
        for (status, class) in table {
            let bare = ResponseTemplate::new(status).set_body_string("<h1>no</h1>");
            let good = answers(family, Reply::Says(GOOD));
            let stage = stage(family, vec![bare, good]).await;
            let _either_way = stage.ask().await;
            assert_eq!(
                stage.classes()[0],
                Some(class),
                "{} {status}",
                family.name()
            );
        }
    }
}

#[tokio::test]
async fn status_403_is_a_judge_error_only_if_a_harmless_call_fails() {
    let page = || ResponseTemplate::new(403).set_body_string("<h1>403 Forbidden</h1>");
    let down = || ResponseTemplate::new(503);
    for family in FAMILIES {
        let name = family.name();
        let good = answers(family, Reply::Says(GOOD));
        for (second, class, says) in [
            (good, ErrorClass::Rejected, "only this request"),
            (
                page(),
                ErrorClass::Misconfigured,
                "a harmless request is refused, too",
            ),
            (
                ResponseTemplate::new(401),
                ErrorClass::Misconfigured,
                "a harmless request",
            ),
            (down(), ErrorClass::Rejected, "403 Forbidden"),
        ] {
            let stage = stage(family, vec![page(), second]).await;
            let (error, ..) = error_of(stage.ask().await);
            assert_eq!(error.class, class, "{name}: {error}");
            assert_eq!(error.status, Some(403), "{name}: {error}");
            for words in ["403 Forbidden", says] {
                assert!(error.message.contains(words), "{name}: {error}");
            }
            let closed = stage.gate.closed("test").is_some();
            assert_eq!(closed, class == ErrorClass::Misconfigured, "{name}");
            let requests = stage.requests().await;
            assert_eq!(requests.len(), 2, "{name}");
            let harmless = requests[1].to_string();
            assert!(
                harmless.contains("ok") && !harmless.contains("evidence"),
                "{name}"
            );
        }
    }
}

#[tokio::test]
async fn requested_delay_is_obeyed_in_each_of_its_forms() {
    for family in FAMILIES {
        let own = refuses(family, Refusal::Throttled);
        let Wire(status, _, body) = family.refusal(Refusal::Throttled);
        let by_header = Wire(status, vec![("retry-after", "23".to_owned())], body).template();
        for (answer, seconds) in [(own, 17), (by_header, 23)] {
            let stage = stage(family, vec![answer]).await;
            let name = family.name();
            let ((why, wait), retries_spent, _) = wait_of(stage.ask().await);
            assert_eq!((why, retries_spent), (HeldBack::Throttled, 0), "{name}");
            let wait = wait.unwrap();
            // A reset given as a time is parsed slightly later than it was written.
            let asked = Duration::from_secs(seconds);
            let range = asked.saturating_sub(Duration::from_secs(3))..=asked;
            assert!(range.contains(&wait), "{name}: {wait:?}");
        }
    }
}

#[tokio::test]
async fn exhausted_quota_closes_the_lane_and_a_wrong_key_is_hidden() {
    for family in FAMILIES {
        let name = family.name();
        let used_up = stage(family, vec![refuses(family, Refusal::UsedUp)]).await;
        let ((why, _), ..) = wait_of(used_up.ask().await);
        assert_eq!(why, HeldBack::Exhausted, "{name}");
        let closed = used_up.gate.closed("test").unwrap();
        assert_eq!(closed.why, HeldBack::Exhausted, "{name}");

        let wrong_key = stage(family, vec![refuses(family, Refusal::WrongKey)]).await;
        let (error, ..) = error_of(wrong_key.ask().await);
        let everything = format!("{error:?} {:?}", wrong_key.calls());
        assert!(everything.contains("[redacted]"), "{name}: {error}");
        assert!(!everything.contains(KEY), "{name}: {error}");
        let closed = wrong_key.gate.closed("test").unwrap();
        assert_eq!(closed.why, HeldBack::Misconfigured, "{name}");
    }
}

#[tokio::test]
async fn truncated_reply_is_requested_again_but_not_a_declined_one() {
    for family in FAMILIES {
        let name = family.name();
        let cut = answers(family, Reply::CutOff("{\"to"));
        let truncated = stage(family, vec![cut]).await;
        let (error, ..) = error_of(truncated.ask().await);
        assert_eq!(error.class, ErrorClass::Truncated, "{name}");
        assert_eq!(error.raw_reply.as_deref(), Some("{\"to"), "{name}");
        let requests = truncated.requests().await;
        assert_eq!(requests.len(), 2, "{name}");
        let caps: Vec<String> = requests.iter().map(Value::to_string).collect();
        assert!(
            caps[0].contains(":8192") && caps[1].contains(":16384"),
            "{name}"
        );

        let refused = stage(family, vec![answers(family, Reply::Declines)]).await;
        let (error, ..) = error_of(refused.ask().await);
        assert_eq!(error.class, ErrorClass::Refused, "{name}");
        let words = error.raw_reply.unwrap();
        assert!(words.contains("SERVER WORDS"), "{name}: {words}");
        assert!(!error.message.contains("SERVER WORDS"), "{name}");
        assert_eq!(refused.requests().await.len(), 1, "{name}");
    }
}

#[tokio::test]
async fn complete_answer_is_accepted_and_odd_finish_marked() {
    for family in FAMILIES {
        for reason in [
            "novelty",
            "max_tokens",
            "length",
            "safety",
            "refusal",
            "abort",
        ] {
            let stage = stage(family, vec![answers(family, Reply::StopsFor(reason))]).await;
            let (reply, ..) = reply_of(stage.ask().await);
            let name = family.name();
            assert_eq!(
                (&reply.value["total"], reply.odd_finish),
                (&json!(61), true),
                "{name}"
            );
            // The cached copy is marked as well.
            let (copy, ..) = reply_of(stage.ask().await);
            assert!(copy.cached && copy.odd_finish, "{name}: {copy:?}");
            assert_eq!(stage.requests().await.len(), 1, "{name}");
        }
    }
}

#[tokio::test]
async fn unusable_reply_is_returned_to_the_model_in_the_repair_turn() {
    for family in FAMILIES {
        let name = family.name();
        let prose = answers(family, Reply::Says("I would say 61."));
        let good = answers(family, Reply::Says(GOOD));
        let repaired = stage(family, vec![prose.clone(), good]).await;
        assert!(reply_of(repaired.ask().await).0.repaired, "{name}");
        let spoken = family.spoken(&repaired.requests().await[1]);
        assert_eq!(spoken.len(), 3, "{name}");
        let (role, text) = &spoken[1];
        let said = (role.as_str(), text.as_str());
        assert_eq!(said, (family.model_role(), "I would say 61."), "{name}");
        assert_eq!(spoken[0].0, "user", "{name}");
        assert!(spoken[2].1.contains("not JSON"), "{name}");

        let hopeless = stage(family, vec![prose]).await;
        let (error, ..) = error_of(hopeless.ask().await);
        assert_eq!(error.class, ErrorClass::Unparsable, "{name}");
    }
}

#[tokio::test]
async fn rejected_temperature_is_dropped_once_and_remembered() {
    for family in FAMILIES {
        let refused = refuses(family, Refusal::Temperature);
        let good = answers(family, Reply::Says(GOOD));
        let stage = stage(family, vec![refused, good]).await;
        let (_, retries_spent, _) = reply_of(stage.ask().await);
        reply_of(stage.judge.ask(&question("other"), context()).await);
        let requests = stage.requests().await;
        let had: Vec<bool> = requests
            .iter()
            .map(|request| family.has_temperature(request))
            .collect();
        let read = (had, retries_spent);
        assert_eq!(read, (vec![true, false, false], 0), "{}", family.name());
    }
}

#[tokio::test]
async fn rejected_output_modes_fall_back_to_schema_in_the_prompt() {
    for family in FAMILIES {
        let name = family.name();
        let stage = stage(
            family,
            vec![
                refuses(family, Refusal::Schema),
                refuses(family, Refusal::NextRung),
                answers(family, Reply::Says(GOOD)),
            ],
        )
        .await;
        reply_of(stage.ask().await);
        reply_of(stage.judge.ask(&question("other"), context()).await);
        let requests = stage.requests().await;
        let rungs: Vec<_> = requests
            .iter()
            .map(|request| family.rung(request))
            .collect();
        let [first, second, last] = family.ladder();
        assert_eq!(rungs, [first, second, last, last], "{name}");
        let prompt = &family.spoken(&requests[2])[0].1;
        assert!(prompt.contains("JSON schema"), "{name}");
        assert!(prompt.contains("from 0 to 100"), "{name}");
    }
}

#[tokio::test]
async fn entry_that_requires_the_schema_makes_no_call_without_it() {
    for family in FAMILIES {
        let server = serving(vec![refuses(family, Refusal::Schema)]).await;
        let address = server.uri();
        let insists = json!({ "structured": "json_schema" });
        let stage = stage_at(family, server, &address, insists);
        let (error, ..) = error_of(stage.ask().await);
        assert_eq!(error.class, ErrorClass::Rejected, "{}", family.name());
        assert_eq!(stage.requests().await.len(), 1, "{}", family.name());
    }
}

#[tokio::test]
async fn error_in_a_list_is_parsed_like_any_other() {
    let mut skipped = Vec::new();
    for family in FAMILIES {
        let Wire(status, headers, body) = family.refusal(Refusal::WrongKey);
        let body = match family.in_a_list(&body) {
            Ok(body) => body,
            Err(reason) => {
                skipped.push((family.name(), reason));
                continue;
            }
        };
        for status in [status, 200] {
            let told = Wire(status, headers.clone(), body.clone());
            let stage = stage(family, vec![told.template()]).await;
            let (error, ..) = error_of(stage.ask().await);
            assert_eq!(error.class, ErrorClass::Misconfigured, "{error}");
            assert!(error.message.contains("SERVER WORDS"), "{error}");
        }
    }
    let mut names = skipped.iter().map(|(name, _)| *name);
    assert!(!names.any(|name| name == "gemini"), "{skipped:?}");
}

#[tokio::test]
async fn rate_limits_of_good_and_bad_replies_pace_the_lane() {
    for family in FAMILIES {
        let name = family.name();
        let says = |template: ResponseTemplate, remaining| {
            let headers = family.limits(60, remaining, 30)?;
            Ok::<_, &str>(
                headers
                    .into_iter()
                    .fold(template, |t, (name, value)| t.insert_header(name, value)),
            )
        };
        let good = match says(answers(family, Reply::Says(GOOD)), 30) {
            Ok(good) => good,
            Err(why) => {
                eprintln!("{name}: skipped, {why}");
                continue;
            }
        };
        let bad = says(refuses(family, Refusal::Overloaded), 0).unwrap();
        let stage = stage(family, vec![good, bad]).await;
        reply_of(stage.ask().await);
        let pace = stage.gate.snapshot()[0].pace;
        assert_eq!(pace.requests.learned, Some(60), "{name}");
        assert_eq!((pace.requests.used, pace.tokens.used), (1, 1_100), "{name}");
        assert_eq!((pace.held_for, pace.shrunk_for), (None, None), "{name}");

        let asked = stage.judge.ask(&question("other"), context()).await;
        let ((why, retry_in), retries_spent, _) = wait_of(asked);
        // The failed call uses a retry; pacing uses none.
        assert_eq!((why, retries_spent), (HeldBack::Paced, 1), "{name}");
        assert!(
            retry_in.unwrap() > Duration::from_secs(25),
            "{name}: {retry_in:?}"
        );
        let pace = stage.gate.snapshot()[0].pace;
        assert!(pace.held_for.is_some(), "{name}");
        assert_eq!(pace.shrunk_for, None, "{name}");
        assert_eq!(stage.requests().await.len(), 2, "{name}");
    }
}

#[tokio::test]
async fn bare_429_of_any_family_closes_the_lane() {
    for family in FAMILIES {
        let stage = stage(family, vec![refuses(family, Refusal::Throttled)]).await;
        stage.ask().await;
        let closed = stage.gate.snapshot()[0].closed.clone();
        let why = closed.map(|refusal| refusal.why);
        assert_eq!(why, Some(HeldBack::Throttled), "{}", family.name());
    }
}
