//! A connection's bytes, with the bytes that were read before, and with notes on what moves.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::activity::Activity;

/// A stream whose reads and writes are noted.
pub struct Watched<S> {
    stream: S,
    /// Bytes that were read before, which come first.
    begin: Vec<u8>,
    activity: Arc<Activity>,
}

impl<S> Watched<S> {
    /// A stream of which some bytes were read before.
    pub fn new(stream: S, begin: Vec<u8>, activity: Arc<Activity>) -> Self {
        Self { stream, begin, activity }
    }

    fn note(&self, written: &Poll<io::Result<usize>>) {
        match written {
            Poll::Ready(Ok(bytes)) => self.activity.note_written(*bytes),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.activity.note_stalled(),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.begin.is_empty() {
            let count = self.begin.len().min(buffer.remaining());
            buffer.put_slice(&self.begin[..count]);
            self.begin.drain(..count);
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.activity.note_read();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.note(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn bytes_that_were_read_before_come_first() {
        let (client, mut server) = tokio::io::duplex(64);
        let mut stream = Watched::new(client, b"GET /".to_vec(), Arc::new(Activity::new()));
        server.write_all(b"graphql").await.unwrap();
        let (mut first, mut rest) = ([0; 2], [0; 10]);
        stream.read_exact(&mut first).await.unwrap();
        stream.read_exact(&mut rest).await.unwrap();
        assert_eq!((&first, &rest), (b"GE", b"T /graphql"));
    }
}
