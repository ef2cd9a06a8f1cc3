//! Criteria beside each other, and what people say of scores, from outside.

use reqwest::{Method, StatusCode};
use serde_json::Value;
use uuid::Uuid;

use super::{Client, ClientError, escaped};

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
#[derive(Debug, Clone, PartialEq)]
pub enum RatingPut {
    /// It is the first of its person for this.
    New(Value),
    /// It took the place of an earlier one.
    Replaced(Value),
}

impl Client {
    /// Compares what two versions of the criteria make of the same sessions. `query`: further parameters.
    pub async fn compare_criteria(
        &self,
        (a, b): (&str, &str),
        query: &[(&str, String)],
    ) -> Result<Value, ClientError> {
        let mut path = format!(
            "/api/v1/scoring/criteria/compare?a={}&b={}",
            escaped(a),
            escaped(b)
        );
        for (name, value) in query {
            path.push_str(&format!("&{name}={}", escaped(value)));
        }
        self.get(&path).await
    }

    /// How the texts of two versions of the criteria differ.
    pub async fn diff_criteria(&self, a: &str, b: &str) -> Result<Value, ClientError> {
        let (a, b) = (escaped(a), escaped(b));
        self.get(&format!("/api/v1/scoring/criteria/diff?a={a}&b={b}"))
            .await
    }

    /// Rates a score or a session.
    pub async fn rate(&self, rated: Rated, body: &Value) -> Result<RatingPut, ClientError> {
        let (status, stored) = self
            .call(Method::POST, &rated.path(), Some(body), None)
            .await?;
        Ok(if status == StatusCode::CREATED {
            RatingPut::New(stored)
        } else {
            RatingPut::Replaced(stored)
        })
    }

    /// The ratings of a score or of a session, newest first, up to `limit`.
    pub async fn ratings(&self, rated: Rated, limit: usize) -> Result<Vec<Value>, ClientError> {
        self.pages(&rated.path(), &[], limit).await
    }

    /// How far people and the judge agree under one version of the criteria; `None`: the current one.
    pub async fn agreement(&self, criteria: Option<&str>) -> Result<Value, ClientError> {
        let criteria = escaped(criteria.unwrap_or("current"));
        self.get(&format!("/api/v1/analytics/agreement?criteria={criteria}"))
            .await
    }
}
