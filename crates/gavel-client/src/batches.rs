use std::time::Duration;

use reqwest::Method;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::{Client, ClientError, Query, with_query};
use gavel_outbound::{self as outbound, percent_encoded};
use gavel_wire::{Batch, BatchRetried, BudgetBody, RescorePlan, RescoreRequest, Spread};

/// Timeout for sending, validating and storing a batch.
const BATCH_TIMEOUT: Duration = Duration::from_secs(900);
/// Timeout of a report until its last byte, including its generation by the service.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(1_800);

/// Streamed download.
pub struct Download {
    answer: reqwest::Response,
    base: String,
}

impl Download {
    /// Returns the next bytes. `None` at the end.
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        let chunk = self.answer.chunk().await;
        chunk
            .map(|bytes| bytes.map(|bytes| bytes.to_vec()))
            .map_err(|error| ClientError::BrokeOff {
                base: self.base.clone(),
                reason: outbound::chain(error),
            })
    }
}

impl Client {
    /// Downloads a report of a batch. `file` is its name, such as `report.csv`. `query` may have allow_simulated and outcome.
    pub async fn report(
        &self,
        batch: Uuid,
        file: &str,
        query: Query<'_>,
    ) -> Result<Download, ClientError> {
        let path = format!("/api/v1/batches/{batch}/{file}");
        let path = with_query(&path, query);
        self.download(&path, DOWNLOAD_TIMEOUT).await
    }

    pub(super) async fn download(
        &self,
        path: &str,
        timeout: Duration,
    ) -> Result<Download, ClientError> {
        let request = self.request(Method::GET, path).timeout(timeout);
        Ok(Download {
            answer: self.send_request(request, path).await?,
            base: self.base.clone(),
        })
    }

    /// Creates a batch from a file of items: JSON as for POST /api/v1/batches, or JSONL, CSV or XLSX with `query`. The same `key` returns
    /// the same batch.
    pub async fn start_batch(
        &self,
        (media_type, body): (&str, Vec<u8>),
        query: Query<'_>,
        key: &str,
    ) -> Result<Batch, ClientError> {
        let path = with_query("/api/v1/batches", query);
        let request = self
            .request(Method::POST, &path)
            .timeout(BATCH_TIMEOUT)
            .header(reqwest::header::CONTENT_TYPE, media_type)
            .header("Idempotency-Key", key)
            .body(body);
        let (_, answer) = self.answer(request, &path).await?;
        self.read(&path, answer)
    }

    /// Returns a batch.
    pub async fn batch(&self, id: Uuid) -> Result<Batch, ClientError> {
        self.get(&format!("/api/v1/batches/{id}")).await
    }

    /// Returns the spread of scores of a repeat batch or a jury, with up to `limit` sessions.
    pub async fn spread(&self, id: Uuid, limit: usize) -> Result<Spread, ClientError> {
        let path =
            |limit: usize| format!("/api/v1/batches/{id}/spread?limit={}", limit.clamp(1, 500));
        let mut report: Spread = self.get(&path(limit)).await?;
        let mut items = std::mem::take(&mut report.items);
        while items.len() < limit
            && let Some(cursor) = &report.next_cursor
        {
            let next = format!(
                "{}&cursor={}",
                path(limit - items.len()),
                percent_encoded(cursor)
            );
            report = self.get(&next).await?;
            items.append(&mut report.items);
        }
        items.truncate(limit);
        Ok(Spread { items, ..report })
    }

    /// Lists batches, newest first, up to `limit`.
    pub async fn batches(
        &self,
        filter: Query<'_>,
        limit: usize,
    ) -> Result<Vec<Batch>, ClientError> {
        self.pages("/api/v1/batches", filter, limit).await
    }

    /// Sets the budget of a batch in USD. `None` removes it. Returns the batch.
    pub async fn set_budget(&self, id: Uuid, usd: Option<f64>) -> Result<Batch, ClientError> {
        let path = format!("/api/v1/batches/{id}/budget");
        self.post(&path, &BudgetBody { budget_usd: usd }).await
    }

    /// Returns the estimate of rescoring sessions by a filter, without storing it.
    pub async fn plan_rescore(&self, request: &RescoreRequest) -> Result<RescorePlan, ClientError> {
        let planned = RescoreRequest {
            dry_run: true,
            ..request.clone()
        };
        self.post_rescore(&planned, None).await
    }

    /// Rescores sessions by a filter. The same `key` returns the same batch.
    pub async fn rescore(&self, request: &RescoreRequest, key: &str) -> Result<Batch, ClientError> {
        self.post_rescore(request, Some(key)).await
    }

    async fn post_rescore<T: DeserializeOwned>(
        &self,
        body: &RescoreRequest,
        key: Option<&str>,
    ) -> Result<T, ClientError> {
        let path = "/api/v1/rescore";
        let mut request = self
            .request(Method::POST, path)
            .timeout(BATCH_TIMEOUT)
            .json(body);
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        let (_, answer) = self.answer(request, path).await?;
        self.read(path, answer)
    }

    /// Changes the state of a batch. `verb` is `pause`, `resume` or `cancel`.
    pub async fn move_batch(&self, id: Uuid, verb: &str) -> Result<Batch, ClientError> {
        self.act(&format!("/api/v1/batches/{id}/{verb}")).await
    }

    /// Retries the failed items of a batch.
    pub async fn retry_errors(&self, id: Uuid) -> Result<BatchRetried, ClientError> {
        self.act(&format!("/api/v1/batches/{id}/retry-errors"))
            .await
    }
}
