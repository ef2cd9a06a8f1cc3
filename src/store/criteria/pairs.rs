//! Sessions that two criteria versions have scored, with both totals.
//!
//! The newest score of a session by a version counts: its current or a former one, or a preview. Pairs are grouped by totals,
//! so that the number of rows doesn't depend on the number of sessions.

use crate::score::trust::PairCount;
use crate::store::database::sql::{DbRow, all, sql};
use crate::store::{CriteriaVersions, StoreError};
use crate::wire::Mover;

/// Kind of the scores in a comparison; they are not mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Basis {
    #[default]
    Real,
    Simulated,
}

impl Basis {
    pub fn is_simulated(self) -> bool {
        match self {
            Self::Real => false,
            Self::Simulated => true,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CriteriaPairs {
    pub pairs: Vec<PairCount>,
    /// Sessions with a score by the first version only.
    pub only_a: u64,
    /// Sessions with a score by the second version only.
    pub only_b: u64,
    /// Kind of the scores: simulated only without real scores.
    pub basis: Basis,
    /// Number of simulated scores that were excluded because there are real ones.
    pub simulated_left_out: u64,
}

/// By session and simulated or not: its newest totals by `$1` and `$2`, and the number of scores.
macro_rules! sided {
    ($which:literal) => {
        concat!(
            "with ranked as (
                select session_id, criteria_hash, simulated, total_score,
                    row_number() over (partition by session_id, criteria_hash, simulated
                        order by scored_at desc, score_id desc) as place
                from session_scores
                where criteria_hash in ($1, $2) and purpose in ('score', 'preview')",
            $which,
            "), sided as (
                select session_id, simulated, count(*) as scores,
                    max(case when criteria_hash = $1 and place = 1 then total_score end) as a,
                    max(case when criteria_hash = $2 and place = 1 then total_score end) as b
                from ranked group by session_id, simulated
             ) "
        )
    };
}

impl CriteriaVersions<'_> {
    /// Compares two versions. Uses simulated scores only if neither version has a real one.
    pub async fn pairs(self, a: &str, b: &str) -> Result<CriteriaPairs, StoreError> {
        const ATTEMPTED: &str = "comparing criteria";
        let statement = sql!(
            concat!(
                sided!(""),
                "select simulated, a, b, count(*) as n, cast(sum(scores) as bigint) as scores from sided
                 group by simulated, a, b order by a, b"
            ),
            a,
            b
        );
        let (mut real, mut made_up) = (CriteriaPairs::default(), CriteriaPairs::default());
        let (mut real_scores, mut made_up_scores) = (0, 0);
        for row in &self.db.read_long(ATTEMPTED, &statement).await? {
            let added = row.get::<bool>("simulated").and_then(|simulated| {
                let (found, scores) = if simulated {
                    (&mut made_up, &mut made_up_scores)
                } else {
                    (&mut real, &mut real_scores)
                };
                *scores += row.int::<u64>("scores")?;
                add(found, row)
            });
            added.map_err(|e| StoreError::of(ATTEMPTED, &e))?;
        }
        Ok(if real_scores == 0 && made_up_scores > 0 {
            CriteriaPairs {
                basis: Basis::Simulated,
                ..made_up
            }
        } else {
            CriteriaPairs {
                simulated_left_out: made_up_scores,
                ..real
            }
        })
    }

    /// Returns the sessions with the largest nonzero differences. `limit` 0-500.
    pub async fn movers(
        self,
        (a, b): (&str, &str),
        basis: Basis,
        limit: u32,
    ) -> Result<Vec<Mover>, StoreError> {
        const ATTEMPTED: &str = "reading score changes between criteria";
        let statement = sql!(
            concat!(
                sided!(" and simulated = $3"),
                "select session_id, a, b from sided where a <> b order by abs(b - a) desc, session_id limit $4"
            ),
            a,
            b,
            basis.is_simulated(),
            limit.min(500)
        );
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        let mover = |row: &DbRow| {
            let (a, b): (u8, u8) = (row.int("a")?, row.int("b")?);
            Ok(Mover {
                session_id: row.get("session_id")?,
                a,
                b,
                difference: i16::from(b) - i16::from(a),
            })
        };
        all(ATTEMPTED, &rows, mover)
    }
}

fn add(found: &mut CriteriaPairs, row: &DbRow) -> sqlx::Result<()> {
    let n: u64 = row.int("n")?;
    let (a, b): (Option<i32>, Option<i32>) = (row.get("a")?, row.get("b")?);
    match (a, b) {
        (Some(_), Some(_)) => found.pairs.push(PairCount {
            a: row.int("a")?,
            b: row.int("b")?,
            n,
        }),
        (Some(_), None) => found.only_a += n,
        (None, Some(_)) => found.only_b += n,
        (None, None) => {}
    }
    Ok(())
}
