//! Shared state of the pages: API access, information about the process, and the cached status bar.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::infrastructure::Infrastructure;
use super::status_bar::StatusBar;
use super::user::SessionUser;
use crate::api::{ApiAccess, ApiError, ApiState};
use crate::clock::Clock;
use crate::config::ShownSetting;

/// Lifetime of the cached status bar, so that many tabs cause one read.
const STATUS_BAR_KEPT: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub struct About {
    pub clock: Arc<dyn Clock>,
    /// Settings with their sources, without passwords and tokens.
    pub settings: Vec<ShownSetting>,
}

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
    pub(super) fn new(api: ApiAccess, about: About) -> Self {
        Self(Arc::new(SharedPageState {
            api,
            about,
            status_bar: Mutex::new(None),
        }))
    }

    pub(super) async fn clear_status_bar(&self) {
        *self.status_bar.lock().await = None;
    }

    /// Returns the API's state for reads. Error without the read scope.
    pub(super) fn api(&self, user: &SessionUser) -> Result<ApiState, ApiError> {
        self.api.reader(&user.caller).cloned()
    }

    /// Reads the infrastructure including the full readiness check, and caches it for the status bar of the same page.
    pub(super) async fn infrastructure_with_readiness(
        &self,
        user: &SessionUser,
    ) -> Result<Infrastructure, ApiError> {
        let found = Infrastructure::read(&self.api(user)?).await?;
        self.keep(&found).await;
        Ok(found)
    }

    /// Like `infrastructure_with_readiness`, but with a short timeout for readiness.
    pub(super) async fn infrastructure(
        &self,
        user: &SessionUser,
    ) -> Result<Infrastructure, ApiError> {
        let found = Infrastructure::read_soon(&self.api(user)?).await?;
        self.keep(&found).await;
        Ok(found)
    }

    async fn keep(&self, found: &Infrastructure) {
        let status_bar = StatusBar::new(found, self.about.clock.now());
        *self.status_bar.lock().await = Some((Instant::now(), status_bar));
    }

    /// Returns the status bar, at most a second old. Shared by all users with the read scope.
    pub(super) async fn status_bar(&self, user: &SessionUser) -> StatusBar {
        let mut kept = self.status_bar.lock().await;
        if let Some((at, status_bar)) = kept.as_ref()
            && at.elapsed() < STATUS_BAR_KEPT
            // Not cached while Redis is unavailable, so that pages reload as soon as it returns.
            && !status_bar.redis_away
        {
            return status_bar.clone();
        }
        let read = async { Infrastructure::read_soon(&self.api(user)?).await };
        let status_bar = match read.await {
            Ok(found) => StatusBar::new(&found, self.about.clock.now()),
            Err(error) => StatusBar::unread(error),
        };
        *kept = Some((Instant::now(), status_bar.clone()));
        status_bar
    }
}
