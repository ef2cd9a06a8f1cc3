//! Daily aggregates are equal before and after the rollup, despite changes of sessions and scores in between.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use gavel::score::session::{MissingTool, SessionScore};
use gavel::store::{By, MadeBy, Named, ScoreFilter, SessionRecord, Store};
use uuid::Uuid;

use super::analytics::{at, rescored, scored_at, simulated};
use super::fixtures::{hash, now, score_of, session};
use super::scores::criteria;
use crate::support;

/// Expected session: list time, and the criteria, total, tool and origin of its current score.
#[derive(Clone)]
struct Known {
    listed: DateTime<Utc>,
    score: Option<(char, u8, String, MadeBy)>,
    /// Criteria of all its scores, including superseded ones.
    scored: Vec<char>,
}

type History = BTreeMap<Uuid, Known>;

fn of(total: u8, tool: &str, made_by: MadeBy) -> SessionScore {
    let score = SessionScore {
        missing_tools: vec![MissingTool {
            tool_name: tool.to_owned(),
            rationale: "why".to_owned(),
        }],
        ..score_of(total)
    };
    match made_by {
        MadeBy::Judge => score,
        MadeBy::Simulated => simulated(score),
    }
}

async fn add(store: &Store, history: &mut History, when: &str, score: (char, u8, &str, MadeBy)) {
    let (criteria, total, tool, made_by) = score;
    let id = scored_at(store, when, of(total, tool, made_by), criteria).await;
    let known = Known {
        listed: at(when),
        score: Some((criteria, total, tool.to_owned(), made_by)),
        scored: vec![criteria],
    };
    history.insert(id, known);
}

async fn rescore(store: &Store, history: &mut History, id: Uuid, score: (char, u8, &str, MadeBy)) {
    let (criteria, total, tool, made_by) = score;
    rescored(store, id, of(total, tool, made_by), criteria).await;
    let known = history.get_mut(&id).unwrap();
    known.score = Some((criteria, total, tool.to_owned(), made_by));
    known.scored.push(criteria);
}

async fn put(store: &Store, history: &mut History, id: Uuid, when: &str) {
    let record = SessionRecord {
        completed_at: Some(at(when)),
        started_at: None,
        ..session(id)
    };
    store.sessions().put(&record, now()).await.unwrap();
    let known = history.entry(id).or_insert(Known {
        listed: at(when),
        score: None,
        scored: Vec::new(),
    });
    known.listed = at(when);
}

/// Compares every aggregate with the expected values, over several times and criteria.
async fn agree(store: &Store, history: &History) {
    let times = [
        (None, None),
        (Some("2026-01-02T00:00:00Z"), Some("2026-01-04T00:00:00Z")),
        (Some("2026-01-01T11:00:00Z"), Some("2026-01-03T13:00:00Z")),
        (Some("2026-01-02T01:00:00Z"), Some("2026-01-02T23:00:00Z")),
        (None, Some("2026-01-02T12:30:00Z")),
        (Some("2026-01-02T12:30:00Z"), None),
    ];
    for (from, to) in times {
        for criteria in [None, Some('a'), Some('b')] {
            let filter = ScoreFilter {
                criteria_hash: criteria.map(hash),
                from: from.map(at),
                to: to.map(at),
            };
            agrees(store, history, &filter, criteria).await;
        }
    }
    for criteria in ['a', 'b'] {
        let scored = history.values().flat_map(|known| &known.scored);
        let scored = scored.filter(|by| **by == criteria).count();
        let stored = store
            .criteria()
            .get(&hash(criteria))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(usize::try_from(stored.scores), Ok(scored));
        assert_eq!(stored.first_scored_at.is_some(), scored > 0);
    }
}

async fn agrees(store: &Store, history: &History, filter: &ScoreFilter, criteria: Option<char>) {
    let within = |known: &&Known| {
        filter.from.is_none_or(|from| known.listed >= from)
            && filter.to.is_none_or(|to| known.listed < to)
    };
    let found: Vec<&Known> = history.values().filter(within).collect();
    assert_eq!(
        usize::try_from(store.analytics().sessions_in(filter).await.unwrap()),
        Ok(found.len())
    );
    let scores = found.iter().filter_map(|known| {
        let score = known.score.as_ref()?;
        criteria
            .is_none_or(|criteria| criteria == score.0)
            .then_some((known, score))
    });
    let (mut totals, mut days, mut tools) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for (known, (criteria, total, tool, made_by)) in scores {
        let simulated = *made_by == MadeBy::Simulated;
        let key = (hash(*criteria), simulated, *total);
        *totals.entry(key.clone()).or_insert(0_u64) += 1;
        *days
            .entry((known.listed.date_naive(), key))
            .or_insert(0_u64) += 1;
        if !simulated {
            *tools.entry(tool.clone()).or_insert(0_i64) += 1;
        }
    }
    let stored = store.analytics().totals(filter).await.unwrap();
    let key = |count: &gavel::store::TotalCount| {
        let simulated = count.made_by == MadeBy::Simulated;
        (count.criteria_hash.clone(), simulated, count.total)
    };
    let of_all: BTreeMap<_, u64> = stored.iter().map(|c| (key(c), c.scores)).collect();
    assert_eq!(of_all, totals, "{filter:?}");
    let mut months = BTreeMap::new();
    for ((day, key), scores) in &days {
        let month = chrono::Datelike::with_day(day, 1).unwrap();
        *months.entry((month, key.clone())).or_insert(0_u64) += scores;
    }
    for (by, expected) in [(By::Day, days), (By::Month, months)] {
        let stored = store.analytics().totals_over_time(filter, by).await;
        let over_time: BTreeMap<_, u64> = stored
            .unwrap()
            .iter()
            .map(|c| ((c.day.unwrap(), key(c)), c.scores))
            .collect();
        assert_eq!(over_time, expected, "{filter:?}");
    }
    let names = store
        .analytics()
        .names(Named::MissingTools, filter, MadeBy::Judge, 50);
    let names = names.await.unwrap();
    let of_names: BTreeMap<String, i64> = names
        .iter()
        .flat_map(|name| name.spellings.clone())
        .collect();
    assert_eq!(of_names, tools, "{filter:?}");
    let keys: BTreeSet<&str> = names.iter().map(|name| name.key.as_str()).collect();
    assert_eq!(keys.len(), names.len(), "a key came twice");
    for name in &names {
        let spelled: i64 = name.spellings.iter().map(|(_, times)| times).sum();
        assert_eq!(spelled, name.sessions);
    }
}

