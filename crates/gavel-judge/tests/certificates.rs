//! Judges behind TLS, against a local server with certificates of an untrusted authority.

#![expect(clippy::unwrap_used, reason = "a test fails where it panics")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use gavel_clock::{Clock, SystemClock};
use gavel_judge::{ErrorClass, JudgeError, Probed, Providers, probe};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// Variable with the server's URL for child processes.
const CHILD: &str = "GAVEL_TEST_SERVER";

/// Chat completions server with the certificate of its authority.
struct Server {
    url: String,
    authority: String,
}

#[derive(Clone, Copy)]
enum Flaw {
    None,
    Expired,
    OtherName,
}

impl Server {
    async fn start(flaw: Flaw) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);

        let key = KeyPair::generate().unwrap();
        let name = match flaw {
            Flaw::None | Flaw::Expired => "127.0.0.1",
            Flaw::OtherName => "judge.example",
        };
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        if let Flaw::Expired = flaw {
            params.not_before = date_time_ymd(2019, 1, 1);
            params.not_after = date_time_ymd(2020, 1, 1);
        }
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let _already_there =
            tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/v1", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let _request = stream.read(&mut [0; 16 * 1024]).await;
                let body = json!({
                    "model": "m",
                    "choices": [{ "message": { "content": "{\"ok\": true}" }, "finish_reason": "stop" }],
                    "usage": { "prompt_tokens": 12, "completion_tokens": 1 },
                })
                .to_string();
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                let _sent = stream.write_all((head + &body).as_bytes()).await;
                let _closed = stream.shutdown().await;
            }
        });
        Self { url, authority }
    }

    fn authority_file(&self, folder: &Path) -> PathBuf {
        let file = folder.join("authority.pem");
        std::fs::write(&file, &self.authority).unwrap();
        file
    }
}

async fn probe_server(url: &str) -> Result<Probed, JudgeError> {
    let entry = json!({ "j": { "type": "openai", "base_url": url, "model": "m", "auth": "none" } });
    let providers = Providers::from_value(&entry, &|_| Err(String::new())).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    probe(&providers.spec("j").unwrap(), &clock).await
}

/// Runs the named test of this file in a child process, because a process reads the variables once.
async fn run_child(test: &str, url: &str, variable: &str, value: &Path) -> bool {
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env_remove("SSL_CERT_FILE")
        .env_remove("SSL_CERT_DIR")
        .env(variable, value)
        .env(CHILD, url)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    ended.await.unwrap().success()
}

#[tokio::test]
async fn untrusted_certificate_is_misconfigured() {
    let table = [
        (Flaw::None, "UnknownIssuer", "SSL_CERT_FILE"),
        (Flaw::Expired, "", "127.0.0.1"),
        (Flaw::OtherName, "", "127.0.0.1"),
    ];
    for (flaw, cause, remedy) in table {
        let server = Server::start(flaw).await;
        let error = probe_server(&server.url).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Misconfigured, "{error}");
        for part in [
            "the certificate of 127.0.0.1 is not accepted",
            cause,
            remedy,
        ] {
            assert!(error.message.contains(part), "{part}: {error}");
        }
    }
}

#[tokio::test]
async fn ssl_cert_file_names_an_authority_to_trust() {
    if let Ok(url) = std::env::var(CHILD) {
        probe_server(&url).await.unwrap();
        return;
    }
    let test = "ssl_cert_file_names_an_authority_to_trust";
    let (one, other) = (
        Server::start(Flaw::None).await,
        Server::start(Flaw::None).await,
    );
    let folder = tempdir();
    let file = one.authority_file(&folder);
    assert!(run_child(test, &one.url, "SSL_CERT_FILE", &file).await);
    assert!(!run_child(test, &other.url, "SSL_CERT_FILE", &file).await);
    assert!(run_child(test, &one.url, "SSL_CERT_DIR", &folder).await);
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn ssl_cert_file_without_a_certificate_is_an_error_that_names_it() {
    if let Ok(url) = std::env::var(CHILD) {
        let error = probe_server(&url).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Misconfigured, "{error}");
        assert!(error.message.contains("SSL_CERT_FILE"), "{error}");
        return;
    }
    let test = "ssl_cert_file_without_a_certificate_is_an_error_that_names_it";
    let server = Server::start(Flaw::None).await;
    let folder = tempdir();
    let missing = folder.join("nowhere.pem");
    assert!(run_child(test, &server.url, "SSL_CERT_FILE", &missing).await);
    std::fs::remove_dir_all(folder).unwrap();
}

fn tempdir() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("gavel-{}", uuid::Uuid::now_v7()));
    std::fs::create_dir(&folder).unwrap();
    folder
}
