//! How the service of a home is made and looked into where no thread has it: [`super::super::machine`].

use super::super::machine::Place;
use super::by_home::Callers;
use super::chain_items::ChainItems;
use super::chained::Chained;
use super::commands::Commands;
use super::homed::Homed;
use super::planted::{Mistakes, Planted, WithMemory};
use super::warm::{self, Began};
use super::{Keeper, Kv};
use crate::kv::chain_client::Transactions;
use crate::kv::clocks::Clocks;
use crate::kv::config::Config;
use crate::kv::durable::{Durable, Opened};
use crate::kv::post::Post;
use crate::kv::registers::Id;
use crate::memcached::counters::NetCounters;
use base::Nanos;
use base::budget::Budget;
use base::hash::{Hasher64, WIRE_SEED};
use protocol::coherence::Home;
use protocol::coherence::home::items::Items;
use protocol::wire::{BoxId, Version};
use std::sync::Arc;
use store::warm::{Asked, Refusal};
use store::{ConfigError, Store};

/// A run of the simulator is over in less than what passes between two marks of a server.
const MARK_INTERVAL: Nanos = Nanos::from_millis(1);

impl<B: Mistakes> Kv<B> {
    /// An empty store as `config` says, the same in every run.
    pub(in crate::kv) fn store(config: &Config) -> Result<Store, ConfigError> {
        Store::new(Commands::store_settings(config, WIRE_SEED))
    }

    /// The store whose memory is asked for, and how it began.
    pub(in crate::kv) fn resume(
        config: &Config,
        asked: &Asked,
        clocks: &Clocks,
        planted: &B,
    ) -> Result<(Store, Began), Refusal> {
        let settings = Commands::store_settings(config, WIRE_SEED);
        warm::open(Some(asked), settings, (clocks, &WithMemory(planted)))
    }

    /// A home over `store`, or an empty one, and what its log is, if it has one; and the hash of its keys.
    pub(in crate::kv) fn home(
        place: &Place,
        (config, store): (&Config, Option<(Store, Began)>),
        opened: Option<Opened>,
        (post, clocks): (&Arc<Post>, &Clocks),
        planted: B,
    ) -> Result<(Kv<B>, Hasher64), String> {
        let empty = || Self::store(config).map(|store| (store, Began::default()));
        let (store, began) = store.map_or_else(empty, Ok).map_err(|error| error.to_string())?;
        let hasher = *store.hasher();
        let buffered = Arc::new(Budget::new(config.registers.size(Id::NetBufferLimit)));
        let beside = (Arc::new(NetCounters::default()), buffered);
        let mut commands = Commands::over(store, began, config, beside, clocks.clone());
        commands.goes_by_memory = began.is_warm() && planted.has(Planted::GoesByMemory);
        if let Some(opened) = opened {
            let mut durable = Durable::over(opened, &config.registers, post, clocks.clone());
            durable.mark_every(MARK_INTERVAL);
            commands.log_in(durable);
        }
        let Place { config, id, layout, life } = place;
        let (layout, now) = (Arc::clone(layout), clocks.now());
        let home = Home::with_bugs(config, *id, layout, *life, now, commands, planted.clone());
        let homed = Homed::over(home, Arc::clone(post), clocks.clone(), planted);
        Ok((Kv(Keeper::Home(Box::new(homed))), hasher))
    }

    /// A home over the chain whose transactions are done there.
    pub(in crate::kv) fn home_over_chain(
        place: &Place,
        config: &Config,
        (transactions, callers): (Box<dyn Transactions>, Box<dyn Callers>),
        (post, clocks): (&Arc<Post>, &Clocks),
        planted: B,
    ) -> Result<(Kv<B>, Hasher64), String> {
        Chained::<(), B>::limit(config);
        let store = Self::store(config).map_err(|error| error.to_string())?;
        let hasher = *store.hasher();
        let buffered = Arc::new(Budget::new(config.registers.size(Id::NetBufferLimit)));
        let beside = (Arc::new(NetCounters::default()), buffered);
        let commands = Commands::over(store, Began::default(), config, beside, clocks.clone());
        let chained = Chained::over(commands, planted.clone()).before_boxes();
        let items = ChainItems::new(chained, transactions).with_callers_and_bugs(callers, planted.clone());
        let Place { config, id, layout, life } = place;
        let (layout, now) = (Arc::clone(layout), clocks.now());
        let home = Home::with_bugs(config, *id, layout, *life, now, items, planted.clone());
        let homed = Homed::over(home, Arc::clone(post), clocks.clone(), planted);
        Ok((Kv(Keeper::HomeOverChain(Box::new(homed))), hasher))
    }

    fn homed(&self) -> &Homed<Commands, B> {
        match &self.0 {
            Keeper::Home(homed) => homed,
            _ => unreachable!("it was made as a home"),
        }
    }

    /// The version and value of a key.
    pub(in crate::kv) fn peek(&self, key: &[u8]) -> Option<(Version, &[u8])> {
        self.homed().commands().peek(key)
    }

    /// Forgets a key, as a store that is full.
    pub(in crate::kv) fn evict(&mut self, key: &[u8]) {
        self.commands_mut().remove(key);
    }

    /// Whether the end of its log cannot be lost without being missed.
    pub(in crate::kv) fn is_marked(&self) -> bool {
        self.homed().commands().durable.as_ref().is_some_and(|durable| !durable.journal().is_unmarked())
    }

    /// Whether a snapshot could go on now.
    pub(in crate::kv) fn has_more(&self) -> bool {
        self.commands().durable.as_ref().is_some_and(|durable| durable.has_more)
    }

    /// The box that owns a key.
    pub(in crate::kv) fn owner_of(&self, key: &[u8]) -> Option<BoxId> {
        match &self.0 {
            // It gives none away.
            Keeper::HomeOverChain(_) => None,
            _ => self.homed().home().owner_of(key),
        }
    }

    /// Whether it goes by a table that says that a box is to be stopped, and may have to wait for it.
    pub(in crate::kv) fn may_wait_for(&self, id: BoxId, now: Nanos) -> bool {
        fn of<S: Items, B: Mistakes>(home: &Home<S, B>, id: BoxId, now: Nanos) -> bool {
            home.is_draining(id) && home.waits_for(id, now)
        }
        match &self.0 {
            Keeper::HomeOverChain(homed) => of(homed.home(), id, now),
            _ => of(self.homed().home(), id, now),
        }
    }

    /// A key that was lost with its owner, each once.
    pub(in crate::kv) fn poll_lost(&mut self) -> Option<Vec<u8>> {
        match &mut self.0 {
            Keeper::Home(homed) => homed.poll_lost(),
            _ => None,
        }
    }
}
