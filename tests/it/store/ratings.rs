//! What people say of scores and sessions: one of each person, and what of it meets a score.

use gavel::job::Purpose;
use gavel::score::trust::{Given, RatedTotal};
use gavel::store::{Basis, Cursor, NewRating, RatingOf, Store, StoreError};
use gavel::wire::{Quality, Rating, Scale};
use uuid::Uuid;

use super::fixtures::{hash, minutes, now};
use super::trust::{Scored, real, score, stored};
use crate::support;

fn new_rating(of: RatingOf, by: &str, given: Given) -> NewRating {
    NewRating {
        rating_id: Uuid::now_v7(),
        of,
        given,
        by: by.to_owned(),
        comment: Some("why".to_owned()),
        at: now(),
    }
}

#[tokio::test]
async fn a_person_has_one_rating_of_a_score_and_one_of_its_session() {
    for test in support::stores().await {
        let store = &test.store;
        let id = stored(store).await;
        let score_id = score(store, real(id, 'a', 50)).await;
        let (score, session) = (RatingOf::Score(score_id), RatingOf::Session(id));
        let first = new_rating(score, "ann", Given::Total(60));
        let stored = store.ratings().put(&first).await.unwrap().unwrap();
        assert_eq!(
            (stored.rating_id, stored.session_id, stored.score_id),
            (first.rating_id, id, Some(score_id))
        );
        assert_eq!(
            (stored.total, stored.at, stored.comment.as_deref()),
            (Some(60), first.at, Some("why"))
        );
        let mut second = new_rating(score, "ann", Given::Rating(Rating::Weak));
        second.comment = None;
        second.at = now() + minutes(1);
        let replaced = store.ratings().put(&second).await.unwrap().unwrap();
        assert_eq!(replaced.rating_id, first.rating_id);
        assert_eq!(
            (
                replaced.total,
                replaced.rating,
                replaced.at,
                replaced.comment
            ),
            (None, Some(Rating::Weak), second.at, None)
        );
        for (of, by) in [(session, "ann"), (session, "bob"), (score, "bob")] {
            let new = new_rating(of, by, Given::Quality(Quality::Accurate));
            let stored = store.ratings().put(&new).await.unwrap().unwrap();
            assert_eq!(
                stored.rating_id, new.rating_id,
                "{by} rates {of:?} for the first time"
            );
        }
        let of_score = store.ratings().list(score, None, 50).await.unwrap();
        assert_eq!((of_score.items.len(), of_score.next_cursor), (2, None));
        let all = store.ratings().list(session, None, 50).await.unwrap();
        assert_eq!(
            all.items.len(),
            4,
            "those of its scores are among a session's"
        );
        assert_eq!(all.items[0].rating_id, first.rating_id, "the newest first");
        let page = store.ratings().list(session, None, 3).await.unwrap();
        let rest = store.ratings().list(session, page.next_cursor.as_ref(), 3);
        let rest = rest.await.unwrap();
        assert_eq!([page.items, rest.items].concat(), all.items);
    }
}

#[tokio::test]
async fn what_is_not_there_can_not_be_rated() {
    for test in support::stores().await {
        let ratings = test.store.ratings();
        for of in [
            RatingOf::Score(Uuid::now_v7()),
            RatingOf::Session(Uuid::now_v7()),
        ] {
            let new = new_rating(of, "ann", Given::Total(1));
            assert_eq!(ratings.put(&new).await.unwrap(), None);
            assert!(ratings.list(of, None, 1).await.unwrap().items.is_empty());
        }
        let cursor = Cursor("nowhere".to_owned());
        let listed = ratings.list(RatingOf::Session(Uuid::now_v7()), Some(&cursor), 1);
        assert!(matches!(listed.await, Err(StoreError::BadCursor(_))));
    }
}

#[tokio::test]
async fn what_another_system_says_is_noted_once_and_again_when_it_changes() {
    for test in support::stores().await {
        let store = &test.store;
        let ratings = store.ratings();
        let (one, other, unknown) = (stored(store).await, stored(store).await, Uuid::now_v7());
        let said = [
            (one, Quality::Inaccurate),
            (one, Quality::Accurate),
            (other, Quality::Inaccurate),
            (unknown, Quality::Accurate),
        ];
        let at = now();
        assert_eq!(ratings.note("tarsy", &said, at).await.unwrap(), 2);
        let later = at + minutes(5);
        assert_eq!(ratings.note("tarsy", &said, later).await.unwrap(), 0);
        assert_eq!(ratings.note("tarsy", &[], later).await.unwrap(), 0);
        let changed = [(other, Quality::PartiallyAccurate)];
        assert_eq!(ratings.note("tarsy", &changed, later).await.unwrap(), 1);
        for (id, quality, noted_at) in [
            (one, Quality::Accurate, at),
            (other, Quality::PartiallyAccurate, later),
        ] {
            let listed = ratings.list(RatingOf::Session(id), None, 5).await;
            let [row] = listed.unwrap().items.try_into().unwrap();
            assert_eq!((row.quality, row.at), (Some(quality), noted_at));
            assert_eq!((row.by.as_str(), row.score_id), ("tarsy", None));
        }
    }
}

