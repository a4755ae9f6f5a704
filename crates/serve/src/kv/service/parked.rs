//! Commands that wait for boxes, and replies that wait for the log, for a chain, or for replies before them, until their edge collects them.
//!
//! ```text
//!  connection's line:   head, with a ticket of the home ◀─ commands behind it, copied, in order
//!                         │ its turn: executed, its reply is kept
//!                         ▼
//!                       replies, each with the position that the log must be durable up to ──▶ the edge is woken, and asks for those that may leave
//! ```
//! A connection's commands are answered in order, so what comes behind one that waits stands behind it until its edge has the replies. What is
//! copied is the command alone; what a reply needs of a value is shared as ever.
//!
//! Invariants: 1. a line's head has a ticket, or the line is in `moved`, or in `by_position`, or it is done and its edge was told; 2. a command is executed
//! once: it leaves its line before; 3. positions of a line's replies never fall; 4. a promised reply keeps its place until it is there, and nothing behind it
//! leaves before.
//!
//! Bounds: commands with tickets by `coherence.queue`; bytes that are copied, or kept of replies, by `net.buffer_limit`, with what connections buffer;
//! beyond, busy.

use super::Detached;
use base::budget::{Budget, Share};
use protocol::coherence::home::Ticket;
use protocol::memcache::Command;
use ring::arena::{self, Consumer, Producer, Span};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of the arena that replies are made in; more than any reply takes.
const ARENA: u64 = 64 << 10;
/// What a command takes besides the bytes it borrows.
const OVERHEAD: usize = 256;

/// A connection: its edge, its place there, and which of those that had this place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(u64);

impl Origin {
    /// Of connection `id` of an edge.
    pub fn new(edge: usize, id: u32, generation: u32) -> Origin {
        debug_assert!(edge < 1 << 8 && id < 1 << 24, "edge {edge}, connection {id}");
        Origin(u64::from(generation) << 32 | (edge as u64) << 24 | u64::from(id))
    }

    /// Its edge.
    pub fn edge(self) -> usize {
        (self.0 >> 24 & 0xff) as usize
    }

    /// Its place there, and its generation.
    pub fn place(self) -> (u32, u32) {
        (self.0 as u32 & 0xff_ffff, (self.0 >> 32) as u32)
    }
}

/// What a reply says of waiting.
pub enum Late {
    /// The command waits; its reply comes when it is collected.
    Waits,
    /// The replies to the first of those that waited.
    Done(Vec<LateReply>),
}

/// The reply to a command that waited, or that waits itself.
#[derive(Default)]
pub struct LateReply {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// A value that stands between them.
    pub value: Option<Detached>,
    /// It leaves when the log is durable up to here.
    pub needs: u64,
    /// It is not known yet.
    is_promised: bool,
    _kept: Option<Share<Arc<Budget>>>,
}

impl LateReply {
    /// These bytes, that need nothing of the log.
    pub fn of(bytes: Vec<u8>) -> LateReply {
        LateReply { bytes, ..LateReply::default() }
    }

    /// The same, to leave when the log is durable up to there.
    pub fn behind(self, needs: u64) -> LateReply {
        LateReply { needs, ..self }
    }

    /// What it takes until it has left.
    fn kept_bytes(&self) -> usize {
        OVERHEAD + self.size()
    }

    /// How many bytes it has.
    pub fn size(&self) -> usize {
        self.bytes.len() + self.value.as_ref().map_or(0, |value| value.body.len())
    }

    /// All of its bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        let Some(value) = self.value else { return self.bytes };
        let (head, tail) = self.bytes.split_at(value.at);
        [head, &value.body, tail].concat()
    }

    /// Whether there is nothing to be said.
    pub fn is_silent(&self) -> bool {
        self.bytes.is_empty() && self.value.is_none()
    }
}

/// A place in a line for a reply that is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    origin: Origin,
    number: u64,
}

/// A command that outlives its input.
pub struct Owned {
    /// With nothing where it borrows.
    command: Command<'static>,
    hash: u64,
    ranges: [Range<usize>; 3],
    bytes: Vec<u8>,
    _copied: Share<Arc<Budget>>,
}

