//! Fits a prompt into the judge's context window: unchanged, with a trimmed session, or with an error if that doesn't fit either.
//!
//! Sizes are estimates for the model's family. If the provider still rejects the prompt as too large, [`shrink`] trims the prompt's own
//! text, so that the session can be dropped.

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
    /// SHA-256 of the included evidence, which differs for a trimmed question.
    pub(super) evidence_hash: String,
    /// Estimated tokens trimmed; 0 if untrimmed.
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
    // The schema is sent a second time, as the reply's format.
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

/// Returns the function that makes smaller questions under these criteria.
///
/// After a rejection, it trims once to half the size, or to the minimum if that is larger. The estimate was wrong by an unknown factor, so
/// a smaller step would often be rejected again. For a judge with other limits, it trims to the maximum that fits.
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
    // Saving less than a twentieth isn't worth a likely second rejection.
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

    /// Returns the prompt with another conversation. Cutting defused text can't create a fence, so it isn't defused again.
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
            trimmed_tokens: question.trimmed_tokens + trimmed.gone,
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
