//! What a command needs a right to, and what becomes of one that is refused.
//!
//! Invariants
//! 1. Every command that shows or changes something of an item says so with its key; `tests` has each of them.
//! 2. A refused command is answered where its own answer would stand: the stream goes on behind it ([`Parser::refused`]).
//!
//! [`Parser::refused`]: super::Parser::refused

use super::binary::{Asks, Binary};
use super::command::{Command, Dump, Get, Stats, Store, TooLarge};
use super::lines::Line;
use super::meta::Meta;

/// See [`Command::need`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need<'a> {
    /// No right: it says and changes nothing of what is here.
    Nothing,
    /// To read this key, to write it, or both.
    Key {
        /// The key, as text or base64.
        key: Meta<'a>,
        /// What it has is shown.
        reads: bool,
        /// What it has is changed.
        writes: bool,
    },
    /// Any right at all: numbers that say nothing of single keys.
    Any,
    /// To read all keys.
    AllKeys,
    /// To see what operators see.
    Look,
    /// To change what operators change.
    Administer,
}

impl<'a> Need<'a> {
    fn key(key: Meta<'a>, reads: bool, writes: bool) -> Need<'a> {
        Need::Key { key, reads, writes }
    }

    fn of_stats(which: &Stats<'_>) -> Need<'a> {
        match which {
            Stats::General
            | Stats::Settings
            | Stats::Items
            | Stats::Slabs
            | Stats::Sizes
            | Stats::Other(_) => Need::Any,
            // Addresses of others, and beginnings of their keys.
            Stats::Conns | Stats::DetailDump => Need::Look,
            Stats::SizesEnable | Stats::SizesDisable | Stats::Reset | Stats::DetailOn | Stats::DetailOff => {
                Need::Administer
            }
            Stats::Cachedump { .. } => Need::AllKeys,
        }
    }
}

impl<'a> Command<'a> {
    /// What it needs a right to. A number that is counted is shown, too; who is to store an item anew has changed it.
    #[inline]
    pub fn need(&self) -> Need<'a> {
        match self {
            Command::Get(Get { key, touch, .. }) => Need::key(Meta::classic(key), true, touch.is_some()),
            Command::Store(Store { key, .. }) | Command::Delete { key, .. } | Command::Touch { key, .. } => {
                Need::key(Meta::classic(key), false, true)
            }
            Command::Arith { key, .. } => Need::key(Meta::classic(key), true, true),
            Command::MetaGet(get) => {
                let writes = get.ttl().is_some() || get.vivify().is_some() || get.recache().is_some();
                // A binary touch shows nothing; neither does a text one.
                Need::key(get.meta, !get.is_touch(), writes)
            }
            Command::MetaSet(set) => Need::key(set.meta, false, true),
            Command::MetaDelete(delete) => Need::key(delete.meta, false, true),
            Command::MetaArith(arith) => Need::key(arith.meta, true, true),
            Command::MetaDebug(meta) => Need::key(*meta, true, false),
            Command::TooLarge(TooLarge { meta, .. }) => Need::key(*meta, false, true),
            Command::Stats(which) | Command::Binary(Binary { asks: Asks::Stats(which), .. }) => {
                Need::of_stats(which)
            }
            Command::Dump(Dump { .. }) => Need::AllKeys,
            Command::FlushAll { .. }
            | Command::Verbosity { .. }
            | Command::CacheMemlimit { .. }
            | Command::Shutdown(_)
            | Command::Watch(_)
            | Command::Answered { .. } => Need::Administer,
            Command::GetEnd
            | Command::MetaNoop
            | Command::Version
            | Command::Quit
            | Command::Malformed { .. }
            | Command::Binary(Binary {
                asks: Asks::Noop | Asks::Quit | Asks::Version | Asks::Sasl(_) | Asks::Refused(_),
                ..
            }) => Need::Nothing,
        }
    }

    /// The command that tells its client that it has no right to this, in the protocol that it speaks.
    #[cold]
    pub(super) fn refusal(&self, line: Line) -> Command<'a> {
        let header = match *self {
            Command::MetaGet(super::MetaGet { meta, .. })
            | Command::MetaSet(super::MetaSet { meta, .. })
            | Command::MetaDelete(super::MetaDelete { meta, .. })
            | Command::MetaArith(super::MetaArith { meta, .. })
            | Command::TooLarge(TooLarge { meta, .. })
                if meta.is_binary() =>
            {
                meta.flags_text
            }
            Command::FlushAll { header, .. } | Command::Binary(Binary { header, .. }) => header,
            _ => b"",
        };
        match header {
            b"" => Command::Malformed { line, noreply: self.noreply() },
            header => Command::Binary(Binary { header, asks: Asks::Refused(line) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::binary::{HEADER_LEN, REQUEST_MAGIC, opcode};
    use super::super::{KEY_MAX, Parser, Step};
    use super::*;

    /// What each command of a conversation needs, a letter each; keys behind it.
    fn needs(conversation: &[u8]) -> Vec<String> {
        let mut parser = Parser::new(1 << 20);
        let (mut rest, mut found) = (conversation, Vec::new());
        while !rest.is_empty() {
            let consumed = match parser.next(rest) {
                Step::Command { command, consumed } => {
                    found.push(match command.need() {
                        Need::Nothing => "-".to_owned(),
                        Need::Any => "any".to_owned(),
                        Need::AllKeys => "all".to_owned(),
                        Need::Look => "look".to_owned(),
                        Need::Administer => "admin".to_owned(),
                        Need::Key { key, reads, writes } => {
                            let (read, write) = (if reads { "r" } else { "" }, if writes { "w" } else { "" });
                            format!("{read}{write} {}", String::from_utf8_lossy(key.key(&mut [0; KEY_MAX])))
                        }
                    });
                    consumed
                }
                Step::Skip { consumed } => consumed,
                other => panic!("{other:?} of {:?}", String::from_utf8_lossy(rest)),
            };
            rest = &rest[consumed..];
        }
        found
    }

    #[test]
    fn each_text_command_says_what_it_needs() {
        for (line, wanted) in [
            ("get a b", &["r a", "r b"][..]),
            ("gets a", &["r a"]),
            ("gat 0 a", &["rw a"]),
            ("gats 0 a", &["rw a"]),
            ("set a 0 0 1\r\nx", &["w a"]),
            ("add a 0 0 1\r\nx", &["w a"]),
            ("replace a 0 0 1\r\nx", &["w a"]),
            ("append a 0 0 1\r\nx", &["w a"]),
            ("prepend a 0 0 1\r\nx", &["w a"]),
            ("cas a 0 0 1 7\r\nx", &["w a"]),
            ("set a 0 0 2000000", &["w a"]),
            ("delete a", &["w a"]),
            ("incr a 1", &["rw a"]),
            ("decr a 1", &["rw a"]),
            ("touch a 0", &["w a"]),
            ("mg a v", &["r a"]),
            ("mg YQ== b v", &["r a"]),
            ("mg a", &["r a"]),
            ("mg a T0", &["rw a"]),
            ("mg a N0 v", &["rw a"]),
            ("mg a R30 v", &["rw a"]),
            ("ms a 1\r\nx", &["w a"]),
            ("ms YQ== 1 b\r\nx", &["w a"]),
            ("md a I", &["w a"]),
            ("ma a", &["rw a"]),
            ("me a", &["r a"]),
            ("mn", &["-"]),
            ("version", &["-"]),
            ("nonsense", &["-"]),
            ("stats", &["any"]),
            ("stats items", &["any"]),
            ("stats settings", &["any"]),
            ("stats conns", &["look"]),
            ("stats detail dump", &["look"]),
            ("stats detail on", &["admin"]),
            ("stats reset", &["admin"]),
            ("stats cachedump 1 0", &["all"]),
            ("lru_crawler metadump all", &["all"]),
            ("lru_crawler mgdump all", &["all"]),
            ("lru_crawler enable", &["admin"]),
            ("slabs automove 1", &["admin"]),
            ("lru mode flat", &["admin"]),
            ("watch", &["admin"]),
            ("flush_all", &["admin"]),
            ("verbosity 1", &["admin"]),
            ("cache_memlimit 64", &["admin"]),
            ("shutdown", &["admin"]),
        ] {
            let wanted: Vec<String> = wanted.iter().map(|need| (*need).to_owned()).collect();
            assert_eq!(needs(format!("{line}\r\n").as_bytes()), wanted, "{line}");
        }
    }

    fn binary(opcode: u8, extras: usize, key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut request = vec![0; HEADER_LEN + extras];
        (request[0], request[1], request[3], request[4]) =
            (REQUEST_MAGIC, opcode, key.len() as u8, extras as u8);
        request[11] = (extras + key.len() + value.len()) as u8;
        [&request, key, value].concat()
    }

    #[test]
    fn each_binary_command_says_what_it_needs() {
        use opcode::*;
        for (opcodes, extras, wanted) in [
            (&[GET, GETQ, GETK, GETKQ][..], 0, "r a"),
            (&[GAT, GATQ, GATK, GATKQ], 4, "rw a"),
            (&[TOUCH], 4, "w a"),
            (&[SET, SETQ, ADD, ADDQ, REPLACE, REPLACEQ], 8, "w a"),
            (&[APPEND, APPENDQ, PREPEND, PREPENDQ, DELETE, DELETEQ], 0, "w a"),
            (&[INCREMENT, INCREMENTQ, DECREMENT, DECREMENTQ], 20, "rw a"),
        ] {
            for opcode in opcodes {
                assert_eq!(needs(&binary(*opcode, extras, b"a", b"")), [wanted], "{opcode:#x}");
            }
        }
        for (opcode, key, wanted) in [
            (FLUSH, &b""[..], "admin"),
            (FLUSHQ, b"", "admin"),
            (NOOP, b"", "-"),
            (VERSION, b"", "-"),
            (STAT, b"", "any"),
            (STAT, b"reset", "admin"),
            (STAT, b"detail dump", "look"),
            (SASL_LIST, b"", "-"),
        ] {
            assert_eq!(needs(&binary(opcode, 0, key, b"")), [wanted], "{opcode:#x}");
        }
    }

    #[test]
    fn what_is_refused_is_answered_and_the_stream_goes_on() {
        let input = b"get a b c\r\nset d 0 0 3\r\nxyz\r\nset e 0 0 1 noreply\r\nx\r\nmn\r\n";
        let mut parser = Parser::new(1 << 20);
        let (mut rest, mut commands) = (&input[..], Vec::new());
        while !rest.is_empty() {
            let consumed = match parser.next(rest) {
                Step::Command { command, consumed } => {
                    let is_refused = matches!(command.need(), Need::Key { key, .. } if key.key_text != b"a");
                    commands.push(if is_refused { parser.refused(&command, Line::NoRead) } else { command });
                    consumed
                }
                Step::Skip { consumed } => consumed,
                other => panic!("{other:?}"),
            };
            rest = &rest[consumed..];
        }
        let refused = |noreply| Command::Malformed { line: Line::NoRead, noreply };
        assert!(matches!(commands[0], Command::Get(_)));
        assert_eq!(commands[1..], [refused(false), refused(false), refused(true), Command::MetaNoop]);

        let request = binary(opcode::GETQ, 0, b"a", b"");
        let mut parser = Parser::new(1 << 20);
        let Step::Command { command, .. } = parser.next(&request) else { panic!("a command") };
        let refused = parser.refused(&command, Line::NoRead);
        let asks = Asks::Refused(Line::NoRead);
        assert_eq!(refused, Command::Binary(Binary { header: &request[..HEADER_LEN], asks }));
    }
}