impl Owned {
    /// A copy; none where connections buffer too much.
    pub fn of(command: &Command<'static>, hash: u64, buffered: &Arc<Budget>) -> Option<Owned> {
        let mut command = *command;
        let mut copied = Share::new(Arc::clone(buffered));
        let parts = command.borrowed_mut();
        let length: usize = parts.iter().flatten().map(|part| part.len()).sum();
        if !copied.resize(OVERHEAD + length) {
            return None;
        }
        let mut bytes = Vec::with_capacity(length);
        let ranges = parts.map(|part| {
            let begin = bytes.len();
            bytes.extend_from_slice(part.map(std::mem::take).unwrap_or_default());
            begin..bytes.len()
        });
        Some(Owned { command, hash, ranges, bytes, _copied: copied })
    }

    /// The command, and the hash of its key.
    pub fn command(&self) -> (Command<'_>, u64) {
        let mut command: Command<'_> = self.command;
        for (part, range) in command.borrowed_mut().into_iter().zip(&self.ranges) {
            if let Some(part) = part {
                *part = &self.bytes[range.clone()];
            }
        }
        (command, self.hash)
    }
}

/// What stands in a line.
pub enum Next {
    /// A command that has not been admitted.
    Command(Owned),
    /// What is said instead of a command that is not done.
    Said(Vec<u8>),
}

#[derive(Default)]
struct Line {
    queue: VecDeque<Next>,
    replies: VecDeque<LateReply>,
    /// So many were collected before them.
    collected: u64,
    /// What the last reply needs.
    needs: u64,
    /// The line is in `by_position`.
    is_listed: bool,
    /// The head has a ticket.
    waits: bool,
    /// Nobody will collect.
    gone: bool,
}

/// All of them.
pub struct Parked {
    lines: HashMap<Origin, Line>,
    heads: HashMap<Ticket, (Origin, Next)>,
    /// Lines whose heads are done, or that may have something to be collected.
    moved: Vec<Origin>,
    /// Lines whose first reply needs that position.
    by_position: BTreeMap<u64, Vec<Origin>>,
    /// The log is durable up to here; without one, everything is.
    durable: u64,
    tickets: u64,
    arena: Option<(Producer, Consumer)>,
    is_making: bool,
    buffered: Arc<Budget>,
}

impl Parked {
    /// Nothing waits. What is copied counts in `buffered`.
    pub fn new(buffered: &Arc<Budget>) -> Parked {
        Parked {
            lines: HashMap::new(),
            heads: HashMap::new(),
            moved: Vec::new(),
            by_position: BTreeMap::new(),
            durable: u64::MAX,
            tickets: 0,
            arena: None,
            is_making: false,
            buffered: Arc::clone(buffered),
        }
    }

    /// Whether what comes from `origin` must stand behind what waits, or is not collected.
    #[inline]
    pub fn has_line(&self, origin: Origin) -> bool {
        !self.lines.is_empty() && self.lines.contains_key(&origin)
    }

    /// Lines, those of connections that are gone too.
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    /// A name that no request had.
    pub fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// A copy of `command`, if there is room for it.
    pub fn copy(&self, command: &Command<'static>, hash: u64) -> Option<Owned> {
        Owned::of(command, hash, &self.buffered)
    }

    /// The head of the line of `origin` waits with this ticket.
    pub fn wait(&mut self, origin: Origin, ticket: Ticket, head: Next) {
        self.lines.entry(origin).or_default().waits = true;
        self.heads.insert(ticket, (origin, head));
    }

    /// Something stands in line, behind what waits.
    pub fn push(&mut self, origin: Origin, next: Next) {
        let line = self.lines.entry(origin).or_default();
        line.queue.push_back(next);
        if !line.waits {
            self.moved.push(origin);
        }
    }

    /// What has this ticket, whose turn it is.
    pub fn begin(&mut self, ticket: Ticket) -> (Origin, Next) {
        self.heads.remove(&ticket).expect("a ticket is run or refused once")
    }

    /// A command that had a ticket was answered.
    pub fn end(&mut self, origin: Origin, reply: LateReply) {
        self.release(origin);
        self.answer(origin, reply);
    }

    /// A command that had a ticket waits for no ticket any more: what its reply is follows at once.
    pub fn release(&mut self, origin: Origin) {
        self.lines.get_mut(&origin).expect("it had a ticket").waits = false;
        self.moved.push(origin);
    }

