//! One command on one item: what it says, and what it does.

use super::super::commands::Commands;
use super::asked::{Asked, Said, changes};
use super::item::{Effect, Item, Seen};
use protocol::chain::attributes::RESERVED;
use protocol::coherence::home::items::{Items as _, perform};
use protocol::memcache::{Command, Line, SetMode, StoreVerb};
use store::{DeleteHow, Key, SetHow};

impl Commands {
    /// Executes what is asked of `key` at that second on the item that was seen, with nothing else in the store: what is said, and what it did. What that is
    /// becomes version `done`; where it is not done yet, nothing is counted of it.
    pub(super) fn try_on(
        &mut self,
        key: &[u8],
        asked: &Asked,
        seen: &Seen,
        now: u32,
        done: Option<u64>,
    ) -> (Said, Effect) {
        let hash = match asked {
            Asked::Command(owned) => owned.command().1,
            Asked::Packet(..) => self.store.hasher().hash(key),
        };
        let (second, counters) = (std::mem::replace(&mut self.now, now), self.counters);
        let at = Key::with_hash(key, hash);
        if let Some(Item { value, state }) = &seen.item {
            let (flags, expiry, version) = (state.flags, state.expiry, Some(state.version));
            let how = SetHow { flags, expiry, version, ..SetHow::default() };
            self.store.set(now, at, value, &how).expect("it has room for an item of a chain");
            self.store.mark(now, at, state.stale, state.win_sent);
        }
        if let Some(version) = done {
            self.store.restart_versions(version - 1);
        }
        let before = seen.item.as_ref().filter(|_| self.store.peek(now, at).is_some());
        let said = self.act(key, asked);
        let effect = Effect::between(before, self.store.peek(now, at).as_ref());
        // A plain delete finds room for itself.
        let _ = self.store.delete(now, at, &DeleteHow::default());
        if done.is_none() && effect != Effect::Nothing {
            self.counters = counters;
        }
        self.now = second;
        (said, effect)
    }

    fn act(&mut self, key: &[u8], asked: &Asked) -> Said {
        match asked {
            Asked::Command(owned) => {
                let (command, hash) = owned.command();
                Said::Reply(self.say_unlogged(&command, hash))
            }
            Asked::Packet(message, since) => match changes(message) {
                None => Said::Found(self.read(key, *since)),
                Some(verb) => {
                    let version = |commands: &mut Commands| commands.take_versions(1);
                    Said::Answer(perform(self, *since, (verb, message), version))
                }
            },
        }
    }
}

/// Whether what was seen is there at that second.
pub fn is_there(seen: &Seen, now: u32) -> bool {
    // 0 is never: one less wraps to the far future.
    seen.item.as_ref().is_some_and(|item| item.state.expiry.wrapping_sub(1) >= now)
}

/// Why a command of this key is not done, if so.
pub(super) fn refused(command: &Command<'_>, key: &[u8]) -> Option<Line> {
    let version = match command {
        Command::MetaGet(get) => get.version(),
        Command::MetaSet(set) => set.version(),
        Command::MetaDelete(delete) => delete.version(),
        Command::MetaArith(arith) => arith.version(),
        _ => None,
    };
    match key.first() {
        Some(&RESERVED) => Some(Line::ReservedKey),
        _ if version.is_some() => Some(Line::VersionRefused),
        _ => None,
    }
}

/// Whether what it does and says does not depend on what is there.
pub(super) fn stores_whatever_is_there(command: &Command<'_>) -> bool {
    match command {
        Command::Store(store) => store.verb == StoreVerb::Set,
        Command::MetaSet(set) => set.mode == SetMode::Set && set.compare().is_none(),
        _ => false,
    }
}
