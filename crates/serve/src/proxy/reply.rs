//! From outcomes to what a memcached client reads. The texts are `protocol::memcache::emit`'s.

use super::command::{Counted, Hit, Outcome, Trouble, seconds};
use protocol::memcache::binary::HEADER_LEN;
use protocol::memcache::emit::{
    LINE_BOUND, MetaCounted, MetaDeleted, MetaHit, MetaStored, Reply, SMALL_BOUND, meta_bound, value_bound,
};
use protocol::memcache::{Asked, Line, Meta, MetaFlags};
use protocol::wire::Status;

/// How a command is answered.
#[derive(Clone, Debug)]
pub enum Form {
    /// A key of `get` and its like.
    Get {
        /// With the version.
        with_cas: bool,
        /// The last of its line: `END` follows.
        last: bool,
    },
    /// A line.
    Classic {
        /// Or none.
        noreply: bool,
        /// Or the frame for this binary request.
        asked: Option<Asked>,
    },
    /// That the value is too large, whatever became of the old one.
    TooLarge {
        /// Or nothing.
        noreply: bool,
        /// Or the frame for this binary request.
        asked: Option<Asked>,
    },
    /// `mg`.
    MetaGet(MetaForm),
    /// `ms` of so many bytes.
    MetaSet(MetaForm, usize),
    /// `md`.
    MetaDelete(MetaForm),
    /// `ma`.
    MetaArith(MetaForm),
}

/// The words of a meta command that its reply returns.
#[derive(Clone, Debug)]
pub struct MetaForm {
    key_text: Box<[u8]>,
    flags_text: Box<[u8]>,
    flags: MetaFlags,
}

impl MetaForm {
    /// Those of this one.
    pub fn of(meta: &Meta<'_>) -> MetaForm {
        MetaForm { key_text: meta.key_text.into(), flags_text: meta.flags_text.into(), flags: meta.flags }
    }

    /// Those of a `mg`, but for what no home knows of an item: whether it was read before, and when.
    pub fn of_get(meta: &Meta<'_>) -> MetaForm {
        if meta.is_binary() {
            return MetaForm::of(meta);
        }
        let is_known = |word: &&[u8]| !matches!(word.first(), Some(b'h' | b'l'));
        let words = meta.flags_text.split(|&b| b == b' ').filter(is_known);
        MetaForm { flags_text: words.collect::<Vec<_>>().join(&b' ').into(), ..MetaForm::of(meta) }
    }

    fn meta(&self) -> Meta<'_> {
        Meta { key_text: &self.key_text, flags_text: &self.flags_text, flags: self.flags }
    }
}

/// Appends what `write` writes, at most `bound` bytes, for the binary request `asked` if it was one.
pub fn append(out: &mut Vec<u8>, asked: Option<Asked>, bound: usize, write: impl FnOnce(&mut Reply<'_>)) {
    let start = out.len();
    out.resize(start + bound, 0);
    let mut reply = Reply::to(&mut out[start..], asked);
    write(&mut reply);
    let len = reply.len();
    out.truncate(start + len);
}

/// Appends a line.
pub fn append_line(out: &mut Vec<u8>, asked: Option<Asked>, line: Line) {
    append(out, asked, LINE_BOUND + HEADER_LEN, |reply| reply.line(line));
}

/// Appends the reply to a command of `key` that came to `outcome`. False where it ends the retrieval that it is a part of, as an error does.
#[must_use]
pub fn append_reply(out: &mut Vec<u8>, form: &Form, key: &[u8], outcome: &Outcome) -> bool {
    match form {
        Form::Get { with_cas, last } => return append_get(out, key, (*with_cas, *last), outcome),
        Form::Classic { noreply: true, .. } | Form::TooLarge { noreply: true, .. } => {}
        Form::TooLarge { asked, .. } => append_line(out, *asked, Line::TooLarge),
        Form::Classic { asked, .. } => append_classic(out, *asked, outcome),
        Form::MetaGet(form) => append_meta_get(out, &form.meta(), outcome),
        Form::MetaSet(form, size) => append_meta_set(out, &form.meta(), *size, outcome),
        Form::MetaDelete(form) => append_meta_delete(out, &form.meta(), outcome),
        Form::MetaArith(form) => append_meta_arith(out, &form.meta(), outcome),
    }
    true
}

fn append_get(out: &mut Vec<u8>, key: &[u8], (with_cas, last): (bool, bool), outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Hit(hit) => append(out, None, value_bound(key.len(), hit.value.len()), |reply| {
            reply.value(key, hit.flags, with_cas.then_some(hit.version), &hit.value);
        }),
        Outcome::Miss => {}
        trouble => {
            append_line(out, None, error(trouble));
            return false;
        }
    }
    if last {
        append_line(out, None, Line::End);
    }
    true
}

