//! A contest: one family's corpus, and every library in every mode with its passes over it.
//!
//! A contestant works in *passes* over the whole corpus, so that one dynamic call covers 64 messages and each library's loop is
//! compiled for its own types. The corpus lives as long as the program: borrowed messages to encode are kept beside it.
//!
//! Before anything is timed, [`Contest::check`] holds every contestant against prost: equal digests of all fields after
//! decoding, equal touches (what the timed reading returns), and encoded bytes that prost decodes to the same message.

use std::hint::black_box;
use std::marker::PhantomData;

use base::prng::Prng;
use bytes::Bytes;
use prost::Message;

use crate::families::Family;
use crate::fold::{Digest, Fold, Touch};
use crate::goals::OURS;
use crate::ours;
use crate::peers::{buffa, prost as prost_peer, quick};

/// Different messages per family, so that branch predictors do not learn a single one by heart.
pub const CORPUS: usize = 64;

/// What the decoded message is, and so with whom it compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Owns all it holds, allocated anew for each message.
    Owned,
    /// Owns all it holds, in memory kept from the message before.
    Reused,
    /// Shares bytes fields with the input by reference count, owns the rest.
    Shared,
    /// Borrows strings and bytes from the input; complete after decoding.
    View,
    /// Leaves parts undecoded until they are read.
    Lazy,
}

impl Mode {
    /// The word in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Owned => "owned",
            Mode::Reused => "reused",
            Mode::Shared => "shared",
            Mode::View => "view",
            Mode::Lazy => "lazy",
        }
    }

    /// Whether the two make the same promise, so that one may be asked to be as fast as the other: all that own compare with
    /// each other, and so do all that share or borrow. Lazy modes compare with nobody else.
    pub fn compares_with(self, other: Mode) -> bool {
        let class = |mode| match mode {
            Mode::Owned | Mode::Reused => 0,
            Mode::Shared | Mode::View => 1,
            Mode::Lazy => 2,
        };
        class(self) == class(other)
    }
}

/// Decodes one message at a time. The message may borrow the input and the decoder.
pub trait Decoder {
    /// What decoding yields.
    type Message<'a>: Fold
    where
        Self: 'a;

    /// Decodes valid input.
    fn decode<'a>(&'a mut self, input: &'a Bytes) -> Self::Message<'a>;
}

/// Encodes the corpus' messages from its own in-memory form.
pub trait Encoder {
    /// Message `index`, encoded at the start of `out`, which is reused and may stay longer, or in a reused buffer of its own.
    fn encode<'a>(&'a mut self, index: usize, out: &'a mut Vec<u8>) -> &'a [u8];
}

/// A [`Decoder`]'s passes over a corpus.
pub trait DecodePasses {
    /// Decodes and drops each message.
    fn decode(&mut self, corpus: &[Bytes]);
    /// Decodes each message and reads every field once; the sum of all touches.
    fn read(&mut self, corpus: &[Bytes]) -> u64;
    /// Each message's digest. Not timed.
    fn digests(&mut self, corpus: &[Bytes]) -> Vec<u64>;
}

impl<D: Decoder> DecodePasses for D {
    #[inline(never)]
    fn decode(&mut self, corpus: &[Bytes]) {
        for input in corpus {
            black_box(&Decoder::decode(self, black_box(input)));
        }
    }

    #[inline(never)]
    fn read(&mut self, corpus: &[Bytes]) -> u64 {
        let mut touch = Touch::default();
        for input in corpus {
            let message = Decoder::decode(self, black_box(input));
            black_box(&message).fold(&mut touch);
        }
        touch.0
    }

    fn digests(&mut self, corpus: &[Bytes]) -> Vec<u64> {
        corpus.iter().map(|input| digest(&Decoder::decode(self, input))).collect()
    }
}

/// An [`Encoder`]'s pass over the corpus.
pub trait EncodePasses {
    /// Encodes each message into `out`.
    fn encode(&mut self, out: &mut Vec<u8>);
    /// Message `index`, encoded. Not timed.
    fn encoded(&mut self, index: usize) -> Vec<u8>;
}

impl<E: Encoder> EncodePasses for E {
    #[inline(never)]
    fn encode(&mut self, out: &mut Vec<u8>) {
        for index in 0..CORPUS {
            black_box(Encoder::encode(self, black_box(index), out));
        }
    }

    fn encoded(&mut self, index: usize) -> Vec<u8> {
        Encoder::encode(self, index, &mut Vec::new()).to_vec()
    }
}

/// One library in one mode: a row of the tables.
pub struct Contestant {
    /// The library.
    pub library: &'static str,
    /// What its messages are.
    pub mode: Mode,
    /// Its decoding.
    pub decoder: Box<dyn DecodePasses>,
    /// Its encoding, where the mode has a form of its own to encode from.
    pub encoder: Option<Box<dyn EncodePasses>>,
}

impl Contestant {
    /// A contestant that decodes, and encodes where `encoder` is given.
    pub fn new(
        library: &'static str,
        mode: Mode,
        decoder: impl Decoder + 'static,
        encoder: Option<Box<dyn EncodePasses>>,
    ) -> Contestant {
        Contestant { library, mode, decoder: Box::new(decoder), encoder }
    }

    /// Library and mode.
    pub fn name(&self) -> String {
        format!("{} {}", self.library, self.mode.name())
    }
}

