//! Kind `session`: scores an agent's investigation of an alert, 0-100, by one question to one judge.
//!
//! `prompt` renders the evidence and fills the template, `fit` and `trim` fit it into the judge's context window, `fence` separates
//! evidence from instructions, `schema` is the reply's schema, `reply` validates replies. No session or reply can cause a panic.

mod about;
mod fit;
mod prompt;
mod reasoning;
mod reply;
mod schema;
mod trim;

use std::sync::Arc;

use serde_json::{Map, Value};

use super::criteria::Dimension;
use super::{Criteria, Scorable, Scorecard, Unscorable};
pub use about::ABOUT;

pub use gavel_wire::{AlternativeApproach, Flag, Message, MissingTool, Rating};

use crate::{
    ErrorClass, Fault, JudgeAnswer, JudgeError, Limits, Nonce, Question, Reply, Review, Weakness,
};

#[derive(Debug, Clone, PartialEq)]
pub struct SessionRequest {
    /// Whether the session ended `completed`; otherwise its score is flagged `not_completed`.
    pub completed: bool,
    pub alert_type: Option<String>,
    pub agent: Option<String>,
    pub alert_data: Value,
    pub conversation: Vec<Message>,
    pub final_analysis: Option<String>,
    pub tools: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SessionScore {
    pub total_score: u8,
    /// Dimension -> points, followed by other members of the reply's breakdown; empty without a breakdown.
    pub score_breakdown: Map<String, Value>,
    /// The judge's reasons; empty if the reply had none.
    pub score_reasoning: String,
    pub missing_tools: Vec<MissingTool>,
    pub alternative_approaches: Vec<AlternativeApproach>,
    pub flags: Vec<Flag>,
    pub judge_provider: String,
    pub judge_model: String,
    pub simulated: bool,
}

/// Sorts a breakdown by its criteria, because databases lose the order. Unknown members come last.
pub fn in_order(mut breakdown: Map<String, Value>, dimensions: &[Dimension]) -> Map<String, Value> {
    let named = dimensions.iter().filter_map(|Dimension { name, .. }| {
        let (name, points) = breakdown.shift_remove_entry(name)?;
        Some((name, points.as_f64().map_or(points, written)))
    });
    let mut ordered: Map<String, Value> = named.collect();
    ordered.append(&mut breakdown);
    ordered
}

fn written(points: f64) -> Value {
    match points.fract() == 0.0 {
        true => Value::from(points as i64),
        false => Value::from(points),
    }
}

impl Scorable for SessionRequest {
    /// Returns one question within the judge's context window, by an estimate of tokens. A larger session is trimmed. It is
    /// [`Unscorable::TooLarge`] under `judge.trim: never`, or if its minimum doesn't fit.
    fn questions(
        &self,
        criteria: &Criteria,
        limits: &Limits,
        nonce: &Nonce,
    ) -> Result<Vec<Question>, Unscorable> {
        if self.conversation.is_empty() {
            return Err(Unscorable::Invalid {
                pointer: "/conversation".to_owned(),
                message: "is empty, so there is nothing to judge; put the session again with its messages"
                    .to_owned(),
            });
        }
        let framed = criteria.prompt.framed(|| {
            let schema = schema::of_reply(&criteria.dimensions);
            let template_hash = prompt::template_hash(criteria, &schema);
            (schema, template_hash)
        });
        let fitted = fit::fit(self, criteria, framed, (limits, nonce))?;
        let dimensions = criteria.dimensions.clone();
        let review = SessionReview(criteria.dimensions.clone());
        Ok(vec![Question {
            kind: "session",
            template_hash: framed.template_hash.clone(),
            criteria_hash: criteria.hash.0.clone(),
            prompt: fitted.prompt,
            evidence_hash: fitted.evidence_hash,
            schema_name: "session_score",
            schema: Arc::clone(&framed.schema),
            check: Arc::new(move |value| reply::read(value, &dimensions).map(drop)),
            trimmed_tokens: fitted.trimmed_tokens,
            shrink: fit::shrink(criteria.trim, limits.family, nonce),
            review: Some(Arc::new(review)),
        }])
    }

