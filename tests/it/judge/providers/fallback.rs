//! A declining judge with a fallback, for every pair of families.

use std::sync::Arc;
use std::time::Duration;

use gavel::clock::SystemClock;
use gavel::judge::gate::{Gate, GateOptions, HeldBack};
use gavel::judge::{
    AskContext, AskEnd, AskOutcome, ErrorClass, Judge, JudgeWiring, Judges, Limits, Providers,
    Question, RetryOptions, Target,
};
use serde_json::{Value, json};
use uuid::Uuid;
use wiremock::{MockServer, ResponseTemplate};

use super::super::stage::*;
use super::family::{Family, Refusal, Reply};
use super::{FAMILIES, GOOD, MODEL, answers, refuses};

struct Pair {
    first: MockServer,
    second: MockServer,
    judge: Arc<Judge>,
    gate: Arc<Gate>,
    memory: Arc<Memory>,
}

type Part<'a> = (&'a dyn Family, Vec<ResponseTemplate>);

impl Pair {
    async fn new(first: Part<'_>, second: Part<'_>) -> Self {
        Self::with(first, second, json!({})).await
    }

    /// `more` is merged into the entry of the second judge.
    async fn with(first: Part<'_>, second: Part<'_>, more: Value) -> Self {
        let families = [first.0, second.0];
        let servers = [serving(first.1).await, serving(second.1).await];
        let mut entries = json!({});
        for ((name, family), server) in ["first", "second"].iter().zip(families).zip(&servers) {
            let address = format!("{}{}", server.uri(), family.base());
            entries[*name] = json!({
                "type": family.name(), "base_url": address, "model": MODEL, "key": KEY,
                "prices": { MODEL: {
                    "input_per_mtok": 0.15, "cached_input_per_mtok": 0.075, "output_per_mtok": 0.6,
                    "as_of": "2024-10-01", "source": "test",
                }},
            });
        }
        entries["first"]["fallback"] = json!("second");
        for (key, value) in more.as_object().unwrap() {
            entries["second"][key] = value.clone();
        }
        let providers = Providers::from_value(&entries, &|_| Err(String::new())).unwrap();
        let gate = Arc::new(Gate::new(GateOptions {
            failures_to_open: 100,
            ..GateOptions::default()
        }));
        let memory = Arc::new(Memory::default());
        let wiring = JudgeWiring {
            gate: gate.clone(),
            log: memory.clone(),
            clock: Arc::new(SystemClock),
            retry: RetryOptions {
                first_delay: Duration::from_millis(1),
                ..RetryOptions::default()
            },
        };
        let [first, second] = servers;
        Self {
            first,
            second,
            judge: Judges::wired(&providers, wiring).get("first").unwrap(),
            gate,
            memory,
        }
    }

    async fn ask(&self, context: AskContext) -> AskOutcome {
        self.judge.ask(&question("evidence"), context).await
    }

    async fn asked(&self) -> (usize, usize) {
        let count = async |server: &MockServer| server.received_requests().await.unwrap().len();
        (count(&self.first).await, count(&self.second).await)
    }

    fn logged(&self) -> Vec<(String, Option<ErrorClass>)> {
        let calls = self.memory.calls.lock().unwrap();
        calls
            .iter()
            .map(|call| (call.judge.clone(), call.error))
            .collect()
    }
}

fn pairs() -> impl Iterator<Item = (&'static dyn Family, &'static dyn Family)> {
    FAMILIES
        .into_iter()
        .flat_map(|first| FAMILIES.into_iter().map(move |second| (first, second)))
}

fn declines(family: &dyn Family) -> ResponseTemplate {
    answers(family, Reply::Declines)
}

fn good_of(family: &dyn Family) -> ResponseTemplate {
    answers(family, Reply::Says(GOOD))
}

fn by(asked_for: u128) -> AskContext {
    AskContext {
        asked_for: Uuid::from_u128(asked_for),
        ..context()
    }
}

const OPENAI: &dyn Family = FAMILIES[0];
const ANTHROPIC: &dyn Family = FAMILIES[1];

