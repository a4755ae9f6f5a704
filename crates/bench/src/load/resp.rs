//! Just enough of Redis's protocol (RESP2) to drive a Redis server with the same workloads: GET, MGET, SET, DEL, EXPIRE.
//!
//! Bounds: lines to 64 KiB, values to the limit that the reader was made with. Never panics on what a server sends.

const MAX_LINE: usize = 64 << 10;

/// Appends a command of `parts` words: call [`word`] exactly that often afterwards.
pub fn command(out: &mut Vec<u8>, parts: usize) {
    header(out, b'*', parts);
}

/// Appends one word of a command.
pub fn word(out: &mut Vec<u8>, bytes: &[u8]) {
    word_with(out, bytes.len(), |out| out.extend_from_slice(bytes));
}

/// Appends one word of `len` bytes that `fill` writes in place.
pub fn word_with(out: &mut Vec<u8>, len: usize, fill: impl FnOnce(&mut Vec<u8>)) {
    header(out, b'$', len);
    let start = out.len();
    fill(out);
    assert_eq!(out.len() - start, len, "the word is not as long as announced");
    out.extend_from_slice(b"\r\n");
}

fn header(out: &mut Vec<u8>, mark: u8, n: usize) {
    let mut digits = [0u8; 20];
    let (mut at, mut rest) = (digits.len(), n);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.push(mark);
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}

/// One reply, or one element of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RespReply<'a> {
    /// `+text`.
    Status(&'a [u8]),
    /// `-text`.
    Error(&'a [u8]),
    /// `:n`.
    Number(i64),
    /// A value.
    Bulk(&'a [u8]),
    /// No value.
    Nil,
    /// An array of no elements.
    Empty,
}

/// What [`RespReader::next`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RespProgress<'a> {
    /// A reply of `used` bytes; `last` when it completes the answer to its command.
    Reply {
        /// What the server said.
        reply: RespReply<'a>,
        /// How many bytes it took.
        used: usize,
        /// Whether the command is answered.
        last: bool,
    },
    /// Call again when `need` bytes are there.
    Incomplete {
        /// More than the input has.
        need: usize,
    },
}

/// An incremental reader of replies.
#[derive(Debug)]
pub struct RespReader {
    owed: usize,
    /// Elements still to come of the array at the front; 0 outside arrays.
    elements: u64,
    max_value: usize,
}

/// Why the replies cannot be followed.
pub const BROKEN: &str = "the server's answer is not the Redis protocol (RESP2)";

impl RespReader {
    /// A reader that allows values of up to `max_value` bytes.
    pub fn new(max_value: usize) -> RespReader {
        RespReader { owed: 0, elements: 0, max_value }
    }

    /// Notes that a command was sent.
    pub fn expect(&mut self) {
        self.owed += 1;
    }

    /// Reads one reply from the front of `input`; array heads are consumed with their first element.
    ///
    /// # Errors
    /// When the bytes are no RESP2, or nothing is owed.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<RespProgress<'a>, &'static str> {
        if input.is_empty() {
            return Ok(RespProgress::Incomplete { need: 1 });
        }
        if self.owed == 0 {
            return Err("the server sent bytes that nobody asked for");
        }
        let Some((line, start)) = line(input, 0)? else {
            return Ok(RespProgress::Incomplete { need: input.len() + 1 });
        };
        if line.first() == Some(&b'*') && self.elements == 0 {
            let count = integer(&line[1..])?;
            if count <= 0 {
                return Ok(self.element(RespReply::Empty, start, 1));
            }
            let Some((line, next)) = line_after(input, start)? else {
                return Ok(RespProgress::Incomplete { need: input.len() + 1 });
            };
            return self.scalar(input, line, next, count as u64);
        }
        self.scalar(input, line, start, self.elements.max(1))
    }

    fn scalar<'a>(
        &mut self,
        input: &'a [u8],
        line: &'a [u8],
        start: usize,
        left: u64,
    ) -> Result<RespProgress<'a>, &'static str> {
        let (mark, rest) = line.split_first().ok_or(BROKEN)?;
        let reply = match mark {
            b'+' => RespReply::Status(rest),
            b'-' => RespReply::Error(rest),
            b':' => RespReply::Number(integer(rest)?),
            b'$' => {
                let len = integer(rest)?;
                if len < 0 {
                    return Ok(self.element(RespReply::Nil, start, left));
                }
                let len = usize::try_from(len).ok().filter(|&n| n <= self.max_value);
                let len = len.ok_or("the server announced a value longer than allowed")?;
                let used = start + len + 2;
                return match input.get(start..used) {
                    None => Ok(RespProgress::Incomplete { need: used }),
                    Some(block) if block.ends_with(b"\r\n") => {
                        Ok(self.element(RespReply::Bulk(&block[..len]), used, left))
                    }
                    Some(_) => Err(BROKEN),
                };
            }
            _ => return Err(BROKEN),
        };
        Ok(self.element(reply, start, left))
    }

    /// Accounts for one element of `left` that were still to come.
    fn element<'a>(&mut self, reply: RespReply<'a>, used: usize, left: u64) -> RespProgress<'a> {
        self.elements = left - 1;
        self.owed -= usize::from(left == 1);
        RespProgress::Reply { reply, used, last: left == 1 }
    }
}

