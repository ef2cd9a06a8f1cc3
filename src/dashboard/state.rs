//! What the pages share: the in-process client of the API, what the process is, and the figures of every page's head.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::frame::StatusBar;
use crate::api::{Caller, InProcessClient};
use crate::clock::Clock;
use crate::config::Shown;

/// How old the figures in a page's head may be: many tabs cost one look.
const STATUS_BAR_KEPT: Duration = Duration::from_secs(1);

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
pub(super) struct PageState(Arc<Parts>);

/// What there is.
pub(super) struct Parts {
    /// The API.
    pub(super) client: InProcessClient,
    /// The process.
    pub(super) about: About,
    status_bar: Mutex<Option<(Instant, StatusBar)>>,
}

impl std::ops::Deref for PageState {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl PageState {
    /// The state of pages that ask this client.
    pub(super) fn new(client: InProcessClient, about: About) -> Self {
        Self(Arc::new(Parts {
            client,
            about,
            status_bar: Mutex::new(None),
        }))
    }

    /// Forgets the figures: somebody did something that they may show.
    pub(super) async fn forget_status_bar(&self) {
        *self.status_bar.lock().await = None;
    }

    /// The figures of every page's head, at most a second old. The same for everybody who may read.
    pub(super) async fn status_bar(&self, caller: &Caller) -> StatusBar {
        let mut kept = self.status_bar.lock().await;
        if let Some((at, status_bar)) = kept.as_ref()
            && at.elapsed() < STATUS_BAR_KEPT
            // Who hears that Redis is back asks at once.
            && !status_bar.redis_away
        {
            return status_bar.clone();
        }
        let status_bar = StatusBar::read(self, caller).await;
        *kept = Some((Instant::now(), status_bar.clone()));
        status_bar
    }
}
