//! The fixed reply lines, to the letter as memcached 1.6.18 prints them.
//!
//! Tests: `tests/oracle.rs` provokes each error on the real server and compares.

macro_rules! lines {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// A reply line that never varies.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[repr(u8)]
        pub enum Line { $($(#[$doc])* $name,)* }

        impl Line {
            /// The line with its `\r\n`.
            #[inline]
            pub const fn bytes(self) -> &'static [u8] {
                match self { $(Line::$name => concat!($text, "\r\n").as_bytes(),)* }
            }

            /// Every line there is.
            pub const ALL: &'static [Line] = &[$(Line::$name),*];
        }
    };
}

lines! {
    /// A value was stored.
    Stored = "STORED";
    /// A condition of `add`, `replace`, `append` or `prepend` was not met.
    NotStored = "NOT_STORED";
    /// A `cas` came with a stale version.
    Exists = "EXISTS";
    /// No such key.
    NotFound = "NOT_FOUND";
    /// A key was deleted.
    Deleted = "DELETED";
    /// A key got its new expiration time.
    Touched = "TOUCHED";
    /// Done.
    Ok = "OK";
    /// The end of a retrieval or of statistics.
    End = "END";
    /// Statistics were reset.
    Reset = "RESET";
    /// The answer to `mn`.
    MetaNoop = "MN";
    /// A meta miss without flags.
    MetaMiss = "EN";

    /// An unknown command, or the wrong number of words.
    Error = "ERROR";
    /// A word that does not parse, or a key that is too long.
    BadFormat = "CLIENT_ERROR bad command line format";
    /// `delete` with something that is neither 0 nor noreply.
    BadDelete = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
    /// Too few words after `stats cachedump`.
    BadLine = "CLIENT_ERROR bad command line";
    /// A value that does not end in `\r\n` where it was announced to end.
    BadDataChunk = "CLIENT_ERROR bad data chunk";
    /// An expiration time that is no number.
    InvalidExptime = "CLIENT_ERROR invalid exptime argument";
    /// The delta of `incr` or `decr` is no number.
    InvalidDelta = "CLIENT_ERROR invalid numeric delta argument";
    /// `incr` or `decr` on a value that is no number.
    NonNumeric = "CLIENT_ERROR cannot increment or decrement non-numeric value";
    /// More than a line's worth of bytes without a newline; the connection closes after it.
    LineTooLong = "CLIENT_ERROR line too long";

    /// A meta flag twice, or one that is no letter.
    DuplicateFlag = "CLIENT_ERROR duplicate flag";
    /// An unknown meta flag.
    InvalidFlag = "CLIENT_ERROR invalid flag";
    /// Any flag error of `md` and `ma`.
    InvalidOrDuplicateFlag = "CLIENT_ERROR invalid or duplicate flag";
    /// The number after a meta flag does not parse.
    BadToken = "CLIENT_ERROR bad token in command line format";
    /// A key with `b` that is not base64.
    BadBase64 = "CLIENT_ERROR error decoding key";
    /// `M` with anything but one character.
    ModeLength = "CLIENT_ERROR incorrect length for M token";
    /// An unknown mode of `ms`.
    SetMode = "CLIENT_ERROR invalid mode for ms M token";
    /// An unknown mode of `ma`.
    ArithMode = "CLIENT_ERROR invalid mode for ma M token";
    /// `J` without a number.
    InvalidInitial = "CLIENT_ERROR invalid numeric initial value";
    /// `D` without a number.
    InvalidMetaDelta = "CLIENT_ERROR invalid numeric delta value";
    /// An opaque of more than 32 bytes.
    OpaqueTooLong = "CLIENT_ERROR opaque token too long";
    /// Too many words after `mg`.
    FlagsAreTooLong = "CLIENT_ERROR options flags are too long";
    /// Too many words after `ms`, `md` and `ma`.
    FlagsTooLong = "CLIENT_ERROR options flags too long";

    /// Something else than a login, of a client that has to log in first.
    Unauthenticated = "CLIENT_ERROR unauthenticated";
    /// A login with another password than the user's.
    LoginFailed = "CLIENT_ERROR authentication failure";
    /// A command on a key that its client has no right to read. Ours, as the four that follow.
    NoRead = "CLIENT_ERROR no right to read this key";
    /// The same of a key that it would change.
    NoWrite = "CLIENT_ERROR no right to write this key";
    /// A listing of keys, of who may not read all of them.
    NoReadAll = "CLIENT_ERROR no right to read all keys";
    /// Statistics, of who may do nothing here.
    NoRight = "CLIENT_ERROR no right to anything here";
    /// What operators see and change, of who is none.
    NoAdmin = "CLIENT_ERROR no right to administer";
    /// A login without two words, or longer than any.
    BadLogin = "CLIENT_ERROR bad authentication token format";
    /// A login that does not end where it was announced to end.
    BadLoginEnd = "CLIENT_ERROR bad command line termination";

    /// `stats detail` with something else than on, off or dump.
    StatsDetailUsage = "CLIENT_ERROR usage: stats detail on|off|dump";
    /// `stats cachedump` of a class that cannot be.
    IllegalSlab = "CLIENT_ERROR Illegal slab id";
    /// `stats cachedump` where dumps are switched off.
    CachedumpRefused = "CLIENT_ERROR stats cachedump not allowed";
    /// `lru_crawler metadump` where dumps are switched off.
    MetadumpRefused = "ERROR metadump not allowed";
    /// `lru_crawler metadump` of a class that cannot be.
    BadClass = "BADCLASS invalid class id";
    /// `lru_crawler sleep` of more than a second.
    SleepTooLong = "CLIENT_ERROR sleep must be one second or less";
    /// `slabs reassign` on a server without slabs.
    NoSlabs = "CLIENT_ERROR slab reassignment disabled";
    /// `lru tune` with more than 80 per cent.
    LruPercent = "ERROR hot and warm pcts must not exceed 80";
    /// `lru tune` with a factor of 0 or less.
    LruFactor = "ERROR hot/warm age factors must be greater than 0";
    /// `watch` on a server that does not let itself be watched.
    WatchRefused = "CLIENT_ERROR watch commands not allowed";
    /// `watch` while as many watch as may.
    WatchersTooMany = "WATCHER_TOO_MANY log watcher limit reached";
    /// `flush_all` where it is switched off.
    FlushRefused = "CLIENT_ERROR flush_all not allowed";
    /// `cache_memlimit` below 8 MiB.
    MemlimitTooSmall = "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m";
    /// `cache_memlimit` in bytes.
    MemlimitInBytes = "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes";
    /// `cache_memlimit` that the server cannot follow.
    MemlimitFailed = "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust";
    /// `shutdown` where it is switched off, as it is unless asked for.
    ShutdownRefused = "ERROR: shutdown not enabled";
    /// `shutdown` with an unknown word.
    ShutdownMode = "CLIENT_ERROR invalid shutdown mode";

    /// A value beyond the server's limit.
    TooLarge = "SERVER_ERROR object too large for cache";
    /// No memory for a value.
    OutOfMemory = "SERVER_ERROR out of memory storing object";
    /// No memory for the result of `incr`, `decr` or `ma`.
    OutOfMemoryArith = "SERVER_ERROR out of memory";
    /// No memory for the item that `ma` should create.
    OutOfMemoryVivify = "SERVER_ERROR Out of memory allocating new item";
    /// A UDP request of more than one datagram.
    MultiPacket = "SERVER_ERROR multi-packet request not supported";

    /// A message (a datagram, or one of a shared-memory ring) that ends in the middle of a request. Ours.
    IncompleteMessage = "CLIENT_ERROR incomplete request in message";
    /// A reply longer than its connection can carry in one message. Ours.
    ReplyTooLarge = "SERVER_ERROR object too large for this connection";
    /// A reply that is many times longer than its datagram. Ours.
    AmplificationRefused = "SERVER_ERROR reply too large for this datagram";
    /// Too much waits for the boxes that may have copies. Ours.
    Busy = "SERVER_ERROR busy";
    /// The log of a server that shall not lose what it acknowledges has no room until a snapshot is made.
    LogFull = "SERVER_ERROR the log is full until a snapshot is made, try again";
    /// A key of another home of the rack. Ours.
    NotHome = "SERVER_ERROR this key has another home";
    /// `stats detail on` where commands wait for others before they are done. Ours.
    DetailRefused = "CLIENT_ERROR stats detail is not possible here";
    /// No memory for a request that is arriving. Ours.
    OutOfMemoryReading = "SERVER_ERROR out of memory reading request";

    /// `flush_all` with a delay, to a proxy, or to a server whose items lie in a chain. Ours, as all that follow.
    FlushDelayRefused = "CLIENT_ERROR flush_all with a delay is not possible here";
    /// A proxy was not answered, or a server by its chain.
    Unanswered = "SERVER_ERROR nobody answered; it was not done";
    /// The same, and what was asked for may have been done.
    UnknownOutcome = "SERVER_ERROR nobody answered; it may have been done";
    /// Others changed the item each time between a proxy's read and write, or a server's in its chain.
    Contended = "SERVER_ERROR others changed the item each time; it was not done";
    /// A key that begins with a zero byte, where those are the server's own.
    ReservedKey = "CLIENT_ERROR keys that begin with a zero byte are not possible here";
    /// A version that a client chooses (meta E), where they are the chain's.
    VersionRefused = "CLIENT_ERROR versions (E) are given by the chain here";
    /// A home says that the key is another home's.
    OtherTopology = "SERVER_ERROR the home goes by another topology than the proxy; it was not done";
    /// A home would not do it.
    HomeRefused = "SERVER_ERROR the home refused; it was not done";
}

/// Bytes that hold any fixed line.
pub const LINE_BOUND: usize = {
    let (mut longest, mut i) = (0, 0);
    while i < Line::ALL.len() {
        if Line::ALL[i].bytes().len() > longest {
            longest = Line::ALL[i].bytes().len();
        }
        i += 1;
    }
    longest
};

impl Line {
    /// True for the lines that report an error, whoever made it.
    pub fn is_error(self) -> bool {
        let text = self.bytes();
        [&b"ERROR"[..], b"CLIENT_ERROR", b"SERVER_ERROR", b"BADCLASS", b"MEMLIMIT"]
            .iter()
            .any(|prefix| text.starts_with(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_one_line() {
        for line in Line::ALL {
            let text = line.bytes();
            assert!(text.ends_with(b"\r\n") && text.len() <= LINE_BOUND, "{line:?}");
            assert_eq!(text.iter().filter(|&&b| b == b'\n').count(), 1, "{line:?}");
        }
        assert!(Line::BadFormat.is_error() && Line::Error.is_error() && !Line::Stored.is_error());
    }
}
