//! A prompt within the judge's context window: as it is where it fits, else of a trimmed session, else the reason why not.
//!
//! Goes by the estimate of the model's family, and by nothing else. Where the provider says later that the prompt is too
//! large all the same, [`shrink`] makes a smaller one of the prompt's own text: the session isn't kept for that.

use std::sync::Arc;

use serde_json::Value;

use super::SessionRequest;
use super::trim::Transcript;
use super::{fence, prompt};
use crate::judge::{Limits, ModelFamily, Nonce, Question, Shrink};
use crate::score::criteria::Trim;
use crate::score::{BadRequest, Criteria};

/// The lines of both fences, each with its nonce, are fewer tokens than this.
const FENCES: u64 = 256;

/// A prompt that fits.
pub(super) struct Fitted {
    pub(super) prompt: String,
    /// SHA-256 of the evidence that is in it: a trimmed question is another question.
    pub(super) evidence_hash: String,
    /// About how many tokens went; 0 for none.
    pub(super) trimmed_tokens: u64,
}

/// Fills the template with as much of the session as the window takes.
pub(super) fn fit(
    session: &SessionRequest,
    criteria: &Criteria,
    schema: &Value,
    limits: &Limits,
    nonce: &Nonce,
) -> Result<Fitted, BadRequest> {
    let mut evidence = prompt::Evidence::of(session);
    let fill =
        |evidence: &prompt::Evidence| prompt::fill(&criteria.judge_prompt, evidence, schema, nonce);
    let fitted = |evidence: &prompt::Evidence, prompt, trimmed_tokens| Fitted {
        prompt,
        evidence_hash: evidence.hash(),
        trimmed_tokens,
    };
    let room = limits.for_the_question();
    let family = limits.family;
    let whole = fill(&evidence);
    // The schema goes along a second time, as the reply's format; it stands in the prompt, so it is the shorter.
    if family.most_tokens(whole.len() * 2) <= room {
        return Ok(fitted(&evidence, whole, 0));
    }
    // Nothing below looks at the nonce, whose digits make more tokens or fewer: the same session is always cut alike.
    let fixed = family.tokens(&criteria.judge_prompt)
        + family.tokens(&evidence.alert)
        + family.tokens(&format!("{schema:#}"))
        + family.tokens(&schema.to_string())
        + FENCES;
    let asked = fixed + family.tokens(&evidence.conversation);
    if asked <= room {
        return Ok(fitted(&evidence, whole, 0));
    }
    drop(whole);
    match criteria.trim {
        Trim::Never => return Err(too_large(asked, limits, NEVER)),
        Trim::Auto => {}
    }
    let trimmed = Transcript::of(&evidence.conversation, family)
        .fit(room.saturating_sub(fixed))
        .map_err(|smallest| too_large(fixed + smallest, limits, AUTO))?;
    evidence.conversation = trimmed.text;
    let prompt = fill(&evidence);
    Ok(fitted(&evidence, prompt, trimmed.gone))
}

/// How a question under these criteria is made smaller once its provider has refused it: to half of what it was, or as far
/// down as trimming goes where that is more. The estimate was wrong by an unknown factor, so a small step would
/// often be refused again, and there is only one.
pub(super) fn shrink(trim: Trim, family: ModelFamily, nonce: &Nonce) -> Option<Shrink> {
    match trim {
        Trim::Never => return None,
        Trim::Auto => {}
    }
    let nonce = nonce.clone();
    Some(Arc::new(move |question: &Question| {
        smaller(question, family, &nonce)
    }))
}

fn smaller(question: &Question, family: ModelFamily, nonce: &Nonce) -> Option<Question> {
    let prompt = &question.prompt;
    let (from, to) = fence::find(prompt, "conversation", &nonce.0)?;
    let conversation = &prompt[from..to];
    let asked = family.tokens(conversation);
    // Without the nonce: the same session is cut alike, whichever nonce was drawn.
    let around = [&prompt[..from], &prompt[to..]].concat();
    let fixed = family.tokens(&around.replace(&nonce.0, "")) + FENCES;
    let transcript = Transcript::of(conversation, family);
    let room = ((asked + fixed) / 2)
        .saturating_sub(fixed)
        .max(transcript.smallest());
    // A twentieth less wouldn't be worth a second refusal.
    if room + fixed > (asked + fixed) / 20 * 19 {
        return None;
    }
    let trimmed = transcript.fit(room).ok()?;
    // What was defused stays so: cutting makes no new shape of a fence.
    let smaller = [&prompt[..from], &trimmed.text, &prompt[to..]].concat();
    Some(Question {
        evidence_hash: prompt::digest(&[&question.evidence_hash, &trimmed.text]),
        prompt: smaller.into(),
        trimmed_tokens: trimmed.gone,
        shrink: None,
        ..question.clone()
    })
}

const NEVER: &str = "the criteria say judge.trim: never, so nothing was left out";
const AUTO: &str = "that is with tool results and messages trimmed as far as they may be; the alert, the list of tools and the final analysis always stay whole";

fn too_large(asked: u64, limits: &Limits, why: &str) -> BadRequest {
    BadRequest::TooLarge(format!(
        "the prompt would be about {asked} tokens, but {} are left for it: a context_window of {} less {} for the reply (max_output_tokens) and a margin of {}; {why}",
        limits.for_the_question(),
        limits.context_window,
        limits.max_output_tokens,
        limits.margin(),
    ))
}
