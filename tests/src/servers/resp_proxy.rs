//! A proxy that speaks Redis' protocol, in front of a redis-server of this machine. It keeps some
//! commands back, and its clients' connections alive while the server restarts.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// The answer to a command that is kept back.
const KEPT_BACK: &[u8] = b"-ERR unknown command\r\n";

/// The answer while the server is away, and to a request whose answer is lost.
const AWAY: &[u8] = b"-upstream failure\r\n";

/// A proxy on a port of its own; it ends its connections when it is dropped.
pub struct RespProxy {
    port: u16,
    accepting: AbortHandle,
}

impl RespProxy {
    /// Starts one before a port of this machine that keeps some commands back.
    pub async fn before(server: u16, kept_back: &[&str]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let kept_back: Arc<[String]> = kept_back.iter().map(|&name| name.to_owned()).collect();
        let accepting = tokio::spawn(async move {
            // Its tasks end with this one.
            let mut clients = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let kept_back = kept_back.clone();
                clients.spawn(async move { serve(client, server, &kept_back).await });
            }
        });
        Self { port, accepting: accepting.abort_handle() }
    }

    /// The URL at which it listens.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for RespProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Serves one client until it goes.
async fn serve(client: TcpStream, server: u16, kept_back: &[String]) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut client = BufReader::new(client);
    let mut way = None;
    loop {
        let request = frame(&mut client).await?;
        let text = String::from_utf8_lossy(&request);
        let name = text.lines().nth(2).unwrap_or_default();
        let is_kept_back = kept_back.iter().any(|kept| kept.eq_ignore_ascii_case(name));
        let reply = match is_kept_back {
            true => KEPT_BACK.to_vec(),
            false => passed_on(&mut way, server, &request).await.unwrap_or_else(|_| {
                way = None;
                AWAY.to_vec()
            }),
        };
        client.get_mut().write_all(&reply).await?;
    }
}

/// The server's reply to a request.
async fn passed_on(
    way: &mut Option<BufReader<TcpStream>>,
    server: u16,
    request: &[u8],
) -> io::Result<Vec<u8>> {
    if way.is_none() {
        *way = Some(BufReader::new(TcpStream::connect(("127.0.0.1", server)).await?));
    }
    let server = way.as_mut().expect("it is there since the line before");
    server.get_mut().write_all(request).await?;
    frame(server).await
}

/// The bytes of one request or one reply.
async fn frame(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Vec<u8>> {
    let (mut bytes, mut left) = (vec![], 1);
    while left > 0 {
        let start = bytes.len();
        if from.read_until(b'\n', &mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        left -= 1;
        let line = String::from_utf8_lossy(&bytes[start..]).into_owned();
        let length: Option<u64> = line.get(1..).and_then(|rest| rest.trim_end().parse().ok());
        match (line.as_bytes().first(), length) {
            (Some(b'$'), Some(length)) => {
                from.take(length + 2).read_to_end(&mut bytes).await?;
            }
            (Some(b'*'), Some(length)) => left += length,
            _ => {}
        }
    }
    Ok(bytes)
}