#[tokio::test]
async fn fallback_replies_to_declined_question_and_both_are_billed() {
    for (first, second) in pairs() {
        let case = format!("{} then {}", first.name(), second.name());
        let pair = Pair::new(
            (first, vec![declines(first)]),
            (second, vec![good_of(second)]),
        )
        .await;
        let (reply, retries_spent, usage) = reply_of(pair.ask(by(1)).await);
        assert_eq!(reply.value["total"], 61, "{case}");
        assert_eq!(
            (&*reply.provider, &*reply.model),
            ("second", MODEL),
            "{case}"
        );
        assert!(reply.by_fallback && !reply.simulated, "{case}");
        assert_eq!(retries_spent, 0, "{case}");
        let refused = Some(ErrorClass::Refused);
        let logged = [("first".to_owned(), refused), ("second".to_owned(), None)];
        assert_eq!(pair.logged(), logged, "{case}");
        let costs: f64 = {
            let calls = pair.memory.calls.lock().unwrap();
            calls.iter().map(|call| call.usage.cost_usd.unwrap()).sum()
        };
        assert!(costs > COST, "{case}: the refusal was paid for");
        assert!(is_about(usage.cost_usd, costs), "{case}: {usage:?}");
        assert_eq!(usage.tokens_in, 2000, "{case}");

        // Only the fallback's reply is cached: other callers still reach the first judge.
        let (again, _, spent) = reply_of(pair.ask(by(2)).await);
        assert!(again.cached && again.by_fallback, "{case}");
        assert_eq!(pair.asked().await, (2, 1), "{case}");
        assert_eq!(spent.tokens_in, 1000, "{case}");
    }
}

#[tokio::test]
async fn only_a_declined_question_goes_to_the_fallback() {
    let table = [
        (Refusal::Odd, ErrorClass::Rejected),
        (Refusal::WrongKey, ErrorClass::Misconfigured),
        (Refusal::TooLong, ErrorClass::TooLarge),
    ];
    for (refusal, class) in table {
        let first = (OPENAI, vec![refuses(OPENAI, refusal)]);
        let pair = Pair::new(first, (ANTHROPIC, vec![good_of(ANTHROPIC)])).await;
        let (error, ..) = error_of(pair.ask(by(1)).await);
        assert_eq!(error.class, class);
        assert_eq!(pair.asked().await, (1, 0), "{refusal:?}");
    }
}

#[tokio::test]
async fn error_names_both_judges_if_both_decline() {
    let pair = Pair::new(
        (OPENAI, vec![declines(OPENAI)]),
        (ANTHROPIC, vec![declines(ANTHROPIC)]),
    )
    .await;
    let (error, ..) = error_of(pair.ask(by(1)).await);
    assert_eq!(error.class, ErrorClass::Refused);
    for name in ["\"first\"", "\"second\""] {
        assert!(error.message.contains(name), "{error}");
    }
    assert_eq!(pair.asked().await, (1, 1));
    assert!(
        !pair.memory.has_cacheable_reply(),
        "nothing is kept as an answer"
    );
}

#[tokio::test]
async fn fallback_without_its_key_is_not_called_and_reported() {
    let pair = Pair::with(
        (OPENAI, vec![declines(OPENAI)]),
        (ANTHROPIC, vec![good_of(ANTHROPIC)]),
        json!({ "key": "", "hint": "set SECOND_KEY" }),
    )
    .await;
    let (error, ..) = error_of(pair.ask(by(1)).await);
    assert_eq!(error.class, ErrorClass::Refused);
    for words in [
        "\"first\" declined",
        "\"second\" was not called",
        "set SECOND_KEY",
    ] {
        assert!(error.message.contains(words), "{error}");
    }
    assert_eq!(pair.asked().await, (1, 0));
}

#[tokio::test]
async fn closed_fallback_makes_the_job_wait_without_a_second_call() {
    for skip_cache in [false, true] {
        let pair = Pair::new(
            (OPENAI, vec![declines(OPENAI)]),
            (ANTHROPIC, vec![good_of(ANTHROPIC)]),
        )
        .await;
        let mine = AskContext {
            skip_cache,
            ..by(1)
        };
        for (why, reopens_in) in [
            (HeldBack::Paused, None),
            (HeldBack::Exhausted, Some(Duration::from_secs(3600))),
        ] {
            pair.gate.close("second", why, reopens_in);
            let asked = pair.ask(mine.clone()).await;
            let AskOutcome {
                end:
                    AskEnd::Wait {
                        why: shown,
                        retry_in,
                        fallback: Some(judge),
                    },
                retries_spent,
                ..
            } = asked
            else {
                panic!("expected a wait, got {asked:?}");
            };
            assert_eq!((&*judge, shown, retries_spent), ("second", why, 0));
            assert_eq!(
                retry_in,
                Some(Duration::from_secs(60)),
                "looked at again soon"
            );
            pair.gate.open("second");
        }
        assert_eq!(pair.asked().await, (1, 0));
        let (reply, _, usage) = reply_of(pair.ask(mine).await);
        assert!(reply.by_fallback && !reply.cached);
        assert_eq!((usage.tokens_in, pair.asked().await), (1000, (1, 1)));
    }
}

