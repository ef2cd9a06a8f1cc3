//! `human_ratings`: users' ratings of scores and sessions, and their comparison with the scores of one criteria version.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::database::db::Db;
use super::database::page::{Cursor, Page, bounded};
use super::database::row::{DbRow, decode};
use super::database::sql::{Arg, Sql, Statement, long_sql, step};
use super::{Basis, StoreError};
use crate::score::trust::{Given, RatedTotal};
use crate::wire::{HumanRating, Quality, Rating, Scale};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RatingOf {
    /// One score: the rating is compared with this score only.
    Score(Uuid),
    /// A session: the rating is compared with the newest score of the session by each criteria version.
    Session(Uuid),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRating {
    /// Id, used if the user hasn't rated this subject before.
    pub rating_id: Uuid,
    pub of: RatingOf,
    pub given: Given,
    pub by: String,
    pub comment: Option<String>,
    pub at: DateTime<Utc>,
}

/// Ratings with the scores of one criteria version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RatingsMet {
    /// Number of ratings by rating and total.
    pub judged: Vec<RatedTotal>,
    /// Number of users and of scores by scale.
    pub people: Vec<(Scale, u64, u64)>,
    /// Kind of the scores: simulated only if no real score was rated.
    pub basis: Basis,
}

/// A session with a score that the user hasn't rated.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Unrated {
    pub session_id: Uuid,
    pub alert_type: Option<String>,
    pub agent: Option<String>,
    #[sqlx(rename = "total_score", try_from = "i32")]
    pub total: u8,
    /// Difference between the highest and lowest total that the session ever had.
    #[sqlx(rename = "apart", try_from = "i32")]
    pub range: u8,
}

/// Session, user and rating; the rating is of the session or of one of its scores.
pub type GivenBy = (Uuid, String, Given);

/// Prefix of the list's cursors.
const LIST: char = 'h';
const HOLDING: &str = "holding ratings against scores";

macro_rules! columns {
    () => {
        "rating_id, session_id, score_id, form, total, word, rated_by, comment, rated_at"
    };
}

/// Columns that a new rating replaces.
macro_rules! replaced {
    () => {
        " do update set form = excluded.form, total = excluded.total, word = excluded.word, comment = excluded.comment,
            rated_at = excluded.rated_at"
    };
}

/// Ratings with the scores by criteria `$1` that they apply to; `$2`: simulated. A session's rating applies to its newest
/// score, unless the same user rated that score too.
macro_rules! met {
    () => {
        "with mine as (
            select score_id, session_id, total_score, case when purpose in ('score', 'preview') then 1 else 0 end as counts,
                row_number() over (
                    partition by session_id, case when purpose in ('score', 'preview') then 1 else 0 end
                    order by scored_at desc, score_id desc) as place
            from session_scores
            where criteria_hash = $1 and simulated = $2 and session_id in (select h.session_id from human_ratings h)
         ), met as (
            select m.score_id, m.total_score, r.form, r.total, r.word, r.rated_by
            from mine m join human_ratings r on r.score_id = m.score_id
            union all
            select m.score_id, m.total_score, r.form, r.total, r.word, r.rated_by
            from mine m join human_ratings r on r.session_id = m.session_id and r.score_id is null
            where m.counts = 1 and m.place = 1 and not exists (
                select 1 from human_ratings o where o.score_id = m.score_id and o.rated_by = r.rated_by)
         ) "
    };
}

/// Ratings with the scores of batch `$1` that they apply to; `$2`: simulated.
macro_rules! met_in_batch {
    () => {
        "with met as (
            select j.judge, s.score_id, s.total_score, r.form, r.total, r.word, r.rated_by
            from scoring_jobs j join session_scores s on s.job_id = j.job_id join human_ratings r on r.session_id = s.session_id
            where j.batch_id = $1 and j.purpose in ('repeat', 'jury') and s.simulated = $2
                and (r.score_id = s.score_id or r.score_id is null and not exists (
                    select 1 from human_ratings o where o.score_id = s.score_id and o.rated_by = r.rated_by))
         ) "
    };
}

