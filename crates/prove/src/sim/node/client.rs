//! A client's connection: requests on their way to the node, replies on their way back, each answered once and in order.

use super::script::{Verb, Wanted};
use super::tongue::{Asked, Reader, Tongue, Words};
use base::Picos;
use serve::kv::by_hand::Peer;
use sim::kv::{Ret, Status};
use std::collections::{BTreeMap, VecDeque};

/// What a client is told whose request finds no memory.
const NO_MEMORY: &[u8] = b"SERVER_ERROR out of memory reading request\r\n";

/// A client.
pub struct Client {
    /// Whose service it asks.
    pub service: usize,
    /// What it speaks.
    pub tongue: Tongue,
    /// Its connection, if it has one.
    pub line: Option<Line>,
    /// How many it has had.
    pub connections: u64,
    /// The versions that it saw last.
    pub versions: BTreeMap<Vec<u8>, u64>,
}

/// A connection.
pub struct Line {
    /// Its end.
    pub peer: Peer,
    reader: Reader,
    /// Requests that are written and not sent.
    out: VecDeque<u8>,
    /// Bytes that were written, and sent.
    written: u64,
    sent: u64,
    /// What came and was not read.
    input: Vec<u8>,
    /// What is to be answered.
    pub asked: VecDeque<Asked>,
    /// The client has said all.
    pub has_ended: bool,
    /// So many bytes had come before the node was told to stop: what they ask is answered.
    pub promised: Option<u64>,
    /// When it was found closed.
    pub closed: Option<Picos>,
}

/// What became of a request; without a [`Ret`]: nobody knows, or it was no operation.
pub type Ended = (Asked, Option<Ret>);

impl Line {
    /// A new one.
    pub fn new(peer: Peer, tongue: Tongue) -> Line {
        Line {
            peer,
            reader: Reader::new(tongue),
            out: VecDeque::new(),
            written: 0,
            sent: 0,
            input: Vec::new(),
            asked: VecDeque::new(),
            has_ended: false,
            promised: None,
            closed: None,
        }
    }

    /// Writes a request, to be sent.
    pub fn ask(&mut self, tongue: Tongue, wanted: &Wanted, words: Words<'_>, number: Option<u64>) {
        let mut bytes = Vec::new();
        let is_quiet = tongue.write(wanted, words, &mut bytes, &mut self.reader);
        self.written += bytes.len() as u64;
        self.out.extend(bytes);
        let key = if wanted.verb == Verb::Flush { Vec::new() } else { words.key.to_vec() };
        let (verb, opaque, end) = (wanted.verb, words.opaque, self.written);
        self.asked.push_back(Asked { number, verb, key, opaque, is_quiet, end });
    }

    /// Sends `most` bytes at most; whether any were left to send.
    pub fn send(&mut self, most: usize) -> bool {
        let bytes: Vec<u8> = self.out.drain(..most.min(self.out.len())).collect();
        self.sent += bytes.len() as u64;
        self.peer.send(&bytes);
        if self.has_ended && self.out.is_empty() {
            self.peer.end();
        }
        !bytes.is_empty()
    }

    /// Bytes that were sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether there is something to send, or to hear.
    pub fn has_more(&self) -> bool {
        (!self.out.is_empty() && !self.peer.is_closed()) || self.peer.unheard() > 0
    }

    /// Hears `most` bytes at most, and says what ended by them. What needs no answer has ended well if `quiet_is_done`, and a reply to what followed has come.
    ///
    /// # Errors
    /// In words: they are no replies to what was asked.
    pub fn hear(&mut self, most: usize, quiet_is_done: bool) -> Result<Vec<Ended>, String> {
        self.peer.take(most, &mut self.input);
        let (mut ended, mut used) = (Vec::new(), 0);
        while used < self.input.len() {
            let rest = &self.input[used..];
            if rest.starts_with(NO_MEMORY) {
                // Its request is not read, and the connection closed.
                used = self.input.len();
                break;
            }
            let Some(at) = self.whose(rest) else { break };
            let asked = self.asked.get(at).ok_or_else(|| self.unasked(rest))?;
            let Some((answer, len)) = self.reader.next(asked, rest)? else { break };
            used += len;
            let Some(answer) = answer else { continue };
            if answer.opaque.is_some_and(|opaque| opaque != asked.opaque) {
                return Err(format!(
                    "{:?} ({}) was answered as {:?}",
                    asked.verb, asked.opaque, answer.opaque
                ));
            }
            let quiet = quiet_is_done.then_some(Ret::of(Status::Ok));
            ended.extend(self.asked.drain(..at).map(|asked| (asked, quiet.clone())));
            ended.extend(self.asked.pop_front().map(|asked| (asked, answer.ret)));
        }
        self.input.drain(..used);
        Ok(ended)
    }

    fn unasked(&self, bytes: &[u8]) -> String {
        let shown = &bytes[..bytes.len().min(80)];
        format!("{:?} came, and nobody had asked for anything", shown.escape_ascii().to_string())
    }

    /// The place of the request that the reply at the front is to: the first that wants one, or one before that says that something was wrong.
    fn whose(&self, input: &[u8]) -> Option<usize> {
        let loud = self.asked.iter().position(|asked| !asked.is_quiet).unwrap_or(self.asked.len());
        if input[0] != 0x81 {
            return Some(loud);
        }
        let opaque = input.get(12..16)?.iter().fold(0, |number, &byte| number << 8 | u32::from(byte));
        Some(self.asked.iter().take(loud).position(|asked| asked.opaque == opaque).unwrap_or(loud))
    }

    /// Whether nothing but what needs no answer is left.
    pub fn is_answered(&self) -> bool {
        self.asked.iter().all(|asked| asked.is_quiet)
    }
}
