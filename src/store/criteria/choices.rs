//! `criteria_names` and `criteria_choices`: names of criteria versions, and the versions that users made current. Versions are
//! immutable.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::job::Kind;
use crate::store::database::sql::{DbRow, sql};
use crate::store::{CriteriaVersions, StoreError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CriteriaName {
    pub name: Option<String>,
    pub note: Option<String>,
    pub by: String,
    pub at: DateTime<Utc>,
}

/// The version of a kind that a user made current.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct CriteriaChoice {
    #[sqlx(try_from = "String")]
    pub kind: Kind,
    /// `None`: the version of the servers' files.
    pub criteria_hash: Option<String>,
    #[sqlx(rename = "chosen_by")]
    pub by: String,
    #[sqlx(rename = "chosen_at")]
    pub at: DateTime<Utc>,
}

impl CriteriaVersions<'_> {
    /// Names a stored version, replacing an earlier name and note.
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

    /// Makes a stored version current, or that of the files. Earlier choices stay stored.
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

    /// Returns the last choice of each kind.
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

/// Reads the name from a row of definitions, if there is one.
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
