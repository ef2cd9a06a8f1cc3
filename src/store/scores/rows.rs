//! Writes a score and its detail rows within the recorder's transaction.
//!
//! The same transaction supersedes the session's current score, so that readers see one or the other. Scores for other purposes
//! don't supersede.

use std::collections::HashSet;

use serde_json::Value;
use uuid::Uuid;

use crate::job::Purpose;
use crate::score::analysis::key_of;
use crate::store::analytics::days::push_dirty;
use crate::store::database::row::decode;
use crate::store::database::sql::{Arg, Sql};
use crate::store::database::writes::Writes;
use crate::store::jobs::record::Record;
use crate::store::{Dialect, NewEvaluation, NewSessionScore};

/// Writes the scores of applied records, one per session.
pub(in crate::store) fn add(
    writes: &mut Writes,
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
        add_supersession(writes, &current);
    }
    let rows: sqlx::Result<Vec<_>> = scored.iter().map(|(at, new)| score_row(at, new)).collect();
    let (rows, of_applied) = (writes.padded(rows?), writes.of_applied());
    // The unique index allows one current score, so the earlier one is superseded first.
    let after = match writes.dialect {
        Dialect::Postgres if !current.is_empty() => " and (select count(*) from superseded) >= 0",
        Dialect::Postgres | Dialect::Sqlite => "",
    };
    writes.add("scored", |statement| {
        statement
            .push_insert("session_scores", SCORE_COLUMNS, rows)
            .push(of_applied)
            .push(after)
            .push(" returning score_id");
    });
    let of_scores = "score_id in (select score_id from scored)";
    let tools = scored.iter().flat_map(|(_, new)| tool_rows(new)).collect();
    add_rows(
        writes,
        "score_missing_tools",
        &TOOL_COLUMNS,
        of_scores,
        tools,
    );
    let (mut approaches, mut steps) = (Vec::new(), Vec::new());
    for (_, new) in scored {
        add_approaches(new, &mut approaches, &mut steps);
    }
    let table = "score_alternative_approaches";
    add_rows(writes, table, &APPROACH_COLUMNS, of_scores, approaches);
    let of_approaches = "approach_id in (select id from score_alternative_approaches)";
    let table = "score_alternative_approach_steps";
    add_rows(writes, table, &STEP_COLUMNS, of_approaches, steps);
    Ok(())
}

const SCORE_COLUMNS: &str = "score_id, session_id, job_id, criteria_hash, purpose, total_score, score_breakdown, \
    score_reasoning, flags, judge_provider, judge_model, simulated, scored_triggered_by, authenticated_as, scored_at";
const TOOL_COLUMNS: [&str; 6] = [
    "id",
    "score_id",
    "position",
    "tool_name",
    "rationale",
    "tool_key",
];
const APPROACH_COLUMNS: [&str; 6] = [
    "id",
    "score_id",
    "position",
    "name",
    "description",
    "name_key",
];
const STEP_COLUMNS: [&str; 4] = ["id", "approach_id", "step_order", "step_description"];

/// Maximum number of rows per statement; SQLite accepts 32,766 arguments.
const ROWS: usize = 1024;

