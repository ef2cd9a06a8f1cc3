//! A score and its child rows, written within the recorder's transaction.
//!
//! The earlier current score of a session is superseded in the same transaction: a reader sees the one or the other. A score
//! made for another purpose takes nobody's place.

use std::collections::HashSet;

use serde_json::Value;

use crate::job::Purpose;
use crate::score::analysis::key_of;
use crate::store::NewSessionScore;
use crate::store::analytics::days::dirty_statement;
use crate::store::database::db::Tx;
use crate::store::database::sql::{Arg, Sql, decode};
use crate::store::jobs::record::Record;

/// Writes the scores of records that were applied. Each session occurs once.
pub(in crate::store) async fn insert(
    tx: &mut Tx<'_>,
    scored: &[(&Record, &NewSessionScore)],
) -> sqlx::Result<()> {
    if scored.is_empty() {
        return Ok(());
    }
    let current: Vec<_> = scored
        .iter()
        .filter(|(_, new)| new.purpose == Purpose::Score)
        .copied()
        .collect();
    if !current.is_empty() {
        tx.execute(&supersede(&current)).await?;
        let sessions = current.iter().map(|(_, score)| score.session_id);
        let dirty = dirty_statement(tx.dialect(), sessions);
        tx.execute(&dirty).await?;
    }
    let mut scores = Vec::with_capacity(scored.len());
    for (record, score) in scored {
        scores.push(score_row(record, score)?);
    }
    insert_rows(tx, "session_scores", SCORE_COLUMNS, scores).await?;
    let tools = scored.iter().flat_map(|(_, new)| tool_rows(new)).collect();
    insert_rows(
        tx,
        "score_missing_tools",
        "score_id, position, tool_name, tool_rationale, tool_key",
        tools,
    )
    .await?;
    let approaches = scored
        .iter()
        .flat_map(|(_, new)| approach_rows(new))
        .collect();
    insert_rows(
        tx,
        "score_alternative_approaches",
        "score_id, position, name, description, name_key",
        approaches,
    )
    .await?;
    let steps = scored.iter().flat_map(|(_, new)| step_rows(new)).collect();
    insert_rows(
        tx,
        "score_alternative_approach_steps",
        "score_id, approach_position, step_order, step_description",
        steps,
    )
    .await
}

const SCORE_COLUMNS: &str = "score_id, session_id, job_id, criteria_hash, purpose, total_score, score_breakdown, \
    score_reasoning, flags, judge_provider, judge_model, simulated, scored_triggered_by, scored_at";

/// The most rows of one statement; SQLite takes 32,766 arguments.
const ROWS: usize = 1024;

fn supersede(scored: &[(&Record, &NewSessionScore)]) -> Sql {
    let rows = scored
        .iter()
        .map(|(record, score)| vec![Arg::from(score.session_id), record.at.into()])
        .collect();
    let mut statement = Sql::of_rows("v_session_id, v_at", rows);
    // Not joined to v: a plan made while the table was empty would join by reading the whole index of current scores.
    statement.push(
        "update session_scores set superseded_at = (select v_at from v where v_session_id = session_id)
         where superseded_at is null and purpose = 'score' and session_id in ",
    );
    statement.push_list(scored.iter().map(|(_, score)| score.session_id));
    statement
}

async fn insert_rows(
    tx: &mut Tx<'_>,
    table: &'static str,
    columns: &'static str,
    mut rows: Vec<Vec<Arg>>,
) -> sqlx::Result<()> {
    while !rows.is_empty() {
        let rest = rows.split_off(rows.len().min(ROWS));
        let mut statement = Sql::of_rows(columns, rows);
        statement
            .push("insert into ")
            .push(table)
            .push(" (")
            .push(columns)
            .push(") select ")
            .push(columns)
            .push(" from v where score_id is not null");
        tx.execute(&statement).await?;
        rows = rest;
    }
    Ok(())
}

fn score_row(record: &Record, new: &NewSessionScore) -> sqlx::Result<Vec<Arg>> {
    let score = &new.score;
    let breakdown = to_json("score_breakdown", &score.score_breakdown)?;
    let flags = to_json("flags", &score.flags)?;
    Ok(vec![
        new.score_id.into(),
        new.session_id.into(),
        record.fence.job_id.0.into(),
        (&new.criteria_hash).into(),
        new.purpose.as_str().into(),
        i64::from(score.total_score).into(),
        breakdown.into(),
        (&score.score_reasoning).into(),
        flags.into(),
        (&score.judge_provider).into(),
        (&score.judge_model).into(),
        score.simulated.into(),
        (&new.triggered_by).into(),
        record.at.into(),
    ])
}

/// The keys of names, each at its first mention.
fn first_mentions<'a>(
    names: impl Iterator<Item = &'a String>,
) -> impl Iterator<Item = Option<String>> {
    let mut seen = HashSet::new();
    names.map(move |name| key_of(name).filter(|key| seen.insert(key.clone())))
}

fn tool_rows(new: &NewSessionScore) -> impl Iterator<Item = Vec<Arg>> {
    let tools = &new.score.missing_tools;
    let keys = first_mentions(tools.iter().map(|tool| &tool.tool_name));
    (0_i64..)
        .zip(tools)
        .zip(keys)
        .map(|((position, tool), key)| {
            vec![
                new.score_id.into(),
                position.into(),
                (&tool.tool_name).into(),
                (&tool.rationale).into(),
                key.into(),
            ]
        })
}

fn approach_rows(new: &NewSessionScore) -> impl Iterator<Item = Vec<Arg>> {
    let approaches = &new.score.alternative_approaches;
    let keys = first_mentions(approaches.iter().map(|approach| &approach.name));
    (0_i64..)
        .zip(approaches)
        .zip(keys)
        .map(|((position, approach), key)| {
            vec![
                new.score_id.into(),
                position.into(),
                (&approach.name).into(),
                (&approach.description).into(),
                key.into(),
            ]
        })
}

fn step_rows(new: &NewSessionScore) -> impl Iterator<Item = Vec<Arg>> {
    (0_i64..)
        .zip(&new.score.alternative_approaches)
        .flat_map(move |(position, approach)| {
            (0_i64..).zip(&approach.steps).map(move |(order, step)| {
                vec![
                    new.score_id.into(),
                    position.into(),
                    order.into(),
                    step.into(),
                ]
            })
        })
}

fn to_json(column: &str, value: &impl serde::Serialize) -> sqlx::Result<Value> {
    serde_json::to_value(value).map_err(|e| decode(column, &e.to_string()))
}
