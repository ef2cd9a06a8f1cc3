//! A prompt within the judge's context window: as it is where it fits, else of a trimmed session, else the reason why not.
//!
//! Goes by the estimate of the model's family, and by nothing else. Where the provider says later that the prompt is too
//! large all the same, [`shrink`] makes a smaller one of the prompt's own text: the session isn't kept for that.

use std::sync::Arc;

use super::SessionRequest;
use super::prompt;
use super::trim::{Transcript, Trimmed};
use crate::criteria::{Framed, Trim};
use crate::fence;
use crate::{Criteria, PromptText, Unscorable};
use crate::{Limits, ModelFamily, Nonce, Question, Shrink, Target};

pub(super) struct Fitted {
    pub(super) prompt: PromptText,
    /// SHA-256 of the evidence that is in it: a trimmed question is another question.
    pub(super) evidence_hash: String,
    /// About how many tokens went; 0 for none.
    pub(super) trimmed_tokens: u64,
}

pub(super) fn fit(
    session: &SessionRequest,
    criteria: &Criteria,
    framed: &Framed,
    (limits, nonce): (&Limits, &Nonce),
) -> Result<Fitted, Unscorable> {
    let evidence = prompt::Evidence::from_session(session, nonce);
    let whole = prompt::fill(&framed.template, &evidence, nonce);
    let (room, family) = (limits.for_the_question(), limits.family);
    // The schema goes along a second time, as the reply's format.
    let format = family.tokens(framed.schema.json().get());
    let asked = whole.tokens(family) + format;
    if asked <= room {
        return Ok(Fitted {
            prompt: whole,
            evidence_hash: evidence.hash(nonce),
            trimmed_tokens: 0,
        });
    }
    match criteria.trim {
        Trim::Never => return Err(too_large(asked, limits, NEVER)),
        Trim::Auto => {}
    }
    let whole = whole.to_string();
    let Some(part) = Split::find(&whole, family, nonce) else {
        return Err(too_large(asked, limits, AUTO));
    };
    let fixed = part.fixed + format;
    let trimmed = Transcript::parse(part.conversation, family)
        .fit(room.saturating_sub(fixed))
        .map_err(|smallest| too_large(fixed + smallest, limits, AUTO))?;
    Ok(Fitted {
        prompt: part.around(&trimmed.text).into(),
        evidence_hash: crate::prompt::digest(&[
            &prompt::without_tags(&trimmed.text, nonce),
            &evidence.alert,
        ]),
        trimmed_tokens: trimmed.gone,
    })
}

/// How a question under these criteria is made smaller.
///
/// Once its provider has said that it is too large, to half of what it was, or as far down as trimming goes where that is
/// more: the estimate was wrong by an unknown factor, so a small step would often be refused again, and there is only one.
/// For a judge of other limits, to as much as that one takes.
pub(super) fn shrink(trim: Trim, family: ModelFamily, nonce: &Nonce) -> Option<Shrink> {
    match trim {
        Trim::Never => return None,
        Trim::Auto => {}
    }
    let nonce = nonce.clone();
    Some(Arc::new(move |question: &Question, target| match target {
        Target::Half => half(question, family, &nonce),
        Target::Within(limits) => within(question, &limits, &nonce),
    }))
}

fn half(question: &Question, family: ModelFamily, nonce: &Nonce) -> Option<Question> {
    let prompt = question.prompt.to_string();
    let part = Split::find(&prompt, family, nonce)?;
    let transcript = Transcript::parse(part.conversation, family);
    let asked = family.tokens(part.conversation) + part.fixed;
    let room = (asked / 2)
        .saturating_sub(part.fixed)
        .max(transcript.smallest());
    // A twentieth less wouldn't be worth a second refusal.
    if room + part.fixed > asked / 20 * 19 {
        return None;
    }
    let trimmed = transcript.fit(room).ok()?;
    Some(part.with(question, (trimmed, nonce), None))
}

fn within(question: &Question, limits: &Limits, nonce: &Nonce) -> Option<Question> {
    let family = limits.family;
    let prompt = question.prompt.to_string();
    let part = Split::find(&prompt, family, nonce)?;
    let schema = family.tokens(question.schema.json().get());
    let room = limits.for_the_question().checked_sub(part.fixed + schema)?;
    let trimmed = Transcript::parse(part.conversation, family)
        .fit(room)
        .ok()?;
    // That judge may say too large in its turn.
    let shrink = shrink(Trim::Auto, family, nonce);
    Some(part.with(question, (trimmed, nonce), shrink))
}

struct Split<'a> {
    before: &'a str,
    conversation: &'a str,
    after: &'a str,
    fixed: u64,
}

impl<'a> Split<'a> {
    fn find(prompt: &'a str, family: ModelFamily, nonce: &Nonce) -> Option<Self> {
        let (from, to) = fence::find(prompt, "conversation", &nonce.0)?;
        let (before, after) = (&prompt[..from], &prompt[to..]);
        Some(Self {
            before,
            conversation: &prompt[from..to],
            after,
            fixed: family.tokens(before) + family.tokens(after),
        })
    }

    /// The prompt with another text in the place of the conversation. What was defused stays so: cutting makes no new shape
    /// of a fence.
    fn around(&self, conversation: &str) -> String {
        [self.before, conversation, self.after].concat()
    }

    fn with(
        &self,
        question: &Question,
        (trimmed, nonce): (Trimmed, &Nonce),
        shrink: Option<Shrink>,
    ) -> Question {
        let text = prompt::without_tags(&trimmed.text, nonce);
        Question {
            evidence_hash: crate::prompt::digest(&[&question.evidence_hash, &text]),
            prompt: self.around(&trimmed.text).into(),
            trimmed_tokens: trimmed.gone,
            shrink,
            ..question.clone()
        }
    }
}

const NEVER: &str = "the criteria say judge.trim: never, so nothing was left out";
const AUTO: &str = "that is with tool results, messages and the final analysis trimmed as far as they may be; the alert and the list of tools always stay whole";

fn too_large(asked: u64, limits: &Limits, why: &str) -> Unscorable {
    Unscorable::TooLarge(format!(
        "the prompt would be about {asked} tokens, but {} are left for it: a context_window of {} less {} for the reply (max_output_tokens) and a margin of {}; {why}",
        limits.for_the_question(),
        limits.context_window,
        limits.max_output_tokens,
        limits.margin(),
    ))
}