fn line(input: &[u8], start: usize) -> Result<Option<(&[u8], usize)>, &'static str> {
    let window = &input[start..input.len().min(start + MAX_LINE)];
    match window.iter().position(|&b| b == b'\n') {
        Some(end) => Ok(Some((window[..end].strip_suffix(b"\r").ok_or(BROKEN)?, start + end + 1))),
        None if window.len() == MAX_LINE => Err(BROKEN),
        None => Ok(None),
    }
}

fn line_after(input: &[u8], start: usize) -> Result<Option<(&[u8], usize)>, &'static str> {
    if start >= input.len() { Ok(None) } else { line(input, start) }
}

fn integer(text: &[u8]) -> Result<i64, &'static str> {
    std::str::from_utf8(text).ok().and_then(|t| t.parse().ok()).ok_or(BROKEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn replies(commands: usize, bytes: &[u8], cuts: impl IntoIterator<Item = usize>) -> Option<Vec<String>> {
        let mut reader = RespReader::new(1 << 16);
        (0..commands).for_each(|_| reader.expect());
        let (mut got, mut at) = (Vec::new(), 0);
        for end in cuts.into_iter().chain([bytes.len()]) {
            loop {
                match reader.next(&bytes[at..end.max(at)]).ok()? {
                    RespProgress::Incomplete { need } => {
                        assert!(need > end.max(at) - at);
                        break;
                    }
                    RespProgress::Reply { reply, used, last } => {
                        got.push(format!("{reply:?} {last}"));
                        at += used;
                    }
                }
            }
        }
        Some(got)
    }

    #[test]
    fn every_split_gives_the_same_replies() {
        let bytes = b"+OK\r\n$5\r\nhe\r\no\r\n*3\r\n$1\r\na\r\n$-1\r\n$0\r\n\r\n:12\r\n-ERR no\r\n*0\r\n";
        let want = replies(6, bytes, []).expect("good");
        assert_eq!(want.len(), 8);
        assert_eq!(want[2], "Bulk([97]) false");
        assert_eq!(want[4], "Bulk([]) true");
        assert_eq!(replies(6, bytes, 0..bytes.len()), Some(want.clone()));
        for cut in 0..bytes.len() {
            assert_eq!(replies(6, bytes, [cut]), Some(want.clone()), "cut at {cut}");
        }
    }

    #[test]
    fn commands_look_as_redis_reads_them() {
        let mut out = Vec::new();
        command(&mut out, 2);
        word(&mut out, b"GET");
        word(&mut out, b"k");
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    }

    proptest! {
        #[test]
        fn garbage_never_panics(noise in proptest::collection::vec(prop_oneof![
            any::<u8>(), Just(b'\r'), Just(b'\n'), Just(b'*'), Just(b'$'), Just(b'1')], 0..200)) {
            let _ = replies(3, &noise, 0..noise.len());
        }
    }
}
