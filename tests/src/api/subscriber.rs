//! A WebSocket to a process, by the protocol graphql-transport-ws.

use std::net::SocketAddr;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::api::Api;
use crate::wait::PATIENCE;

/// An open socket. It reads, and answers pings, only while it is asked for messages.
pub struct Subscriber(WebSocketStream<TcpStream>);

impl Subscriber {
    /// Opens a socket and logs in, with a token or without one.
    pub async fn connect(api: &Api, token: Option<&str>) -> Self {
        Self::connect_to(api.url(), token, 1).await
    }

    /// As [`Self::connect`], from 127.0.0.`host`: each host is a client of its own.
    pub async fn connect_to(url: &str, token: Option<&str>, host: u8) -> Self {
        let mut socket =
            Self::open_from(TcpSocket::new_v4().unwrap(), url, &[], host).await.unwrap();
        socket.send(json!({ "type": "connection_init", "payload": { "token": token } })).await;
        assert_eq!(socket.next().await, json!({ "type": "connection_ack" }));
        socket
    }

    /// Opens a socket by a request with more headers, and says nothing.
    pub async fn open(api: &Api, headers: &[(&'static str, &str)]) -> Result<Self, Error> {
        Self::open_from(TcpSocket::new_v4()?, api.url(), headers, 1).await
    }

    /// Opens a socket with a small buffer for what it receives, and logs in.
    pub async fn connect_with_small_buffer(api: &Api) -> Self {
        let tcp = TcpSocket::new_v4().unwrap();
        tcp.set_recv_buffer_size(4096).unwrap();
        let mut socket = Self::open_from(tcp, api.url(), &[], 1).await.unwrap();
        socket.send(json!({ "type": "connection_init" })).await;
        assert_eq!(socket.next().await, json!({ "type": "connection_ack" }));
        socket
    }

    async fn open_from(
        tcp: TcpSocket,
        url: &str,
        headers: &[(&'static str, &str)],
        host: u8,
    ) -> Result<Self, Error> {
        let server = url.trim_start_matches("http://");
        let mut request = format!("ws://{server}/graphql").into_client_request()?;
        let protocol = HeaderValue::from_static("graphql-transport-ws");
        request.headers_mut().insert("sec-websocket-protocol", protocol);
        for (name, value) in headers {
            let name = HeaderName::from_static(name);
            request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
        }
        let address: SocketAddr = server.parse().unwrap();
        // Linux has the whole of 127.0.0.0/8 on the loopback interface.
        tcp.bind(SocketAddr::from(([127, 0, 0, host], 0)))?;
        let stream = tcp.connect(address).await?;
        Ok(Self(client_async(request, stream).await?.0))
    }

    /// Sends a message.
    pub async fn send(&mut self, message: Value) {
        self.send_text(&message.to_string()).await;
    }

    /// Sends text that may be no message.
    pub async fn send_text(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.unwrap();
    }

    /// Begins an operation.
    pub async fn subscribe(&mut self, id: &str, query: &str, variables: Value) {
        let payload = json!({ "query": query, "variables": variables });
        self.send(json!({ "type": "subscribe", "id": id, "payload": payload })).await;
    }

    /// The next message.
    pub async fn next(&mut self) -> Value {
        serde_json::from_str(&self.text().await).unwrap()
    }

    /// The text of the next message.
    pub async fn text(&mut self) -> String {
        match self.read().await {
            Some(Message::Text(text)) => text.as_str().to_owned(),
            other => panic!("expected a message, not {other:?}"),
        }
    }

    /// The data of the next answer to an operation.
    pub async fn data(&mut self, id: &str) -> Value {
        let mut message = self.next().await;
        assert_eq!((&message["type"], &message["id"]), (&json!("next"), &json!(id)), "{message}");
        assert_eq!(message["payload"].get("errors"), None, "{message}");
        message["payload"]["data"].take()
    }

    /// The next message, if it comes within a time.
    pub async fn next_within(&mut self, patience: Duration) -> Option<Value> {
        timeout(patience, self.next()).await.ok()
    }

    /// The code by which the server closes the socket; messages before that are passed over.
    pub async fn closed(&mut self) -> u16 {
        loop {
            match self.read().await {
                Some(Message::Close(Some(frame))) => return frame.code.into(),
                Some(Message::Close(None)) | None => panic!("closed without a code"),
                Some(_) => {}
            }
        }
    }

    async fn read(&mut self) -> Option<Message> {
        loop {
            let message =
                timeout(PATIENCE, self.0.next()).await.expect("the server says something");
            match message {
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(message)) => return Some(message),
                Some(Err(error)) => panic!("the socket broke off: {error}"),
                None => return None,
            }
        }
    }
}
