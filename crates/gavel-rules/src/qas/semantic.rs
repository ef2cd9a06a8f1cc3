//! The semantic component: whether the generated query means what the expected one does.

use super::Preliminary;
use super::case::{Agent, QasCase};
use query_shape::sql;

pub(super) fn semantic(case: &QasCase) -> Preliminary {
    match case.agent {
        Agent::Docking => match case.api_success.or(case.success) {
            Some(true) => Preliminary::Known(1.0, "the docking API call succeeded".to_owned()),
            // A case that says neither is refused when it is read.
            Some(false) | None => Preliminary::Known(0.0, "the docking API call failed".to_owned()),
        },
        Agent::Sql => match (&case.generated_sql, &case.expected_sql) {
            (None, _) => Preliminary::Known(0.0, "no SQL was generated".to_owned()),
            (Some(generated), _) if sql::is_nothing(generated, case.dialect) => {
                Preliminary::Known(0.0, "no SQL was generated".to_owned())
            }
            (Some(_), None) => Preliminary::Absent(
                "no_ground_truth: there is no expected SQL; the weight goes to the other components".to_owned(),
            ),
            (Some(generated), Some(expected)) if sql::are_identical(generated, expected, case.dialect) => {
                Preliminary::Known(1.0, "the queries are identical".to_owned())
            }
            (Some(_), Some(_)) => Preliminary::Judged,
        },
    }
}
