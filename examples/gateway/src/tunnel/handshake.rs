//! How two gateways with one secret come to keys that neither has ever used, and know that the other is there now.
//!
//! ```text
//!   A: draws a                                     B: draws b
//!      ── ask (a, question 1) ────────────────────▶   answers; does not know whether a is of today
//!      ◀──────────────── tell (b, a, question 1) ──   A has a session with b
//!      ◀──────────────────── ask (b, question 1) ──
//!      ── tell (a, b, question 1) ────────────────▶   B has one with a
//! ```
//! Each draws a number when it starts, and asks, once in [`AGAIN_NS`], until the other has answered. Whoever was answered has a session:
//! its keys are made of the secret and both numbers, so that a restart of either gives new ones, and sequence numbers may begin at 0. One
//! that has a session and is asked by a number that it does not know has to do with a peer that was started again, or with a recording: it asks
//! until it is answered, and only a peer of today can answer.
//!
//! Invariants (the tests play both sides over a network that loses, doubles and reorders, with restarts and recordings):
//! 1. A session's numbers were drawn by the two sides that have it.
//! 2. An answer counts once, and none to a question that was asked before an answer came: so no recording brings back the session with a
//!    peer that has ended, whose nonces would then be used again.
//!
//! Messages: `│ kind, role │ number (16) │ the other's, or 0 (16) │ question (8) │ HMAC-SHA256 of all that, with the secret (32) │`. The
//! role is part of it, so
//! that a message cannot be sent back to whoever sent it.
//!
//! Not here: secrecy of the past when the secret gets out, as a Diffie-Hellman exchange would give it.

use super::keys::{self, Keys, Secret};

/// Bytes of a message.
pub const LEN: usize = SAID + 32;
/// Of it, before the code.
const SAID: usize = 2 + 16 + 16 + 8;
/// Nanoseconds between questions.
pub const AGAIN_NS: u64 = 250_000_000;
const ASK: u8 = 1;
const TELL: u8 = 2;

/// What a side draws when it starts.
pub type Number = [u8; 16];

/// One side.
pub struct Handshake {
    secret: Secret,
    role: u8,
    own: Number,
    peer: Option<Number>,
    /// Of the latest question.
    question: u64,
    /// No answer to this or an earlier one counts.
    answered: u64,
    asked_ns: Option<u64>,
    /// It has no session, or was asked by a number that it does not know.
    doubts: bool,
    /// The latest question by then: whoever ended before cannot have answered a later one.
    doubted: u64,
    /// A bug that tests must find.
    #[cfg(test)]
    planted: Option<Planted>,
}

/// Bugs that tests plant, and that must be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    /// An answer to a question counts though a later one was answered.
    OldAnswers,
    /// The peer that was there is believed to be there still.
    NoDoubts,
    /// Any answer ends the doubts, be it that of a peer that has ended since.
    AnyAnswer,
    /// The answer to somebody else's question counts.
    OthersAnswers,
}

/// What a message led to.
#[derive(Default)]
pub struct Heard {
    /// What is to be sent.
    pub say: Vec<[u8; LEN]>,
    /// The session that there is from now on.
    pub session: Option<Keys>,
}

impl Handshake {
    /// A side that starts. The roles are 0 and 1.
    pub fn new(secret: Secret, role: u8, own: Number) -> Handshake {
        Handshake {
            secret,
            role,
            own,
            peer: None,
            question: 0,
            answered: 0,
            asked_ns: None,
            doubts: true,
            doubted: 0,
            #[cfg(test)]
            planted: None,
        }
    }

