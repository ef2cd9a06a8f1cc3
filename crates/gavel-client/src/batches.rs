//! Batches from outside: made of a file, moved, and their reports as they come.

use std::time::Duration;

use reqwest::Method;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::{Client, ClientError, Query, with_query};
use gavel_outbound::{self as outbound, percent_encoded};
use gavel_wire::{Batch, BatchRetried, BudgetBody, RescorePlan, RescoreRequest, Spread};

/// How long a batch may take to be sent, checked and stored.
const BATCH_TIMEOUT: Duration = Duration::from_secs(900);
/// How long a report may take, from the question to its last byte: the service makes it first.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(1_800);

/// A file that the service sends, as it comes.
pub struct Download {
    answer: reqwest::Response,
    base: String,
}

impl Download {
    /// The next bytes; `None` at the end.
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
    /// Asks for a batch's report; `file` is its name, such as `report.csv`; `query` holds allow_simulated and outcome.
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

    /// Asks for a file that the service sends, and which may take so long.
    pub(super) async fn download(
        &self,
        path: &str,
        timeout: Duration,
    ) -> Result<Download, ClientError> {
        let request = self.request(Method::GET, path).timeout(timeout);
        Ok(Download {
            answer: self.begun(request, path).await?,
            base: self.base.clone(),
        })
    }

    /// Makes a batch of a file of items: JSON as POST /api/v1/batches takes it, or JSONL, CSV or XLSX with `query`. The same
    /// `key` makes the same batch. Answers the batch.
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

    /// Reads a batch.
    pub async fn batch(&self, id: Uuid) -> Result<Batch, ClientError> {
        self.get(&format!("/api/v1/batches/{id}")).await
    }

    /// How far the scores of a batch of repeats or of a jury lie apart, with its sessions up to `limit`.
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

    /// Changes what a batch may cost, USD; `None`: whatever it costs. Answers the batch.
    pub async fn set_budget(&self, id: Uuid, usd: Option<f64>) -> Result<Batch, ClientError> {
        let path = format!("/api/v1/batches/{id}/budget");
        self.post(&path, &BudgetBody { budget_usd: usd }).await
    }

    /// What scoring stored sessions anew, by a filter, would come to. Nothing is stored.
    pub async fn plan_rescore(&self, request: &RescoreRequest) -> Result<RescorePlan, ClientError> {
        let planned = RescoreRequest {
            dry_run: true,
            ..request.clone()
        };
        self.post_rescore(&planned, None).await
    }

    /// Scores stored sessions anew, by a filter. The same `key` makes the same batch.
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

    /// Moves a batch: `verb` is `pause`, `resume` or `cancel`.
    pub async fn move_batch(&self, id: Uuid, verb: &str) -> Result<Batch, ClientError> {
        self.act(&format!("/api/v1/batches/{id}/{verb}")).await
    }

    /// Queues the failed items of a batch again.
    pub async fn retry_errors(&self, id: Uuid) -> Result<BatchRetried, ClientError> {
        self.act(&format!("/api/v1/batches/{id}/retry-errors"))
            .await
    }
}
