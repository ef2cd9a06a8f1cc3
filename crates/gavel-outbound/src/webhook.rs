//! Sends a webhook once, signed according to <https://www.standardwebhooks.com>. Follows no redirect and reads only the response head. The
//! caller retries.

use std::net::IpAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Url};
use sha2::Sha256;

use crate::public::{PRIVATE, PublicOnly, is_public};
use crate::{Route, client, innermost, is_loopback, retry_after};

const TIMEOUT: Duration = Duration::from_secs(15);
const PREFIX: &str = "whsec_";

/// Allowed targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Targets {
    /// Public internet only. No proxy, because a proxy resolves names itself.
    Public,
    /// Any address, through the system's proxy if there is one.
    Any,
}

/// Message to deliver.
#[derive(Debug, Clone, Copy)]
pub struct WebhookMessage<'a> {
    /// Same for every attempt.
    pub id: &'a str,
    /// Time of the attempt in Unix seconds.
    pub timestamp: i64,
    /// JSON.
    pub body: &'a str,
}

/// Failed delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undelivered {
    /// HTTP status, if there was a response.
    pub status: Option<u16>,
    /// Reason without the URL.
    pub reason: String,
    /// Delay requested by the receiver.
    pub retry_after: Option<Duration>,
}

/// Formats random bytes as a secret.
pub fn secret_of(bytes: &[u8]) -> String {
    format!("{PREFIX}{}", STANDARD.encode(bytes))
}

/// Returns the key of a secret, which is `whsec_` and the Base64 of 24 to 64 bytes. `None` if it is invalid.
pub fn key_of(secret: &str) -> Option<Vec<u8>> {
    let key = STANDARD.decode(secret.strip_prefix(PREFIX)?).ok()?;
    (24..=64).contains(&key.len()).then_some(key)
}

/// Checks that webhooks can be sent to an address. Errors name the fix.
pub fn check_url(text: &str) -> Result<(), &'static str> {
    let url = Url::parse(text)
        .map_err(|_| "is not an address; give one such as https://hooks.example.com/gavel")?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("is not http:// or https://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("contains a user or a password; requests are signed and need no password");
    }
    Ok(())
}

/// Returns the value of the header `webhook-signature`.
fn signature(key: &[u8], message: WebhookMessage<'_>) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(format!("{}.{}.{}", message.id, message.timestamp, message.body).as_bytes());
    Some(format!(
        "v1,{}",
        STANDARD.encode(mac.finalize().into_bytes())
    ))
}

/// Sends webhooks.
#[derive(Debug, Clone)]
pub struct WebhookSender {
    targets: Targets,
    direct: Client,
    proxied: Client,
}

impl WebhookSender {
    /// Creates a sender.
    pub fn new(targets: Targets) -> Result<Self, String> {
        let direct = client(Route::Loopback, |builder| {
            let builder = builder.timeout(TIMEOUT);
            match targets {
                Targets::Public => builder.dns_resolver(PublicOnly),
                Targets::Any => builder,
            }
        })?;
        let proxied = match targets {
            Targets::Public => direct.clone(),
            Targets::Any => client(Route::System, |builder| builder.timeout(TIMEOUT))?,
        };
        Ok(Self {
            targets,
            direct,
            proxied,
        })
    }

    /// Sends a message once, signed if there is a key. Returns the HTTP status. Fails for no response or a status other than 2xx.
    pub async fn send(
        &self,
        url: &str,
        key: Option<&[u8]>,
        message: WebhookMessage<'_>,
    ) -> Result<u16, Undelivered> {
        let refused = |reason: &str| Undelivered {
            status: None,
            reason: reason.to_owned(),
            retry_after: None,
        };
        let url = Url::parse(url).map_err(|_| refused("its address can't be read"))?;
        // IP addresses bypass the resolver, so they are checked here.
        let host = url.host_str().unwrap_or_default();
        let literal = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse::<IpAddr>();
        if self.targets == Targets::Public && literal.is_ok_and(|address| !is_public(address)) {
            return Err(refused(PRIVATE));
        }
        let client = if is_loopback(&url) {
            &self.direct
        } else {
            &self.proxied
        };
        let mut request = client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", message.id)
            .header("webhook-timestamp", message.timestamp)
            .body(message.body.to_owned());
        if let Some(signature) = key.and_then(|key| signature(key, message)) {
            request = request.header("webhook-signature", signature);
        }
        let response = request.send().await.map_err(|error| {
            let reason = match error.is_timeout() {
                true => format!("no answer within {} s", TIMEOUT.as_secs()),
                false => innermost(&error),
            };
            refused(&reason)
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(status.as_u16());
        }
        Err(Undelivered {
            status: Some(status.as_u16()),
            reason: match status.is_redirection() {
                true => "it redirects, and no redirect is followed".to_owned(),
                false => format!("it answered {status}"),
            },
            retry_after: retry_after(response.headers(), None),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_matches_the_specification() {
        // Example of the reference implementations.
        let key = key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let message = WebhookMessage {
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
            timestamp: 1_614_265_330,
            body: r#"{"test": 2432232314}"#,
        };
        assert_eq!(
            signature(&key, message).unwrap(),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
        assert_eq!(key_of(&secret_of(&[7; 32])).unwrap(), [7; 32]);
    }

    #[test]
    fn rejects_invalid_secrets_and_addresses() {
        for secret in [
            "",
            "whsec_",
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "whsec_c2hvcnQ=",
            "whsec_!",
            &secret_of(&[0; 65]),
        ] {
            assert_eq!(key_of(secret), None, "{secret}");
        }
        for url in [
            "",
            "hooks",
            "ftp://host",
            "file:///etc/passwd",
            "https://user@host",
            "https://:secret@host",
            "data:,x",
        ] {
            check_url(url).unwrap_err();
        }
        for url in ["https://hooks.example.com/x?y=1", "http://127.0.0.1:8080"] {
            check_url(url).unwrap();
        }
    }

    #[tokio::test]
    async fn rejects_private_address_in_any_notation() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let message = WebhookMessage {
            id: "1",
            timestamp: 1,
            body: "{}",
        };
        let sender = WebhookSender::new(Targets::Public).unwrap();
        for host in [
            "127.0.0.1",
            "localhost",
            "2130706433",
            "0x7f.1",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "0",
            "169.254.169.254",
        ] {
            let url = format!("http://{host}:{port}/");
            let refused = sender.send(&url, None, message).await.unwrap_err();
            assert_eq!(
                (refused.status, refused.reason.as_str()),
                (None, PRIVATE),
                "{url}"
            );
        }
    }
}