#[derive(Clone, Copy)]
pub struct Ratings<'a> {
    pub(super) db: &'a Db,
}

impl Ratings<'_> {
    /// Stores a rating and replaces the user's earlier rating of the same subject. `None`: the score or session doesn't exist.
    pub async fn put(self, new: &NewRating) -> Result<Option<HumanRating>, StoreError> {
        let (text, of) = match new.of {
            RatingOf::Score(id) => (
                concat!(
                    "insert into human_ratings (rating_id, session_id, score_id, form, total, word, rated_by, comment, rated_at)
                     select $1, s.session_id, s.score_id, $3, $4, $5, $6, $7, $8 from session_scores s where s.score_id = $2
                     on conflict (score_id, rated_by) where score_id is not null",
                    replaced!(),
                    " returning ",
                    columns!()
                ),
                id,
            ),
            RatingOf::Session(id) => (
                concat!(
                    "insert into human_ratings (rating_id, session_id, form, total, word, rated_by, comment, rated_at)
                     select $1, s.session_id, $3, $4, $5, $6, $7, $8 from alert_sessions s where s.session_id = $2
                     on conflict (session_id, rated_by) where score_id is null",
                    replaced!(),
                    " returning ",
                    columns!()
                ),
                id,
            ),
        };
        let (form, total, word) = written(new.given);
        let statement = long_sql!(
            "storing a rating",
            text,
            new.rating_id,
            of,
            form,
            total,
            word,
            &new.by,
            new.comment.as_deref(),
            new.at
        );
        let stored = self.db.written(&statement).await?;
        let stored = stored.first().map(rating).transpose();
        stored.map_err(|error| statement.error(&error))
    }

    /// Stores ratings from another system. Skips sessions that aren't stored and ratings that haven't changed. Returns the
    /// number of new and changed ones.
    pub async fn note(
        self,
        by: &str,
        said: &[(Uuid, Quality)],
        at: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        match note_statement(by, said, at) {
            Some(statement) => {
                let statement = Statement::new("noting ratings", statement).long();
                self.db.execute(&statement).await
            }
            None => Ok(0),
        }
    }

    /// Lists the ratings of a score or a session, newest first; a session's list includes those of its scores. `limit` 1-500.
    ///
    /// # Errors
    /// `BadCursor` for a cursor of another list.
    pub async fn list(
        self,
        of: RatingOf,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<HumanRating>, StoreError> {
        let limit = bounded(limit);
        let statement = match of {
            RatingOf::Score(id) => step!(
                concat!(
                    "select ",
                    columns!(),
                    " from human_ratings where score_id = $1"
                ),
                id
            ),
            RatingOf::Session(id) => step!(
                concat!(
                    "select ",
                    columns!(),
                    " from human_ratings where session_id = $1"
                ),
                id
            ),
        };
        let mut statement = Statement::new("listing ratings", statement).long();
        if let Some(cursor) = after {
            let (at, id) = cursor.time(LIST)?;
            statement
                .push(" and (rated_at, rating_id) < (")
                .push_arg(at);
            statement.push(", ").push_arg(id).push(")");
        }
        statement
            .push(" order by rated_at desc, rating_id desc limit ")
            .push_arg(limit + 1);
        let items = self.db.read_with(&statement, rating).await?;
        Ok(Page::of(items, limit, |row: &HumanRating| {
            Cursor::of_time(LIST, row.at, row.rating_id)
        }))
    }

    /// Returns those among the newest `most` sessions that have a score and no rating by this user, newest first.
    pub async fn unrated(self, by: &str, most: u32) -> Result<Vec<Unrated>, StoreError> {
        let statement = long_sql!(
            "listing sessions to rate",
            "select a.session_id, a.alert_type, a.agent, s.total_score,
                (select max(x.total_score) - min(x.total_score) from session_scores x where x.session_id = a.session_id) as apart
             from (select i.session_id, i.alert_type, i.agent, i.listed_at from alert_sessions i
                   order by i.listed_at desc, i.session_id desc limit $2) a
             join session_scores s on s.session_id = a.session_id and s.superseded_at is null and s.purpose = 'score'
             where not exists (select 1 from human_ratings h where h.session_id = a.session_id and h.rated_by = $1)
             order by a.listed_at desc, a.session_id desc",
            by,
            most
        );
        self.db.read(&statement).await
    }

    /// Returns the newest `most` ratings of sessions that several users rated, newest first.
    pub async fn shared(self, most: u32) -> Result<Vec<GivenBy>, StoreError> {
        let statement = long_sql!(
            "reading sessions with several ratings",
            "select h.session_id, h.rated_by, h.form, h.total, h.word from human_ratings h
             where h.session_id in (
                select o.session_id from human_ratings o group by o.session_id having count(distinct o.rated_by) > 1)
             order by h.rated_at desc, h.rating_id desc limit $1",
            most
        );
        self.db
            .read_with(&statement, |row| {
                Ok((row.get("session_id")?, row.get("rated_by")?, given(row)?))
            })
            .await
    }

    pub async fn count(self) -> Result<u64, StoreError> {
        let statement = long_sql!(
            "counting ratings",
            "select count(*) as n from human_ratings"
        );
        self.db.count(&statement).await
    }

    /// Counts the ratings of scores by one criteria version. Uses simulated scores only if no real score was rated.
    pub async fn met(self, criteria_hash: &str) -> Result<RatingsMet, StoreError> {
        let real = self.met_by(criteria_hash, Basis::Real).await?;
        if real.judged.is_empty() {
            let simulated = self.met_by(criteria_hash, Basis::Simulated).await?;
            if !simulated.judged.is_empty() {
                return Ok(simulated);
            }
        }
        Ok(real)
    }

    /// Counts the ratings of the scores of a batch of repeats or of a jury, by judge. A session's rating applies to each of its
    /// scores, unless the same user rated that score too.
    pub async fn met_by_judge(
        self,
        batch_id: Uuid,
        basis: Basis,
    ) -> Result<BTreeMap<Option<String>, RatingsMet>, StoreError> {
        let counts = long_sql!(
            HOLDING,
            concat!(
                met_in_batch!(),
                "select judge, form, total, word, total_score, count(*) as n from met group by judge, form, total, word, total_score"
            ),
            batch_id,
            basis.is_simulated()
        );
        let people = long_sql!(
            HOLDING,
            concat!(
                met_in_batch!(),
                "select judge, case when form = 'quality' then 'quality' else 'ratings' end as scale,
                    count(distinct rated_by) as people, count(distinct score_id) as scores
                 from met group by judge, case when form = 'quality' then 'quality' else 'ratings' end"
            ),
            batch_id,
            basis.is_simulated()
        );
        let mut met: BTreeMap<Option<String>, RatingsMet> = BTreeMap::new();
        let rows = self
            .db
            .read_with(&counts, |row| Ok((row.get("judge")?, judged(row)?)))
            .await?;
        for (judge, counted) in rows {
            met.entry(judge).or_default().judged.push(counted);
        }
        let rows = self
            .db
            .read_with(&people, |row| Ok((row.get("judge")?, people_of(row)?)))
            .await?;
        for (judge, people) in rows {
            met.entry(judge).or_default().people.push(people);
        }
        for of_judge in met.values_mut() {
            of_judge.basis = basis;
        }
        Ok(met)
    }

    async fn met_by(self, criteria_hash: &str, basis: Basis) -> Result<RatingsMet, StoreError> {
        let counts = long_sql!(
            HOLDING,
            concat!(
                met!(),
                "select form, total, word, total_score, count(*) as n from met group by form, total, word, total_score"
            ),
            criteria_hash,
            basis.is_simulated()
        );
        let judged = self.db.read_with(&counts, judged).await?;
        if judged.is_empty() {
            return Ok(RatingsMet::default());
        }
        let people = long_sql!(
            HOLDING,
            concat!(
                met!(),
                "select case when form = 'quality' then 'quality' else 'ratings' end as scale, count(distinct rated_by) as people,
                    count(distinct score_id) as scores
                 from met group by case when form = 'quality' then 'quality' else 'ratings' end"
            ),
            criteria_hash,
            basis.is_simulated()
        );
        Ok(RatingsMet {
            judged,
            people: self.db.read_with(&people, people_of).await?,
            basis,
        })
    }
}

