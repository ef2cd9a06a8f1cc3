//! Webhook receiver: scripted responses, recorded requests.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::Served;

pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[derive(Debug, Clone)]
pub(crate) struct Hook {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    pub(crate) status: u16,
}

impl Hook {
    /// Body, after the specification's own library has verified its signature.
    pub(crate) fn verified(&self) -> Value {
        let webhook = standardwebhooks::Webhook::new(SECRET).unwrap();
        webhook.verify(self.body.as_bytes(), &self.headers).unwrap();
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn id(&self) -> &str {
        self.headers["webhook-id"].to_str().unwrap()
    }
}

type Rule = Box<dyn Fn(&Hook) -> u16 + Send>;

struct Shared {
    rule: Mutex<Rule>,
    hooks: Mutex<Vec<Hook>>,
}

pub(crate) struct Receiver {
    server: Served,
    shared: Arc<Shared>,
}

impl Receiver {
    /// Starts a receiver with this rule for the status; redirects lead to `/elsewhere`.
    pub(crate) async fn start(rule: impl Fn(&Hook) -> u16 + Send + 'static) -> Self {
        let shared = Arc::new(Shared {
            rule: Mutex::new(Box::new(rule)),
            hooks: Mutex::default(),
        });
        let router = Router::new().fallback(take).with_state(shared.clone());
        let server = Served::start(router).await;
        Self { server, shared }
    }

    pub(crate) fn rule(&self, rule: impl Fn(&Hook) -> u16 + Send + 'static) {
        *self.shared.rule.lock().unwrap() = Box::new(rule);
    }

    pub(crate) fn hooks(&self) -> Vec<Hook> {
        self.shared.hooks.lock().unwrap().clone()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.server.address)
    }

    pub(crate) fn endpoint(&self, name: &str, events: &[&str], format: &str) -> Value {
        json!({"name": name, "url": self.url(), "secret": SECRET, "events": events, "format": format})
    }
}

async fn take(
    State(shared): State<Arc<Shared>>,
    uri: Uri,
    headers: HeaderMap,
    body: String,
) -> Response {
    let mut hook = Hook {
        path: uri.path().to_owned(),
        headers,
        body,
        status: 0,
    };
    hook.status = (shared.rule.lock().unwrap())(&hook);
    let status = StatusCode::from_u16(hook.status).unwrap();
    shared.hooks.lock().unwrap().push(hook);
    (status, [("location", "/elsewhere")]).into_response()
}
