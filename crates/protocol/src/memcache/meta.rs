//! The meta commands: `mg`, `ms`, `md`, `ma`, `me` and their one-letter flags.
//!
//! A command keeps the text of its flags beside their meaning, because a reply returns flags in the order in which they
//! were asked. Numbers that a flag carries are read once, here.
//!
//! A binary key stays base64 text until someone needs it: [`Meta::key`] decodes into a caller's buffer of [`KEY_MAX`]
//! bytes, [`Meta::write_key`] straight into a ring slot. The text was checked, so decoding cannot fail.
//!
//! Beyond memcached 1.6.18 the flags of later releases are known: `E` (the version to give), `x` (`md`: keep the item,
//! drop its value), `N` with append and prepend, and `s` answered by `ms`.

use super::base64;
use super::binary::Asked;
use super::classic::{Parsed, error, malformed};
use super::command::{Command, TooLarge};
use super::exptime::Exptime;
use super::lines::Line;
use super::number::{decimal, decimal_u32};
use super::tokens::Tokens;
use super::{KEY_MAX, OPAQUE_MAX, VALUE_LEN_MAX};

/// Words that a meta command may have after its key.
const FLAGS_MAX: usize = 17;

/// Which flags a command carries: one bit per letter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MetaFlags(u64);

impl MetaFlags {
    /// True where the command carries flag `letter`.
    #[inline]
    pub const fn has(self, letter: u8) -> bool {
        self.0 & MetaFlags::bit(letter) != 0
    }

    /// The bit of a request of the binary protocol; no letter has it.
    const BINARY: u64 = 1 << 63;

    /// Those of a binary request: these letters, and `C` where it has a version to compare with.
    pub(super) fn binary(letters: &[u8], compares: bool) -> MetaFlags {
        let compare = if compares { MetaFlags::bit(b'C') } else { 0 };
        MetaFlags(
            letters.iter().fold(MetaFlags::BINARY | compare, |bits, &letter| bits | MetaFlags::bit(letter)),
        )
    }

    #[inline]
    const fn bit(letter: u8) -> u64 {
        if letter.is_ascii_alphabetic() { 1 << (letter - b'A') } else { 0 }
    }
}

/// What every meta command has: a key, and flags both as text and as bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meta<'a> {
    /// The key as it stands in the request: plain, or base64 where [`Meta::is_base64`].
    pub key_text: &'a [u8],
    /// The flags as they stand in the request, without the value length of `ms`; the header of a binary request, which is what its reply returns.
    pub flags_text: &'a [u8],
    /// The flags as bits.
    pub flags: MetaFlags,
}

impl<'a> Meta<'a> {
    /// A plain key without flags.
    pub const fn classic(key: &'a [u8]) -> Meta<'a> {
        Meta { key_text: key, flags_text: b"", flags: MetaFlags(0) }
    }

    /// What a reply returns of a binary request; none of a text one.
    #[inline]
    pub fn asked(&self) -> Option<Asked> {
        if self.is_binary() { Asked::of(self.flags_text) } else { None }
    }

    /// True for a request of the binary protocol.
    #[inline]
    pub const fn is_binary(&self) -> bool {
        self.flags.0 & MetaFlags::BINARY != 0
    }

    /// True where the key's text is base64.
    #[inline]
    pub const fn is_base64(&self) -> bool {
        self.flags.has(b'b')
    }

    /// Whether flag `first` stands before flag `second`: memcached obeys them in that order.
    pub fn flag_stands_before(&self, first: u8, second: u8) -> bool {
        let place =
            |letter: u8| self.flags_text.split(|&b| b == b' ').position(|word| word.first() == Some(&letter));
        match (place(first), place(second)) {
            (Some(first), Some(second)) => first < second,
            _ => false,
        }
    }

    /// `q`: replies that say "as expected" are left out.
    #[inline]
    pub const fn is_quiet(&self) -> bool {
        self.flags.has(b'q')
    }

    /// Length of the key in bytes, decoded where it was base64. At most [`KEY_MAX`].
    #[inline]
    pub fn key_len(&self) -> usize {
        if !self.is_base64() {
            return self.key_text.len();
        }
        base64::decoded_len(self.key_text).expect("a base64 key is checked when its line is parsed")
    }

    /// Writes the key, decoded where it was base64, to the front of `out` and returns its length.
    ///
    /// `out` must hold [`Meta::key_len`] bytes.
    #[inline]
    pub fn write_key(&self, out: &mut [u8]) -> usize {
        if self.is_base64() {
            return base64::decode(self.key_text, out);
        }
        out[..self.key_text.len()].copy_from_slice(self.key_text);
        self.key_text.len()
    }

    /// The key, decoded into `scratch` where it was base64.
    #[inline]
    pub fn key<'s>(&'s self, scratch: &'s mut [u8; KEY_MAX]) -> &'s [u8] {
        if !self.is_base64() {
            return self.key_text;
        }
        let len = base64::decode(self.key_text, scratch);
        &scratch[..len]
    }
}

/// `mg`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetaGet<'a> {
    /// Key and flags: `v` value, `u` no bump, `q` quiet; the rest asks for words of the reply.
    pub meta: Meta<'a>,
    pub(super) numbers: Numbers,
}

