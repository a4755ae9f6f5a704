//! A server in as few lines as may be: what it must do by the design, at random times, and what it must never see.

use super::cable::Cable;
use crate::connection::handshake::{Hello, MethodInfo, ServiceInfo, Token, VERSION, Welcome};
use crate::connection::switch::{Links, Noted, Received, Side};
use crate::frame::{Frame, Header, Kind};
use crate::link::{Frames, Link, SendError};
use crate::status::Code;
use base::prng::Prng;
use base::units::Nanos;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(super) const CALLS: u32 = 6;
pub(super) const WINDOW: u32 = 5;

/// The other side of a run: a server with one connection; one that starts anew is another one.
pub(super) trait Other {
    /// Takes what arrived, works a little, sends what fits; what the client did wrong.
    fn turn(&mut self, now: Nanos) -> Result<(), String>;

    /// A further link came in.
    fn accept(&mut self, link: Box<dyn Link>);

    /// Calls that are not answered.
    fn open_calls(&self) -> usize;

    /// Whether the old link is still there.
    fn is_switching(&self) -> bool;

    /// How often each id was run. Asked once, at the end.
    fn executed(&mut self) -> BTreeMap<u64, u32>;
}

/// Methods by number; a body begins with the call's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Answers with its request, or NOT_FOUND for some ids.
    Say,
    /// Items are the id and their number.
    Count,
    /// Answers with how many items came.
    Sum,
    /// Every item comes back.
    Chat,
}

impl Method {
    pub(super) const ALL: [Method; 4] = [Method::Say, Method::Count, Method::Sum, Method::Chat];

    pub(super) fn takes_stream(self) -> bool {
        matches!(self, Method::Sum | Method::Chat)
    }

    pub(super) fn gives_stream(self) -> bool {
        matches!(self, Method::Count | Method::Chat)
    }
}

/// How many items `Count` gives.
pub(super) fn items_of(id: u64) -> u32 {
    (id % 23) as u32
}

/// Whether `Say` fails.
pub(super) fn is_unknown(id: u64) -> bool {
    id % 7 == 3
}

/// The body of an item.
pub(super) fn item(id: u64, number: u32) -> Vec<u8> {
    [&id.to_le_bytes()[..], &number.to_le_bytes()].concat()
}

/// A call, or what came of one before its Request.
#[derive(Default)]
struct Call {
    method: Option<Method>,
    id: u64,
    due: u64,
    items: BTreeMap<u32, Vec<u8>>,
    taken: u32,
    granted: u32,
    finish: Option<u32>,
    given: u32,
    may_give: u32,
    cancelled: bool,
    credit: u32,
}

/// A server in as few lines as may be.
pub(super) struct Peer {
    links: Option<Links>,
    joining: VecDeque<(Box<dyn Link>, u32)>,
    welcomed: bool,
    token: Token,
    calls: BTreeMap<u32, Call>,
    over: BTreeSet<u32>,
    outbox: VecDeque<(Header, Vec<u8>)>,
    random: Prng,
    executed: BTreeMap<u64, u32>,
}

impl Peer {
    pub(super) fn new(link: Box<dyn Link>, seed: u64) -> Peer {
        let mut random = Prng::new(seed);
        let mut token = [0; 16];
        random.fill(&mut token);
        Peer {
            links: Some(Links::new(link, 0, 0)),
            joining: VecDeque::new(),
            welcomed: false,
            token,
            calls: BTreeMap::new(),
            over: BTreeSet::new(),
            outbox: VecDeque::new(),
            random,
            executed: BTreeMap::new(),
        }
    }

    fn calls_taken(&self) -> usize {
        self.calls.values().filter(|call| call.method.is_some()).count()
    }

