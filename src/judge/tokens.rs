//! How many tokens a text may be, by the family of the model that reads it. An estimate: never a count, and nothing is
//! billed by it.
//!
//! Tokenizers differ and few are published, so the estimate goes by what they have in common and leans to more: a word is
//! one token for each five letters begun (a capital counts three times and begins a word of its own), a sign three quarters of
//! one, a line one, a blank an eighth and a run of them one. Digits stand three to a token at most, or alone. Beyond ASCII
//! a letter is one token for each of its bytes in the scripts that vocabularies leave out, and less in those that they
//! hold: of random Chinese letters it counts too few, of written Chinese enough. Each family's figure is raised by what its
//! tokenizer is known to need more.
//!
//! A text never counts more than the sum of its parts, wherever it is cut but inside a run of blanks: who adds up parts is
//! on the safe side.

/// Models whose tokenizers are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelFamily {
    /// OpenAI's: `gpt-…`, `chatgpt-…`, `o1…` to `o9…`, behind whatever path a gateway puts in front.
    Gpt,
    /// Anthropic's: 25 % more.
    Claude,
    /// Google's: digits stand alone; 10 % more.
    Gemini,
    /// Any other (Llama, Qwen, Mistral ..): digits stand alone; 15 % more.
    Other,
}

/// A token in the meter's units.
const TOKEN: u64 = 120;
/// Letters to a token; a capital is worth three.
const LETTERS: u64 = 5;