/// How `ms` stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SetMode {
    /// Always.
    #[default]
    Set,
    /// Only where the key is absent.
    Add,
    /// Only where the key is present.
    Replace,
    /// Behind the present value.
    Append,
    /// Before the present value.
    Prepend,
}

/// `ms`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetaSet<'a> {
    /// Key and flags: `I` mark stale where the compared version is older, `q` quiet.
    pub meta: Meta<'a>,
    /// The value, contiguous, without its line end.
    pub value: &'a [u8],
    /// The client's own 32 bits (`F`).
    pub client_flags: u32,
    /// `M`.
    pub mode: SetMode,
    pub(super) ttl: Exptime,
    pub(super) vivify: Exptime,
    pub(super) compare: u64,
    pub(super) version: u64,
}

/// `md`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetaDelete<'a> {
    /// Key and flags: `I` mark stale instead of deleting, `x` drop the value and keep the item, `q` quiet.
    pub meta: Meta<'a>,
    pub(super) numbers: Numbers,
}

/// `ma`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetaArith<'a> {
    /// Key and flags: `v` value, `q` quiet.
    pub meta: Meta<'a>,
    /// `D`, 1 where absent.
    pub delta: u64,
    /// `J`, the value of an item made by `N`.
    pub initial: u64,
    /// `MD` or `M-`.
    pub decrement: bool,
    pub(super) ttl: Exptime,
    pub(super) vivify: Exptime,
    pub(super) compare: u64,
    pub(super) version: u64,
}

/// The numbers that `mg` and `md` use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Numbers {
    pub(super) ttl: Exptime,
    pub(super) vivify: Exptime,
    pub(super) recache: Exptime,
    pub(super) compare: u64,
    pub(super) version: u64,
}

macro_rules! optional {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $letter:literal, $($field:ident).+;)*) => {
        $(
            $(#[$doc])*
            #[inline]
            pub fn $name(&self) -> Option<$kind> {
                self.meta.flags.has($letter).then_some(self.$($field).+)
            }
        )*
    };
}

impl MetaGet<'_> {
    optional! {
        /// `T`: the new expiration time of a hit.
        ttl: Exptime = b'T', numbers.ttl;
        /// `N`: make an empty item on a miss, with this expiration time, and let the client win.
        vivify: Exptime = b'N', numbers.vivify;
        /// `R`: let the client win where the item expires before this.
        recache: Exptime = b'R', numbers.recache;
        /// `E`: the version of an item made by `N`.
        version: u64 = b'E', numbers.version;
    }
}

impl MetaGet<'_> {
    /// Whether it is the binary `touch`, which shows nothing of its item.
    #[inline]
    pub fn is_touch(&self) -> bool {
        self.meta.is_binary() && !self.meta.flags.has(b'v')
    }

    /// When an item that `N` makes expires.
    pub fn birth(&self) -> Option<Exptime> {
        birth(&self.meta, self.vivify(), self.ttl())
    }
}

impl MetaArith<'_> {
    /// When an item that `N` makes expires.
    pub fn birth(&self) -> Option<Exptime> {
        birth(&self.meta, self.vivify(), self.ttl())
    }
}

/// `T` is obeyed on an item that `N` makes, too, and the later of the two flags has the last word.
fn birth(meta: &Meta<'_>, vivify: Option<Exptime>, ttl: Option<Exptime>) -> Option<Exptime> {
    vivify.map(|vivify| ttl.filter(|_| meta.flag_stands_before(b'N', b'T')).unwrap_or(vivify))
}

impl MetaSet<'_> {
    optional! {
        /// `T`: the expiration time; never where absent.
        ttl: Exptime = b'T', ttl;
        /// `N`: append and prepend make the item on a miss, with this expiration time.
        vivify: Exptime = b'N', vivify;
        /// `C`: store only over this version.
        compare: u64 = b'C', compare;
        /// `E`: the version to give the item.
        version: u64 = b'E', version;
    }
}

impl MetaDelete<'_> {
    optional! {
        /// `T`: the new expiration time, with `I` only.
        ttl: Exptime = b'T', numbers.ttl;
        /// `C`: delete only this version.
        compare: u64 = b'C', numbers.compare;
        /// `E`: the version to give an item that is kept.
        version: u64 = b'E', numbers.version;
    }
}

