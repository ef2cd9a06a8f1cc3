use serde::{Deserialize, Serialize};

use query_shape::sql::{self, Dialect};

/// Text in the details of queries that needed no judge.
pub const IDENTICAL: &str = "Queries are identical";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Label {
    Correct,
    Partial,
    Wrong,
}

impl Label {
    /// All labels, best first.
    pub const ALL: [Self; 3] = [Self::Correct, Self::Partial, Self::Wrong];

    /// Score from 0 to 1.
    pub fn score(self) -> f64 {
        match self {
            Self::Correct => 1.0,
            Self::Partial => 0.5,
            Self::Wrong => 0.0,
        }
    }
}

/// Returns the label of queries that [are identical](sql::are_identical), or `None` if a judge has to compare them.
pub fn without_judge(generated: &str, expected: &str, dialect: Dialect) -> Option<Label> {
    sql::are_identical(generated, expected, dialect).then_some(Label::Correct)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identical_queries_need_no_judge() {
        let label = |left, right| without_judge(left, right, Dialect::Generic);
        assert_eq!(label("select 1 -- one", "SELECT\n1;"), Some(Label::Correct));
        assert_eq!(label("select 1", "select 2"), None);
    }

    #[test]
    fn labels_score_one_half_and_zero() {
        assert_eq!(Label::ALL.map(Label::score), [1.0, 0.5, 0.0]);
    }
}
