//! Criteria comparisons and human ratings.

use reqwest::{Method, StatusCode};
use uuid::Uuid;

use super::{Client, ClientError, Query, with_query};
use gavel_outbound::percent_encoded;
use gavel_wire::{AgreementReport, CriteriaComparison, CriteriaDiff, HumanRating, RatingRequest};

/// Subject of a rating.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rated {
    /// Single score.
    Score(Uuid),
    /// Session.
    Session(Uuid),
}

impl Rated {
    fn path(self) -> String {
        match self {
            Self::Score(id) => format!("/api/v1/scores/{id}/ratings"),
            Self::Session(id) => format!("/api/v1/sessions/{id}/ratings"),
        }
    }
}

/// Result of a rating.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RatingPut {
    /// First rating by its author.
    New,
    /// Replaced an earlier rating.
    Replaced,
}

impl Client {
    /// Compares the results of two criteria versions on the same sessions. `query` has further parameters.
    pub async fn compare_criteria(
        &self,
        (a, b): (&str, &str),
        query: Query<'_>,
    ) -> Result<CriteriaComparison, ClientError> {
        let mut pairs = vec![("a", a.to_owned()), ("b", b.to_owned())];
        pairs.extend_from_slice(query);
        let path = with_query("/api/v1/scoring/criteria/compare", &pairs);
        self.get(&path).await
    }

    /// Returns the text difference of two criteria versions.
    pub async fn diff_criteria(&self, a: &str, b: &str) -> Result<CriteriaDiff, ClientError> {
        let (a, b) = (percent_encoded(a), percent_encoded(b));
        self.get(&format!("/api/v1/scoring/criteria/diff?a={a}&b={b}"))
            .await
    }

    /// Rates a score or a session.
    pub async fn rate(&self, rated: Rated, body: &RatingRequest) -> Result<RatingPut, ClientError> {
        let path = rated.path();
        let request = self.request(Method::POST, &path).json(body);
        let (status, _) = self.answer(request, &path).await?;
        Ok(match status {
            StatusCode::CREATED => RatingPut::New,
            _ => RatingPut::Replaced,
        })
    }

    /// Lists the ratings of a score or session, newest first, up to `limit`.
    pub async fn ratings(
        &self,
        rated: Rated,
        limit: usize,
    ) -> Result<Vec<HumanRating>, ClientError> {
        self.pages(&rated.path(), &[], limit).await
    }

    /// Returns the agreement of users and judge for one criteria version. `None` means the current one.
    pub async fn agreement(&self, criteria: Option<&str>) -> Result<AgreementReport, ClientError> {
        let criteria = percent_encoded(criteria.unwrap_or("current"));
        self.get(&format!("/api/v1/analytics/agreement?criteria={criteria}"))
            .await
    }
}