impl ModelFamily {
    /// The family of a model by its name.
    pub fn of(model: &str) -> Self {
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

    /// About how many tokens a text is, rather too many than too few.
    pub fn tokens(self, text: &str) -> u64 {
        let mut meter = Meter::new(self);
        for c in text.chars() {
            meter.add(c);
        }
        meter.tokens()
    }

    /// No text of so many bytes is more tokens; a look that costs nothing.
    pub fn most_tokens(self, bytes: usize) -> u64 {
        (bytes as u64).saturating_mul(self.percent()).div_ceil(100)
    }

    /// Where the first `tokens` of a text end and its last `tokens` begin, as byte offsets at characters' borders. Where the
    /// two would meet, nothing lies between.
    pub fn ends(self, text: &str, tokens: u64) -> (usize, usize) {
        let (mut head, mut open) = (0, true);
        let mut meter = Meter::new(self);
        for (at, c) in text.char_indices() {
            meter.add(c);
            open = open && meter.tokens() <= tokens;
            if open {
                head = at + c.len_utf8();
            }
        }
        let most = meter.scaled();
        let mut meter = Meter::new(self);
        for (at, c) in text.char_indices() {
            if at >= head && most.saturating_sub(meter.scaled()) <= tokens * TOKEN * 100 {
                return (head, at);
            }
            meter.add(c);
        }
        (head, text.len())
    }

    fn percent(self) -> u64 {
        match self {
            Self::Gpt => 100,
            Self::Claude => 125,
            Self::Gemini => 110,
            Self::Other => 115,
        }
    }

    fn digits_per_token(self) -> u64 {
        match self {
            Self::Gpt | Self::Claude => 3,
            Self::Gemini | Self::Other => 1,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    None,
    Upper,
    Lower,
    Digits,
    Blanks,
}

/// Counts as it goes; a token begun is a whole one.
struct Meter {
    family: ModelFamily,
    units: u64,
    run: Run,
    in_run: u64,
}

impl Meter {
    fn new(family: ModelFamily) -> Self {
        Self {
            family,
            units: 0,
            run: Run::None,
            in_run: 0,
        }
    }

    fn add(&mut self, c: char) {
        match c {
            'a'..='z' => {
                let goes_on = matches!(self.run, Run::Lower | Run::Upper);
                self.go_on(goes_on, Run::Lower, 1, LETTERS);
            }
            'A'..='Z' => self.go_on(self.run == Run::Upper, Run::Upper, 3, LETTERS),
            '0'..='9' => {
                let each = self.family.digits_per_token();
                self.go_on(self.run == Run::Digits, Run::Digits, 1, each);
            }
            ' ' => self.blank(),
            '\t' => self.stand_alone(TOKEN / 2),
            // The shapes of a fence become longer signs in the prompt; counted as these, they never outgrow the estimate.
            '<' | '>' => self.stand_alone(TOKEN),
            '!'..='~' => self.stand_alone(TOKEN * 3 / 4),
            '\u{2039}' | '\u{203a}' => self.stand_alone(TOKEN),
            other => self.stand_alone(beyond_ascii(other)),
        }
    }

    /// One blank goes with the word behind it; two and more are a token of their own.
    fn blank(&mut self) {
        let before = if self.run == Run::Blanks {
            self.in_run
        } else {
            0
        };
        self.in_run = before + 1;
        self.run = Run::Blanks;
        self.units += match before {
            0 => TOKEN / 8,
            1 => TOKEN * 7 / 8,
            _ => TOKEN / 20,
        };
    }

    fn go_on(&mut self, goes_on: bool, run: Run, worth: u64, per_token: u64) {
        let before = if goes_on { self.in_run } else { 0 };
        self.in_run = before + worth;
        self.run = run;
        self.units += (self.in_run.div_ceil(per_token) - before.div_ceil(per_token)) * TOKEN;
    }

    fn stand_alone(&mut self, units: u64) {
        self.run = Run::None;
        self.in_run = 0;
        self.units += units;
    }

    fn scaled(&self) -> u64 {
        self.units * self.family.percent()
    }

    fn tokens(&self) -> u64 {
        self.scaled().div_ceil(TOKEN * 100)
    }
}

/// A character beyond printable ASCII: never more than a token a byte.
fn beyond_ascii(c: char) -> u64 {
    match c {
        // Control characters.
        '\0'..='\u{7f}' => TOKEN,
        // Armenian; Syriac, Thaana and what lies between.
        '\u{530}'..='\u{58f}' | '\u{700}'..='\u{7ff}' => TOKEN * 2,
        // Accents, Greek, Cyrillic, Hebrew, Arabic.
        '\u{80}'..='\u{7ff}' => TOKEN,
        // The scripts of India and Thailand; dashes, quotes and dots; boxes; the scripts of China, Japan and Korea.
        '\u{900}'..='\u{e7f}'
        | '\u{2010}'..='\u{2027}'
        | '\u{2500}'..='\u{257f}'
        | '\u{3000}'..='\u{30ff}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{ff00}'..='\u{ffef}' => TOKEN * 3 / 2,
        // Arrows, other lines, signs.
        '\u{2028}'..='\u{2bff}' => TOKEN * 5 / 2,
        // Letters in bold and the like; emoji.
        '\u{1d400}'..='\u{1d7ff}' | '\u{1f000}'..='\u{1faff}' => TOKEN * 3,
        '\u{800}'..='\u{ffff}' => TOKEN * 3,
        '\u{10000}'.. => TOKEN * 4,
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
    fn a_model_belongs_to_the_family_that_its_name_says() {
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
            assert_eq!(ModelFamily::of(model), family, "{model}");
        }
    }

    #[test]
    fn the_estimate_is_what_the_table_says() {
        // Text, tokens for GPT, tokens for the others (digits alone, 15 % more).
        let cases = [
            ("", 0, 0),
            ("a", 1, 2),
            ("Hello", 2, 3),
            ("the pod was killed", 6, 7),
            ("1234567", 3, 9),
            ("OOMKilled", 4, 5),
            ("a b", 3, 3),
            ("a    b", 4, 4),
            ("{\"a\":1}", 6, 7),
            ("日本", 3, 4),
            ("\n\n", 2, 3),
        ];
        for (text, gpt, other) in cases {
            assert_eq!(ModelFamily::Gpt.tokens(text), gpt, "{text:?}");
            assert_eq!(ModelFamily::Other.tokens(text), other, "{text:?}");
        }
    }

    #[test]
    fn the_estimate_is_not_below_what_a_published_tokenizer_counts() {
        // Text, and its tokens by o200k_base, GPT's own.
        let cases = [
            (
                "cart-7d9f0abc1-x2k9q   0/1     CrashLoopBackOff   17 (5m ago)   3h12m\n",
                39,
            ),
            (
                "NAME                     READY   STATUS             RESTARTS      AGE\n",
                12,
            ),
            (
                "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSURkekNDQWwrZ0F3SUJBZ0lFQWdBQXVUQU5CZ2txaGtpRzl3MEJBUVVGQURCYU1Rc3dDUVlEVlFRR0V3SkpSVEVTTUJBR0ExVUVDaE1KUW1Gc2RHbHRiM0psTVJNd0VRWURWUVFMRXdwRGVXSmxjbFJ5ZFhOMA==",
                135,
            ),
            (
                "{\"ts\":\"2026-11-06T10:42:07.113Z\",\"level\":\"ERROR\",\"pod\":\"cart-7d9f\",\"msg\":\"dial tcp 10.4.17.203:5432: connect: connection refused\"}\n",
                53,
            ),
            ("服务器内存不足导致容器被终止，需要检查日志和监控指标。", 18),
            ("コンテナがメモリ不足で再起動しました。", 14),
            ("컨테이너가 메모리 부족으로 종료되었습니다.", 13),
            ("Контейнер был остановлен из-за нехватки памяти.", 13),
            ("हमारा कंटेनर मेमोरी की कमी से बंद हुआ।", 14),
            ("🔥🚨⚠️ ✅ rollout 👩‍💻 ➜ done 🇩🇪", 20),
            (
                "├── cart\n│   ├── deploy.yaml\n│   └── README.md\n└── ───────────\n",
                28,
            ),
            ("ሰላም ለዓለም", 15),
            (
                "    spec:\n      containers:\n      - name: cart\n        image: registry.example.com/shop/cart:v1.2.3\n",
                27,
            ),
            (
                "\tat com.example.shop.CartService$$EnhancerBySpringCGLIB$$3f2a.checkout(CartService.java:142)\n",
                27,
            ),
            ("3f0c8d0e-8d1b-4c0e-9a53-2f6f1f4f9b1d", 35),
            (
                "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
                46,
            ),
        ];
        for (text, counted) in cases {
            let estimate = ModelFamily::Gpt.tokens(text);
            // A margin of 2 % is kept free beside the prompt, and one token is nothing.
            assert!(estimate * 102 / 100 + 1 >= counted, "{estimate}: {text:?}");
            assert!(estimate <= counted * 4, "{estimate}: {text:?}");
        }
    }

    proptest! {
        #[test]
        fn characters_of_no_vocabulary_count_as_many_tokens_as_bytes(text in "[\u{700}-\u{72f}\u{13a0}-\u{13f4}\u{1820}-\u{1842}\u{3400}-\u{4dbf}\u{20000}-\u{2a6d0}]{0,40}") {
            prop_assert_eq!(ModelFamily::Gpt.tokens(&text), text.len() as u64);
        }
    }

    #[test]
    fn prose_is_three_to_five_bytes_a_token_and_random_text_fewer() {
        let prose =
            "The container was killed for memory, and its limit was raised before each restart. ";
        let tokens = ModelFamily::Gpt.tokens(&prose.repeat(100));
        let bytes = prose.len() as u64 * 100;
        assert!(
            tokens * 3 < bytes && bytes < tokens * 5,
            "{tokens} of {bytes}"
        );
        let key = "aGVsbG8gd29ybGQhIHRoaXMgaXMgYmFzZTY0";
        assert!(ModelFamily::Gpt.tokens(key) * 2 > key.len() as u64);
    }

    proptest! {
        #[test]
        fn a_text_never_counts_more_than_its_parts_or_its_bytes(a in "\\PC{0,40}", b in "[a-zA-Z0-9 <>é日\n]{0,40}") {
            for family in FAMILIES {
                for (one, two) in [(&a, &b), (&b, &a), (&b, &b)] {
                    let whole = format!("{one}{two}");
                    let cut = u64::from(one.ends_with(' ') && two.starts_with(' '));
                    prop_assert!(family.tokens(&whole) <= family.tokens(one) + family.tokens(two) + 2 * cut);
                    prop_assert!(family.tokens(&whole) <= family.most_tokens(whole.len()));
                }
            }
        }

        #[test]
        fn both_ends_are_within_what_was_asked(text in "[a-zA-Z0-9 é日\n=]{0,120}", tokens in 0_u64..40) {
            for family in FAMILIES {
                let (head, tail) = family.ends(&text, tokens);
                prop_assert!(head <= tail);
                prop_assert!(family.tokens(&text[..head]) <= tokens);
                // A word that the cut goes through begins a token of its own.
                prop_assert!(family.tokens(&text[tail..]) <= tokens + 2);
            }
        }
    }
}