    /// The next reply of a line. Who calls it settles the lines that have moved.
    pub fn answer(&mut self, origin: Origin, mut reply: LateReply) {
        let line = self.lines.get_mut(&origin).expect("it has a line");
        line.needs = line.needs.max(reply.needs);
        reply.needs = line.needs;
        // One that needs nothing waits behind others, for no time that a client chooses.
        reply._kept = Some(Share::forced(Arc::clone(&self.buffered), reply.kept_bytes()));
        line.replies.push_back(reply);
    }

    /// A reply that must wait, of a connection of which nothing does.
    pub fn hold(&mut self, origin: Origin, reply: LateReply) {
        self.lines.entry(origin).or_default();
        self.answer(origin, reply);
        self.moved.push(origin);
    }

    /// A place for the next reply of a connection, in its order.
    pub fn promise(&mut self, origin: Origin) -> Promise {
        let line = self.lines.entry(origin).or_default();
        let number = line.collected + line.replies.len() as u64;
        line.replies.push_back(LateReply { is_promised: true, ..LateReply::default() });
        Promise { origin, number }
    }

    /// The reply that was promised, once. Nobody hears of it whose connection is gone.
    pub fn fulfil(&mut self, Promise { origin, number }: Promise, mut reply: LateReply) {
        let Some(line) = self.lines.get_mut(&origin) else { return };
        let at = usize::try_from(number - line.collected).expect("it stands in the line");
        reply._kept = Some(Share::forced(Arc::clone(&self.buffered), reply.kept_bytes()));
        debug_assert!(line.replies[at].is_promised, "a promise is fulfilled once");
        line.replies[at] = reply;
        if at == 0 {
            self.moved.push(origin);
        }
    }

    /// Whether so much is kept that nothing more may be.
    pub fn is_full(&self) -> bool {
        self.buffered.is_over()
    }

    /// The log is durable up to here.
    pub fn set_durable(&mut self, position: u64) {
        self.durable = position;
        while let Some(first) = self.by_position.first_entry().filter(|first| *first.key() <= position) {
            for origin in first.remove() {
                if let Some(line) = self.lines.get_mut(&origin) {
                    line.is_listed = false;
                    self.moved.push(origin);
                }
            }
        }
    }

    /// Whether a reply may leave that needs this.
    #[inline]
    pub fn is_durable(&self, needs: u64) -> bool {
        needs <= self.durable
    }

    /// A line whose head is done, or that may have something to be collected.
    pub fn moved(&mut self) -> Option<Origin> {
        self.moved.pop()
    }

    /// What is next in a line; none where it waits, or nothing is left in it.
    pub fn next(&mut self, origin: Origin) -> Option<Next> {
        self.lines.get_mut(&origin).filter(|line| !line.waits)?.queue.pop_front()
    }

    /// Whether an edge is to collect from this line now; if not for the log's sake, it is again in `moved` when that is durable. One of a connection that has
    /// gone is taken away when it is done.
    pub fn is_to_be_collected(&mut self, origin: Origin) -> bool {
        let Some(line) = self.lines.get_mut(&origin).filter(|line| !line.waits && line.queue.is_empty())
        else {
            return false;
        };
        if line.gone {
            self.lines.remove(&origin);
            return false;
        }
        if line.replies.front().is_some_and(|reply| reply.is_promised) {
            return false;
        }
        let needs = line.replies.front().map_or(0, |reply| reply.needs);
        if needs > self.durable && !std::mem::replace(&mut line.is_listed, true) {
            self.by_position.entry(needs).or_default().push(origin);
        }
        needs <= self.durable
    }

    /// The replies of a line that may leave; it goes if nothing is left in it, and has moved if more will come.
    pub fn collect(&mut self, origin: Origin) -> Vec<LateReply> {
        let Some(line) = self.lines.get_mut(&origin) else { return Vec::new() };
        let may_leave = |reply: &&LateReply| reply.needs <= self.durable && !reply.is_promised;
        let count = line.replies.iter().take_while(may_leave).count();
        line.collected += count as u64;
        let replies = line.replies.drain(..count).collect();
        if !line.replies.is_empty() {
            self.moved.push(origin);
        } else if !line.waits && line.queue.is_empty() {
            self.lines.remove(&origin);
        }
        replies
    }