fn judged(given: Given, ours: u8, n: u64) -> RatedTotal {
    RatedTotal { given, ours, n }
}

async fn rate(store: &Store, of: RatingOf, by: &str, given: Given) {
    let new = new_rating(of, by, given);
    store.ratings().put(&new).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_rating_of_a_session_meets_its_newest_score_and_one_of_a_score_that_one() {
    for test in support::stores().await {
        let store = &test.store;
        let ratings = store.ratings();
        let (id, other) = (stored(store).await, stored(store).await);
        let old = score(store, real(id, 'a', 40)).await;
        let newest = score(store, real(id, 'a', 50)).await;
        let repeat = Scored {
            purpose: Purpose::Repeat,
            ..real(id, 'a', 77)
        };
        score(store, repeat).await;
        score(store, real(id, 'b', 90)).await;
        score(store, real(other, 'a', 20)).await;
        rate(
            store,
            RatingOf::Session(id),
            "ann",
            Given::Quality(Quality::Accurate),
        )
        .await;
        rate(
            store,
            RatingOf::Session(other),
            "ann",
            Given::Quality(Quality::Inaccurate),
        )
        .await;
        // Said of the newest score itself, so that what bob says of the session is not held against it, too.
        rate(store, RatingOf::Score(newest), "bob", Given::Total(55)).await;
        rate(store, RatingOf::Session(id), "bob", Given::Total(99)).await;
        rate(
            store,
            RatingOf::Score(old),
            "bob",
            Given::Rating(Rating::Good),
        )
        .await;
        let mut met = ratings.met(&hash('a')).await.unwrap();
        met.judged.sort_by_key(|judged| judged.ours);
        let rest = met.judged.split_off(2);
        assert_eq!(
            met.judged,
            [
                judged(Given::Quality(Quality::Inaccurate), 20, 1),
                judged(Given::Rating(Rating::Good), 40, 1),
            ]
        );
        assert_eq!(rest.len(), 2, "{rest:?}");
        for expected in [
            judged(Given::Quality(Quality::Accurate), 50, 1),
            judged(Given::Total(55), 50, 1),
        ] {
            assert!(rest.contains(&expected), "{expected:?} in {rest:?}");
        }
        met.people.sort_unstable();
        assert_eq!(met.people, [(Scale::Ratings, 1, 2), (Scale::Quality, 1, 2)]);
        assert_eq!(met.basis, Basis::Real);
        // Under other criteria both people's words of the session meet the one score there.
        let other = ratings.met(&hash('b')).await.unwrap();
        assert_eq!(other.judged.iter().map(|judged| judged.n).sum::<u64>(), 2);
        assert!(ratings.met(&hash('c')).await.unwrap().judged.is_empty());
    }
}

#[tokio::test]
async fn simulated_scores_meet_ratings_only_where_no_other_was_rated() {
    for test in support::stores().await {
        let store = &test.store;
        let id = stored(store).await;
        let simulated = Scored {
            simulated: true,
            ..real(id, 'a', 90)
        };
        score(store, simulated).await;
        rate(store, RatingOf::Session(id), "ann", Given::Total(10)).await;
        let met = store.ratings().met(&hash('a')).await.unwrap();
        assert_eq!((met.basis, met.judged.len()), (Basis::Simulated, 1));
        score(store, real(id, 'a', 30)).await;
        let met = store.ratings().met(&hash('a')).await.unwrap();
        assert_eq!(met.basis, Basis::Real);
        assert_eq!(met.judged, [judged(Given::Total(10), 30, 1)]);
    }
}

#[tokio::test]
async fn unrated_sessions_are_listed_with_total_and_range() {
    for test in support::stores().await {
        let store = &test.store;
        let session = stored(store).await;
        for total in [40, 70] {
            score(store, real(session, 'a', total)).await;
        }
        let listed = store.ratings().unrated("ann", 10).await.unwrap();
        let listed: Vec<_> = listed
            .iter()
            .map(|one| (one.session_id, one.total, one.range))
            .collect();
        assert_eq!(listed, [(session, 70, 30)]);
    }
}
