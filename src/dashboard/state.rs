//! What the pages share: the way into the API, what the process is, and the infrastructure as it was read last.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::infrastructure::Infrastructure;
use super::status_bar::StatusBar;
use super::user::SessionUser;
use crate::api::{ApiAccess, ApiError, ApiState};
use crate::clock::Clock;
use crate::config::ShownSetting;

/// How old the figures in a page's head may be: many tabs cost one reading.
const STATUS_BAR_KEPT: Duration = Duration::from_secs(1);

/// What the process says of itself.
#[derive(Clone)]
pub struct About {
    /// The time, for "3 minutes ago".
    pub clock: Arc<dyn Clock>,
    /// Its settings with where each comes from; passwords and tokens are left out.
    pub settings: Vec<ShownSetting>,
}

/// The state of every page's handler.
#[derive(Clone)]
pub(super) struct PageState(Arc<SharedPageState>);

pub(super) struct SharedPageState {
    pub(super) api: ApiAccess,
    pub(super) about: About,
    status_bar: Mutex<Option<(Instant, StatusBar)>>,
}

impl std::ops::Deref for PageState {
    type Target = SharedPageState;

    fn deref(&self) -> &SharedPageState {
        &self.0
    }
}

impl PageState {
    /// The state of pages that ask through this.
    pub(super) fn new(api: ApiAccess, about: About) -> Self {
        Self(Arc::new(SharedPageState {
            api,
            about,
            status_bar: Mutex::new(None),
        }))
    }

    /// Forgets the figures: somebody did something that they may show.
    pub(super) async fn forget_status_bar(&self) {
        *self.status_bar.lock().await = None;
    }

    /// What the API's typed functions read with; refused to who may not read.
    pub(super) fn api(&self, user: &SessionUser) -> Result<&ApiState, ApiError> {
        self.api.reader(&user.caller)
    }

    /// The infrastructure as it is now, with the whole word of the process's health. The head of the same page shows what was read.
    pub(super) async fn whole_infrastructure(
        &self,
        user: &SessionUser,
    ) -> Result<Infrastructure, ApiError> {
        let found = Infrastructure::read(self.api(user)?).await?;
        self.keep(&found).await;
        Ok(found)
    }

    /// The same without waiting for that word.
    pub(super) async fn infrastructure(
        &self,
        user: &SessionUser,
    ) -> Result<Infrastructure, ApiError> {
        let found = Infrastructure::read_soon(self.api(user)?).await?;
        self.keep(&found).await;
        Ok(found)
    }

    async fn keep(&self, found: &Infrastructure) {
        let status_bar = StatusBar::new(found, self.about.clock.now());
        *self.status_bar.lock().await = Some((Instant::now(), status_bar));
    }

    /// The figures of every page's head, at most a second old. The same for everybody who may read.
    pub(super) async fn status_bar(&self, user: &SessionUser) -> StatusBar {
        let mut kept = self.status_bar.lock().await;
        if let Some((at, status_bar)) = kept.as_ref()
            && at.elapsed() < STATUS_BAR_KEPT
            // Who hears that Redis is back asks at once.
            && !status_bar.redis_away
        {
            return status_bar.clone();
        }
        let read = async { Infrastructure::read_soon(self.api(user)?).await };
        let status_bar = match read.await {
            Ok(found) => StatusBar::new(&found, self.about.clock.now()),
            Err(error) => StatusBar::unread(error),
        };
        *kept = Some((Instant::now(), status_bar.clone()));
        status_bar
    }
}
