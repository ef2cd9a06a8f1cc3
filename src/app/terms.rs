//! What estimates may know of judges: prices, limits, and how large a question would be. Asks nobody.

use crate::enqueue::{JudgeTerms, PromptTokens, Terms};
use crate::judge::{Nonce, Providers};
use crate::score::{Criteria, Request};

/// Tokens of a reply about a session while none was seen: about, at least, at most.
const REPLY: (f64, f64, f64) = (900.0, 200.0, 1_800.0);
/// The same of the simulated judge, whose replies are all alike.
const SIMULATED_REPLY: (f64, f64, f64) = (260.0, 200.0, 320.0);
/// The count of a prompt's tokens leans to more, so that questions fit: it may be off by so much to either side even of what it counts well.
const COUNT_ERROR: (f64, f64) = (0.8, 1.1);
/// Bytes to a token of plain English, at most: a judge may count whatever it reads like that.
const PLAIN_BYTES: f64 = 5.0;
/// How the simulated judge counts: bytes to a token.
const SIMULATED_BYTES: u64 = 4;

/// The terms of `llm_providers.yaml`.
pub(super) struct FileTerms(pub(super) Providers);

impl JudgeTerms for FileTerms {
    fn terms(&self, judge: &str) -> Option<Terms> {
        let spec = self.0.spec(judge).ok()?;
        let pace = self.0.paces().remove(spec.provider()).unwrap_or_default();
        let simulated = spec.simulated();
        Some(Terms {
            simulated,
            batch_price_factor: spec.batch_price_factor(),
            priced: spec.cost_usd(0, 0).is_some(),
            requests_per_minute: pace.requests_per_minute,
            tokens_per_minute: pace.tokens_per_minute,
            reply_tokens: if simulated { SIMULATED_REPLY } else { REPLY },
        })
    }

    fn full_name(&self, judge: &str) -> Option<String> {
        let spec = self.0.spec(judge).ok()?;
        Some(format!("{}:{}", spec.provider(), spec.model()))
    }

    fn fallback(&self, judge: &str) -> Option<String> {
        self.0.fallback(judge)
    }

    fn prompt_tokens(
        &self,
        judge: &str,
        request: &dyn Request,
        criteria: &Criteria,
    ) -> Option<PromptTokens> {
        let spec = self.0.spec(judge).ok()?;
        let limits = spec.limits();
        let nonce = Nonce::draw(&mut fastrand::Rng::new());
        let questions = request.questions(criteria, &limits, &nonce).ok()?;
        if spec.simulated() {
            let each = questions
                .iter()
                .map(|question| question.prompt.len() as u64);
            let tokens = float(each.map(|bytes| bytes.div_ceil(SIMULATED_BYTES)).sum());
            return Some(PromptTokens {
                least: tokens,
                about: tokens,
                most: tokens,
            });
        }
        let counts = questions.iter().map(|question| {
            let bytes = question.prompt.len() + question.schema.to_string().len();
            (question.tokens(limits.family), bytes as u64)
        });
        let sum = |one: (u64, u64), other: (u64, u64)| (one.0 + other.0, one.1 + other.1);
        let (counted, bytes) = counts.fold((0, 0), sum);
        Some(between(float(counted), float(bytes)))
    }

    fn cost_usd(&self, judge: &str, tokens_in: f64, tokens_out: f64) -> Option<f64> {
        let spec = self.0.spec(judge).ok()?;
        spec.cost_usd(whole(tokens_in), whole(tokens_out))
    }
}

/// How many tokens so many bytes may be that are `counted` tokens by rules of thumb.
fn between(counted: f64, bytes: f64) -> PromptTokens {
    let least = (counted * COUNT_ERROR.0).min(bytes / PLAIN_BYTES);
    PromptTokens {
        least,
        about: f64::midpoint(least, counted),
        most: counted * COUNT_ERROR.1,
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "tokens and bytes of a prompt, far below 2^52"
)]
fn float(count: u64) -> f64 {
    count as f64
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "tokens of one call, far below 2^53"
)]
fn whole(tokens: f64) -> i64 {
    tokens.max(0.0).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::ModelFamily;

    const FAMILIES: [ModelFamily; 4] = [
        ModelFamily::Gpt,
        ModelFamily::Claude,
        ModelFamily::Gemini,
        ModelFamily::Other,
    ];
    const PROSE: &str =
        "The container was killed for memory, and its limit was raised before each restart. ";
    const JSON: &str = "{\"ts\":\"2026-11-06T10:42:07.113Z\",\"level\":\"ERROR\",\"pod\":\"cart-7d9f\",\"msg\":\"dial tcp 10.4.17.203:5432: connect: connection refused\"}\n";
    const TABLE: &str = "cart-7d9f0abc1-x2k9q   0/1     CrashLoopBackOff   17 (5m ago)   3h12m\n";

    fn of(text: &str, family: ModelFamily) -> (PromptTokens, f64) {
        let text = text.repeat(50);
        let bytes = float(text.len() as u64);
        (between(float(family.tokens(&text)), bytes), bytes)
    }

    #[test]
    fn the_range_holds_what_judges_count_of_prose_and_of_dense_text() {
        for family in FAMILIES {
            // A judge may count four or five bytes to a token, of whatever it reads.
            for text in [PROSE, JSON, TABLE] {
                let (tokens, bytes) = of(text, family);
                assert!(
                    tokens.least <= bytes / 5.0,
                    "{family:?}: {tokens:?} of {bytes}"
                );
                assert!(
                    tokens.most >= bytes / 4.0,
                    "{family:?}: {tokens:?} of {bytes}"
                );
                assert!(tokens.least <= tokens.about && tokens.about <= tokens.most);
            }
        }
        // As o200k_base counts.
        for (text, counted) in [(JSON, 53.0), (TABLE, 39.0)] {
            let (tokens, _) = of(text, ModelFamily::Gpt);
            let counted = counted * 50.0;
            assert!(
                tokens.least <= counted && counted <= tokens.most,
                "{tokens:?}, {counted}"
            );
        }
        let (tokens, bytes) = of(PROSE, ModelFamily::Gpt);
        let plain = bytes / 4.5;
        assert!(
            (tokens.about / plain - 1.0).abs() < 0.15,
            "{tokens:?}, {plain}"
        );
    }
}