fn add_supersession(writes: &mut Writes, current: &[(&Record, &NewSessionScore)]) {
    let rows = current.iter().map(|(record, score)| {
        let job_id = record.fence.job_id.0;
        vec![job_id.into(), score.session_id.into(), record.at.into()]
    });
    let (rows, of_applied) = (writes.padded(rows.collect()), writes.of_applied());
    let sessions: Vec<_> = writes
        .repeated(current.iter().map(|(_, score)| score.session_id))
        .collect();
    writes.add("superseded", |statement| {
        // Not a join, because a plan that was made while the table was empty would scan the whole index of current scores.
        statement
            .push_rows("job_id, v_session_id, v_at", rows)
            .push(
                "update session_scores set superseded_at = (select v_at from v where v_session_id = session_id)
                 where superseded_at is null and purpose = 'score'
                   and (select count(*) from v where v_session_id = session_id",
            )
            .push(of_applied)
            .push(") > 0 and session_id in ")
            .push_list(sessions.iter().copied())
            .push(" returning score_id");
    });
    let dialect = writes.dialect;
    // Also marks days of records that weren't applied, which only causes a needless rollup.
    writes.add("marked", |statement| {
        push_dirty(statement, dialect, sessions.iter().copied());
    });
}

/// On Postgres `of_applied` is the condition for applied records.
fn add_rows(
    writes: &mut Writes,
    table: &str,
    columns: &[&str],
    of_applied: &str,
    mut rows: Vec<Vec<Arg>>,
) {
    let names = columns.join(", ");
    let insert = |statement: &mut Sql, condition: &str| {
        statement
            .push("insert into ")
            .push(table)
            .push(" (")
            .push(&names)
            .push(") select ")
            .push(&names)
            .push(" from v where ")
            .push(condition)
            .push(" returning id");
    };
    match writes.dialect {
        Dialect::Postgres if rows.is_empty() => {}
        Dialect::Postgres => writes.add(table, |statement| {
            statement.push_json_rows(columns, &rows);
            insert(statement, of_applied);
        }),
        Dialect::Sqlite => {
            while !rows.is_empty() {
                let rest = rows.split_off(rows.len().min(ROWS));
                writes.add(table, |statement| {
                    statement.push_rows(&names, rows);
                    insert(statement, "id is not null");
                });
                rows = rest;
            }
        }
    }
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
        score.total_score.into(),
        breakdown.into(),
        (&score.score_reasoning).into(),
        flags.into(),
        (&score.judge_provider).into(),
        (&score.judge_model).into(),
        score.simulated.into(),
        (&new.triggered_by.user).into(),
        new.triggered_by.authenticated_as.as_deref().into(),
        record.at.into(),
    ])
}

/// Returns the keys of names, at their first occurrence each.
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
                Uuid::now_v7().into(),
                new.score_id.into(),
                position.into(),
                (&tool.tool_name).into(),
                (&tool.rationale).into(),
                key.into(),
            ]
        })
}

fn add_approaches(
    new: &NewSessionScore,
    approaches: &mut Vec<Vec<Arg>>,
    steps: &mut Vec<Vec<Arg>>,
) {
    let all = &new.score.alternative_approaches;
    let keys = first_mentions(all.iter().map(|approach| &approach.name));
    for ((position, approach), key) in (0_i64..).zip(all).zip(keys) {
        let id = Uuid::now_v7();
        approaches.push(vec![
            id.into(),
            new.score_id.into(),
            position.into(),
            (&approach.name).into(),
            (&approach.description).into(),
            key.into(),
        ]);
        steps.extend((0_i64..).zip(&approach.steps).map(|(order, step)| {
            vec![Uuid::now_v7().into(), id.into(), order.into(), step.into()]
        }));
    }
}

fn to_json(column: &str, value: &impl serde::Serialize) -> sqlx::Result<Value> {
    serde_json::to_value(value).map_err(|e| decode(column, &e.to_string()))
}

// Writes `evaluation_scores` within the recorder's transaction.

const EVALUATION_COLUMNS: &str = "score_id, job_id, kind, batch_id, item_no, criteria_hash, total, passed, threshold, components, error, \
    simulated, scored_at";

/// Writes the scores of applied records; replaces the score of a retried job.
pub(in crate::store) fn add_evaluations(
    writes: &mut Writes,
    evaluated: &[(&Record, &NewEvaluation)],
) {
    if evaluated.is_empty() {
        return;
    }
    let rows = evaluated
        .iter()
        .map(|(record, new)| evaluation_row(record, new));
    let (rows, of_applied) = (writes.padded(rows.collect()), writes.of_applied());
    writes.add("evaluated", |statement| {
        statement.push_insert("evaluation_scores", EVALUATION_COLUMNS, rows)
            .push(of_applied)
            .push(
                " on conflict (job_id) do update set
                    score_id = excluded.score_id, total = excluded.total, passed = excluded.passed,
                    threshold = excluded.threshold, components = excluded.components, error = excluded.error,
                    simulated = excluded.simulated, scored_at = excluded.scored_at",
            );
    });
}

fn evaluation_row(record: &Record, new: &NewEvaluation) -> Vec<Arg> {
    vec![
        new.score_id.into(),
        record.fence.job_id.0.into(),
        new.kind.as_str().into(),
        new.batch.map(|place| place.batch_id).into(),
        new.batch.map(|place| place.item_no).into(),
        (&new.criteria_hash).into(),
        new.total.into(),
        new.passed.into(),
        new.threshold.into(),
        (&new.components).into(),
        new.error.as_ref().into(),
        new.simulated.into(),
        record.at.into(),
    ]
}
