//! A segment's way to the peer: its descriptor over a Unix stream socket.

use super::{AttachError, Form, Segment};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// The byte that carries the descriptor.
const HELLO: u8 = b'm';

impl Segment {
    /// Hands the segment to the peer at the other end of `socket`.
    ///
    /// # Errors
    /// The system's.
    pub fn send(&self, socket: impl AsFd) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [self.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)), "the space is for one descriptor");
        loop {
            match sendmsg(&socket, &[IoSlice::new(&[HELLO])], &mut control, SendFlags::NOSIGNAL) {
                Err(rustix::io::Errno::INTR) => {}
                sent => return Ok(sent.map(drop)?),
            }
        }
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
        // Room for one descriptor: whatever else a peer sends, the kernel cuts off.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let got = loop {
            let mut iov = [IoSliceMut::new(&mut byte)];
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
        match files.pop() {
            Some(file) if got.bytes == 1 && byte == [HELLO] => Segment::attach_any(file),
            _ => Err(AttachError::NothingSent),
        }
    }
}