/// One family's corpus and contestants. The first contestant is prost, owned: what all others are measured by.
pub struct Contest {
    /// The family.
    pub name: &'static str,
    /// The encoded messages, as prost writes them.
    pub corpus: &'static [Bytes],
    /// Everyone who takes part.
    pub contestants: Vec<Contestant>,
    /// Decodes with prost and digests.
    reference: fn(&[u8]) -> Option<u64>,
}

impl Contest {
    /// The contest of family `F` over the messages of `seed`.
    pub fn of<F: Family>(seed: u64) -> Contest {
        let mut prng = Prng::new(seed);
        let corpus: Vec<Bytes> = (0..CORPUS).map(|_| F::generate(&mut prng).encode_to_vec().into()).collect();
        let corpus: &'static [Bytes] = corpus.leak();
        let contestants = vec![
            Contestant::new(
                "prost",
                Mode::Owned,
                prost_peer::Fresh::<F>(PhantomData),
                Some(Box::new(prost_peer::Encode::<F>::new(corpus))),
            ),
            Contestant::new("prost", Mode::Reused, prost_peer::Reused::<F>(Default::default()), None),
            Contestant::new("prost", Mode::Shared, prost_peer::Shared::<F>(PhantomData), None),
            Contestant::new(
                "buffa",
                Mode::Owned,
                buffa::Fresh::<F>(PhantomData),
                Some(Box::new(buffa::Encode::<F>::new(corpus))),
            ),
            Contestant::new("buffa", Mode::Reused, buffa::Reused::<F>(Default::default()), None),
            Contestant::new(
                "buffa",
                Mode::View,
                buffa::View::<F>(PhantomData),
                Some(Box::new(buffa::EncodeView::<F>::new(corpus))),
            ),
            Contestant::new("buffa", Mode::Lazy, buffa::LazyView::<F>(PhantomData), None),
            Contestant::new(
                "quick-protobuf",
                Mode::View,
                quick::Borrowed::<F>(PhantomData),
                Some(Box::new(quick::Encode::<F>::new(corpus))),
            ),
            Contestant::new(
                OURS,
                Mode::Reused,
                ours::Lane::<F, false>::new(),
                Some(Box::new(ours::Encode::<F, false>::new(corpus))),
            ),
            Contestant::new(
                OURS,
                Mode::View,
                ours::Lane::<F, true>::new(),
                Some(Box::new(ours::Encode::<F, true>::new(corpus))),
            ),
        ];
        let reference = |bytes: &[u8]| F::Prost::decode(bytes).ok().map(|message| digest(&message));
        Contest { name: F::NAME, corpus, contestants, reference }
    }

    /// Encoded bytes of a message, on average.
    pub fn message_bytes(&self) -> f64 {
        self.corpus.iter().map(Bytes::len).sum::<usize>() as f64 / self.corpus.len() as f64
    }

    /// Whether all contestants see the same values and write what prost reads back.
    ///
    /// # Errors
    /// Who differs, and where.
    pub fn check(&mut self) -> Result<(), String> {
        let expected: Vec<u64> = self.corpus.iter().filter_map(|input| (self.reference)(input)).collect();
        let touched = self.contestants[0].decoder.read(self.corpus);
        for contestant in &mut self.contestants {
            let who = format!("{}: {}", self.name, contestant.name());
            if contestant.decoder.digests(self.corpus) != expected {
                return Err(format!("{who} decodes other values than prost"));
            }
            if contestant.decoder.read(self.corpus) != touched {
                return Err(format!("{who} reads other values than prost"));
            }
            let Some(encoder) = &mut contestant.encoder else { continue };
            for (index, &digest) in expected.iter().enumerate() {
                if (self.reference)(&encoder.encoded(index)) != Some(digest) {
                    return Err(format!(
                        "{who} encodes message {index} to something prost reads differently"
                    ));
                }
            }
        }
        Ok(())
    }
}

fn digest(message: &impl Fold) -> u64 {
    let mut digest = Digest::default();
    message.fold(&mut digest);
    digest.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_contestants_agree_on_every_family() {
        for (_, contest) in crate::families::ALL {
            for seed in 0..4 {
                contest(seed).check().expect("one value for all");
            }
        }
    }

    /// The check must notice a library that loses a value.
    #[test]
    fn a_contestant_that_reads_another_message_is_found() {
        struct Forgetful;
        impl Decoder for Forgetful {
            type Message<'a> = prost_peer::owned::micro::FollowRequest;
            fn decode<'a>(&'a mut self, input: &'a Bytes) -> Self::Message<'a> {
                let message = prost_peer::owned::micro::FollowRequest::decode(&input[..]);
                Self::Message { user_id: 0, ..message.expect("prost wrote this input") }
            }
        }
        let mut contest = Contest::of::<crate::families::Follow>(1);
        contest.contestants.push(Contestant::new("forgetful", Mode::Owned, Forgetful, None));
        let found = contest.check().expect_err("a lost field");
        assert!(found.contains("forgetful owned decodes other values"), "{found}");
    }

    #[test]
    fn message_sizes_are_what_the_families_promise() {
        let sizes: Vec<f64> =
            crate::families::ALL.iter().map(|(_, contest)| contest(1).message_bytes()).collect();
        assert!((400.0..600.0).contains(&sizes[0]), "log {sizes:?}");
        assert!((1000.0..2048.0).contains(&sizes[1]), "nested {sizes:?}");
        assert!((8192.0..16384.0).contains(&sizes[2]), "wide {sizes:?}");
        for (_, contest) in &crate::families::ALL[3..] {
            let contest = contest(1);
            assert!(contest.corpus.iter().all(|input| input.len() <= 256), "{}", contest.name);
        }
    }
}
