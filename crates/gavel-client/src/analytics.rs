use std::time::Duration;

use serde::de::DeserializeOwned;

use gavel_wire::CostList;

use super::{Client, ClientError, Download, Query, with_query};

/// Timeout of an export until its last byte.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

impl Client {
    /// Returns the costs. `query` may have by, from and to.
    pub async fn costs(&self, query: Query<'_>) -> Result<CostList, ClientError> {
        self.get(&with_query("/api/v1/analytics/costs", query))
            .await
    }

    /// Returns other analytics. `route` is the last segment of the path.
    pub async fn analytics<T: DeserializeOwned>(
        &self,
        route: &str,
        query: Query<'_>,
    ) -> Result<T, ClientError> {
        let path = format!("/api/v1/analytics/{route}");
        self.get(&with_query(&path, query)).await
    }

    /// Downloads current scores as CSV or Parquet.
    pub async fn scores_table(&self, query: Query<'_>) -> Result<Download, ClientError> {
        self.download(&with_query("/api/v1/exports/scores", query), EXPORT_TIMEOUT)
            .await
    }

    /// Downloads sessions with good scores as JSON lines.
    pub async fn training(&self, query: Query<'_>) -> Result<Download, ClientError> {
        self.download(
            &with_query("/api/v1/exports/training", query),
            EXPORT_TIMEOUT,
        )
        .await
    }
}