/// Statement of `Ratings::note`; `None` if there are no ratings.
pub(super) fn note_statement(by: &str, said: &[(Uuid, Quality)], at: DateTime<Utc>) -> Option<Sql> {
    // One row per session, because an upsert can't change a row twice.
    let said: BTreeMap<Uuid, Quality> = said.iter().copied().collect();
    if said.is_empty() {
        return None;
    }
    let rows = said.into_iter().map(|(session_id, quality)| {
        vec![
            Arg::from(session_id),
            Uuid::now_v7().into(),
            quality.as_str().into(),
            by.into(),
            at.into(),
        ]
    });
    let mut statement = Sql::of_rows("v_session_id, v_id, v_word, v_by, v_at", rows.collect());
    statement.push(concat!(
        "insert into human_ratings (rating_id, session_id, form, word, rated_by, rated_at)
         select v_id, s.session_id, 'quality', v_word, v_by, v_at from v join alert_sessions s on s.session_id = v_session_id
         where v_session_id is not null
         on conflict (session_id, rated_by) where score_id is null",
        replaced!(),
        " where human_ratings.form <> 'quality' or human_ratings.word <> excluded.word"
    ));
    Some(statement)
}

/// Returns the columns `form`, `total` and `word` of a rating.
fn written(given: Given) -> (&'static str, Option<i64>, Option<&'static str>) {
    match given {
        Given::Total(total) => ("total", Some(i64::from(total)), None),
        Given::Rating(word) => ("rating", None, Some(word.as_str())),
        Given::Quality(word) => ("quality", None, Some(word.as_str())),
    }
}