impl MetaArith<'_> {
    optional! {
        /// `T`: the new expiration time.
        ttl: Exptime = b'T', ttl;
        /// `N`: make the item on a miss, with this expiration time.
        vivify: Exptime = b'N', vivify;
        /// `C`: count only on this version.
        compare: u64 = b'C', compare;
        /// `E`: the version to give the item.
        version: u64 = b'E', version;
    }
}

/// Everything that flags may say, for all commands together: memcached knows only one set of flags.
#[derive(Default)]
struct Flags {
    seen: MetaFlags,
    ttl: Exptime,
    vivify: Exptime,
    recache: Exptime,
    client_flags: u32,
    mode: u8,
    compare: u64,
    version: u64,
    delta: Option<u64>,
    initial: u64,
    opaque_too_long: bool,
}

impl Flags {
    /// Reads every flag. The error is the last of those in the line, except that a flag which is unknown or comes twice
    /// ends the reading.
    fn parse(key: &[u8], tokens: Tokens<'_>, also: &[u8]) -> Result<Flags, Line> {
        let mut flags = Flags::default();
        let mut outcome = Ok(());
        for token in tokens {
            let letter = token[0];
            if letter >= 127 || flags.seen.has(letter) {
                return Err(Line::DuplicateFlag);
            }
            flags.seen.0 |= MetaFlags::bit(letter);
            match flags.read(key, letter, token, also) {
                Ok(()) => {}
                Err(Line::InvalidFlag) => return Err(Line::InvalidFlag),
                // memcached has no text of its own for F: it shows the one that an earlier flag left.
                Err(Line::BadFormat) => outcome = outcome.and(Err(Line::BadFormat)),
                Err(line) => outcome = Err(line),
            }
        }
        outcome.map(|()| flags)
    }

    #[inline]
    fn read(&mut self, key: &[u8], letter: u8, token: &[u8], also: &[u8]) -> Result<(), Line> {
        let argument = &token[1..];
        let exptime = || Exptime::parse(argument).ok_or(Line::BadToken);
        match letter {
            b'c' | b'f' | b'h' | b'k' | b'l' | b'q' | b's' | b't' | b'u' | b'v' | b'I' | b'L' | b'P' => {}
            b'O' => self.opaque_too_long = token.len() > OPAQUE_MAX,
            b'b' => drop(base64::decoded_len(key).ok_or(Line::BadBase64)?),
            b'T' => self.ttl = exptime()?,
            b'N' => self.vivify = exptime()?,
            b'R' => self.recache = exptime()?,
            b'F' => self.client_flags = decimal_u32(argument).ok_or(Line::BadFormat)?,
            b'C' => self.compare = decimal(argument).ok_or(Line::BadToken)?,
            b'E' => self.version = decimal(argument).ok_or(Line::BadToken)?,
            b'D' => self.delta = Some(decimal(argument).ok_or(Line::InvalidMetaDelta)?),
            b'J' => self.initial = decimal(argument).ok_or(Line::InvalidInitial)?,
            b'M' => match argument {
                &[mode] => self.mode = mode,
                _ => return Err(Line::ModeLength),
            },
            _ if also.contains(&letter) => {}
            _ => return Err(Line::InvalidFlag),
        }
        Ok(())
    }

    fn numbers(&self) -> Numbers {
        let &Flags { ttl, vivify, recache, compare, version, .. } = self;
        Numbers { ttl, vivify, recache, compare, version }
    }
}

#[inline]
fn has_too_many_flags(tokens: Tokens<'_>) -> bool {
    // Fewer bytes than this cannot hold too many words, so the usual line is not counted.
    tokens.remainder().len() > 2 * FLAGS_MAX && tokens.count() > FLAGS_MAX
}

/// The words of `mg`, `md` and `ma`: key and flags, read as far as all three agree.
fn key_and_flags<'a>(
    mut tokens: Tokens<'a>,
    too_many: Line,
    also: &[u8],
) -> Result<(Meta<'a>, Flags), Result<Line, Line>> {
    let key = tokens.next().ok_or(Ok(Line::Error))?;
    if key.len() > KEY_MAX {
        return Err(Ok(Line::BadFormat));
    }
    if has_too_many_flags(tokens) {
        return Err(Ok(too_many));
    }
    let flags = Flags::parse(key, tokens, also).map_err(Err)?;
    let meta = Meta { key_text: key, flags_text: tokens.remainder(), flags: flags.seen };
    Ok((meta, flags))
}