    fn score(&self, criteria: &Criteria, answers: &[JudgeAnswer]) -> Scorecard {
        match answers.first() {
            Some(Ok(answer)) => match reply::read(&answer.value, &criteria.dimensions) {
                Ok(parsed) => Scorecard::Session(self.session_score(parsed, answer)),
                Err(faults) => Scorecard::Unscored(JudgeError::unusable(answer, &faults)),
            },
            Some(Err(error)) => Scorecard::Unscored(error.clone()),
            None => Scorecard::Unscored(JudgeError::new(
                ErrorClass::Unparsable,
                "the judge gave no answer",
            )),
        }
    }

    fn needs_judge(&self) -> bool {
        true
    }

    fn without_evidence(&self) -> Option<Box<dyn Scorable>> {
        Some(Box::new(Self {
            completed: self.completed,
            alert_type: None,
            agent: None,
            alert_data: Value::Null,
            conversation: Vec::new(),
            final_analysis: None,
            tools: Vec::new(),
        }))
    }
}

impl SessionRequest {
    fn session_score(&self, parsed: reply::Parsed, answer: &Reply) -> SessionScore {
        let mut flags = Vec::new();
        if !self.completed {
            flags.push(Flag::NotCompleted);
        }
        if answer.trimmed_tokens > 0 {
            flags.push(Flag::InputTrimmed);
        }
        if parsed.is_partial() {
            flags.push(Flag::ReplyPartial);
        }
        if !parsed.doubts.is_empty() {
            flags.push(Flag::TotalNotSum);
        }
        flags.extend(answer.weaknesses.iter().map(|weakness| weakness.flag));
        if answer.repaired {
            flags.push(Flag::ReplyRepaired);
        }
        if answer.odd_finish {
            flags.push(Flag::OddFinish);
        }
        if answer.by_fallback {
            flags.push(Flag::FallbackJudge);
        }
        flags.sort_unstable();
        flags.dedup();
        SessionScore {
            total_score: parsed.total,
            score_breakdown: parsed.breakdown.unwrap_or_default(),
            score_reasoning: parsed.reasoning.unwrap_or_default(),
            missing_tools: parsed.missing_tools,
            alternative_approaches: parsed.alternative_approaches,
            flags,
            judge_provider: answer.provider.clone(),
            judge_model: answer.model.clone(),
            simulated: answer.simulated,
        }
    }
}

struct SessionReview(Vec<Dimension>);

impl Review for SessionReview {
    fn weaknesses(&self, reply: &Value, question: &Question) -> Vec<Weakness> {
        let doubts = reply::read(reply, &self.0).map_or_else(|_| Vec::new(), |read| read.doubts);
        let doubts = doubts.into_iter().map(|fault| Weakness {
            flag: Flag::TotalNotSum,
            fault,
        });
        doubts.chain(weak_reasons(reply, question)).collect()
    }

    fn keeps_judgement(&self, first: &Value, second: &Value) -> bool {
        let read = |value| reply::read(value, &self.0);
        match (read(first), read(second)) {
            (Ok(first), Ok(second)) => first.has_same_judgement(&second, &self.0),
            (Err(_), _) | (_, Err(_)) => false,
        }
    }
}

fn weak_reasons(reply: &Value, question: &Question) -> Option<Weakness> {
    let reasons = reply.get("score_reasoning")?.as_str()?.trim();
    if reasons.is_empty() {
        return None;
    }
    let given = question
        .prompt
        .parts()
        .chain([question.schema.json().get()]);
    let flag = reasoning::doubt(reasons, given)?;
    let message = if flag == Flag::ReasoningThin {
        "says next to nothing; at least 200 words are expected on what was examined and on each deduction"
    } else {
        "repeats the words of the evidence or of these instructions; say in your own words what was examined and why each deduction was made"
    };
    Some(Weakness {
        flag,
        fault: Fault {
            pointer: "/score_reasoning".to_owned(),
            message: message.to_owned(),
        },
    })
}

#[cfg(test)]
mod tests;