fn given(row: &DbRow) -> sqlx::Result<Given> {
    let form: String = row.get("form")?;
    match form.as_str() {
        "total" => Ok(Given::Total(row.int("total")?)),
        "rating" => Ok(Given::Rating(row.text_enum::<Rating>("word")?)),
        "quality" => Ok(Given::Quality(row.text_enum::<Quality>("word")?)),
        other => Err(decode("form", &format!("unknown form {other:?}"))),
    }
}

fn rating(row: &DbRow) -> sqlx::Result<HumanRating> {
    let (mut total, mut rating, mut quality) = (None, None, None);
    match given(row)? {
        Given::Total(given) => total = Some(given),
        Given::Rating(given) => rating = Some(given),
        Given::Quality(given) => quality = Some(given),
    }
    Ok(HumanRating {
        rating_id: row.get("rating_id")?,
        session_id: row.get("session_id")?,
        score_id: row.get("score_id")?,
        total,
        rating,
        quality,
        by: row.get("rated_by")?,
        comment: row.get("comment")?,
        at: row.get("rated_at")?,
    })
}

fn judged(row: &DbRow) -> sqlx::Result<RatedTotal> {
    Ok(RatedTotal {
        given: given(row)?,
        ours: row.int("total_score")?,
        n: row.int("n")?,
    })
}

fn people_of(row: &DbRow) -> sqlx::Result<(Scale, u64, u64)> {
    let scale: String = row.get("scale")?;
    let scale = if scale == "quality" {
        Scale::Quality
    } else {
        Scale::Ratings
    };
    Ok((scale, row.int("people")?, row.int("scores")?))
}
