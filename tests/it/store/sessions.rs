//! Sessions: put, read, state for enqueueing, and the list with its filters.

use gavel::job::JobState;
use gavel::score::session::{Message, Rating};
use gavel::store::{Cursor, SessionFilter, SessionOrder, SessionRecord, Store, StoreError};
use serde_json::json;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::fixtures::{
    accept, claim, current_score, failed, hash, minutes, new_job, new_score, now, record, scored,
    scored_session, scored_with, session, session_with_job,
};
use crate::support;
use gavel::wire::{Outdated, PutOutcome, Scored, SessionStatus};

async fn put(store: &Store, session: &SessionRecord) -> PutOutcome {
    store.sessions().put(session, now()).await.unwrap()
}

async fn find(store: &Store, filter: SessionFilter) -> Vec<Uuid> {
    let page = store
        .sessions()
        .list(&filter, SessionOrder::Newest, None, 500)
        .await
        .unwrap();
    page.items.iter().map(|line| line.session_id).collect()
}

#[tokio::test]
async fn session_is_replaced_by_its_source_only_if_requested() {
    for test in support::stores().await {
        let store = &test.store;
        let own = session(Uuid::now_v7());
        let of_its_source = async |session: &SessionRecord| {
            let put = store.sessions().put_of_its_source(session, now());
            put.await.unwrap()
        };
        assert_eq!(of_its_source(&own).await, PutOutcome::New);
        let mut other = own.clone();
        (other.source, other.final_analysis) = ("tarsy".to_owned(), Some("else".to_owned()));
        assert_eq!(of_its_source(&other).await, PutOutcome::Unchanged);
        assert_eq!(
            store.sessions().get(own.session_id).await.unwrap(),
            Some(own.clone())
        );
        other.source = own.source;
        assert_eq!(of_its_source(&other).await, PutOutcome::Updated);
        assert_eq!(of_its_source(&other).await, PutOutcome::Unchanged);
    }
}

#[tokio::test]
async fn session_reads_back_as_it_was_put() {
    for test in support::stores().await {
        let mut whole = session(Uuid::now_v7());
        whole.alert_data = json!("a string, ünï 🦀");
        whole.conversation.push(Message {
            role: "tool".to_owned(),
            content: "日本語 \"quoted\" \\ \n".to_owned(),
            tool_name: Some("kubectl".to_owned()),
            agent: Some("Ärger".to_owned()),
            stage: Some("validation".to_owned()),
            at: Some("2026-01-01T00:00:00Z".to_owned()),
        });
        assert_eq!(put(&test.store, &whole).await, PutOutcome::New);
        assert_eq!(
            test.store.sessions().get(whole.session_id).await.unwrap(),
            Some(whole)
        );

        let bare = SessionRecord {
            session_id: Uuid::now_v7(),
            source: "file".to_owned(),
            external_id: Some("run/7".to_owned()),
            status: SessionStatus::Pending,
            alert_type: None,
            agent: None,
            author: None,
            alert_data: json!(7),
            conversation: vec![],
            final_analysis: None,
            tools: vec![],
            tags: vec![],
            started_at: None,
            completed_at: None,
        };
        put(&test.store, &bare).await;
        assert_eq!(
            test.store.sessions().get(bare.session_id).await.unwrap(),
            Some(bare)
        );
        assert_eq!(
            test.store.sessions().get(Uuid::now_v7()).await.unwrap(),
            None
        );
    }
}

#[tokio::test]
async fn sessions_of_an_older_reader_are_reported_until_put_again() {
    for test in support::stores().await {
        let store = &test.store;
        let mut ids = [(); 3].map(|()| Uuid::now_v7());
        ids[0] = scored_session(store, 60).await;
        ids.sort_unstable();
        let of_tarsy = |id| SessionRecord {
            source: "tarsy".to_owned(),
            ..session(id)
        };
        for id in ids {
            put(store, &of_tarsy(id)).await;
        }
        put(store, &session(Uuid::now_v7())).await;
        assert_eq!(
            store.sessions().outdated().await.unwrap(),
            Outdated::default()
        );

        // State left by an older release: no reader, and a hash without one.
        let older = "update alert_sessions set reader = null, content_hash = 'older'";
        support::execute(&test.url, older).await.unwrap();
        let found = Outdated {
            sessions: 3,
            scores: 1,
            session_ids: ids.to_vec(),
        };
        assert_eq!(store.sessions().outdated().await.unwrap(), found);
        for id in ids {
            assert_eq!(put(store, &of_tarsy(id)).await, PutOutcome::Updated);
        }
        assert_eq!(
            store.sessions().outdated().await.unwrap(),
            Outdated::default()
        );
    }
}