    #[cfg(test)]
    fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }

    #[cfg(not(test))]
    fn has(&self, _: Planted) -> bool {
        false
    }

    /// A question, if it is time for one.
    pub fn tick(&mut self, now_ns: u64) -> Option<[u8; LEN]> {
        let is_due = self.asked_ns.is_none_or(|asked| now_ns >= asked + AGAIN_NS);
        (self.doubts && is_due).then(|| self.ask(now_ns))
    }

    fn ask(&mut self, now_ns: u64) -> [u8; LEN] {
        self.asked_ns = Some(now_ns);
        self.question += 1;
        self.message(ASK, [0; 16], self.question)
    }

    fn message(&self, kind: u8, to: Number, question: u64) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..2].copy_from_slice(&[kind, self.role]);
        bytes[2..18].copy_from_slice(&self.own);
        bytes[18..34].copy_from_slice(&to);
        bytes[34..SAID].copy_from_slice(&question.to_le_bytes());
        let mac = keys::mac(&self.secret, &[&bytes[..SAID]]);
        bytes[SAID..].copy_from_slice(&mac);
        bytes
    }

    /// Whether an answer is one to a question of this side that none was given to.
    fn counts(&self, to: &[u8], question: u64) -> bool {
        let is_own = to == self.own || self.has(Planted::OthersAnswers);
        is_own && (question > self.answered || self.has(Planted::OldAnswers))
    }

    /// A message came.
    pub fn hear(&mut self, bytes: &[u8], now_ns: u64) -> Heard {
        let mut heard = Heard::default();
        let Ok(bytes) = <&[u8; LEN]>::try_from(bytes) else { return heard };
        let is_true = keys::is_same(&keys::mac(&self.secret, &[&bytes[..SAID]]), &bytes[SAID..]);
        if !is_true || bytes[1] != 1 - self.role {
            return heard;
        }
        let from: Number = bytes[2..18].try_into().expect("sixteen bytes");
        let question = u64::from_le_bytes(bytes[34..SAID].try_into().expect("eight bytes"));
        match bytes[0] {
            ASK => {
                heard.say.push(self.message(TELL, from, question));
                if self.peer != Some(from) && !self.has(Planted::NoDoubts) {
                    (self.doubts, self.doubted) = (true, self.question);
                    heard.say.extend(self.tick(now_ns));
                }
            }
            TELL if self.counts(&bytes[18..34], question) => {
                self.answered = self.question;
                self.doubts &= question <= self.doubted && !self.has(Planted::AnyAnswer);
                if self.peer.replace(from) == Some(from) {
                    return heard;
                }
                let numbers = if self.role == 0 { [&self.own, &from] } else { [&from, &self.own] };
                heard.session = Some(keys::session(&self.secret, self.role, numbers));
            }
            _ => {}
        }
        heard
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;
    use std::collections::HashSet;

    fn side(role: u8, prng: &mut Prng) -> Handshake {
        let mut own = [0; 16];
        prng.fill(&mut own);
        Handshake::new(Secret([7; 32]), role, own)
    }

    /// Two sides over a bad network, with restarts; what did not hold.
    fn play(seed: u64, planted: Option<Planted>) -> Result<(), String> {
        let mut prng = Prng::new(seed);
        let start = |role: u8, prng: &mut Prng| Handshake { planted, ..side(role, prng) };
        let mut sides = [start(0, &mut prng), start(1, &mut prng)];
        let mut sessions: [Option<Keys>; 2] = [None, None];
        let mut had = [HashSet::new(), HashSet::new()];
        let mut wire: Vec<(usize, [u8; LEN])> = Vec::new();
        let mut recorded = Vec::new();
        let mut now = 0;
        for round in 0..600 {
            now += AGAIN_NS / 7;
            let is_weather = round < 400;
            if is_weather && prng.chance(0.02) {
                let role = prng.below(2) as usize;
                sides[role] = start(role as u8, &mut prng);
                sessions[role] = None;
            }
            for (role, side) in sides.iter_mut().enumerate() {
                wire.extend(side.tick(now).map(|bytes| (1 - role, bytes)));
            }
            for _ in 0..wire.len() {
                let (to, bytes) = wire.swap_remove(prng.below(wire.len() as u64) as usize);
                recorded.push((to, bytes));
                if is_weather && prng.chance(0.3) {
                    continue;
                }
                if is_weather && prng.chance(0.2) {
                    wire.push(recorded[prng.below(recorded.len() as u64) as usize]);
                }
                let heard = sides[to].hear(&bytes, now);
                wire.extend(heard.say.into_iter().map(|bytes| (1 - to, bytes)));
                if let Some(keys) = heard.session {
                    if !had[to].insert(keys.seal) {
                        return Err("a session came back, and would use its nonces again".into());
                    }
                    sessions[to] = Some(keys);
                }
            }
        }
        let [Some(a), Some(b)] = &sessions else { return Err("there is no session".into()) };
        if (a.id, a.seal, a.open) != (b.id, b.open, b.seal) {
            return Err("the sides have different sessions".into());
        }
        for (to, bytes) in &recorded {
            let before = sides[*to].peer;
            if sides[*to].hear(bytes, now).session.is_some() || sides[*to].peer != before {
                return Err("a recording changed something".into());
            }
        }
        Ok(())
    }

    #[test]
    fn both_come_to_the_same_keys_whatever_the_network_does_and_after_restarts() {
        for seed in 0..200 {
            assert_eq!(play(seed, None), Ok(()), "seed {seed}");
        }
    }

    #[test]
    fn planted_bugs_are_found() {
        for planted in [Planted::OldAnswers, Planted::NoDoubts, Planted::AnyAnswer, Planted::OthersAnswers] {
            assert!((0..200).any(|seed| play(seed, Some(planted)).is_err()), "{planted:?}");
        }
    }

    #[test]
    fn other_secrets_mirrors_and_changes_are_not_heard() {
        let mut prng = Prng::new(1);
        let (mut a, mut b) = (side(0, &mut prng), side(1, &mut prng));
        let ask = a.tick(0).expect("it asks at once");
        assert_eq!(a.tick(1), None);
        assert!(a.hear(&ask, 1).say.is_empty(), "a message of its own");
        let mut stranger = Handshake::new(Secret([8; 32]), 1, [1; 16]);
        assert!(stranger.hear(&ask, 1).say.is_empty());
        for at in 0..LEN {
            let mut changed = ask;
            changed[at] ^= 1;
            assert!(b.hear(&changed, 1).say.is_empty(), "byte {at}");
        }
        assert!(b.hear(&ask[1..], 1).say.is_empty());
        assert_eq!(b.hear(&ask, 1).say.len(), 2, "it tells, and asks");
        assert_eq!(b.hear(&ask, 2).say.len(), 1, "it was asked just now");
    }
}
