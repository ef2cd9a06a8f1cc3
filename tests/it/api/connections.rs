//! Slow, silent or too many connections must not affect others.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::auth::guarded;
use super::*;

async fn said(server: &Server, text: &str) -> TcpStream {
    let address = server.base.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    // Fails on a connection that the server has already closed.
    let _ = stream.write_all(text.as_bytes()).await;
    stream
}

async fn read_to_close(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    // A reset counts as closed.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

fn asking(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_slow_connections_do_not_block_others() {
    let mut setup = Setup::default();
    (setup.http.max_connections, setup.http.header_timeout_s) = (8, 600);
    let server = Server::with(setup).await;
    let beginnings = [
        "",
        "GET /livez HT",
        "PRI * HT",
        "POST /api/v1/jobs HTTP/1.1\r\nhost: loc",
    ];
    let mut slow = Vec::new();
    for n in 0..120 {
        slow.push(said(&server, beginnings[n % beginnings.len()]).await);
    }
    for path in ["/livez", "/readyz", "/api/v1/jobs", "/api/v1/sessions"].repeat(5) {
        let fresh = server.get(path).header("connection", "close");
        assert_eq!(fresh.send().await.unwrap().status(), OK, "{path}");
    }
    // The oldest connections were closed in favour of newer ones, long before their timeout.
    for stream in slow.into_iter().take(60) {
        assert_eq!(read_to_close(stream).await, "");
    }
}

#[tokio::test]
async fn full_server_serves_probes_and_rejects_others_with_retry() {
    let mut setup = Setup::default();
    (setup.http.max_connections, setup.http.max_streams) = (8, 8);
    let server = Server::with(setup).await;
    let mut busy = Vec::new();
    for _ in 0..8 {
        let mut stream = said(&server, &asking("/api/v1/events")).await;
        // The stream is open.
        stream.read_u8().await.unwrap();
        busy.push(stream);
    }
    let answer = async |path: &str| {
        let last = asking(path).replacen("\r\n\r\n", "\r\nconnection: close\r\n\r\n", 1);
        read_to_close(said(&server, &last).await).await
    };
    // The client requests keep-alive; the server must close the connection.
    let refused = read_to_close(said(&server, &asking("/api/v1/jobs")).await).await;
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(
        refused.contains("too-many-connections") && refused.contains("retry-after: "),
        "{refused}"
    );
    for probe in ["/livez", "/readyz"] {
        let answered = answer(probe).await;
        assert!(answered.starts_with("HTTP/1.1 200"), "{answered}");
    }
    drop(busy);
    while server.get("/api/v1/jobs").send().await.unwrap().status() != OK {}
}

fn quick() -> Setup {
    let mut setup = Setup::default();
    setup.http.header_timeout_s = 1;
    setup.http.idle_timeout_s = 1;
    setup.http.body_timeout_s = 1;
    setup
}

#[tokio::test]
async fn silent_body_ends_its_request_even_before_sign_in() {
    const FORM: &str = "application/x-www-form-urlencoded";
    let open = Server::with(quick()).await;
    let mut setup = quick();
    setup.auth = guarded().auth;
    let closed = Server::with(setup).await;
    let multipart = "multipart/form-data; boundary=x";
    for (server, path, kind, status) in [
        (&open, "/api/v1/jobs", "application/json", "408"),
        (&open, "/api/v1/batches?kind=query", "text/csv", "408"),
        (&open, "/queue/pause", FORM, "4"),
        (&open, "/batches/upload", multipart, "4"),
        (&closed, "/sign-in", FORM, "4"),
        (&closed, "/queue/pause", FORM, "401"),
        (&closed, "/api/v1/jobs", "application/json", "401"),
    ] {
        let half = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\ncontent-length: 100\r\n\r\n{{"
        );
        let answer = read_to_close(said(server, &half).await).await;
        let expected = format!("HTTP/1.1 {status}");
        assert!(answer.starts_with(&expected), "{path} {kind}: {answer}");
    }
}

#[tokio::test]
async fn idle_connection_is_closed() {
    let server = Server::with(quick()).await;
    // HTTP/2: its preface, and an empty frame of settings.
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0";
    for (text, answered) in [
        (asking("/livez"), 1),
        (format!("{}GET /liv", asking("/livez")), 1),
        ("GET /livez HTTP/1.1\r\nhost".to_owned(), 0),
        (preface.to_owned(), 0),
    ] {
        let answer = read_to_close(said(&server, &text).await).await;
        assert_eq!(
            answer.matches("HTTP/1.1 200").count(),
            answered,
            "{text}: {answer}"
        );
    }
}
