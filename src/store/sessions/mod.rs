//! `alert_sessions`: sessions as imported. Storing a session doesn't request a score.

mod by_score;
pub(super) mod classify;
mod days;
pub(super) mod facts;
pub(super) mod filter;
pub(super) mod list;

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::score::session::{Message, SessionRequest};
use crate::store::database::db::{Db, transact};
use crate::store::database::group::Reader;
use crate::store::database::row::first;
use crate::store::database::sql::{Sql, Statement, json_without_nul, long_sql, sql, step};
use crate::store::{Analytics, Dialect, StoreError};
use crate::wire::{Outdated, PutOutcome, SessionStatus};

#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct SessionRecord {
    pub session_id: Uuid,
    /// `api`, `file`, `demo` or `tarsy`.
    pub source: String,
    /// Id in the source, if it differs from ours.
    pub external_id: Option<String>,
    #[sqlx(try_from = "String")]
    pub status: SessionStatus,
    pub alert_type: Option<String>,
    pub agent: Option<String>,
    pub author: Option<String>,
    /// An object or a string.
    #[sqlx(try_from = "JsonText")]
    pub alert_data: Value,
    #[sqlx(try_from = "JsonText")]
    pub conversation: Vec<Message>,
    pub final_analysis: Option<String>,
    /// Tools that were available to the agent.
    #[sqlx(json)]
    pub tools: Vec<String>,
    #[sqlx(json)]
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

/// A `text` column with JSON.
#[derive(sqlx::Type)]
#[sqlx(transparent)]
struct JsonText(String);

impl TryFrom<JsonText> for Value {
    type Error = serde_json::Error;

    fn try_from(text: JsonText) -> Result<Self, Self::Error> {
        serde_json::from_str(&text.0)
    }
}

impl TryFrom<JsonText> for Vec<Message> {
    type Error = serde_json::Error;

    fn try_from(text: JsonText) -> Result<Self, Self::Error> {
        serde_json::from_str(&text.0)
    }
}

/// A stored session without its texts.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct StoredSession {
    pub session_id: Uuid,
    pub source: String,
    #[sqlx(try_from = "String")]
    pub status: SessionStatus,
    pub completed_at: Option<DateTime<Utc>>,
}

const COUNTED: usize = 1_000;
const READING: &str = "reading a session";

/// Outcome of a put, by the returned revision.
pub(super) fn outcome_of(revision: Option<(i64,)>) -> PutOutcome {
    match revision {
        None => PutOutcome::Unchanged,
        Some((1,)) => PutOutcome::New,
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
        self.put_row(put_statement(session, now)?).await
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
        transact!(self.db, "storing sessions", |tx| {
            let mut outcomes = Vec::with_capacity(puts.len());
            for put in &puts {
                outcomes.push(outcome_of(first(&tx.fetch(put).await?)?));
            }
            outcomes
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
        self.put_row(statement).await
    }

    async fn put_row(self, put: Sql) -> Result<PutOutcome, StoreError> {
        let statement = Statement::new("storing a session", put);
        Ok(outcome_of(self.db.write_one(&statement).await?))
    }

    pub async fn get(self, id: Uuid) -> Result<Option<SessionRecord>, StoreError> {
        if self.db.dialect() == Dialect::Sqlite {
            let statement = Statement::new(READING, statement(vec![id]));
            return self.db.read_one(&statement).await;
        }
        let row = self.reader.session(id).await?;
        let session = row.map(|row| row.decode()).transpose();
        session.map_err(|error| StoreError::of(READING, &error))
    }

    /// Returns these sessions without texts; unknown ones are omitted.
    pub async fn stored(self, ids: &[Uuid]) -> Result<HashMap<Uuid, StoredSession>, StoreError> {
        let mut statement = sql!(
            "looking for stored sessions",
            "select session_id, source, status, completed_at from alert_sessions where session_id in "
        );
        statement.push_list(ids.iter().copied());
        let stored: Vec<StoredSession> = self.db.read(&statement).await?;
        Ok(stored
            .into_iter()
            .map(|stored| (stored.session_id, stored))
            .collect())
    }

    /// Counts the distinct sessions of these ids that were stored before `before`.
    pub async fn count_stored(
        self,
        ids: &[Uuid],
        before: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        let mut stored = 0;
        for ids in ids.chunks(COUNTED) {
            let mut statement = long_sql!(
                "counting stored sessions",
                "select count(*) as stored from alert_sessions where created_at <= $1 and session_id in ",
                before
            );
            statement.push_list(ids.iter().copied());
            stored += self.db.count(&statement).await?;
        }
        Ok(stored)
    }
}

pub(super) fn statement(ids: Vec<Uuid>) -> Sql {
    let mut statement = step!(
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
    Ok(step!(
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
        session.conversation.len(),
        session.final_analysis.as_deref(),
        labels(&session.tools),
        labels(&session.tags),
        session.started_at,
        session.completed_at,
        now,
        session.completed_at.unwrap_or(now),
        hash,
        reader_of(&session.source),
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
    if let Some(reader) = reader_of(&session.source) {
        part(Some(&reader.to_string()));
    }
    if let Some(id) = &session.external_id {
        part(Some(id));
    }
    hex::encode(hash.finalize())
}

/// JSON for a text column, with NUL characters replaced as in all values.
fn json_text(value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_value(value)
        .map(|value| json_without_nul(value).to_string())
        .map_err(|e| {
            StoreError::of(
                "writing a session as JSON",
                &sqlx::Error::Encode(Box::new(e)),
            )
        })
}

// Version of the reader that converted a session from TARSy's events. Sessions of older readers should be imported again.

pub(in crate::store) const TARSY: &str = "tarsy";
/// Increased when the same events give a different session. Sessions without a version: events were ordered by their numbers
/// only.
const READER: i64 = 2;
/// Maximum number of ids that are returned.
const NAMED: i64 = 20;

pub(super) fn reader_of(source: &str) -> Option<i64> {
    (source == TARSY).then_some(READER)
}

impl Sessions<'_> {
    /// Returns the sessions from a TARSy that an older reader converted, and the current scores based on them. Scans all
    /// sessions.
    pub async fn outdated(self) -> Result<Outdated, StoreError> {
        let counts = long_sql!(
            "looking for sessions of an older reader",
            "select count(*) as sessions, count(c.score_id) as scores
             from alert_sessions s
             left join session_scores c on c.session_id = s.session_id and c.superseded_at is null and c.purpose = 'score'
             where s.source = $1 and coalesce(s.reader, 0) < $2",
            TARSY,
            READER
        );
        let ids = long_sql!(
            "looking for sessions of an older reader",
            "select session_id from alert_sessions where source = $1 and coalesce(reader, 0) < $2
             order by session_id limit $3",
            TARSY,
            READER,
            NAMED
        );
        let (sessions, scores): (i64, i64) = self.db.read_one(&counts).await?.unwrap_or_default();
        Ok(Outdated {
            sessions: sessions.unsigned_abs(),
            scores: scores.unsigned_abs(),
            session_ids: match sessions {
                0 => Vec::new(),
                _ => self.db.read_column(&ids).await?,
            },
        })
    }
}
