//! `criteria_names` and `criteria_choices`: what people call versions of the criteria, and which they made current. The versions
//! themselves are never changed.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::job::Kind;
use crate::store::database::sql::{DbRow, sql};
use crate::store::{CriteriaVersions, StoreError};

/// A name and a note of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CriteriaName {
    pub name: Option<String>,
    pub note: Option<String>,
    /// Who gave them.
    pub by: String,
    pub at: DateTime<Utc>,
}

/// The version of a kind that somebody made current.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct CriteriaChoice {
    #[sqlx(try_from = "String")]
    pub kind: Kind,
    /// `None`: that of the servers' files.
    pub criteria_hash: Option<String>,
    /// Who chose it.
    #[sqlx(rename = "chosen_by")]
    pub by: String,
    #[sqlx(rename = "chosen_at")]
    pub at: DateTime<Utc>,
}

impl CriteriaVersions<'_> {
    /// Names a stored version; what was said of it before is replaced.
    pub async fn name(self, hash: &str, new: &CriteriaName) -> Result<(), StoreError> {
        let statement = sql!(
            "insert into criteria_names (criteria_hash, name, note, named_by, named_at) values ($1, $2, $3, $4, $5)
             on conflict (criteria_hash) do update
             set name = excluded.name, note = excluded.note, named_by = excluded.named_by, named_at = excluded.named_at",
            hash,
            new.name.as_deref(),
            new.note.as_deref(),
            &new.by,
            new.at
        );
        self.db.execute("naming criteria", &statement).await?;
        Ok(())
    }

    /// Makes a stored version current, or those of the files again. What was chosen before stays on record.
    pub async fn choose(self, new: &CriteriaChoice) -> Result<(), StoreError> {
        let statement = sql!(
            "insert into criteria_choices (choice_id, kind, criteria_hash, chosen_by, chosen_at) values ($1, $2, $3, $4, $5)",
            Uuid::now_v7(),
            new.kind.as_str(),
            new.criteria_hash.as_deref(),
            &new.by,
            new.at
        );
        self.db
            .execute("making criteria current", &statement)
            .await?;
        Ok(())
    }

    /// The last choice of each kind of which there was one.
    pub async fn chosen(self) -> Result<Vec<CriteriaChoice>, StoreError> {
        let statement = sql!(
            "select c.kind, c.criteria_hash, c.chosen_by, c.chosen_at from criteria_choices c
             where not exists (select 1 from criteria_choices n
                where n.kind = c.kind and (n.chosen_at, n.choice_id) > (c.chosen_at, c.choice_id))"
        );
        self.db
            .read_all(
                "reading which criteria were made current",
                &statement,
                DbRow::decode,
            )
            .await
    }
}

/// The name in a row of definitions, if anybody gave one.
pub(super) fn name(row: &DbRow) -> sqlx::Result<Option<CriteriaName>> {
    let Some(by) = row.get("named_by")? else {
        return Ok(None);
    };
    Ok(Some(CriteriaName {
        name: row.get("name")?,
        note: row.get("note")?,
        by,
        at: row.get("named_at")?,
    }))
}