#[tokio::test]
async fn nul_characters_of_a_session_become_replacement_characters() {
    for test in support::stores().await {
        let mut new = session(Uuid::now_v7());
        new.alert_data = json!({"k\u{0}": "v\u{0}"});
        new.conversation[0].content = "\u{0}".to_owned();
        new.final_analysis = Some("\u{0}".to_owned());
        new.tags = vec!["t\u{0}".to_owned()];
        assert_eq!(put(&test.store, &new).await, PutOutcome::New);
        assert_eq!(put(&test.store, &new).await, PutOutcome::Unchanged);
        let read = test
            .store
            .sessions()
            .get(new.session_id)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(read.alert_data, json!({"k\u{fffd}": "v\u{fffd}"}));
        assert_eq!(read.conversation[0].content, "\u{fffd}");
        assert_eq!(read.final_analysis.as_deref(), Some("\u{fffd}"));
        assert_eq!(read.tags, ["t\u{fffd}"]);
    }
}

#[tokio::test]
async fn put_distinguishes_new_updated_and_unchanged() {
    type Change = fn(&mut SessionRecord);
    let changes: [Change; 12] = [
        |s| s.source = "file".to_owned(),
        |s| s.status = SessionStatus::Failed,
        |s| s.alert_type = None,
        |s| s.agent = Some("other".to_owned()),
        |s| s.author = Some(String::new()),
        |s| s.alert_data = json!("other"),
        |s| s.conversation.clear(),
        |s| s.final_analysis = None,
        |s| s.tools.push("x".to_owned()),
        |s| s.tags = vec!["a".to_owned(), "b".to_owned()],
        |s| s.started_at = None,
        |s| s.completed_at = Some(now() - minutes(5)),
    ];
    for test in support::stores().await {
        let mut record = session(Uuid::now_v7());
        assert_eq!(put(&test.store, &record).await, PutOutcome::New);
        for (n, change) in changes.iter().enumerate() {
            assert_eq!(
                put(&test.store, &record).await,
                PutOutcome::Unchanged,
                "before {n}"
            );
            change(&mut record);
            assert_eq!(
                put(&test.store, &record).await,
                PutOutcome::Updated,
                "change {n}"
            );
        }
        assert_eq!(
            test.store.sessions().get(record.session_id).await.unwrap(),
            Some(record)
        );
    }
}

#[tokio::test]
async fn put_preserves_scores_and_jobs() {
    for test in support::stores().await {
        let session_id = scored_session(&test.store, 66).await;
        let job = accept(&test.store, new_job(Some(session_id))).await;
        let mut changed = session(session_id);
        changed.agent = None;
        assert_eq!(put(&test.store, &changed).await, PutOutcome::Updated);
        let score = current_score(&test.store, session_id).await;
        assert_eq!(score.score.total_score, 66);
        let view = test
            .store
            .sessions()
            .scoring_facts(session_id)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(view.active_job.unwrap().job_id, job);
    }
}

