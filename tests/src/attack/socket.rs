//! A raw connection to a server, from an address of its own on the loopback interface.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// The beginning of a request.
pub const HALF: &str = "POST /graphql HTTP/1.1\r\nHost: 127.0.0.1\r\nX-a: ";

/// Connections of one address, fewer than it may hold.
const OF_ADDRESS: usize = 50;

/// An open connection.
pub struct Socket(TcpStream);

impl Socket {
    /// Connects from 127.0.0.`host`: each host is a client of its own.
    pub async fn connect(url: &str, host: u8) -> std::io::Result<Self> {
        Self::connect_with(TcpSocket::new_v4()?, url, host).await
    }

    /// Connects with a small buffer for what it receives, and reads nothing until it is told to.
    pub async fn connect_unread(url: &str, host: u8) -> std::io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(4096)?;
        Self::connect_with(socket, url, host).await
    }

    async fn connect_with(socket: TcpSocket, url: &str, host: u8) -> std::io::Result<Self> {
        let server: SocketAddr = url.trim_start_matches("http://").parse().unwrap();
        // Linux has the whole of 127.0.0.0/8 on the loopback interface.
        socket.bind(SocketAddr::from(([127, 0, 0, host], 0)))?;
        Ok(Self(socket.connect(server).await?))
    }

    /// Sends text; false if the server has closed the connection.
    pub async fn send(&mut self, text: &str) -> bool {
        self.0.write_all(text.as_bytes()).await.is_ok()
    }

    /// Sends a query, and reads nothing of its answer.
    pub async fn ask(&mut self, body: &str) -> bool {
        self.send(&format!("{}{body}", head(body.len()))).await
    }

    /// Waits until the server has begun to answer, and reads nothing.
    pub async fn wait_for_answer(&self) {
        self.0.readable().await.unwrap();
    }

    /// The bytes that the server sends until it closes the connection or so much time is over, and
    /// true if it has closed it.
    pub async fn read(&mut self, patience: Duration) -> (String, bool) {
        let mut bytes = vec![];
        let reading = tokio::time::timeout(patience, self.0.read_to_end(&mut bytes));
        let is_closed = match reading.await {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => {
                let closed =
                    [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe, ErrorKind::UnexpectedEof];
                closed.contains(&error.kind())
            }
            Err(_) => false,
        };
        (String::from_utf8_lossy(&bytes).into_owned(), is_closed)
    }
}

/// The head of a request with a body of this length.
pub fn head(length: usize) -> String {
    format!(
        "POST /graphql HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
            content-length: {length}\r\n\r\n"
    )
}

/// Connects from several addresses in turn, and sends something on each connection; those that the
/// server refuses are left out.
pub async fn connect(url: &str, count: usize, text: &str) -> Vec<Socket> {
    let mut sockets = vec![];
    for number in 0..count {
        let host = 2 + number / OF_ADDRESS;
        if let Ok(mut socket) = Socket::connect(url, host as u8).await {
            socket.send(text).await;
            sockets.push(socket);
        }
    }
    sockets
}

/// Crowds of connections that begin a request and go no further: what each of them sends, and how
/// many there are.
pub fn slow() -> [(&'static str, usize, String); 5] {
    [
        ("bodies that stop after 400 KB", 200, head(500_000) + &"x".repeat(400_000)),
        ("bodies that do not begin", 200, head(500_000)),
        ("headers of 400 KB", 100, format!("{HALF}{}", "x".repeat(400_000))),
        ("half a header", 200, HALF.to_owned()),
        ("nothing", 200, String::new()),
    ]
}
