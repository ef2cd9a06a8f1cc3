//! Client of Server-Sent Events.

use std::time::Duration;

use reqwest::{RequestBuilder, Response};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Default)]
pub(crate) struct StreamEvent {
    pub(crate) id: String,
    pub(crate) event: String,
    pub(crate) data: Value,
    pub(crate) retry: Option<u64>,
}

pub(crate) struct Stream {
    response: Response,
    unread: String,
}

impl Stream {
    pub(crate) async fn of(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200, "{response:?}");
        Self::new(response)
    }

    /// Reads from a response with received headers.
    pub(crate) fn new(response: Response) -> Self {
        Self {
            response,
            unread: String::new(),
        }
    }

    /// Returns the next event, skipping comments and ids without data.
    pub(crate) async fn next(&mut self) -> StreamEvent {
        let told = tokio::time::timeout(PATIENCE, self.try_next()).await;
        let told = told.expect("an event in time");
        told.expect("an event before the stream ends")
    }

    /// Returns the next event; `None` once the stream has ended, cleanly or not.
    pub(crate) async fn try_next(&mut self) -> Option<StreamEvent> {
        loop {
            if let Some((piece, rest)) = self.unread.split_once("\n\n") {
                let told = read(piece);
                self.unread = rest.to_owned();
                if told.event.is_empty() {
                    continue;
                }
                return Some(told);
            }
            let chunk = self.response.chunk().await.ok()??;
            self.unread.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// Whether the stream ends without another event.
    pub(crate) async fn ended(&mut self) -> bool {
        let told = tokio::time::timeout(PATIENCE, self.try_next()).await;
        told.expect("an end in time").is_none()
    }
}

fn read(piece: &str) -> StreamEvent {
    let mut told = StreamEvent::default();
    for line in piece.lines() {
        let Some((field, value)) = line.split_once(": ") else {
            continue;
        };
        match field {
            "id" => told.id = value.to_owned(),
            "event" => told.event = value.to_owned(),
            "data" => told.data = serde_json::from_str(value).unwrap(),
            "retry" => told.retry = Some(value.parse().unwrap()),
            _ => assert!(field.is_empty(), "a comment, or nothing known: {line}"),
        }
    }
    told
}
