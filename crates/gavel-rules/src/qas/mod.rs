//! Kind `qas`: an agent's answer to a question. 0.40 semantic + 0.40 execution + 0.20 datatype; the rules are in `docs/qas.md`.
//!
//! A component that can't be judged for want of an expected query or answer is absent: its weight is shared out among the others, and it is
//! never a free 1.0. A judge that failed leaves the total open, and never a number in its place.

mod about;
mod answer;
mod case;
mod datatype;
mod execution;
mod judge;
mod number;
mod semantic;
mod table;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use super::opinion::JudgeOpinion;
use super::{Criteria, Evaluation, JudgedBy, Scorable, Scorecard, Unscorable};
use crate::{JudgeAnswer, JudgeError, Limits, Nonce, Question};

pub use about::ABOUT;
pub use answer::{AnswerType, unfenced};
pub use case::{Agent, FIELDS, QasCase, THRESHOLD};

/// The components' names, in the order of the rules.
const NAMES: [&str; 3] = ["semantic", "execution", "datatype"];
/// The weights of the components.
const SEMANTIC: f64 = 0.40;
const EXECUTION: f64 = 0.40;
const DATATYPE: f64 = 0.20;
/// What a total may fall short of its threshold by.
const SLACK: f64 = 1e-9;
/// Decimals that are kept of a share: those behind are noise of floats.
const DECIMALS: f64 = 1e12;

/// What is known of a component before a judge is asked.
#[derive(Debug, Clone, PartialEq)]
enum Preliminary {
    /// Its score, and why.
    Known(f64, String),
    /// There is nothing to hold it against, and why.
    Absent(String),
    /// A judge has to say.
    Judged,
}

/// What came of a component.
#[derive(Debug, Clone, PartialEq)]
enum Finding {
    /// Its score, and why.
    Scored(f64, String),
    /// There is nothing to hold it against, and why.
    Absent(String),
    /// The judge failed.
    Failed(JudgeError),
    /// No judge was asked.
    NotRun,
}

impl QasCase {
    fn asks_about_queries(&self) -> bool {
        semantic::semantic(self) == Preliminary::Judged
    }

    /// Only texts are ever judged: tables aren't compared to find that out.
    fn asks_about_answers(&self) -> bool {
        self.answer_type.comparison() == answer::ComparisonForm::Texts
            && execution::execution(self) == Preliminary::Judged
    }
}

impl Scorable for QasCase {
    /// Up to two questions: about the queries, then about the answers.
    fn questions(
        &self,
        criteria: &Criteria,
        limits: &Limits,
        nonce: &Nonce,
    ) -> Result<Vec<Question>, Unscorable> {
        let mut questions = Vec::new();
        if self.asks_about_queries() {
            questions.push(judge::about_queries(self, criteria, (limits, nonce))?);
        }
        if self.asks_about_answers() {
            questions.push(judge::about_answers(self, criteria, (limits, nonce))?);
        }
        Ok(questions)
    }

    fn score(&self, _: &Criteria, answers: &[JudgeAnswer]) -> Scorecard {
        let mut left = answers.iter();
        let semantic = finding(semantic::semantic(self), &mut left);
        let execution = finding(execution::execution(self), &mut left);
        let (score, why) = datatype::datatype(self);
        let findings = [semantic, execution, Finding::Scored(score, why)];
        Scorecard::Evaluated(Box::new(self.evaluation(&findings, judged_by(answers))))
    }

    /// Whether a judge has a part in it.
    fn needs_judge(&self) -> bool {
        self.asks_about_queries() || self.asks_about_answers()
    }
}

