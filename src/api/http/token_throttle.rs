//! Wrong tokens: an address that shows many is answered slowly, and the log says so. A right one is never kept waiting by them: behind
//! a proxy everybody has the same address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::problem::ApiError;

/// So many wrong tokens are answered at once: somebody mistyped, or has an old one.
const FREE: u32 = 5;
/// What a further one takes.
const DELAY: Duration = Duration::from_secs(1);
/// So many wait for their answer at the same time, over all addresses. Further ones are refused at once.
const AT_ONCE: usize = 32;
/// After so long without a wrong token an address is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// The most addresses that are remembered.
const PEERS: usize = 1_024;

#[derive(Debug)]
pub(super) struct TokenThrottle {
    /// How many wrong tokens an address showed, and when it showed the last one.
    peers: Mutex<HashMap<Option<IpAddr>, (u32, Instant)>>,
    slowed: Semaphore,
}

impl Default for TokenThrottle {
    fn default() -> Self {
        Self {
            peers: Mutex::default(),
            slowed: Semaphore::new(AT_ONCE),
        }
    }
}

impl TokenThrottle {
    /// What was found for the token that an address shows; `None`: it is a wrong one.
    pub(super) async fn check<T>(
        &self,
        peer: Option<IpAddr>,
        found: Option<T>,
    ) -> Result<T, ApiError> {
        if let Some(found) = found {
            return Ok(found);
        }
        let wrong = self.count(peer.map(network_of));
        if wrong.is_power_of_two() {
            let peer = peer.map(tracing::field::display);
            tracing::warn!(peer, wrong, "a token that is none of those configured");
        }
        if wrong > FREE {
            let _slowed = self
                .slowed
                .try_acquire()
                .map_err(|_| ApiError::TooManyAttempts)?;
            sleep(DELAY).await;
        }
        Err(ApiError::Unauthorized(
            "the token is not one of those configured; of a line name:scopes:token only the last part is sent",
        ))
    }

    fn wrong(&self, network: Option<IpAddr>) -> u32 {
        let peers = self.peers.lock();
        let fresh = peers.get(&network).filter(|(_, last)| is_fresh(*last));
        fresh.map_or(0, |(wrong, _)| *wrong)
    }

    fn count(&self, network: Option<IpAddr>) -> u32 {
        let wrong = self.wrong(network).saturating_add(1);
        let mut peers = self.peers.lock();
        if peers.len() >= PEERS {
            peers.retain(|_, (_, last)| is_fresh(*last));
        }
        // Whoever has so many addresses is slowed down by none of them.
        if peers.len() >= PEERS {
            peers.clear();
        }
        peers.insert(network, (wrong, Instant::now()));
        wrong
    }
}

fn is_fresh(last: Instant) -> bool {
    last.elapsed() < FORGOTTEN_AFTER
}

/// Whoever has one address of IPv6 has the 2^64 of its network.
fn network_of(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => peer,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    fn peer(text: &str) -> Option<IpAddr> {
        text.parse().ok()
    }

    /// How long the answer to a wrong token takes; `None`: too many are being answered.
    async fn wrong(throttle: &TokenThrottle, peer: Option<IpAddr>) -> Option<Duration> {
        let begun = Instant::now();
        match throttle.check(peer, None::<()>).await {
            Err(ApiError::Unauthorized(_)) => Some(begun.elapsed()),
            _ => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_tokens_of_an_address_slow_down_until_it_is_forgotten() {
        let throttle = TokenThrottle::default();
        let bad = ["2001:db8::1", "2001:db8::ffff:1"].map(peer);
        for n in 0..FREE as usize {
            assert_eq!(wrong(&throttle, bad[n % 2]).await, Some(Duration::ZERO));
        }
        assert_eq!(wrong(&throttle, bad[0]).await, Some(DELAY));
        assert!(throttle.check(bad[1], Some(())).await.is_ok());
        assert_eq!(
            wrong(&throttle, peer("10.0.0.1")).await,
            Some(Duration::ZERO)
        );
        tokio::time::advance(FORGOTTEN_AFTER).await;
        assert_eq!(wrong(&throttle, bad[0]).await, Some(Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_are_slowed_down_at_once_and_no_more_and_no_right_one() {
        let throttle = TokenThrottle::default();
        let bad = peer("10.0.0.1");
        for _ in 0..FREE {
            wrong(&throttle, bad).await;
        }
        let right = async {
            sleep(DELAY / 2).await;
            let begun = Instant::now();
            assert!(throttle.check(bad, Some(())).await.is_ok());
            begun.elapsed()
        };
        let all = join_all((0..AT_ONCE + 3).map(|_| wrong(&throttle, bad)));
        let (all, right) = tokio::join!(all, right);
        assert_eq!(all.iter().flatten().count(), AT_ONCE);
        assert_eq!(right, Duration::ZERO);
        assert_eq!(
            wrong(&throttle, bad).await,
            Some(DELAY),
            "they have been answered"
        );
    }

    #[test]
    fn addresses_are_remembered_in_bounds() {
        let throttle = TokenThrottle::default();
        for n in 0..3 * PEERS {
            throttle.count(Some(IpAddr::V4(u32::try_from(n).unwrap().into())));
            assert!(throttle.peers.lock().len() <= PEERS);
        }
    }
}
