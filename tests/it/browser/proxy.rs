//! Proxy between browser and server: it forwards, returns an error, or drops connections.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

const BAD_GATEWAY: &str = "<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center><hr><center>nginx</center></body></html>";

const PORTAL: &str = "<p id=\"portal\">Sign in at nginx</p>";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Open,
    /// Responds to each request with 502.
    BadGateway,
    /// Responds to each request with 200 and a foreign page.
    Elsewhere,
    Closed,
}

/// Proxy in front of one server; stops on drop.
pub(super) struct Proxy {
    base: String,
    way: watch::Sender<Way>,
    _accepting: JoinSet<()>,
}

impl Proxy {
    pub(super) async fn before(base: &str) -> Self {
        let server = base.strip_prefix("http://").unwrap().parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let way = watch::Sender::new(Way::Open);
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, server, way.subscribe()));
        Self {
            base,
            way,
            _accepting: accepting,
        }
    }

    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Sets the mode of new connections, and closes the open ones.
    pub(super) fn turn(&self, way: Way) {
        self.way.send_replace(way);
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, way: watch::Receiver<Way>) {
    let mut connections = JoinSet::new();
    while let Ok((browser, _)) = listener.accept().await {
        let mut way = way.clone();
        let now = *way.borrow_and_update();
        connections.spawn(async move {
            tokio::select! {
                () = serve(browser, server, now) => {}
                _ = way.changed() => {}
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Serves one connection. Errors are ignored because each side may close it.
async fn serve(mut browser: TcpStream, server: SocketAddr, way: Way) {
    match way {
        Way::Open => {
            if let Ok(mut server) = TcpStream::connect(server).await {
                let _ = copy_bidirectional(&mut browser, &mut server).await;
            }
        }
        Way::BadGateway => answer(browser, "502 Bad Gateway", BAD_GATEWAY).await,
        Way::Elsewhere => answer(browser, "200 OK", PORTAL).await,
        Way::Closed => {}
    }
}

async fn answer(mut browser: TcpStream, status: &str, text: &str) {
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        match browser.read_u8().await {
            Ok(byte) => asked.push(byte),
            Err(_) => return,
        }
    }
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
    let _ = browser.write_all(answer.as_bytes()).await;
}
