//! Signed-in browsers: until expiry or sign-out.

use chrono::TimeDelta;
use gavel::store::SignIn;

use super::fixtures::{hash, now};
use crate::support;

#[tokio::test]
async fn sign_in_is_found_until_its_end_and_then_pruned() {
    for test in support::stores().await {
        let (store, now) = (&test.store, now());
        let sign_in = |digit, hours| SignIn {
            id_hash: hash(digit),
            token_name: "ci".to_owned(),
            token_hash: hash('f'),
            created_at: now,
            expires_at: now + TimeDelta::hours(hours),
        };
        let (short, long, ended) = (sign_in('a', 1), sign_in('b', 12), sign_in('c', 12));
        for new in [&short, &long, &ended] {
            store.sign_ins().add(new).await.unwrap();
        }
        store.sign_ins().end(&ended.id_hash).await.unwrap();
        store.sign_ins().end(&ended.id_hash).await.unwrap();
        for (of, later, is_there) in [
            (&short, 0, true),
            (&short, 1, false),
            (&long, 1, true),
            (&long, 12, false),
            (&ended, 0, false),
        ] {
            let at = now + TimeDelta::hours(later);
            let found = store.sign_ins().find(&of.id_hash, at).await.unwrap();
            assert_eq!(found.as_ref(), is_there.then_some(of), "{later} h");
        }
        let past = now + TimeDelta::hours(1);
        assert_eq!(store.retention().prune(past).await.unwrap(), 1);
        let kept = store.sign_ins().find(&short.id_hash, now).await.unwrap();
        assert_eq!(kept, None);
    }
}
