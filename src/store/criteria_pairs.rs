//! The sessions that two versions of the criteria have scored, and what each gave.
//!
//! Of several scores of a session under one version the newest counts, whether it was or is the session's current one or was a
//! preview. Pairs come counted by their totals, so that a million sessions are no more rows than ten thousand.

use uuid::Uuid;

use super::sql::{Row, sql};
use super::{Store, StoreError};
use crate::score::trust::PairCount;

/// Whose scores are looked at. The two are never mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Basis {
    /// Those of real judges.
    #[default]
    Real,
    /// Those of simulated ones.
    Simulated,
}

impl Basis {
    /// Whether scores of simulated judges are looked at.
    pub fn is_simulated(self) -> bool {
        match self {
            Self::Real => false,
            Self::Simulated => true,
        }
    }
}

/// What two versions gave to the same sessions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CriteriaPairs {
    /// The pairs of totals that there are.
    pub pairs: Vec<PairCount>,
    /// Sessions with a score under the first alone.
    pub only_a: u64,
    /// Sessions with a score under the second alone.
    pub only_b: u64,
    /// Whose scores these are: simulated ones only where there are no others.
    pub basis: Basis,
    /// Scores of a simulated judge that stand beside real ones, and are left out.
    pub simulated_left_out: u64,
}

/// A session that two versions see differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mover {
    /// The session.
    pub session_id: Uuid,
    /// Its total under the first.
    pub a: u8,
    /// Its total under the second.
    pub b: u8,
}

/// Per session its newest total under `$1` and under `$2`, of judges that are simulated or not as `$3` says.
macro_rules! sided {
    () => {
        "with ranked as (
            select session_id, criteria_hash, total_score,
                row_number() over (partition by session_id, criteria_hash order by scored_at desc, score_id desc) as place
            from session_scores
            where criteria_hash in ($1, $2) and purpose in ('score', 'preview') and simulated = $3
         ), sided as (
            select session_id, max(case when criteria_hash = $1 then total_score end) as a,
                max(case when criteria_hash = $2 then total_score end) as b
            from ranked where place = 1 group by session_id
         ) "
    };
}

impl Store {
    /// The sessions of two versions of the criteria. Simulated scores count only where neither version has a real one.
    ///
    /// # Errors
    /// `Unavailable` when the database is away.
    pub async fn criteria_pairs(&self, a: &str, b: &str) -> Result<CriteriaPairs, StoreError> {
        const ATTEMPTED: &str = "comparing criteria";
        let kinds = sql!(
            "select simulated, count(*) as n from session_scores
             where criteria_hash in ($1, $2) and purpose in ('score', 'preview') group by simulated",
            a,
            b
        );
        let (mut real, mut made_up) = (0, 0);
        for row in &self.db.read(ATTEMPTED, &kinds).await? {
            let counted = row.get::<bool>("simulated").and_then(|simulated| {
                let n: u64 = row.int("n")?;
                *(if simulated { &mut made_up } else { &mut real }) = n;
                Ok(())
            });
            counted.map_err(|e| StoreError::of(ATTEMPTED, &e))?;
        }
        let basis = if real == 0 && made_up > 0 {
            Basis::Simulated
        } else {
            Basis::Real
        };
        let statement = sql!(
            concat!(
                sided!(),
                "select a, b, count(*) as n from sided group by a, b order by a, b"
            ),
            a,
            b,
            basis.is_simulated()
        );
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        let mut found = CriteriaPairs {
            basis,
            simulated_left_out: match basis {
                Basis::Real => made_up,
                Basis::Simulated => 0,
            },
            ..CriteriaPairs::default()
        };
        for row in &rows {
            add(&mut found, row).map_err(|e| StoreError::of(ATTEMPTED, &e))?;
        }
        Ok(found)
    }

    /// The sessions whose totals lie furthest apart under two versions, those that don't differ left out. `limit` 0-500.
    ///
    /// # Errors
    /// `Unavailable` when the database is away.
    pub async fn criteria_movers(
        &self,
        (a, b): (&str, &str),
        basis: Basis,
        limit: u32,
    ) -> Result<Vec<Mover>, StoreError> {
        const ATTEMPTED: &str = "looking for what moved between criteria";
        let statement = sql!(
            concat!(
                sided!(),
                "select session_id, a, b from sided where a <> b order by abs(b - a) desc, session_id limit $4"
            ),
            a,
            b,
            basis.is_simulated(),
            limit.min(500)
        );
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        let mover = |row: &Row| {
            Ok(Mover {
                session_id: row.get("session_id")?,
                a: row.int("a")?,
                b: row.int("b")?,
            })
        };
        rows.iter()
            .map(mover)
            .collect::<sqlx::Result<_>>()
            .map_err(|e| StoreError::of(ATTEMPTED, &e))
    }
}

fn add(found: &mut CriteriaPairs, row: &Row) -> sqlx::Result<()> {
    let n: u64 = row.int("n")?;
    let (a, b): (Option<i64>, Option<i64>) = (row.get("a")?, row.get("b")?);
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