/// `mg <key> <flags>*`
#[inline]
pub(super) fn parse_get(tokens: Tokens<'_>) -> Parsed<'_> {
    Parsed::Command(match key_and_flags(tokens, Line::FlagsAreTooLong, b"") {
        Err(Ok(line) | Err(line)) => malformed(line),
        Ok((_, Flags { opaque_too_long: true, .. })) => malformed(Line::OpaqueTooLong),
        Ok((meta, flags)) => Command::MetaGet(MetaGet { meta, numbers: flags.numbers() }),
    })
}

/// `md <key> <flags>*`
pub(super) fn parse_delete(tokens: Tokens<'_>) -> Parsed<'_> {
    Parsed::Command(match key_and_flags(tokens, Line::FlagsTooLong, b"x") {
        Err(Ok(line)) => malformed(line),
        // memcached keeps the reason to itself here.
        Err(Err(_)) => malformed(Line::InvalidOrDuplicateFlag),
        Ok((_, Flags { opaque_too_long: true, .. })) => malformed(Line::OpaqueTooLong),
        Ok((meta, flags)) => Command::MetaDelete(MetaDelete { meta, numbers: flags.numbers() }),
    })
}

/// `ma <key> <flags>*`
pub(super) fn parse_arith(tokens: Tokens<'_>) -> Parsed<'_> {
    let (meta, flags) = match key_and_flags(tokens, Line::FlagsTooLong, b"") {
        Ok(parts) => parts,
        Err(Ok(line)) => return Parsed::Command(malformed(line)),
        Err(Err(_)) => return Parsed::Command(malformed(Line::InvalidOrDuplicateFlag)),
    };
    let decrement = match flags.mode {
        0 | b'I' | b'i' | b'+' => false,
        b'D' | b'd' | b'-' => true,
        _ => return Parsed::Command(malformed(Line::ArithMode)),
    };
    if flags.opaque_too_long {
        return Parsed::Command(malformed(Line::OpaqueTooLong));
    }
    let Flags { ttl, vivify, compare, version, initial, .. } = flags;
    let delta = flags.delta.unwrap_or(1);
    Parsed::Command(Command::MetaArith(MetaArith {
        meta,
        delta,
        initial,
        decrement,
        ttl,
        vivify,
        compare,
        version,
    }))
}

/// `me <key> [b]`
pub(super) fn parse_debug(mut tokens: Tokens<'_>) -> Parsed<'_> {
    let bad = Parsed::Command(malformed(Line::BadFormat));
    let Some(key) = tokens.next().filter(|key| key.len() <= KEY_MAX) else { return bad };
    let flags_text = tokens.remainder();
    let mut flags = MetaFlags::default();
    if tokens.next() == Some(b"b") {
        if base64::decoded_len(key).is_none() {
            return bad;
        }
        flags.0 = MetaFlags::bit(b'b');
    }
    Parsed::Command(Command::MetaDebug(Meta { key_text: key, flags_text, flags }))
}

/// `ms <key> <length> <flags>*`, followed by the value.
///
/// Once the length is known, the value is swallowed after any error.
pub(super) fn parse_set(mut tokens: Tokens<'_>, max_value: u64) -> Parsed<'_> {
    let Some(key) = tokens.next() else { return error() };
    let after_key = tokens;
    let Some(len) = tokens.next().filter(|_| key.len() <= KEY_MAX) else {
        return Parsed::Command(malformed(Line::BadFormat));
    };
    if has_too_many_flags(after_key) {
        return Parsed::Command(malformed(Line::FlagsTooLong));
    }
    let Some(len) = decimal(len).filter(|&len| len <= VALUE_LEN_MAX) else {
        return Parsed::Command(malformed(Line::BadFormat));
    };
    let body = len + 2;
    let refused = |line| Parsed::Refused { command: malformed(line), body };
    let flags = match Flags::parse(key, tokens, b"") {
        Ok(flags) => flags,
        Err(line) => return refused(line),
    };
    let mode = match flags.mode {
        0 | b'S' | b's' => SetMode::Set,
        b'E' | b'e' => SetMode::Add,
        b'A' | b'a' => SetMode::Append,
        b'P' | b'p' => SetMode::Prepend,
        b'R' | b'r' => SetMode::Replace,
        _ => return refused(Line::SetMode),
    };
    if flags.opaque_too_long {
        return refused(Line::OpaqueTooLong);
    }
    let meta = Meta { key_text: key, flags_text: tokens.remainder(), flags: flags.seen };
    if len > max_value {
        let command = Command::TooLarge(TooLarge { meta, drop_old: true, noreply: false });
        return Parsed::Refused { command, body };
    }
    let Flags { ttl, vivify, compare, version, client_flags, .. } = flags;
    let command =
        Command::MetaSet(MetaSet { meta, value: b"", client_flags, mode, ttl, vivify, compare, version });
    Parsed::Value { command, len: len as usize }
}
