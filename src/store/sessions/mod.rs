//! `alert_sessions`: sessions as imported. Storing a session doesn't request a score.

mod by_score;
pub(super) mod classify;
mod days;
pub(super) mod facts;
pub(super) mod filter;
pub(super) mod list;
pub(super) mod readers;

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::score::session::{Message, SessionRequest};
use crate::store::database::db::{Conn, Db, retry_once};
use crate::store::database::reads::Reader;
use crate::store::database::sql::{DbRow, Sql, all, first, json_without_nul, sql};
use crate::store::{Analytics, Dialect, StoreError};
use crate::wire::{PutOutcome, SessionStatus};

#[derive(Debug, Clone, PartialEq)]
pub struct SessionRecord {
    pub session_id: Uuid,
    /// `api`, `file`, `demo` or `tarsy`.
    pub source: String,
    /// Id in the source, if it differs from ours.
    pub external_id: Option<String>,
    pub status: SessionStatus,
    pub alert_type: Option<String>,
    pub agent: Option<String>,
    pub author: Option<String>,
    /// An object or a string.
    pub alert_data: Value,
    pub conversation: Vec<Message>,
    pub final_analysis: Option<String>,
    /// Tools that were available to the agent.
    pub tools: Vec<String>,
    pub tags: Vec<String>,
    pub started_at: Option<DateTime<Utc>>,
    pub completed_at: Option<DateTime<Utc>>,
}

impl SessionRecord {
    /// Returns the fields that are sent to the judge.
    pub fn into_request(self) -> SessionRequest {
        SessionRequest {
            completed: self.status == SessionStatus::Completed,
            alert_type: self.alert_type,
            agent: self.agent,
            alert_data: self.alert_data,
            conversation: self.conversation,
            final_analysis: self.final_analysis,
            tools: self.tools,
        }
    }
}

/// A stored session without its texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSession {
    pub source: String,
    pub status: SessionStatus,
    pub completed_at: Option<DateTime<Utc>>,
}

const COUNTED: usize = 1_000;

/// Outcome of a put, by the returned revision.
pub(super) fn outcome_of(revision: Option<i64>) -> PutOutcome {
    match revision {
        None => PutOutcome::Unchanged,
        Some(1) => PutOutcome::New,
        Some(_) => PutOutcome::Updated,
    }
}

#[derive(Clone, Copy)]
pub struct Sessions<'a> {
    pub(super) db: &'a Db,
    pub(super) reader: &'a Reader,
    pub(super) analytics: Analytics<'a>,
}

