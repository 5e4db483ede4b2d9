//! Reads the live feed.

use futures::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::{Client, within};

/// A reader of the feed.
#[derive(Debug)]
pub struct WsReader {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// The code the server closed with, once it has.
    pub close_code: Option<u16>,
}

impl WsReader {
    /// Opens the feed with the caller's token in a header; `query` begins after the `?`.
    pub async fn connect(who: &Client, query: &str) -> Self {
        let url = format!("{}/api/v1/ws/events?{query}", who.url.replacen("http", "ws", 1));
        let mut request = url.into_client_request().expect("an address");
        if let Some(token) = &who.token {
            let value = format!("Bearer {token}").parse().expect("a header");
            request.headers_mut().insert("authorization", value);
        }
        let (socket, _) = within("the socket opens", connect_async(request)).await.expect("an upgrade");
        Self { socket, close_code: None }
    }

    /// Says something.
    pub async fn say(&mut self, text: impl Into<String>) {
        self.socket.send(Message::text(text.into())).await.expect("the socket is open");
    }

    /// The next frame; `None` when the server has closed.
    pub async fn next(&mut self) -> Option<Value> {
        self.next_text().await.map(|text| serde_json::from_str(&text).expect("JSON"))
    }

    /// The next frame as it was sent.
    pub async fn next_text(&mut self) -> Option<String> {
        within("a frame", async {
            loop {
                match self.socket.next().await? {
                    Ok(Message::Text(text)) => return Some(text.as_str().to_owned()),
                    Ok(Message::Close(frame)) => {
                        self.close_code = frame.map(|frame| frame.code.into());
                    }
                    Ok(_) => {}
                    Err(_) => return None,
                }
            }
        })
        .await
    }

    /// The next published event, pings left out.
    pub async fn next_event(&mut self) -> Option<Value> {
        loop {
            let frame = self.next().await?;
            if frame.get("position").is_some() && frame.get("event_type").is_some() {
                return Some(frame);
            }
        }
    }
}