    fn take(&mut self, frame: &Frame<'_>, from: Side, now: Nanos) -> Result<(), String> {
        let header = frame.header;
        match header.kind {
            Kind::Hello => {
                let hello = Hello::parse(frame.body).map_err(|error| error.to_string())?;
                assert!(hello.join.is_none() && !self.welcomed, "one Hello comes on the first link");
                self.welcomed = true;
                self.outbox.push_back((Header::new(Kind::Welcome, 0), self.welcome().emit()));
                return Ok(());
            }
            Kind::Pong => return Ok(()),
            Kind::Last => {
                let links = self.links.as_mut().expect("it is there while frames come");
                let wrong = links.take_last(from, &header) == Noted::Wrong;
                return if wrong { Err("a Last that makes no sense".into()) } else { Ok(()) };
            }
            _ => {}
        }
        if self.over.contains(&header.call) {
            return if header.kind == Kind::Request { Err("a number used twice".into()) } else { Ok(()) };
        }
        if header.call & 0xffff >= CALLS {
            return Err(format!("call {:#x} is beyond the table", header.call));
        }
        if header.kind == Kind::Request && self.calls_taken() == CALLS as usize {
            return Err("more calls than the Welcome allows".into());
        }
        let delay = self.random.below(60_000);
        let call = self.calls.entry(header.call).or_insert_with(|| Call {
            granted: WINDOW,
            may_give: WINDOW,
            ..Call::default()
        });
        match header.kind {
            Kind::Request => {
                let slot = header.call & 0xffff;
                call.method = Method::ALL.get(usize::from(header.method)).copied();
                call.id = u64::from_le_bytes(frame.metadata.try_into().map_err(|_| "no id in the Request")?);
                call.due = now.0 + delay;
                *self.executed.entry(call.id).or_default() += 1;
                let same = self.calls.iter().filter(|(n, call)| *n & 0xffff == slot && call.method.is_some());
                if same.count() > 1 {
                    return Err("a slot used again before its Reply".into());
                }
            }
            Kind::Item => {
                if header.aux.wrapping_sub(call.taken) >= call.granted.wrapping_sub(call.taken) {
                    return Err("an item outside its window".into());
                }
                if call.items.insert(header.aux, frame.body.to_vec()).is_some() {
                    return Err("an item came twice".into());
                }
            }
            Kind::Finish => call.finish = Some(header.aux),
            Kind::Credit => call.may_give += header.aux,
            Kind::Cancel => call.cancelled = true,
            kind => return Err(format!("the client says {kind:?}")),
        }
        Ok(())
    }

    fn welcome(&self) -> Welcome {
        let method = |(number, method): (usize, Method)| MethodInfo {
            name: format!("{method:?}"),
            number: number as u16,
            client_streaming: method.takes_stream(),
            server_streaming: method.gives_stream(),
        };
        let methods = Method::ALL.into_iter().enumerate().map(method).collect();
        let services = vec![ServiceInfo { name: "demo.Echo".to_owned(), hash: 0, methods }];
        Welcome { version: VERSION, token: self.token, connection: 1, calls: CALLS, window: WINDOW, services }
    }

    /// Lets the oldest new link join, once the switch before is over.
    fn join(&mut self, now: Nanos) {
        let welcome = self.welcome();
        let Some(links) = &mut self.links else { return };
        let Some((link, received)) = self.joining.front_mut() else { return };
        let mut frames = Frames::default();
        match link.recv(now, 1, &mut frames) {
            Ok(count) => *received += count as u32,
            Err(_) => drop(self.joining.pop_front()),
        }
        let Some(bytes) = frames.pop() else {
            let Some((link, 1)) = self.joining.front_mut() else { return };
            if !links.is_switching()
                && link.try_send(&Header::new(Kind::Welcome, 0).emit(), &welcome.emit()).is_ok()
            {
                let (link, received) = self.joining.pop_front().expect("looked at just now");
                links.replace(link, 1, received);
            }
            return;
        };
        let hello = Hello::parse(&bytes[crate::frame::HEADER..]).expect("the client says Hello");
        assert_eq!(hello.join, Some(self.token), "it joins its own connection");
    }