impl Sessions<'_> {
    /// Inserts or replaces a session; its scores and jobs stay.
    pub async fn put(
        self,
        session: &SessionRecord,
        now: DateTime<Utc>,
    ) -> Result<PutOutcome, StoreError> {
        self.put_row(&put_statement(session, now)?).await
    }

    /// Puts sessions, all or none, ordered by id so that concurrent calls don't deadlock.
    pub async fn put_all(
        self,
        sessions: &mut [SessionRecord],
        now: DateTime<Utc>,
    ) -> Result<Vec<PutOutcome>, StoreError> {
        sessions.sort_by_key(|session| session.session_id);
        let puts = sessions.iter().map(|session| put_statement(session, now));
        let puts = puts.collect::<Result<Vec<Sql>, StoreError>>()?;
        retry_once!("storing sessions", async {
            let mut conn: Conn = self.db.long_writer().await?;
            let mut tx = conn.begin().await?;
            let mut outcomes = Vec::with_capacity(puts.len());
            for put in &puts {
                let row = tx.fetch(put).await?.pop();
                let revision = row.map(|row| row.get("revision")).transpose()?;
                outcomes.push(outcome_of(revision));
            }
            tx.commit().await?;
            Ok(outcomes)
        })
    }

    /// Like `Sessions::put`, but a session from another source stays unchanged (`Unchanged`).
    pub async fn put_of_its_source(
        self,
        session: &SessionRecord,
        now: DateTime<Utc>,
    ) -> Result<PutOutcome, StoreError> {
        let mut statement = upsert(session, now)?;
        statement.push(" and alert_sessions.source = excluded.source returning revision");
        self.put_row(&statement).await
    }

    async fn put_row(self, statement: &Sql) -> Result<PutOutcome, StoreError> {
        const ATTEMPTED: &str = "storing a session";
        let rows = self.db.write(ATTEMPTED, statement).await?;
        let revision: Option<i64> = first(ATTEMPTED, &rows, |row| row.get("revision"))?;
        Ok(outcome_of(revision))
    }

    pub async fn get(self, id: Uuid) -> Result<Option<SessionRecord>, StoreError> {
        const ATTEMPTED: &str = "reading a session";
        let row = match self.db.dialect() {
            Dialect::Postgres => self.reader.session(id).await?,
            Dialect::Sqlite => {
                let read = self.db.read(ATTEMPTED, &statement(vec![id])).await?;
                read.into_iter().next()
            }
        };
        row.as_ref()
            .map(session)
            .transpose()
            .map_err(|e| StoreError::of(ATTEMPTED, &e))
    }

    /// Returns these sessions without texts; unknown ones are omitted.
    pub async fn stored(self, ids: &[Uuid]) -> Result<HashMap<Uuid, StoredSession>, StoreError> {
        const ATTEMPTED: &str = "looking for stored sessions";
        let mut statement = sql!(
            "select session_id, source, status, completed_at from alert_sessions where session_id in "
        );
        statement.push_list(ids.iter().copied());
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        all(ATTEMPTED, &rows, |row| {
            let stored = StoredSession {
                source: row.get("source")?,
                status: row.text_enum("status")?,
                completed_at: row.get("completed_at")?,
            };
            Ok((row.get("session_id")?, stored))
        })
    }

    /// Counts the distinct sessions of these ids that were stored before `before`.
    pub async fn count_stored(
        self,
        ids: &[Uuid],
        before: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        const ATTEMPTED: &str = "counting stored sessions";
        let mut stored = 0;
        for ids in ids.chunks(COUNTED) {
            let mut statement = sql!(
                "select count(*) as stored from alert_sessions where created_at <= $1 and session_id in ",
                before
            );
            statement.push_list(ids.iter().copied());
            let rows = self.db.read_long(ATTEMPTED, &statement).await?;
            let count = rows.first().map_or(Ok(0_u64), |row| row.int("stored"));
            stored += count.map_err(|e| StoreError::of(ATTEMPTED, &e))?;
        }
        Ok(stored)
    }
}

pub(super) fn statement(ids: Vec<Uuid>) -> Sql {
    let mut statement = sql!(
        "select session_id, source, external_id, status, alert_type, agent, author, alert_data, conversation,
            final_analysis, tools, tags, started_at, completed_at
         from alert_sessions where session_id in "
    );
    statement.push_list(ids);
    statement
}

/// Statement of a put. Returns the row's new revision, or no row if the content is unchanged.
pub(super) fn put_statement(
    session: &SessionRecord,
    now: DateTime<Utc>,
) -> Result<Sql, StoreError> {
    let mut put = upsert(session, now)?;
    put.push(" returning revision");
    Ok(put)
}