#[tokio::test]
async fn scoring_view_shows_active_job_score_and_later_failures() {
    for test in support::stores().await {
        let store = &test.store;
        let sessions = store.sessions();
        assert!(
            sessions
                .scoring_facts(Uuid::now_v7())
                .await
                .unwrap()
                .is_none()
        );
        let (session_id, first) = session_with_job(store).await;
        let view = async || sessions.scoring_facts(session_id).await.unwrap().unwrap();

        let seen = view().await;
        assert_eq!(seen.status, SessionStatus::Completed);
        assert!(seen.has_conversation && seen.current_score.is_none());
        assert_eq!(seen.active_job.as_ref().map(|job| job.job_id), Some(first));

        let run = claim(store, first, Uuid::now_v7()).await;
        assert_eq!(view().await.active_job.unwrap().state, JobState::Running);
        record(store, &run, failed()).await;
        let seen = view().await;
        assert!(seen.active_job.is_none());
        assert_eq!(seen.last_failed_job.map(|job| job.job_id), Some(first));

        let second = accept(store, new_job(Some(session_id))).await;
        let seen = view().await;
        assert_eq!(seen.active_job.map(|job| job.job_id), Some(second));
        assert_eq!(seen.last_failed_job.map(|job| job.job_id), Some(first));
        let run = claim(store, second, Uuid::now_v7()).await;
        record(store, &run, scored(session_id, 77)).await;
        let seen = view().await;
        assert!(seen.active_job.is_none() && seen.last_failed_job.is_none());
        let current = current_score(store, session_id).await;
        let score = seen.current_score.unwrap();
        assert_eq!(
            (score.score_id, score.criteria_hash, score.simulated),
            (current.score_id, hash('a'), false)
        );

        let mut empty = session(Uuid::now_v7());
        empty.conversation.clear();
        put(store, &empty).await;
        let seen = sessions
            .scoring_facts(empty.session_id)
            .await
            .unwrap()
            .unwrap();
        assert!(!seen.has_conversation);
    }
}

#[tokio::test]
async fn session_pages_are_newest_first_even_with_equal_times() {
    for test in support::stores().await {
        let store = &test.store;
        let at = now();
        let mut expected = Vec::new();
        for n in 0..7 {
            let mut new = session(Uuid::now_v7());
            // Three times, and two sessions that never completed: those count as first seen now.
            new.completed_at = (n > 1).then(|| at - minutes(n / 3 + 1));
            let seen = at + minutes(n);
            store.sessions().put(&new, seen).await.unwrap();
            expected.push((new.completed_at.unwrap_or(seen), new.session_id));
        }
        expected.sort();
        expected.reverse();
        let expected: Vec<Uuid> = expected.into_iter().map(|(_, id)| id).collect();
        let mut seen = Vec::new();
        let mut after: Option<Cursor> = None;
        loop {
            let filter = SessionFilter::default();
            let page = store
                .sessions()
                .list(&filter, SessionOrder::Newest, after.as_ref(), 2)
                .await
                .unwrap();
            seen.extend(page.items.iter().map(|line| line.session_id));
            after = page.next_cursor;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, expected);
        let bad = Cursor("s00".to_owned());
        let error = store
            .sessions()
            .list(
                &SessionFilter::default(),
                SessionOrder::Newest,
                Some(&bad),
                2,
            )
            .await
            .unwrap_err();
        assert!(matches!(error, StoreError::BadCursor(_)), "{error}");
    }
}

#[tokio::test]
async fn row_shows_the_session_its_score_and_its_active_job() {
    for test in support::stores().await {
        let store = &test.store;
        let session_id = scored_session(store, 66).await;
        let job = accept(store, new_job(Some(session_id))).await;
        let page = store
            .sessions()
            .list(&SessionFilter::default(), SessionOrder::Newest, None, 9)
            .await
            .unwrap();
        let line = &page.items[0];
        let current = current_score(store, session_id).await;
        let by = "tester".to_owned();
        let at = current.scored_at;
        let score = (current.score_id, 66, hash('a'), false, at, by);
        assert_eq!(line.score, Some(score));
        assert_eq!(line.active_job, Some((job, JobState::Queued)));
        assert_eq!(line.tags, ["prod"]);
        assert_eq!(line.alert_type.as_deref(), Some("PodCrashLoop"));
        assert_eq!(line.status, SessionStatus::Completed);
    }
}

