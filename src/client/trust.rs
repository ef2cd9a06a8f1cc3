//! Criteria beside each other, from outside.

use serde_json::Value;

use super::{Client, ClientError, escaped};

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
}
