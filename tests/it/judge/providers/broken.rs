//! Errors below the wire format, the same for every family.

use std::time::Duration;

use gavel::judge::ErrorClass;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use wiremock::{MockServer, ResponseTemplate};

use super::super::stage::*;
use super::{FAMILIES, GOOD, Reply, stage, stage_at};

/// Server that sends these bytes for each call and then does `End`; stops on drop.
struct RawServer {
    address: String,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Clone, Copy)]
enum End {
    Closes,
    Drips,
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RawServer {
    async fn start(begins: String, end: End) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                // A client may hang up early; that isn't an error of the server.
                let _hung_up = answer(socket, &begins, end).await;
            }
        });
        Self { address, task }
    }
}

async fn answer(mut socket: TcpStream, begins: &str, end: End) -> std::io::Result<()> {
    let mut request = [0; 16 * 1024];
    let _read = socket.read(&mut request).await?;
    socket.write_all(begins.as_bytes()).await?;
    match end {
        End::Closes => Ok(()),
        End::Drips => {
            let mut drip = tokio::time::interval(Duration::from_millis(10));
            loop {
                drip.tick().await;
                socket.write_all(b" ").await?;
            }
        }
    }
}

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 90000\r\n\r\n";

#[tokio::test]
async fn body_that_stops_halfway_is_a_transient_failure() {
    for family in FAMILIES {
        let whole = family.reply(Reply::Says(GOOD)).to_string();
        let half = &whole[..whole.len() / 2];
        let server = RawServer::start(format!("{HEAD}{half}"), End::Closes).await;
        let stage = stage_at(
            family,
            MockServer::start().await,
            &server.address,
            json!({}),
        );
        let (error, retries_spent, _) = error_of(stage.ask().await);
        let read = (error.class, error.status, retries_spent);
        let name = family.name();
        assert_eq!(read, (ErrorClass::Transient, Some(200), 3), "{name}");
        assert!(error.message.contains("broke off"), "{name}: {error}");
    }
}

#[tokio::test]
async fn json_that_ends_too_soon_is_a_transient_failure() {
    for family in FAMILIES {
        let whole = family.reply(Reply::Says(GOOD)).to_string();
        let half = ResponseTemplate::new(200).set_body_string(&whole[..whole.len() / 2]);
        let stage = stage(family, vec![half]).await;
        let (error, ..) = error_of(stage.ask().await);
        assert_eq!(error.class, ErrorClass::Transient, "{}", family.name());
        assert!(error.message.contains("broke off"), "{error}");
    }
}

#[tokio::test]
async fn slow_drip_is_ended_by_the_timeout_of_the_call() {
    for family in FAMILIES {
        let server = RawServer::start(HEAD.to_owned(), End::Drips).await;
        let stage = stage_at(
            family,
            MockServer::start().await,
            &server.address,
            json!({ "timeout_s": 0.1 }),
        );
        let (error, ..) = error_of(stage.ask().await);
        assert_eq!(error.class, ErrorClass::Transient, "{}", family.name());
        assert!(error.message.contains("within 0.1 s"), "{error}");
    }
}

#[tokio::test]
async fn redirect_is_rejected_and_not_followed() {
    for family in FAMILIES {
        let elsewhere = ResponseTemplate::new(307).insert_header("location", "/elsewhere");
        let stage = stage(family, vec![elsewhere]).await;
        let (error, ..) = error_of(stage.ask().await);
        let read = (error.class, error.status);
        let name = family.name();
        assert_eq!(read, (ErrorClass::Rejected, Some(307)), "{name}");
        assert!(error.message.contains("redirect"), "{name}: {error}");
        assert_eq!(stage.requests().await.len(), 1, "{name}");
        assert_eq!(stage.gate.closed("test"), None, "{name}");
    }
}

#[tokio::test]
async fn redirect_to_another_server_names_it_and_sends_no_key() {
    for family in FAMILIES {
        let other = serving(vec![super::answers(family, Reply::Says(GOOD))]).await;
        for status in [301, 302, 307, 308] {
            let target = format!(
                "http://localhost:{}/v1?token=SECRET",
                other.address().port()
            );
            let moved = ResponseTemplate::new(status).insert_header("location", target);
            let stage = stage(family, vec![moved]).await;
            let (error, ..) = error_of(stage.ask().await);
            let name = family.name();
            assert_eq!(error.class, ErrorClass::Rejected, "{name}: {error}");
            for words in ["redirect to localhost, ", "set base_url to"] {
                assert!(error.message.contains(words), "{name}: {error}");
            }
            assert!(!error.message.contains("SECRET"), "{name}: {error}");
        }
        assert_eq!(other.received_requests().await.unwrap().len(), 0);
    }
}

#[tokio::test]
async fn compressed_reply_is_read() {
    for family in FAMILIES {
        let body = family.reply(Reply::Says(GOOD)).to_string();
        let packed = ResponseTemplate::new(200)
            .insert_header("content-encoding", "gzip")
            .set_body_raw(gzip(body.as_bytes()), "application/json");
        let stage = stage(family, vec![packed]).await;
        let (reply, ..) = reply_of(stage.ask().await);
        assert_eq!(reply.value["total"], 61, "{}", family.name());
    }
}

#[tokio::test]
async fn reply_in_a_foreign_format_is_reported() {
    for family in FAMILIES {
        let page = ResponseTemplate::new(200).set_body_string("<html>Welcome to nginx</html>");
        let page_stage = stage(family, vec![page]).await;
        let (error, ..) = error_of(page_stage.ask().await);
        assert_eq!(error.class, ErrorClass::Transient, "{}", family.name());
        assert!(error.message.contains("check base_url"), "{error}");

        let nothing = ResponseTemplate::new(200).set_body_json(json!({}));
        let empty_stage = stage(family, vec![nothing]).await;
        let (error, ..) = error_of(empty_stage.ask().await);
        assert_eq!(error.class, ErrorClass::Transient, "{}", family.name());
        assert!(error.message.contains("with no"), "{error}");
    }
}

/// Gzip without compression (RFC 1952 around one stored block of RFC 1951).
fn gzip(data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap();
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    packed.extend(length.to_le_bytes());
    packed.extend((!length).to_le_bytes());
    packed.extend(data);
    packed.extend(crc32(data).to_le_bytes());
    packed.extend(u32::from(length).to_le_bytes());
    packed
}

fn crc32(data: &[u8]) -> u32 {
    !data.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 {
                (crc >> 1) ^ 0xedb8_8320
            } else {
                crc >> 1
            }
        })
    })
}
