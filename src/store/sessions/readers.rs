//! Version of the reader that converted a session from TARSy's events. Sessions of older readers should be imported again.

use crate::store::database::sql::{all, first, sql};
use crate::store::{Sessions, StoreError};
use crate::wire::Outdated;

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
        const ATTEMPTED: &str = "looking for sessions of an older reader";
        let counts = sql!(
            "select count(*) as sessions, count(c.score_id) as scores
             from alert_sessions s
             left join session_scores c on c.session_id = s.session_id and c.superseded_at is null and c.purpose = 'score'
             where s.source = $1 and coalesce(s.reader, 0) < $2",
            TARSY,
            READER
        );
        let ids = sql!(
            "select session_id from alert_sessions where source = $1 and coalesce(reader, 0) < $2
             order by session_id limit $3",
            TARSY,
            READER,
            NAMED
        );
        let rows = self.db.read_long(ATTEMPTED, &counts).await?;
        let counted = first(ATTEMPTED, &rows, |row| {
            Ok((row.int("sessions")?, row.int("scores")?))
        })?;
        let (sessions, scores) = counted.unwrap_or_default();
        let rows = match sessions {
            0 => Vec::new(),
            _ => self.db.read_long(ATTEMPTED, &ids).await?,
        };
        Ok(Outdated {
            sessions,
            scores,
            session_ids: all(ATTEMPTED, &rows, |row| row.get("session_id"))?,
        })
    }
}
