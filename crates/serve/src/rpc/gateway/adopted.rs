//! Clients of gRPC that came to a fabric server's own port: its stream and what came of it, in the gateway's runtime.

use base::rights::Identity;
use bytes::{Buf as _, Bytes};
use fabric::link::{ForeignStream, ForeignTls};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// A client's stream: first what was read of it before, then the rest, through its TLS session if it has one.
pub struct AdoptedStream {
    stream: TcpStream,
    /// Read before anything else.
    came: Bytes,
    tls: Option<ForeignTls>,
}

impl AdoptedStream {
    /// In the runtime of this thread.
    ///
    /// # Errors
    /// The system's.
    pub fn new(foreign: ForeignStream) -> io::Result<AdoptedStream> {
        let ForeignStream { socket, came, tls } = foreign;
        Ok(AdoptedStream { stream: TcpStream::from_std(socket.into())?, came: came.into(), tls })
    }
}

impl AdoptedStream {
    /// Whom its client's certificate names.
    pub fn identities(&self) -> Vec<Identity> {
        self.tls.as_ref().map_or_else(Vec::new, ForeignTls::identities)
    }
}

impl AsFd for AdoptedStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Does a step that would block once the stream is ready for it.
fn poll_step<T>(
    stream: &TcpStream,
    interest: Interest,
    cx: &mut Context<'_>,
    mut step: impl FnMut(&TcpStream) -> io::Result<T>,
) -> Poll<io::Result<T>> {
    let would_block =
        |outcome: &io::Result<T>| outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    loop {
        // What TLS has read or taken before is not the socket's to tell.
        let outcome = step(stream);
        if !would_block(&outcome) {
            return Poll::Ready(outcome);
        }
        match interest {
            Interest::READABLE => ready!(stream.poll_read_ready(cx))?,
            _ => ready!(stream.poll_write_ready(cx))?,
        }
        let outcome = stream.try_io(interest, || step(stream));
        if !would_block(&outcome) {
            return Poll::Ready(outcome);
        }
    }
}

impl AsyncRead for AdoptedStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let AdoptedStream { stream, came, tls } = self.get_mut();
        if !came.is_empty() {
            let piece = came.split_to(came.remaining().min(into.remaining()));
            into.put_slice(&piece);
            return Poll::Ready(Ok(()));
        }
        let Some(tls) = tls else { return Pin::new(stream).poll_read(cx, into) };
        let space = into.initialize_unfilled();
        let count = ready!(poll_step(stream, Interest::READABLE, cx, |stream| tls.recv(stream, space)))?;
        into.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for AdoptedStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let AdoptedStream { stream, tls, .. } = self.get_mut();
        let Some(tls) = tls else { return Pin::new(stream).poll_write(cx, bytes) };
        poll_step(stream, Interest::WRITABLE, cx, |stream| tls.send(stream, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let AdoptedStream { stream, tls, .. } = self.get_mut();
        let Some(tls) = tls else { return Pin::new(stream).poll_flush(cx) };
        poll_step(stream, Interest::WRITABLE, cx, |stream| tls.flush(stream))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(cx))?;
        let AdoptedStream { stream, tls, .. } = self.get_mut();
        if let Some(mut tls) = tls.take() {
            tls.close(stream);
        }
        Pin::new(stream).poll_shutdown(cx)
    }
}