/// Inserts a session, or replaces one with other content. The caller may append conditions and a `returning` clause.
fn upsert(session: &SessionRecord, now: DateTime<Utc>) -> Result<Sql, StoreError> {
    let conversation = json_text(&session.conversation)?;
    let alert_data = json_text(&session.alert_data)?;
    let hash = content_hash(session, &conversation, &alert_data);
    let lower = |text: &Option<String>| text.as_deref().map(str::to_lowercase);
    let labels = |texts: &[String]| Value::from(texts.to_vec());
    Ok(sql!(
        "insert into alert_sessions (session_id, source, status, alert_type, agent, author, alert_type_lower, agent_lower,
            author_lower, alert_data, conversation, message_count, final_analysis, tools, tags, started_at, completed_at,
            created_at, updated_at, listed_at, content_hash, reader, external_id, revision)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $18, $19, $20, $21, $22, 1)
         on conflict (session_id) do update set source = excluded.source, status = excluded.status,
            alert_type = excluded.alert_type, agent = excluded.agent, author = excluded.author,
            alert_type_lower = excluded.alert_type_lower, agent_lower = excluded.agent_lower,
            author_lower = excluded.author_lower, alert_data = excluded.alert_data,
            conversation = excluded.conversation, message_count = excluded.message_count,
            final_analysis = excluded.final_analysis, tools = excluded.tools, tags = excluded.tags,
            started_at = excluded.started_at, completed_at = excluded.completed_at, updated_at = excluded.updated_at,
            listed_at = coalesce(excluded.completed_at, alert_sessions.created_at),
            content_hash = excluded.content_hash, reader = excluded.reader, external_id = excluded.external_id,
            revision = alert_sessions.revision + 1
         where alert_sessions.content_hash <> excluded.content_hash",
        session.session_id,
        &session.source,
        session.status.as_str(),
        session.alert_type.as_deref(),
        session.agent.as_deref(),
        session.author.as_deref(),
        lower(&session.alert_type),
        lower(&session.agent),
        lower(&session.author),
        alert_data,
        conversation,
        i64::try_from(session.conversation.len()).unwrap_or(i64::MAX),
        session.final_analysis.as_deref(),
        labels(&session.tools),
        labels(&session.tags),
        session.started_at,
        session.completed_at,
        now,
        session.completed_at.unwrap_or(now),
        hash,
        readers::reader_of(&session.source),
        session.external_id.as_deref()
    ))
}

/// SHA-256 of everything that a put may change. Each part is hashed with its length, so that parts can't run into each other.
fn content_hash(session: &SessionRecord, conversation: &str, alert_data: &str) -> String {
    let mut hash = Sha256::new();
    let mut part = |text: Option<&str>| {
        hash.update([u8::from(text.is_some())]);
        let text = text.unwrap_or_default();
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    };
    let time = |at: Option<DateTime<Utc>>| at.map(|at| at.timestamp_micros().to_string());
    part(Some(&session.source));
    part(Some(session.status.as_str()));
    part(session.alert_type.as_deref());
    part(session.agent.as_deref());
    part(session.author.as_deref());
    part(Some(alert_data));
    part(Some(conversation));
    part(session.final_analysis.as_deref());
    part(time(session.started_at).as_deref());
    part(time(session.completed_at).as_deref());
    for list in [&session.tools, &session.tags] {
        part(Some(&list.len().to_string()));
        for text in list {
            part(Some(text));
        }
    }
    // A session that was converted by another reader counts as changed, even if its content is equal.
    if let Some(reader) = readers::reader_of(&session.source) {
        part(Some(&reader.to_string()));
    }
    if let Some(id) = &session.external_id {
        part(Some(id));
    }
    hex::encode(hash.finalize())
}

/// JSON for a text column, with NUL characters replaced as in all values.
fn json_text(value: &impl serde::Serialize) -> Result<String, StoreError> {
    const ATTEMPTED: &str = "writing a session as JSON";
    serde_json::to_value(value)
        .map(|value| json_without_nul(value).to_string())
        .map_err(|e| StoreError::of(ATTEMPTED, &sqlx::Error::Encode(Box::new(e))))
}

fn session(row: &DbRow) -> sqlx::Result<SessionRecord> {
    Ok(SessionRecord {
        session_id: row.get("session_id")?,
        source: row.get("source")?,
        external_id: row.get("external_id")?,
        status: row.text_enum("status")?,
        alert_type: row.get("alert_type")?,
        agent: row.get("agent")?,
        author: row.get("author")?,
        alert_data: row.json_text("alert_data")?,
        conversation: row.json_text("conversation")?,
        final_analysis: row.get("final_analysis")?,
        tools: row.json_as("tools")?,
        tags: row.json_as("tags")?,
        started_at: row.get("started_at")?,
        completed_at: row.get("completed_at")?,
    })
}