fn append_classic(out: &mut Vec<u8>, asked: Option<Asked>, outcome: &Outcome) {
    let line = match outcome {
        Outcome::Counted(counted) => {
            return append(out, asked, LINE_BOUND, |reply| reply.number(counted.number));
        }
        Outcome::Stored { .. } => Line::Stored,
        Outcome::NotStored => Line::NotStored,
        Outcome::Exists => Line::Exists,
        Outcome::NotFound => Line::NotFound,
        Outcome::Deleted => Line::Deleted,
        Outcome::Touched => Line::Touched,
        Outcome::Flushed => Line::Ok,
        other => error(other),
    };
    append_line(out, asked, line);
}

fn append_meta_get(out: &mut Vec<u8>, meta: &Meta<'_>, outcome: &Outcome) {
    match outcome {
        Outcome::Hit(hit) => {
            append(out, meta.asked(), meta_bound(meta.key_text.len(), hit.value.len()), |reply| {
                reply.meta_hit(meta, &shown(hit), &hit.value);
            });
        }
        Outcome::Miss => append(out, meta.asked(), SMALL_BOUND, |reply| reply.meta_miss(meta)),
        trouble => append_line(out, meta.asked(), error(trouble)),
    }
}

fn shown(hit: &Hit) -> MetaHit {
    MetaHit {
        client_flags: hit.flags,
        version: hit.version,
        ttl: seconds(hit.life),
        ttl_before: seconds(hit.life_before),
        // `l` and `h` are left out.
        idle_s: 0,
        fetched: false,
        won: hit.won,
        stale: hit.stale,
        win_sent: hit.claimed,
    }
}

fn append_meta_set(out: &mut Vec<u8>, meta: &Meta<'_>, size: usize, outcome: &Outcome) {
    let (stored, size) = match *outcome {
        Outcome::Stored { version, size } => (MetaStored::Stored { version }, size),
        Outcome::NotStored => (MetaStored::NotStored, size),
        Outcome::Exists => (MetaStored::Exists, size),
        Outcome::NotFound => (MetaStored::NotFound, size),
        ref trouble => return append_line(out, meta.asked(), error(trouble)),
    };
    append(out, meta.asked(), SMALL_BOUND, |reply| reply.meta_stored(meta, stored, size));
}

fn append_meta_delete(out: &mut Vec<u8>, meta: &Meta<'_>, outcome: &Outcome) {
    let deleted = match outcome {
        Outcome::Deleted => MetaDeleted::Deleted,
        Outcome::Exists => MetaDeleted::Exists,
        Outcome::NotFound => MetaDeleted::NotFound,
        trouble => return append_line(out, meta.asked(), error(trouble)),
    };
    append(out, meta.asked(), SMALL_BOUND, |reply| reply.meta_deleted(meta, deleted));
}

fn append_meta_arith(out: &mut Vec<u8>, meta: &Meta<'_>, outcome: &Outcome) {
    let counted = match *outcome {
        Outcome::Counted(Counted { number, version, life, life_before, created }) => MetaCounted::Counted {
            number,
            version,
            ttl: seconds(life),
            ttl_before: seconds(life_before),
            created,
        },
        Outcome::Exists => MetaCounted::Exists,
        Outcome::NotFound => MetaCounted::NotFound,
        ref other => return append_line(out, meta.asked(), error(other)),
    };
    append(out, meta.asked(), SMALL_BOUND, |reply| reply.meta_counted(meta, counted));
}

/// The line for an outcome that is an error of every command.
fn error(outcome: &Outcome) -> Line {
    match outcome {
        Outcome::NotNumeric => Line::NonNumeric,
        Outcome::TooLarge => Line::TooLarge,
        Outcome::NoMemory => Line::OutOfMemory,
        Outcome::Failed(Trouble::NotDone) => Line::Unanswered,
        Outcome::Failed(Trouble::Unknown) => Line::UnknownOutcome,
        Outcome::Failed(Trouble::Contended) => Line::Contended,
        Outcome::Failed(Trouble::Refused(Status::NotHome)) => Line::OtherTopology,
        Outcome::Failed(Trouble::Refused(_)) => Line::HomeRefused,
        other => unreachable!("{other:?} is no outcome of this command"),
    }
}
