//! Lists of thousands of sessions: complete and ordered under every filter, before and after the rollup.

use chrono::{DateTime, Days, Utc};
use gavel::score::session::Rating;
use gavel::store::{SessionFilter, SessionOrder, Store};
use uuid::Uuid;

use super::analytics::at;
use super::fixtures::hash;
use crate::support;
use gavel::wire::{Scored, SessionStatus};

/// More than a page reads from its position.
const SESSIONS: u32 = 6_000;
const A_DAY: u32 = 30;

struct Known {
    id: Uuid,
    listed: DateTime<Utc>,
    agent: &'static str,
    tag: &'static str,
    author: &'static str,
    status: SessionStatus,
    score: Option<(char, u8)>,
    misses: bool,
}

fn history() -> Vec<Known> {
    let begin = at("2026-01-01T00:00:00Z");
    let session = |n: u32| {
        let day = begin - Days::new(u64::from(n / A_DAY));
        let old = n >= 3_000;
        Known {
            id: Uuid::from_u128(
                u128::from(n).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835),
            ),
            listed: day + chrono::TimeDelta::minutes(i64::from(A_DAY - n % A_DAY)),
            agent: if n == 4_321 || n == 5_999 {
                "rare"
            } else {
                "often"
            },
            tag: if n == 2_500 { "rare" } else { "often" },
            author: if (3_600..3_700).contains(&n) {
                "Zoe"
            } else {
                "ann"
            },
            status: if n == 5_000 {
                SessionStatus::TimedOut
            } else {
                SessionStatus::Completed
            },
            score: (n != 2_777).then_some((
                if old { 'a' } else { 'b' },
                if n == 3_333 {
                    100
                } else {
                    u8::try_from(n % 90).unwrap()
                },
            )),
            misses: n == 4_000,
        }
    };
    let mut known: Vec<Known> = (0..SESSIONS).map(session).collect();
    known.sort_by_key(|k| std::cmp::Reverse((k.listed, k.id)));
    known
}

async fn store_them(url: &str, known: &[Known]) {
    let postgres = url.starts_with("postgres");
    let uuid = |id: Uuid| match postgres {
        true => format!("'{}'", id.simple()),
        false => format!("x'{}'", id.simple()),
    };
    let time = |at: DateTime<Utc>| at.to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
    for known in known.chunks(500) {
        let (mut sessions, mut scores, mut tools) = (Vec::new(), Vec::new(), Vec::new());
        for k in known {
            let (id, listed) = (uuid(k.id), time(k.listed));
            sessions.push(format!(
                "({id}, 'api', '{}', 'Alert', '{}', '{}', 'alert', '{}', '{}', '{{}}', '[]', 1, '[]', '[\"{}\"]', '{listed}', '{listed}', '{listed}', '{listed}', 'h', 1)",
                k.status, k.agent, k.author, k.agent.to_lowercase(), k.author.to_lowercase(), k.tag
            ));
            if let Some((criteria, total)) = k.score {
                scores.push(format!(
                    "({id}, {id}, {id}, '{}', 'score', {total}, '{{}}', 'why', '[]', 'main', 'model', false, 'tester', '{listed}')",
                    hash(criteria)
                ));
            }
            if k.misses {
                tools.push(format!("({id}, {id}, 0, 'Traces', 'why', 'traces')"));
            }
        }
        let definition = |name| {
            format!(
                "('{}', 'session', '{{}}', '{}')",
                hash(name),
                "2026-01-01T00:00:00.000000+00:00"
            )
        };
        let mut statements = vec![
            format!(
                "insert into scoring_criteria_definitions (criteria_hash, kind, criteria_content, created_at)
                 values {}, {} on conflict do nothing",
                definition('a'),
                definition('b')
            ),
            format!(
                "insert into alert_sessions (session_id, source, status, alert_type, agent, author, alert_type_lower, agent_lower,
                 author_lower, alert_data, conversation, message_count, tools, tags, completed_at, created_at, updated_at,
                 listed_at, content_hash, revision) values {}",
                sessions.join(", ")
            ),
            format!(
                "insert into session_scores (score_id, session_id, job_id, criteria_hash, purpose, total_score, score_breakdown,
                 score_reasoning, flags, judge_provider, judge_model, simulated, scored_triggered_by, scored_at) values {}",
                scores.join(", ")
            ),
        ];
        if !tools.is_empty() {
            statements.push(format!(
                "insert into score_missing_tools (id, score_id, position, tool_name, rationale, tool_key) values {}",
                tools.join(", ")
            ));
        }
        for statement in statements {
            support::execute(url, statement.leak()).await.unwrap();
        }
    }
}