#[expect(clippy::too_many_lines, reason = "a table of cases")]
#[tokio::test]
async fn session_filters_narrow_the_list() {
    for test in support::stores().await {
        let store = &test.store;
        let mut a = session(Uuid::from_u128(0xa1a1_a1a1 << 96 | 7));
        a.agent = Some("Ärger_100%".to_owned());
        a.completed_at = Some(now() - minutes(60));
        let mut b = session(Uuid::from_u128(0xb1b1_b1b1 << 96 | 7));
        b.status = SessionStatus::TimedOut;
        b.alert_type = Some("Disk".to_owned());
        b.author = Some("BOB".to_owned());
        b.tags = vec!["staging".to_owned(), "a\"b".to_owned()];
        put(store, &a).await;
        put(store, &b).await;
        let (a, b) = (a.session_id, b.session_id);
        let text = |text: &str| Some(text.to_owned());
        let by = SessionFilter::default;
        let cases = [
            (
                SessionFilter {
                    status: Some(SessionStatus::TimedOut),
                    ..by()
                },
                vec![b],
            ),
            (
                SessionFilter {
                    agent: text("Ärger_100%"),
                    ..by()
                },
                vec![a],
            ),
            (
                SessionFilter {
                    agent: text("ärger"),
                    ..by()
                },
                vec![],
            ),
            (
                SessionFilter {
                    alert_type: text("Disk"),
                    ..by()
                },
                vec![b],
            ),
            (
                SessionFilter {
                    tag: text("staging"),
                    ..by()
                },
                vec![b],
            ),
            (
                SessionFilter {
                    tag: text("a\"b"),
                    ..by()
                },
                vec![b],
            ),
            (
                SessionFilter {
                    tag: text("stag"),
                    ..by()
                },
                vec![],
            ),
            (
                SessionFilter {
                    from: Some(now() - minutes(30)),
                    ..by()
                },
                vec![b],
            ),
            (
                SessionFilter {
                    to: Some(now() - minutes(30)),
                    ..by()
                },
                vec![a],
            ),
            (
                SessionFilter {
                    ids: vec![a, Uuid::now_v7(), Uuid::now_v7()],
                    ..by()
                },
                vec![a],
            ),
            (
                SessionFilter {
                    q: text("ÄRGER_1"),
                    ..by()
                },
                vec![a],
            ),
            (
                SessionFilter {
                    q: text("ärgerx1"),
                    ..by()
                },
                vec![],
            ),
            (
                SessionFilter {
                    q: text("bo"),
                    ..by()
                },
                vec![b],
            ),
            (
                SessionFilter {
                    q: text("dis"),
                    ..by()
                },
                vec![b],
            ),
            (
                SessionFilter {
                    q: text("%"),
                    ..by()
                },
                vec![a],
            ),
            (
                SessionFilter {
                    q: text(&a.to_string().to_uppercase()),
                    ..by()
                },
                vec![a],
            ),
            (
                SessionFilter {
                    q: text(&a.simple().to_string()[..31]),
                    ..by()
                },
                vec![a],
            ),
            (
                SessionFilter {
                    q: text(&b.to_string()[..8]),
                    tag: text("prod"),
                    ..by()
                },
                vec![],
            ),
            (
                SessionFilter {
                    q: text(&b.to_string()[..8]),
                    ..by()
                },
                vec![b],
            ),
        ];
        for (filter, expected) in cases {
            assert_eq!(find(store, filter.clone()).await, expected, "{filter:?}");
        }
    }
}

#[expect(clippy::too_many_lines, reason = "a table of cases")]
#[tokio::test]
async fn score_filters_use_the_current_score() {
    for test in support::stores().await {
        let store = &test.store;
        let weak = scored_session(store, 45).await;
        let good = scored_session(store, 89).await;
        let (running, _) = session_with_job(store).await;
        let (broken, id) = session_with_job(store).await;
        let run = claim(store, id, Uuid::now_v7()).await;
        record(store, &run, failed()).await;
        // Rescored under other criteria: 45 is no longer its score.
        let again = accept(store, new_job(Some(weak))).await;
        let run = claim(store, again, Uuid::now_v7()).await;
        let mut new = new_score(weak, 59);
        new.criteria_hash = hash('b');
        record(store, &run, scored_with(new)).await;

        let by = SessionFilter::default;
        let cases = [
            (
                SessionFilter {
                    scored: Some(Scored::Yes),
                    ..by()
                },
                vec![weak, good],
            ),
            (
                SessionFilter {
                    scored: Some(Scored::No),
                    ..by()
                },
                vec![running, broken],
            ),
            (
                SessionFilter {
                    scored: Some(Scored::Running),
                    ..by()
                },
                vec![running],
            ),
            (
                SessionFilter {
                    scored: Some(Scored::Failed),
                    ..by()
                },
                vec![broken],
            ),
            (
                SessionFilter {
                    rating: Some(Rating::Weak),
                    ..by()
                },
                vec![weak],
            ),
            (
                SessionFilter {
                    rating: Some(Rating::Good),
                    ..by()
                },
                vec![good],
            ),
            (
                SessionFilter {
                    rating: Some(Rating::Failed),
                    ..by()
                },
                vec![],
            ),
            (
                SessionFilter {
                    min_score: Some(59),
                    max_score: Some(59),
                    ..by()
                },
                vec![weak],
            ),
            (
                SessionFilter {
                    max_score: Some(58),
                    ..by()
                },
                vec![],
            ),
            (
                SessionFilter {
                    criteria: Some(hash('a')),
                    ..by()
                },
                vec![good],
            ),
            (
                SessionFilter {
                    criteria_not: Some(hash('a')),
                    ..by()
                },
                vec![weak],
            ),
            (by(), vec![weak, good, running, broken]),
        ];
        for (filter, mut expected) in cases {
            let mut found = find(store, filter.clone()).await;
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{filter:?}");
        }
    }
}

