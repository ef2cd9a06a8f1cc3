//! One try to hand over a webhook, signed as <https://www.standardwebhooks.com> says. Never retries, follows no redirect, and reads nothing of
//! the answer but its head.

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

/// How long a receiver has to answer.
const TIMEOUT: Duration = Duration::from_secs(15);
/// What secrets begin with.
const PREFIX: &str = "whsec_";

/// What may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Targets {
    /// Addresses of the public internet, without a proxy: one would resolve names by itself.
    Public,
    /// Any address, by the system's proxy where there is one.
    Any,
}

/// What is handed over.
#[derive(Debug, Clone, Copy)]
pub struct WebhookMessage<'a> {
    /// The same at each try.
    pub id: &'a str,
    /// When it is tried, Unix seconds.
    pub timestamp: i64,
    /// JSON.
    pub body: &'a str,
}

/// Why a message wasn't taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undelivered {
    /// The answer's status, if one came.
    pub status: Option<u16>,
    /// In words, without the address.
    pub reason: String,
    /// How long the receiver asks to wait.
    pub retry_after: Option<Duration>,
}

/// A secret as people keep it, of random bytes.
pub fn secret_of(bytes: &[u8]) -> String {
    format!("{PREFIX}{}", STANDARD.encode(bytes))
}

/// The key of a secret; `None` where it is none: `whsec_` and the Base64 of 24 to 64 bytes.
pub fn key_of(secret: &str) -> Option<Vec<u8>> {
    let key = STANDARD.decode(secret.strip_prefix(PREFIX)?).ok()?;
    (24..=64).contains(&key.len()).then_some(key)
}

/// Reads an address that webhooks may be sent to.
///
/// # Errors
/// What is wrong with it, and what would be right.
pub fn check_url(text: &str) -> Result<(), &'static str> {
    let url = Url::parse(text)
        .map_err(|_| "is not an address; give one such as https://hooks.example.com/gavel")?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("is neither http:// nor https://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("holds a user or a password; what is sent is signed, and needs none");
    }
    Ok(())
}

/// The header `webhook-signature`.
fn signature(key: &[u8], message: WebhookMessage<'_>) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(format!("{}.{}.{}", message.id, message.timestamp, message.body).as_bytes());
    Some(format!(
        "v1,{}",
        STANDARD.encode(mac.finalize().into_bytes())
    ))
}

/// Hands over messages.
#[derive(Debug, Clone)]
pub struct WebhookSender {
    targets: Targets,
    direct: Client,
    proxied: Client,
}

impl WebhookSender {
    /// Builds one.
    ///
    /// # Errors
    /// In words: what the client could not be built of.
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

    /// Tries once; signed where there is a key.
    ///
    /// # Errors
    /// Any answer but a 2xx, and none.
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
        // What is an address already isn't resolved.
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
    fn a_message_is_signed_as_the_specification_says() {
        // The example of its reference implementations.
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
    fn what_is_no_secret_or_no_address_is_refused() {
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
    async fn a_private_address_is_not_called_however_it_is_written() {
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