    fn work(&mut self, now: Nanos) -> Result<(), String> {
        let mut over = Vec::new();
        for (&number, call) in &mut self.calls {
            let busy = call.due > now.0 || self.outbox.len() > 4 || self.random.chance(0.3);
            let Some(method) = call.method.filter(|_| !busy) else { continue };
            let end = call.step(method, number, &mut self.outbox)?;
            if let Some((code, body)) = end {
                let given = if method.gives_stream() { call.given } else { 0 };
                let reply = Header { method: code as u16, aux: given, ..Header::new(Kind::Reply, number) };
                self.outbox.push_back((reply, body));
                over.push(number);
            }
        }
        for number in over {
            self.calls.remove(&number);
            self.over.insert(number);
        }
        Ok(())
    }

    fn speak(&mut self, now: Nanos) {
        let Some(links) = &mut self.links else { return };
        while let Some((header, body)) = self.outbox.front() {
            match links.send(&header.emit(), body) {
                Ok(()) => drop(self.outbox.pop_front()),
                Err(SendError::Full) => break,
                Err(_) => break, // the next turn sees that it is lost
            }
        }
        links.flush(now);
    }
}

impl Other for Peer {
    fn accept(&mut self, link: Box<dyn Link>) {
        self.joining.push_back((link, 0));
    }

    fn executed(&mut self) -> BTreeMap<u64, u32> {
        std::mem::take(&mut self.executed)
    }

    fn open_calls(&self) -> usize {
        self.calls_taken()
    }

    fn is_switching(&self) -> bool {
        self.links.as_ref().is_some_and(Links::is_switching)
    }

    fn turn(&mut self, now: Nanos) -> Result<(), String> {
        let Some(links) = &mut self.links else { return Ok(()) };
        let mut frames = Frames::default();
        let from = match links.recv(now, 8, &mut frames) {
            Ok(Received::Frames(_, from)) => from,
            Ok(Received::OldLost(_)) => Side::Current,
            Err(_) => {
                (self.links, self.joining) = (None, VecDeque::new());
                return Ok(());
            }
        };
        while let Some(bytes) = frames.pop() {
            let frame = Frame::parse(bytes).map_err(|error| format!("the client says {error}"))?;
            self.take(&frame, from, now)?;
        }
        self.join(now);
        self.work(now)?;
        self.speak(now);
        Ok(())
    }
}

impl Call {
    /// Does one thing; how the call ends, if it does.
    fn step(
        &mut self,
        method: Method,
        number: u32,
        outbox: &mut VecDeque<(Header, Vec<u8>)>,
    ) -> Result<Option<(Code, Vec<u8>)>, String> {
        if self.cancelled {
            return Ok(Some((Code::Cancelled, Vec::new())));
        }
        let mut echo = None;
        if method.takes_stream()
            && (method == Method::Sum || self.given < self.may_give)
            && let Some(body) = self.items.remove(&self.taken)
        {
            if body != item(self.id, self.taken) {
                return Err("an item of another call, or out of order".into());
            }
            echo = (method == Method::Chat).then_some(body);
            self.taken += 1;
            self.credit += 1;
            if self.credit == 2 {
                let credit = Header { aux: self.credit, ..Header::new(Kind::Credit, number) };
                outbox.push_back((credit, Vec::new()));
                (self.granted, self.credit) = (self.granted + self.credit, 0);
            }
        } else if method == Method::Count && self.given < self.may_give.min(items_of(self.id)) {
            echo = Some(item(self.id, self.given));
        }
        if let Some(body) = echo {
            outbox.push_back((Header { aux: self.given, ..Header::new(Kind::Item, number) }, body));
            self.given += 1;
            return Ok(None);
        }
        Ok(match method {
            Method::Say if is_unknown(self.id) => Some((Code::NotFound, b"unknown".to_vec())),
            Method::Say => Some((Code::Ok, self.id.to_le_bytes().to_vec())),
            Method::Count if self.given == items_of(self.id) => Some((Code::Ok, Vec::new())),
            Method::Sum if self.finish == Some(self.taken) => Some((Code::Ok, item(self.id, self.taken))),
            Method::Chat if self.finish == Some(self.taken) => Some((Code::Ok, Vec::new())),
            _ => None,
        })
    }
}

/// A cable to a peer: what a test keeps of it.
pub(super) struct Line {
    pub(super) cable: Cable,
    pub(super) ours: Box<dyn Link>,
    pub(super) theirs: Box<dyn Link>,
}