#[tokio::test]
async fn search_finds_parts_of_names_and_prefixes_of_ids() {
    for test in support::stores().await {
        let record = SessionRecord {
            alert_type: Some("KubePodCrashLooping".to_owned()),
            agent: Some("agent_7%".to_owned()),
            author: Some("Ända Öz".to_owned()),
            external_id: Some("Läufe/run-42".to_owned()),
            ..session(Uuid::now_v7())
        };
        put(&test.store, &record).await;
        let id = record.session_id.to_string();
        for (q, found) in [
            ("podCRASH", 1),
            ("t_7", 1),
            ("t-7", 0),
            ("7%", 1),
            ("DA ÖZ", 1),
            (&id[..8], 1),
            (&id[9..], 0),
            ("crashes", 0),
            ("Läufe/run-4", 1),
            ("Läufe/run-42", 1),
            ("Läufe/run-421", 0),
            ("run-42", 0),
        ] {
            let filter = SessionFilter {
                q: Some(q.to_owned()),
                ..SessionFilter::default()
            };
            assert_eq!(find(&test.store, filter).await.len(), found, "{q}");
        }
    }
}

#[tokio::test]
async fn id_with_misplaced_hyphens_finds_no_session() {
    for test in support::stores().await {
        let session_id = Uuid::now_v7();
        let record = session(session_id);
        test.store.sessions().put(&record, now()).await.unwrap();
        let misplaced = session_id.to_string().replacen('-', "0-", 1);
        for (q, found) in [(session_id.to_string(), 1), (misplaced, 0)] {
            let filter = SessionFilter {
                q: Some(q),
                ..SessionFilter::default()
            };
            assert_eq!(find(&test.store, filter).await.len(), found);
        }
    }
}

#[tokio::test]
async fn ids_above_the_lookup_limit_are_rejected() {
    for test in support::stores().await {
        let filter = SessionFilter {
            ids: vec![Uuid::nil(); 10_001],
            ..SessionFilter::default()
        };
        let error = test
            .store
            .sessions()
            .list(&filter, SessionOrder::Newest, None, 2)
            .await
            .unwrap_err();
        assert!(matches!(error, StoreError::Unexpected { .. }), "{error}");
        assert!(error.to_string().contains("10001 ids"), "{error}");
    }
}

#[tokio::test]
async fn concurrent_readers_each_get_their_row() {
    for test in support::stores().await {
        let sessions: Vec<SessionRecord> = (0..40).map(|_| session(Uuid::now_v7())).collect();
        for one in &sessions {
            put(&test.store, one).await;
        }
        let unknown = Uuid::now_v7();
        let mut readers = JoinSet::new();
        // More than fit into one statement, with ten reads of each row.
        for wanted in (0..10).flat_map(|_| sessions.clone()) {
            let store = test.store.clone();
            readers.spawn(async move {
                let id = wanted.session_id;
                let (read, view, none) = tokio::join!(
                    store.sessions().get(id),
                    store.sessions().scoring_facts(id),
                    store.sessions().get(unknown)
                );
                assert_eq!(read.unwrap(), Some(wanted));
                assert!(view.unwrap().is_some());
                assert!(none.unwrap().is_none());
            });
        }
        readers.join_all().await;
        test.store.close().await;
    }
}