    /// Its connection is gone: what stands in its line is done, as the connection's client may think, but nobody hears of it.
    pub fn gone(&mut self, origin: Origin) {
        if let Some(line) = self.lines.get_mut(&origin) {
            line.gone = true;
            self.moved.push(origin);
        }
    }

    /// Where replies are made; to be given back with [`Parked::made`].
    pub fn take_arena(&mut self) -> (Producer, Consumer) {
        self.is_making = true;
        self.arena.take().unwrap_or_else(|| arena::heap(ARENA))
    }

    /// The reply that was made there.
    pub fn made(
        &mut self,
        (producer, mut consumer): (Producer, Consumer),
        span: Span,
        value: Option<Detached>,
    ) -> LateReply {
        let bytes = consumer.bytes(span).expect("it was made just now").to_vec();
        consumer.release(span);
        consumer.publish();
        self.arena = Some((producer, consumer));
        self.is_making = false;
        LateReply { bytes, value, ..LateReply::default() }
    }

    /// Whether a reply is being made: it counts in no port.
    pub fn is_making(&self) -> bool {
        self.is_making
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::memcache::{Parser, Step};

    #[test]
    fn a_copy_says_what_the_command_said_and_counts_its_bytes() {
        let text: &[u8] = b"set key 7 0 5\r\nvalue\r\nms kk 2 I T9\r\nvv\r\nincr n 3\r\nmg aa v t\r\n";
        let buffered = Arc::new(Budget::new(1 << 20));
        let (mut parser, mut rest, mut copies) = (Parser::new(1 << 20), text, Vec::new());
        let mut commands = Vec::new();
        while !rest.is_empty() {
            let Step::Command { command, consumed } = parser.next(rest) else { panic!("{rest:?}") };
            copies.push(Owned::of(&command, 9, &buffered).expect("there is room"));
            commands.push(command);
            rest = &rest[consumed..];
        }
        assert!(buffered.taken() > 4 * OVERHEAD);
        assert_eq!(copies.iter().map(|copy| copy.command().0).collect::<Vec<_>>(), commands);
        drop(copies);
        assert_eq!(buffered.taken(), 0);
        let full = Arc::new(Budget::new(16));
        assert!(Owned::of(&commands[0], 9, &full).is_none());
    }

    #[test]
    fn promised_replies_leave_in_their_order_whenever_they_come() {
        let mut parked = Parked::new(&Arc::new(Budget::new(1 << 20)));
        let origin = Origin::new(0, 1, 1);
        let reply = |text: &str| LateReply::of(text.as_bytes().to_vec());
        let collected = |parked: &mut Parked| -> Vec<Vec<u8>> {
            parked.collect(origin).into_iter().map(LateReply::into_bytes).collect()
        };
        let [first, second, third] = [(); 3].map(|()| parked.promise(origin));
        parked.fulfil(second, reply("2"));
        assert_eq!((parked.moved(), parked.is_to_be_collected(origin)), (None, false));
        parked.fulfil(first, reply("1"));
        assert_eq!((parked.moved(), parked.is_to_be_collected(origin)), (Some(origin), true));
        assert_eq!(collected(&mut parked), [b"1", b"2"]);
        let fourth = parked.promise(origin);
        parked.fulfil(fourth, reply("4"));
        assert!(parked.has_line(origin) && collected(&mut parked).is_empty());
        parked.fulfil(third, reply("3"));
        assert_eq!(collected(&mut parked), [b"3", b"4"]);
        assert!(!parked.has_line(origin));
        // Whose connection is gone hears nothing.
        let late = parked.promise(origin);
        parked.gone(origin);
        assert!(!parked.is_to_be_collected(origin) && parked.lines() == 0);
        parked.fulfil(late, reply("5"));
        assert_eq!(parked.lines(), 0);
    }

    #[test]
    fn an_origin_says_where_a_connection_is() {
        let origin = Origin::new(255, 0xff_fffe, u32::MAX - 1);
        assert_eq!((origin.edge(), origin.place()), (255, (0xff_fffe, u32::MAX - 1)));
    }
}