#[tokio::test]
async fn declining_under_a_larger_cap_counts_as_declined() {
    let cut_off = answers(OPENAI, Reply::CutOff("{\"to"));
    let first = vec![cut_off, declines(OPENAI)];
    let pair = Pair::new((OPENAI, first), (ANTHROPIC, vec![good_of(ANTHROPIC)])).await;
    pair.gate.close("second", HeldBack::Paused, None);
    for _ in 0..2 {
        let asked = pair.ask(by(1)).await;
        assert!(matches!(asked.end, AskEnd::Wait { .. }), "{asked:?}");
    }
    assert_eq!(pair.asked().await, (2, 0));
}

#[tokio::test]
async fn each_judge_has_its_retries_and_failed_fallback_names_both() {
    let down = || refuses(OPENAI, Refusal::Overloaded);
    let tired = vec![down(), down(), declines(OPENAI)];
    let late = vec![down(), down(), down(), good_of(OPENAI)];
    let pair = Pair::new((OPENAI, tired.clone()), (OPENAI, late)).await;
    let (_, retries_spent, _) = reply_of(pair.ask(by(1)).await);
    assert_eq!(retries_spent, 5, "two of the first, three of the second");

    let pair = Pair::new((OPENAI, tired), (OPENAI, vec![down()])).await;
    let (error, retries_spent, _) = error_of(pair.ask(by(1)).await);
    assert_eq!((error.class, retries_spent), (ErrorClass::Transient, 5));
    for words in ["\"second\"", "4 calls", "\"first\" declined"] {
        assert!(error.message.contains(words), "{error}");
    }
    assert_eq!(pair.asked().await, (3, 4));
    // The caller's next run has no retries left for either judge; after a manual retry it has the fallback's again.
    for (spent, calls) in [(5, 5), (0, 9)] {
        let later = AskContext {
            retries_spent: spent,
            ..by(1)
        };
        let (_, retries_spent, _) = error_of(pair.ask(later).await);
        assert_eq!(retries_spent, if spent == 0 { 3 } else { 5 });
        assert_eq!(pair.asked().await, (3, calls));
    }
}

#[tokio::test]
async fn simulated_reply_is_no_fallback_for_a_real_judge() {
    let simulated = answers(OPENAI, Reply::By("simulated-judge-v1"));
    let pair = Pair::new((OPENAI, vec![declines(OPENAI)]), (OPENAI, vec![simulated])).await;
    let (error, ..) = error_of(pair.ask(by(1)).await);
    assert_eq!(error.class, ErrorClass::Refused);
    assert!(error.message.contains("simulated"), "{error}");
}

/// Prompt of about 7,000 tokens that can be trimmed to any size.
fn large() -> Question {
    Question {
        prompt: "word ".repeat(3_500).into(),
        shrink: Some(Arc::new(|question, target| match target {
            Target::Half => None,
            Target::Within(limits) => {
                let words = usize::try_from(limits.for_the_question()).unwrap() / 3;
                Some(Question {
                    prompt: "word ".repeat(words).into(),
                    evidence_hash: "smaller".to_owned(),
                    trimmed_tokens: 7,
                    shrink: None,
                    ..question.clone()
                })
            }
        })),
        ..question("evidence")
    }
}

#[tokio::test]
async fn prompt_is_trimmed_for_the_fallback_window_or_not_sent() {
    let small = json!({ "context_window": 2048, "max_output_tokens": 512 });
    let limits = Limits {
        context_window: 2048,
        max_output_tokens: 512,
        family: gavel::judge::ModelFamily::Other,
    };
    let stage = async || {
        Pair::with(
            (OPENAI, vec![declines(OPENAI)]),
            (ANTHROPIC, vec![good_of(ANTHROPIC)]),
            small.clone(),
        )
        .await
    };
    let pair = stage().await;
    let (reply, ..) = reply_of(pair.judge.ask(&large(), by(1)).await);
    assert_eq!(reply.trimmed_tokens, 7);
    let sent = pair.second.received_requests().await.unwrap();
    let body: Value = sent[0].body_json().unwrap();
    let prompt = &ANTHROPIC.spoken(&body)[0].1;
    assert!(limits.family.tokens(prompt) <= limits.for_the_question());

    let pair = stage().await;
    let whole = Question {
        shrink: None,
        ..large()
    };
    let (error, ..) = error_of(pair.judge.ask(&whole, by(1)).await);
    assert_eq!(error.class, ErrorClass::Refused);
    for words in ["was not called", "context_window of 2048"] {
        assert!(error.message.contains(words), "{error}");
    }
    assert_eq!(pair.asked().await, (1, 0));
}