async fn with_criteria(store: &Store) {
    for letter in ['a', 'b'] {
        store
            .criteria()
            .put(&criteria(letter), now())
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn aggregates_are_equal_before_and_after_the_rollup() {
    use MadeBy::{Judge, Simulated};
    for test in support::stores().await {
        let (store, mut history) = (&test.store, History::new());
        with_criteria(store).await;
        agree(store, &history).await;
        assert_eq!(store.analytics().roll_up_days().await.unwrap().days, 0);
        for (when, score) in [
            ("2026-01-01T10:00:00Z", ('a', 50, "logs", Judge)),
            ("2026-01-01T12:00:00Z", ('a', 50, "Logs", Judge)),
            ("2026-01-02T12:00:00Z", ('a', 70, "events", Judge)),
            ("2026-01-02T13:00:00Z", ('b', 90, "logs", Simulated)),
            ("2026-01-02T23:59:59.999999Z", ('b', 90, "logs", Judge)),
            ("2026-01-03T00:00:00Z", ('a', 10, "traces", Judge)),
        ] {
            add(store, &mut history, when, score).await;
        }
        put(store, &mut history, Uuid::now_v7(), "2026-01-03T05:00:00Z").await;
        agree(store, &history).await;
        let folded = store.analytics().roll_up_days().await.unwrap();
        assert_eq!((folded.days, folded.more), (3, false));
        agree(store, &history).await;
        assert_eq!(store.analytics().roll_up_days().await.unwrap().days, 0);

        // A superseded score, a session that moves along with its score, and a new one on a rolled-up day.
        let ids: Vec<Uuid> = history.keys().copied().collect();
        rescore(store, &mut history, ids[0], ('b', 95, "traces", Judge)).await;
        agree(store, &history).await;
        put(store, &mut history, ids[2], "2026-01-05T12:00:00Z").await;
        agree(store, &history).await;
        add(
            store,
            &mut history,
            "2026-01-02T09:00:00Z",
            ('a', 71, "logs", Judge),
        )
        .await;
        agree(store, &history).await;
        let folded = store.analytics().roll_up_days().await.unwrap();
        assert_eq!(folded.days, 3, "days 1, 2 and 5");
        agree(store, &history).await;
    }
}

#[tokio::test]
async fn dirty_days_above_the_rollup_limit_are_processed_in_rounds() {
    for test in support::stores().await {
        let (store, mut history) = (&test.store, History::new());
        with_criteria(store).await;
        for day in 1..=31 {
            for month in ["01", "03"] {
                let when = format!("2026-{month}-{day:02}T12:00:00Z");
                put(store, &mut history, Uuid::now_v7(), &when).await;
            }
        }
        // Above the limit of exact days, all rows are counted.
        agree(store, &history).await;
        let mut folded = 0;
        loop {
            let round = store.analytics().roll_up_days().await.unwrap();
            folded += round.days;
            agree(store, &history).await;
            if !round.more {
                break;
            }
        }
        assert_eq!(folded, 62);
    }
}

#[tokio::test]
async fn concurrent_rollups_and_writes_lose_no_row() {
    for test in support::stores().await {
        let store = std::sync::Arc::new(test.store);
        with_criteria(&store).await;
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..4_u8 {
            let store = store.clone();
            writers.spawn(async move {
                let mut history = History::new();
                for n in 0..12_u8 {
                    let when = format!("2026-01-0{}T12:00:00Z", 1 + (n + writer) % 3);
                    let score = ('a', 40 + n, "logs", MadeBy::Judge);
                    add(&store, &mut history, &when, score).await;
                    let id = *history.keys().next_back().unwrap();
                    if n % 3 == 0 {
                        put(&store, &mut history, id, "2026-01-04T12:00:00Z").await;
                    }
                    if n % 2 == 0 {
                        rescore(&store, &mut history, id, ('b', n, "logs", MadeBy::Judge)).await;
                    }
                }
                history
            });
        }
        let done = tokio_util::sync::CancellationToken::new();
        let folders: Vec<_> = (0..2)
            .map(|_| {
                let (store, done) = (store.clone(), done.clone());
                tokio::spawn(async move {
                    while !done.is_cancelled() {
                        store.analytics().roll_up_days().await.unwrap();
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        let mut history = History::new();
        while let Some(written) = writers.join_next().await {
            history.extend(written.unwrap());
        }
        done.cancel();
        for folder in folders {
            folder.await.unwrap();
        }
        agree(&store, &history).await;
        while store.analytics().roll_up_days().await.unwrap().more {}
        agree(&store, &history).await;
    }
}
