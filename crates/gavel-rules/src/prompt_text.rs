//! Prompt text in parts. Prompts share the parts of their template, so that a worker with thousands of active calls stores them once.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::tokens::ModelFamily;

/// Text in parts, joined only when written. Cheap to clone. Serialized as one JSON string.
#[derive(Clone)]
pub struct PromptText(Arc<[TextPart]>);

#[derive(Clone)]
pub(super) enum TextPart {
    Shared(Arc<str>),
    Own(Box<str>),
}

impl TextPart {
    fn text(&self) -> &str {
        match self {
            Self::Shared(text) => text,
            Self::Own(text) => text,
        }
    }
}

impl PromptText {
    pub(super) fn new(parts: Vec<TextPart>) -> Self {
        Self(parts.into())
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(TextPart::text)
    }

    pub fn bytes(&self) -> usize {
        self.parts().map(str::len).sum()
    }

    pub fn tokens(&self, family: ModelFamily) -> u64 {
        family.tokens_of(self.bytes())
    }

    #[must_use]
    pub fn followed_by(&self, more: String) -> Self {
        let own = TextPart::Own(more.into());
        Self(self.0.iter().cloned().chain([own]).collect())
    }
}

impl From<String> for PromptText {
    fn from(text: String) -> Self {
        Self::new(vec![TextPart::Own(text.into())])
    }
}

impl From<&str> for PromptText {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl fmt::Display for PromptText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts().try_for_each(|part| f.write_str(part))
    }
}

impl fmt::Debug for PromptText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Prompts must not be logged.
        write!(f, "a prompt of {} bytes", self.bytes())
    }
}

impl Serialize for PromptText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Nonce;
    use super::super::prompt::{Evidence, Template};
    use super::*;

    #[test]
    fn serializes_as_one_json_string() {
        let shared = |text: &str| TextPart::Shared(text.into());
        let parts = vec![
            shared("a \"quote\"\n"),
            TextPart::Own("\\ é\u{1}日".into()),
            shared(""),
        ];
        let text = PromptText::new(parts).followed_by("\tend".to_owned());
        let whole = "a \"quote\"\n\\ é\u{1}日\tend";
        assert_eq!(text.to_string(), whole);
        assert_eq!(text.bytes(), whole.len());
        assert_eq!(
            serde_json::to_string(&text).unwrap(),
            json!(whole).to_string()
        );
    }

    #[test]
    fn prompts_share_template_text() {
        let template = Template::new(
            "Judge this:{{A}} strictly, as {{OUTPUT_SCHEMA}}",
            &json!({}),
        );
        let filled = |text| template.fill(&[Evidence::new("A", "a", text)], &Nonce("n".to_owned()));
        let (one, other) = (filled("first"), filled("second"));
        let shared = |text: &PromptText| -> Vec<*const u8> {
            let parts = text.0.iter();
            parts
                .filter_map(|part| match part {
                    TextPart::Shared(shared) => Some(shared.as_ptr()),
                    TextPart::Own(_) => None,
                })
                .collect()
        };
        assert_eq!(shared(&one).len(), 2);
        assert_eq!(shared(&one), shared(&other));
        let whole = "Judge this:\n<<<EVIDENCE a n\nfirst\nEVIDENCE a n>>>\n strictly, as {}";
        assert_eq!(one.to_string(), whole);
    }
}
