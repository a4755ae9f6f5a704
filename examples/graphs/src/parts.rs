//! What a request's time went to, said by each service of the part that it knows, without a clock that two sides would have to agree on.
//!
//! ```text
//! caller   ├── encode ──┤ way ┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈ way ├── decode ──┤     = Told::took
//! service                      ├ decode ┤ application ┈ waits ┈ application ├ encode ┤            = Stay::took
//! ```
//! *Application* is the time of handlers, their state and their messages' building and reading, and of futures that could go on and whose thread was
//! busy. *Codec* is decoding and encoding. *Way* is everything else: rings or sockets, their copies, wake-ups, and waiting until the other side's
//! thread looked. A wait for calls of its own is split as the time of the call was that it waited for.
//!
//! A service sends its [`Stay`] back as metadata ([`KEY`]): in real use that is what the `carrier` of DeathStarBench's methods is for.

use base::{Clock, Nanos};
use fabric::channel::Event;
use fabric::service::{BoxFuture, Incoming, Service, ServiceDescriptor, StreamCall};
use fabric::status::Status;
use std::cell::Cell;
use std::sync::Arc;

use super::book::Book;

/// The metadata of a reply that says where its time went.
pub const KEY: &str = "stay";

/// How long a request was at a service, from when its frame was taken to when its reply was encoded, and for what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stay {
    /// All of it.
    pub took: Nanos,
    /// Application: here and in what was waited for.
    pub app: Nanos,
    /// Codec: here and in what was waited for.
    pub codec: Nanos,
    /// Application, here alone.
    pub own_app: Nanos,
    /// Codec, here alone.
    pub own_codec: Nanos,
}

impl Stay {
    /// As metadata's value.
    pub fn bytes(&self) -> [u8; 40] {
        let words = [self.took, self.app, self.codec, self.own_app, self.own_codec];
        let mut bytes = [0; 40];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.0.to_le_bytes());
        }
        bytes
    }

    /// What [`Stay::bytes`] made; nothing of other bytes.
    pub fn of(bytes: &[u8]) -> Option<Stay> {
        let bytes: &[u8; 40] = bytes.try_into().ok()?;
        let word =
            |at: usize| Nanos(u64::from_le_bytes(bytes[at * 8..][..8].try_into().expect("eight bytes")));
        Some(Stay { took: word(0), app: word(1), codec: word(2), own_app: word(3), own_codec: word(4) })
    }

    /// What came with a reply. A service that says nothing was all way.
    pub fn told(event: &Event<'_>) -> Stay {
        let found = event.metadata_entries().find(|(key, _)| *key == KEY);
        found.and_then(|(_, value)| Stay::of(value)).unwrap_or_default()
    }
}

/// A call as its caller saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// From before its request was built to when its reply was decoded.
    pub took: Nanos,
    /// Of that, its caller's encoding and decoding.
    pub codec: Nanos,
    /// Of that, at the service.
    pub stay: Stay,
}

impl Told {
    /// Application and codec in a wait of this length for this call.
    pub fn split(&self, wait: Nanos) -> (Nanos, Nanos) {
        let of = |part: Nanos| {
            let part = part.0.min(self.took.0);
            Nanos((u128::from(wait.0) * u128::from(part) / u128::from(self.took.0.max(1))) as u64)
        };
        (of(self.stay.app), of(self.stay.codec.plus(self.codec)))
    }

    /// Its network stack without what the service asked others: codec of both sides, and the way.
    pub fn own_network(&self) -> Nanos {
        self.took.since(self.stay.took).plus(self.stay.own_codec)
    }
}

thread_local! {
    /// Application's time since it was taken last.
    static APPLICATION: Cell<Nanos> = const { Cell::new(Nanos::ZERO) };
    /// When the call arrived that is being handled.
    static ARRIVED: Cell<Nanos> = const { Cell::new(Nanos::ZERO) };
}

/// Does a part of a handler, or of the building of a message, and counts its time as the application's.
pub fn application<T>(work: impl FnOnce() -> T) -> T {
    let clock = Clock::shared();
    let begin = clock.now();
    let done = work();
    let took = clock.now().since(begin);
    APPLICATION.set(APPLICATION.get().plus(took));
    done
}

/// The application's time on this thread since it was asked for last.
pub fn take_application() -> Nanos {
    APPLICATION.replace(Nanos::ZERO)
}

/// When the call that is being handled was taken from its link.
pub fn arrived() -> Nanos {
    ARRIVED.get()
}

/// A service whose handlers' times go back with their replies, and the sizes of whose requests are noted.
pub struct Timed<S> {
    service: S,
    book: Arc<Book>,
}

impl<S: Service> Timed<S> {
    pub fn new(service: S, book: Arc<Book>) -> Timed<S> {
        Timed { service, book }
    }
}

impl<S: Service> Service for Timed<S> {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        self.service.descriptor()
    }

    fn unary(&self, method: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        let clock = Clock::shared();
        let begin = clock.now();
        let descriptor = self.service.descriptor();
        self.book.request(descriptor.name, descriptor.methods[method].name, call.body().len());
        ARRIVED.set(begin);
        take_application();
        let result = self.service.unary(method, call);
        // A deferred call says it when it is answered.
        if !call.is_deferred() {
            let took = clock.now().since(begin);
            let app = take_application().min(took);
            let codec = took.since(app);
            let stay = Stay { took, app, codec, own_app: app, own_codec: codec };
            // Where the handler filled the metadata its caller learns nothing.
            let _ = call.context().push_metadata(KEY, &stay.bytes());
        }
        result
    }

    fn stream(&self, method: usize, call: StreamCall) -> BoxFuture {
        self.service.stream(method, call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_back_is_read_as_it_was() {
        let [took, app, codec, own_app, own_codec] = [5, 4, 3, 2, 1].map(Nanos);
        let stay = Stay { took, app, codec, own_app, own_codec };
        assert_eq!(Stay::of(&stay.bytes()), Some(stay));
        assert_eq!(Stay::of(&stay.bytes()[1..]), None);
    }

    #[test]
    fn a_wait_is_split_as_the_call_was() {
        let stay = Stay {
            took: Nanos(60),
            app: Nanos(50),
            codec: Nanos(10),
            own_app: Nanos(50),
            own_codec: Nanos(10),
        };
        let told = Told { took: Nanos(100), codec: Nanos(5), stay };
        assert_eq!(told.split(Nanos(100)), (Nanos(50), Nanos(15)));
        assert_eq!(told.split(Nanos(10)), (Nanos(5), Nanos(1)));
        assert_eq!(told.split(Nanos::ZERO), (Nanos::ZERO, Nanos::ZERO));
        assert_eq!(told.own_network(), Nanos(50));
    }

    /// A service that lies cannot make more of a wait than there was.
    #[test]
    fn a_part_is_no_more_than_the_whole() {
        let stay = Stay { app: Nanos(1000), codec: Nanos(1000), ..Stay::default() };
        let told = Told { took: Nanos(10), codec: Nanos(1), stay };
        let (app, codec) = told.split(Nanos(10));
        assert!(app <= Nanos(10) && codec <= Nanos(10));
    }
}
