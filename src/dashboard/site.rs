//! What the pages share: the door to the API, what the process is, and the figures of every page's head.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::frame::Strip;
use crate::api::{Caller, Door};
use crate::clock::Clock;
use crate::config::Shown;

/// How old the figures in a page's head may be: many tabs cost one look.
const STRIP_KEPT: Duration = Duration::from_secs(1);

/// What the process says of itself.
#[derive(Clone)]
pub struct About {
    /// The time, for "3 minutes ago".
    pub clock: Arc<dyn Clock>,
    /// Its settings with where each comes from; passwords and tokens are left out.
    pub settings: Vec<Shown>,
}

/// The state of every page's handler.
#[derive(Clone)]
pub(super) struct Site(Arc<Parts>);

/// What there is.
pub(super) struct Parts {
    /// The API.
    pub(super) door: Door,
    /// The process.
    pub(super) about: About,
    strip: Mutex<Option<(Instant, Strip)>>,
}

impl std::ops::Deref for Site {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Site {
    /// A site behind this door.
    pub(super) fn new(door: Door, about: About) -> Self {
        Self(Arc::new(Parts {
            door,
            about,
            strip: Mutex::new(None),
        }))
    }

    /// Forgets the figures: somebody did something that they may show.
    pub(super) async fn forget_strip(&self) {
        *self.strip.lock().await = None;
    }

    /// The figures of every page's head, at most a second old. The same for everybody who may read.
    pub(super) async fn strip(&self, caller: &Caller) -> Strip {
        let mut kept = self.strip.lock().await;
        if let Some((at, strip)) = kept.as_ref()
            && at.elapsed() < STRIP_KEPT
            // Who hears that Redis is back asks at once.
            && !strip.redis_away
        {
            return strip.clone();
        }
        let strip = Strip::read(self, caller).await;
        *kept = Some((Instant::now(), strip.clone()));
        strip
    }
}
