//! What stands between a browser and a server, under the test's control: it lets through, answers itself, or isn't there.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What an nginx says when nothing answers behind it.
const BAD_GATEWAY: &str = "<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center><hr><center>nginx</center></body></html>";

/// What stands in the place of an answer where one must sign in first.
const PORTAL: &str = "<p id=\"portal\">Sign in at nginx</p>";

/// What becomes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// It leads to the server.
    Open,
    /// Every request is answered 502.
    BadGateway,
    /// Every request is answered 200, with a text that isn't the server's.
    Elsewhere,
    /// It ends at once.
    Closed,
}

/// A proxy in front of one server. It ends with this value.
pub(super) struct Proxy {
    base: String,
    way: watch::Sender<Way>,
    _accepting: JoinSet<()>,
}

impl Proxy {
    /// An open one to the server at `base`.
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

    /// Its address.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// From now on connections fare like this. Those there are end.
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

/// One connection. That either side goes away is its usual end.
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

/// Answers a request itself.
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
