//! Agent over HTTP: POST {"question": ..}, answer as JSON.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::{StatusCode, Url};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use tokio::time::Instant;

use super::{Agent, AgentAnswer, AgentFault, AgentName, LARGEST};
use crate::config::{AgentSettings, redacted_url};
use crate::outbound::{self, Route, Unread};
use crate::suite::run::{AgentQuestion, Stopped};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time in which an unavailable agent is checked again, because it may be starting.
const STARTING: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Characters shown of an error response.
const SHOWN: usize = 300;

pub(super) struct HttpAgent {
    name: AgentName,
    http: reqwest::Client,
    url: Url,
    settings: AgentSettings,
    token: Option<SecretString>,
    timeout: Duration,
}

impl HttpAgent {
    pub(super) fn new(
        name: AgentName,
        settings: &AgentSettings,
        timeout_s: f64,
    ) -> Result<Self, Stopped> {
        let (agent, key) = (name.as_str(), format!("agents.{}.url", name.as_str()));
        let variable = format!("GAVEL_AGENTS_{}_URL", agent.to_uppercase());
        if settings.url.is_empty() {
            return Err(Stopped::Usage(format!(
                "the suite has questions for the agent {agent}, and it has no address: set {key} ({variable}), or give \
                 --agent-command or --agent-results"
            )));
        }
        let bad = |reason: String| {
            Stopped::Usage(format!(
                "{key} ({variable}): {}: {reason}",
                redacted_url(&settings.url)
            ))
        };
        let url = Url::parse(&settings.url).map_err(|error| bad(error.to_string()))?;
        let http = outbound::client(Route::to(url.as_str()), |builder| {
            builder.connect_timeout(CONNECT_TIMEOUT)
        });
        let http = http.map_err(bad)?;
        let token =
            (!settings.token.is_empty()).then(|| SecretString::from(settings.token.to_string()));
        Ok(Self {
            name,
            http,
            url,
            token,
            settings: settings.clone(),
            timeout: Duration::from_secs_f64(timeout_s),
        })
    }

    fn down(&self, reason: &str) -> Stopped {
        let agent = self.name.as_str();
        Stopped::Down(format!(
            "the agent {agent} is not reachable at {}: {reason}; start it, or name another address by agents.{agent}.url \
             (GAVEL_AGENTS_{}_URL)",
            redacted_url(self.url.as_str()),
            agent.to_uppercase()
        ))
    }

    fn authorized(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match &self.token {
            Some(token) => request.bearer_auth(token.expose_secret()),
            None => request,
        }
    }

    async fn answer(&self, question: &str) -> Result<AgentAnswer, String> {
        let request = self
            .authorized(self.http.post(self.url.clone()))
            .json(&json!({ "question": question }));
        let response = request.send().await.map_err(outbound::chain)?;
        let status = response.status();
        let body = read(response).await?;
        if !status.is_success() {
            return Err(refusal(status, &body, self.name));
        }
        AgentAnswer::parse(&body, &self.settings)
    }
}

#[async_trait]
impl Agent for HttpAgent {
    async fn probe(&self) -> Result<(), Stopped> {
        let begun = Instant::now();
        loop {
            match self.look().await {
                Err(_) if begun.elapsed() < STARTING => tokio::time::sleep(LOOK_AGAIN).await,
                looked => return looked,
            }
        }
    }

    async fn ask(&self, question: &AgentQuestion) -> Result<AgentAnswer, AgentFault> {
        let fault = |reason: String| {
            AgentFault::Question(format!(
                "the agent {} at {}: {reason}",
                self.name.as_str(),
                redacted_url(self.url.as_str())
            ))
        };
        match tokio::time::timeout(self.timeout, self.answer(&question.text)).await {
            Ok(answer) => answer.map_err(fault),
            Err(_) => Err(fault(format!(
                "it did not answer within {} s (agents.timeout_s)",
                self.timeout.as_secs_f64()
            ))),
        }
    }
}

impl HttpAgent {
    /// Any response counts as available, because few agents have a route for it, except a gateway error.
    async fn look(&self) -> Result<(), Stopped> {
        let looked = self
            .authorized(self.http.get(self.url.clone()))
            .timeout(PROBE_TIMEOUT)
            .send()
            .await;
        match looked.map(|response| response.status()) {
            Ok(
                status @ (StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT),
            ) => Err(self.down(&format!("it answered {status}"))),
            Ok(_) => Ok(()),
            Err(error) => Err(self.down(&outbound::chain(error))),
        }
    }
}

fn refusal(status: StatusCode, body: &[u8], agent: AgentName) -> String {
    if status.is_redirection() {
        return format!(
            "it returned {status}, and redirects are not followed: set agents.{}.url to the target address",
            agent.as_str()
        );
    }
    let text: String = String::from_utf8_lossy(body).chars().take(SHOWN).collect();
    format!("it answered {status}: {}", text.trim())
}

async fn read(response: reqwest::Response) -> Result<Vec<u8>, String> {
    let read = outbound::read_whole(response, LARGEST).await;
    read.map_err(|unread| match unread {
        Unread::Broken(error) => outbound::chain(error),
        Unread::TooLarge => format!("its answer has more than {LARGEST} bytes"),
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpSocket;

    use super::*;

    #[tokio::test]
    async fn probe_waits_for_starting_agent() {
        // Another test of this process may have set it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let settings = AgentSettings {
            url: format!("http://{}/", socket.local_addr().unwrap()).into(),
            token: Default::default(),
            sql_path: "sql".to_owned(),
            results_path: "results".to_owned(),
            success_path: "success".to_owned(),
            error_path: "error".to_owned(),
        };
        let agent = HttpAgent::new(AgentName::Sql, &settings, 1.0).unwrap();
        let mut probing = std::pin::pin!(agent.probe());
        let early = tokio::time::timeout(LOOK_AGAIN, &mut probing).await;
        assert!(early.is_err(), "nobody listens yet: {early:?}");
        let listener = socket.listen(8).unwrap();
        let answering = async {
            let (mut caller, _) = listener.accept().await.unwrap();
            // Closing a connection with unread data would discard the response.
            let read = caller.read(&mut [0; 4_096]).await.unwrap();
            assert!(read > 0, "a request");
            let answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
            caller.write_all(answer).await.unwrap();
        };
        let (probed, ()) = tokio::join!(probing, answering);
        assert_eq!(probed, Ok(()));
    }
}
