//! A segment's way to the peer: its descriptor over a Unix stream socket.

use super::{AttachError, Form, Segment};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// The byte that carries the descriptor.
const HELLO: u8 = b'm';

/// Sends bytes over a Unix stream socket, and a descriptor with them.
///
/// # Errors
/// The system's; `WriteZero` where not all bytes found room.
pub fn send_with(socket: impl AsFd, bytes: &[u8], file: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if let Some(file) = &file {
        let fds = std::slice::from_ref(file);
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)), "the space is for one descriptor");
    }
    loop {
        match sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(sent) if sent < bytes.len() => return Err(io::ErrorKind::WriteZero.into()),
            sent => return Ok(sent.map(drop)?),
        }
    }
}

/// Receives bytes from a Unix stream socket, as many as have come and fit, and a descriptor if one came with them. Blocks as the socket does: set its
/// read timeout before when the peer is a stranger.
///
/// # Errors
/// The system's.
pub fn receive_with(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    // Room for one descriptor: whatever else a peer sends, the kernel cuts off.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        let mut iov = [IoSliceMut::new(bytes)];
        match recvmsg(&socket, &mut iov, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            got => break got?,
        }
    };
    let mut files: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            files.extend(fds);
        }
    }
    Ok((got.bytes, files.pop()))
}

impl Segment {
    /// Hands the segment to the peer at the other end of `socket`.
    ///
    /// # Errors
    /// The system's.
    pub fn send(&self, socket: impl AsFd) -> io::Result<()> {
        send_with(socket, &[HELLO], Some(self.as_fd()))
    }

    /// Receives and attaches a segment for a pair. Blocks as the socket does: set its read timeout before when the peer is a
    /// stranger.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn receive(socket: impl AsFd) -> Result<Segment, AttachError> {
        Segment::receive_any(socket)?.of(|form| form == Form::Pair)
    }

    /// As [`Segment::receive`], of whatever form; [`Segment::form`] tells.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn receive_any(socket: impl AsFd) -> Result<Segment, AttachError> {
        let mut byte = [0];
        match receive_with(socket, &mut byte)? {
            (1, Some(file)) if byte == [HELLO] => Segment::attach_any(file),
            _ => Err(AttachError::NothingSent),
        }
    }
}
