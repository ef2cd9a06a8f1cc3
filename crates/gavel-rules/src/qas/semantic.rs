//! The semantic component: whether the generated query means what the expected one does.

use super::Part;
use super::case::{Agent, QasCase};
use query_shape::sql;

pub(super) fn semantic(case: &QasCase) -> Part {
    match case.agent {
        Agent::Docking => match case.api_success.or(case.success) {
            Some(true) => Part::Known(1.0, "the docking API call succeeded".to_owned()),
            // A case that says neither is refused when it is read.
            Some(false) | None => Part::Known(0.0, "the docking API call failed".to_owned()),
        },
        Agent::Sql => match (&case.generated_sql, &case.expected_sql) {
            (None, _) => Part::Known(0.0, "no SQL was generated".to_owned()),
            (Some(generated), _) if sql::is_nothing(generated, case.dialect) => {
                Part::Known(0.0, "no SQL was generated".to_owned())
            }
            (Some(_), None) => Part::Absent(
                "no_ground_truth: there is no expected SQL; the weight goes to the other components".to_owned(),
            ),
            (Some(generated), Some(expected)) if sql::are_identical(generated, expected, case.dialect) => {
                Part::Known(1.0, "the queries are identical".to_owned())
            }
            (Some(_), Some(_)) => Part::Judged,
        },
    }
}
