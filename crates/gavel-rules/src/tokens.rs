//! Estimates the tokens of a text: its bytes, divided by the bytes per token of the model's family. Not used for billing.
//!
//! The divisor overestimates on purpose. Compared with `o200k_base`, GPT's tokenizer, on the example sessions, the docs and corpora of SQL,
//! KQL and JSON (30 files), texts have 2.7 to 4.2 bytes per token: the estimate is between exact and 55 % too high. It is up to half too
//! low for text of mostly hashes, ids or base64 (1.5 bytes per token). A provider then rejects the prompt as too large, and it is sent
//! again at half the size. The other families' tokenizers aren't published; their divisors are GPT's, adjusted by the known difference.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelFamily {
    /// OpenAI: `gpt-…`, `chatgpt-…`, `o1…` to `o9…`, after any path prefix of a gateway.
    Gpt,
    /// Anthropic: about 25 % more tokens.
    Claude,
    /// Google: about 10 % more.
    Gemini,
    /// Any other (Llama, Qwen, Mistral ..): about 15 % more.
    Other,
}

impl ModelFamily {
    pub fn from_name(model: &str) -> Self {
        let model = model.to_ascii_lowercase();
        let name = model.rsplit('/').next().unwrap_or_default();
        let is_o = name
            .strip_prefix('o')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if name.contains("claude") {
            Self::Claude
        } else if name.contains("gemini") {
            Self::Gemini
        } else if is_o || (name.contains("gpt-") && !name.contains("gpt-oss")) {
            Self::Gpt
        } else {
            Self::Other
        }
    }

    /// Estimated tokens of a text. The estimate of a concatenation is at most the sum of its parts.
    pub fn tokens(self, text: &str) -> u64 {
        self.tokens_of(text.len())
    }

    pub fn tokens_of(self, bytes: usize) -> u64 {
        (bytes as u64 * 10).div_ceil(self.tenths_of_bytes())
    }

    /// Returns the byte offsets of the end of the first `tokens` and the start of the last `tokens` of a text, at character boundaries. If
    /// the two overlap, the range between them is empty.
    pub fn ends(self, text: &str, tokens: u64) -> (usize, usize) {
        let bytes = tokens.saturating_mul(self.tenths_of_bytes()) / 10;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(text.len());
        let head = text.floor_char_boundary(bytes);
        let tail = text.ceil_char_boundary(text.len() - bytes);
        (head, tail.max(head))
    }

    /// Bytes per token, in tenths.
    fn tenths_of_bytes(self) -> u64 {
        match self {
            Self::Gpt => 27,
            Self::Claude => 21,
            Self::Gemini => 24,
            Self::Other => 23,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FAMILIES: [ModelFamily; 4] = [
        ModelFamily::Gpt,
        ModelFamily::Claude,
        ModelFamily::Gemini,
        ModelFamily::Other,
    ];

    #[test]
    fn model_name_determines_family() {
        let cases = [
            ("gpt-4o-mini", ModelFamily::Gpt),
            ("openai/GPT-4.1", ModelFamily::Gpt),
            ("o3-mini", ModelFamily::Gpt),
            ("openai/gpt-oss-120b", ModelFamily::Other),
            ("anthropic/claude-sonnet-4-5", ModelFamily::Claude),
            ("us.anthropic.claude-haiku", ModelFamily::Claude),
            ("models/gemini-2.5-pro", ModelFamily::Gemini),
            ("Qwen/Qwen3-32B", ModelFamily::Other),
            ("llama3.1:8b", ModelFamily::Other),
            ("ollama", ModelFamily::Other),
            ("", ModelFamily::Other),
        ];
        for (model, family) in cases {
            assert_eq!(ModelFamily::from_name(model), family, "{model}");
        }
    }

    #[test]
    fn tokens_are_bytes_by_family_rounded_up() {
        // Text, and its tokens for GPT, Claude, Gemini, others.
        let cases = [
            ("", [0, 0, 0, 0]),
            ("a", [1, 1, 1, 1]),
            ("the pod was killed", [7, 9, 8, 8]),
            ("日本", [3, 3, 3, 3]),
        ];
        for (text, expected) in cases {
            assert_eq!(FAMILIES.map(|f| f.tokens(text)), expected, "{text:?}");
        }
    }

    #[test]
    fn estimate_is_safe_for_sessions_but_low_for_hashes() {
        // Text, tokens by o200k_base, and the minimum and maximum ratio of the estimate.
        let cases = [
            (
                "{\"ts\":\"2026-11-06T10:42:07.113Z\",\"level\":\"ERROR\",\"pod\":\"cart-7d9f\",\"msg\":\"dial tcp 10.4.17.203:5432: connect: connection refused\"}\n",
                53,
                (0.9, 1.1),
            ),
            (
                "    spec:\n      containers:\n      - name: cart\n        image: registry.example.com/shop/cart:v1.2.3\n",
                27,
                (1.3, 1.5),
            ),
            (
                "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
                46,
                (0.5, 0.7),
            ),
        ];
        for (text, counted, (least, most)) in cases {
            let ratio = ModelFamily::Gpt.tokens(text) as f64 / f64::from(counted);
            assert!((least..=most).contains(&ratio), "{ratio}: {text:?}");
        }
    }

    proptest! {
        #[test]
        fn concatenation_has_at_most_the_sum_of_tokens(a in "\\PC{0,40}", b in "\\PC{0,40}") {
            for family in FAMILIES {
                let whole = family.tokens(&format!("{a}{b}"));
                prop_assert!(whole <= family.tokens(&a) + family.tokens(&b));
            }
        }

        #[test]
        fn ends_are_within_token_limit(text in "[a-zA-Z0-9 é日\n=]{0,120}", tokens in 0_u64..40) {
            for family in FAMILIES {
                let (head, tail) = family.ends(&text, tokens);
                prop_assert!(head <= tail);
                prop_assert!(family.tokens(&text[..head]) <= tokens);
                prop_assert!(family.tokens(&text[tail..]) <= tokens);
            }
        }
    }
}
