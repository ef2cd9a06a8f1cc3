//! Criteria beside each other, and what people say of scores, from outside.

use reqwest::{Method, StatusCode};
use uuid::Uuid;

use super::{Client, ClientError, Query, with_query};
use gavel_outbound::percent_encoded;
use gavel_wire::{AgreementReport, CriteriaComparison, CriteriaDiff, HumanRating, RatingRequest};

/// What a rating is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rated {
    /// One score.
    Score(Uuid),
    /// A session.
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

/// What a rating did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RatingPut {
    /// It is the first of its person for this.
    New,
    /// It took the place of an earlier one.
    Replaced,
}

impl Client {
    /// Compares what two versions of the criteria make of the same sessions. `query`: further parameters.
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

    /// How the texts of two versions of the criteria differ.
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

    /// The ratings of a score or of a session, newest first, up to `limit`.
    pub async fn ratings(
        &self,
        rated: Rated,
        limit: usize,
    ) -> Result<Vec<HumanRating>, ClientError> {
        self.pages(&rated.path(), &[], limit).await
    }

    /// How far people and the judge agree under one version of the criteria; `None`: the current one.
    pub async fn agreement(&self, criteria: Option<&str>) -> Result<AgreementReport, ClientError> {
        let criteria = percent_encoded(criteria.unwrap_or("current"));
        self.get(&format!("/api/v1/analytics/agreement?criteria={criteria}"))
            .await
    }
}