/// Returns the complete list, and the number of pages of the first 20 rows.
async fn listed(store: &Store, filter: &SessionFilter, order: SessionOrder) -> (Vec<Uuid>, usize) {
    let (mut found, mut pages, mut first, mut cursor) = (Vec::new(), 0, None, None);
    loop {
        let page = store
            .sessions()
            .list(filter, order, cursor.as_ref(), 20)
            .await
            .unwrap();
        assert!(page.items.len() <= 20);
        found.extend(page.items.iter().map(|line| line.session_id));
        pages += 1;
        if found.len() >= 20 || page.next_cursor.is_none() {
            first.get_or_insert(pages);
        }
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => return (found, first.unwrap_or(pages)),
        }
    }
}

/// Filters with their expected rows, none of them near the start of the list.
#[expect(
    clippy::type_complexity,
    clippy::too_many_lines,
    reason = "a table of a test"
)]
fn filters() -> Vec<(SessionFilter, Box<dyn Fn(&Known) -> bool>)> {
    let none = SessionFilter::default;
    let text = |text: &str| Some(text.to_owned());
    let total = |k: &Known| k.score.map(|(_, total)| total);
    vec![
        (none(), Box::new(|_| true)),
        (
            SessionFilter {
                agent: text("rare"),
                ..none()
            },
            Box::new(|k| k.agent == "rare"),
        ),
        (
            SessionFilter {
                agent: text("nobody"),
                ..none()
            },
            Box::new(|_| false),
        ),
        (
            SessionFilter {
                tag: text("rare"),
                ..none()
            },
            Box::new(|k| k.tag == "rare"),
        ),
        (
            SessionFilter {
                q: text("zO"),
                ..none()
            },
            Box::new(|k| k.author == "Zoe"),
        ),
        (
            SessionFilter {
                q: text("nothing"),
                ..none()
            },
            Box::new(|_| false),
        ),
        (
            SessionFilter {
                status: Some(SessionStatus::TimedOut),
                ..none()
            },
            Box::new(|k| k.status == SessionStatus::TimedOut),
        ),
        (
            SessionFilter {
                criteria: Some(hash('a')),
                ..none()
            },
            Box::new(|k| k.score.is_some_and(|s| s.0 == 'a')),
        ),
        (
            SessionFilter {
                criteria_not: Some(hash('b')),
                ..none()
            },
            Box::new(|k| k.score.is_some_and(|s| s.0 != 'b')),
        ),
        (
            SessionFilter {
                scored: Some(Scored::No),
                ..none()
            },
            Box::new(|k| k.score.is_none()),
        ),
        (
            SessionFilter {
                scored: Some(Scored::Running),
                ..none()
            },
            Box::new(|_| false),
        ),
        (
            SessionFilter {
                scored: Some(Scored::Failed),
                ..none()
            },
            Box::new(|_| false),
        ),
        (
            SessionFilter {
                min_score: Some(95),
                ..none()
            },
            Box::new(move |k| total(k) >= Some(95)),
        ),
        (
            SessionFilter {
                rating: Some(Rating::NearPerfect),
                ..none()
            },
            Box::new(move |k| total(k) >= Some(90)),
        ),
        (
            SessionFilter {
                missing_tool: text("trace s"),
                ..none()
            },
            Box::new(|k| k.misses),
        ),
        (
            SessionFilter {
                agent: text("rare"),
                from: Some(at("2025-07-01T12:00:00Z")),
                to: Some(at("2025-12-01T12:00:00Z")),
                ..none()
            },
            Box::new(|k| {
                k.agent == "rare"
                    && k.listed >= at("2025-07-01T12:00:00Z")
                    && k.listed < at("2025-12-01T12:00:00Z")
            }),
        ),
    ]
}