impl QasCase {
    fn evaluation(&self, findings: &[Finding; 3], judged_by: Option<JudgedBy>) -> Evaluation {
        let [semantic, execution, datatype] = findings;
        let total = total(findings);
        let passed = total.map(|total| total >= self.threshold - SLACK);
        let named = || NAMES.into_iter().zip(findings);
        let missing: Vec<&str> = named()
            .filter(|(_, finding)| finding.is_missing())
            .map(|(name, _)| name)
            .collect();
        let mut result = json!({
            "semantic_score": semantic.shown(),
            "execution_score": execution.shown(),
            "datatype_score": datatype.shown(),
            "final_score": total.map(tidy),
            "passed": passed,
            "threshold": self.threshold,
            "status": if missing.is_empty() { "complete" } else { "incomplete" },
            "breakdown": {
                "semantic_explanation": semantic.explanation(),
                "execution_explanation": execution.explanation(),
                "datatype_explanation": datatype.explanation(),
            },
            "judge": judged_by,
        });
        if !missing.is_empty() {
            result["missing"] = json!(missing);
        }
        let error = findings.iter().find_map(|finding| match finding {
            Finding::Failed(error) => Some(error.clone()),
            Finding::Scored(..) | Finding::Absent(_) | Finding::NotRun => None,
        });
        Evaluation {
            total,
            passed,
            threshold: Some(self.threshold),
            components: named()
                .map(|(name, finding)| (name, finding.score()))
                .collect(),
            result,
            error,
            judged_by,
            alerts: Vec::new(),
        }
    }
}

impl Finding {
    fn score(&self) -> Option<f64> {
        match self {
            Self::Scored(score, _) => Some(*score),
            Self::Absent(_) | Self::Failed(_) | Self::NotRun => None,
        }
    }

    /// Whether a judge has to say it and didn't.
    fn is_missing(&self) -> bool {
        match self {
            Self::Failed(_) | Self::NotRun => true,
            Self::Scored(..) | Self::Absent(_) => false,
        }
    }

    fn shown(&self) -> Value {
        json!(self.score().map(tidy))
    }

    fn explanation(&self) -> String {
        match self {
            Self::Scored(_, why) | Self::Absent(why) => why.clone(),
            Self::Failed(error) => format!(
                "the judge failed ({}): {}",
                error.class_name(),
                error.message
            ),
            Self::NotRun => "not_run: no judge was asked".to_owned(),
        }
    }
}

/// What came of a component; one that a judge has to say takes the next answer.
fn finding<'a>(part: Preliminary, answers: &mut impl Iterator<Item = &'a JudgeAnswer>) -> Finding {
    match part {
        Preliminary::Known(score, why) => Finding::Scored(score, why),
        Preliminary::Absent(why) => Finding::Absent(why),
        // Both questions are answered in one form.
        Preliminary::Judged => match judge::QUERIES.judged(answers.next()) {
            JudgeOpinion::NotRun => Finding::NotRun,
            JudgeOpinion::Failed(error) => Finding::Failed(error),
            JudgeOpinion::Replied {
                verdict, reasons, ..
            } => Finding::Scored(verdict, reasons),
        },
    }
}

/// The weighted mean over the components that there are; none while one of them is missing.
fn total(findings: &[Finding; 3]) -> Option<f64> {
    let (mut sum, mut weights) = (0.0, 0.0);
    for (finding, weight) in findings.iter().zip([SEMANTIC, EXECUTION, DATATYPE]) {
        let score = match finding {
            Finding::Scored(score, _) => *score,
            Finding::Absent(_) => continue,
            Finding::Failed(_) | Finding::NotRun => return None,
        };
        sum += weight * score;
        weights += weight;
    }
    (weights > 0.0).then(|| sum / weights)
}

/// The judge that answered; of two the simulated one, which marks the score.
fn judged_by(answers: &[JudgeAnswer]) -> Option<JudgedBy> {
    let replies = || answers.iter().flatten();
    let chosen = replies()
        .find(|reply| reply.simulated)
        .or_else(|| replies().next());
    chosen.map(JudgedBy::from)
}

fn tidy(share: f64) -> f64 {
    (share * DECIMALS).round() / DECIMALS
}