#[tokio::test]
async fn list_is_complete_for_every_filter_before_and_after_rollup() {
    for test in support::stores().await {
        let (store, known) = (&test.store, history());
        store_them(&test.url, &known).await;
        let begin = &known[4_500];
        let by_id = SessionFilter {
            q: Some(begin.id.to_string()[..8].to_owned()),
            ..SessionFilter::default()
        };
        let id = begin.id;
        let mut filters = filters();
        filters.push((
            by_id,
            Box::new(move |k| k.id.as_u128() >> 96 == id.as_u128() >> 96),
        ));
        for folded in [false, true] {
            if folded {
                while store.analytics().roll_up_days().await.unwrap().more {}
            }
            for (filter, finds) in &filters {
                let expected: Vec<Uuid> = known.iter().filter(|k| finds(k)).map(|k| k.id).collect();
                let (found, pages) = listed(store, filter, SessionOrder::Newest).await;
                assert_eq!(found, expected, "{filter:?}");
                // After the rollup, rare or old rows are on the first page.
                assert!(!folded || pages == 1, "{filter:?} took {pages} pages");
            }
        }
    }
}

#[tokio::test]
async fn scores_are_listed_in_order_and_filtered() {
    for test in support::stores().await {
        let (store, known) = (&test.store, history());
        store_them(&test.url, &known).await;
        for (filter, finds) in filters() {
            let mut scored: Vec<(u8, Uuid)> = known
                .iter()
                .filter(|k| finds(k))
                .filter_map(|k| Some((k.score?.1, k.id)))
                .collect();
            scored.sort_unstable();
            let lowest: Vec<Uuid> = scored.iter().map(|(_, id)| *id).collect();
            let highest: Vec<Uuid> = lowest.iter().rev().copied().collect();
            let (found, _) = listed(store, &filter, SessionOrder::LowestScore).await;
            assert_eq!(found, lowest, "{filter:?}");
            let (found, _) = listed(store, &filter, SessionOrder::HighestScore).await;
            assert_eq!(found, highest, "{filter:?}");
        }
    }
}

#[tokio::test]
async fn list_is_complete_over_more_days_than_a_page_reads() {
    const DAYS: u32 = 4_050;
    for test in support::stores().await {
        let store = &test.store;
        let begin = at("2026-01-01T00:00:00Z");
        let session = |n: u32| Known {
            id: Uuid::from_u128(u128::from(n) + 1),
            listed: begin - Days::new(u64::from(n)),
            agent: if n == 3 || n >= DAYS - 2 {
                "rare"
            } else {
                "often"
            },
            tag: "often",
            author: "ann",
            status: SessionStatus::Completed,
            score: Some(('a', 50)),
            misses: false,
        };
        let known: Vec<Known> = (0..DAYS).map(session).collect();
        store_them(&test.url, &known).await;
        let rare = SessionFilter {
            agent: Some("rare".to_owned()),
            ..SessionFilter::default()
        };
        let expected: Vec<Uuid> = known
            .iter()
            .filter(|k| k.agent == "rare")
            .map(|k| k.id)
            .collect();
        // All days are dirty first, then rolled up.
        for _ in 0..2 {
            let (found, _) = listed(store, &rare, SessionOrder::Newest).await;
            assert_eq!(found, expected);
            while store.analytics().roll_up_days().await.unwrap().more {}
        }
    }
}
