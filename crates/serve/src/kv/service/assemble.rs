//! The service of a server, as its config says, on its core; and the ports of its edges.

use super::chain_items::ChainItems;
use super::chained::Chained;
use super::commands::Commands;
use super::homed::Homed;
use super::logged::Logged;
use super::over_chain::OverChain;
use super::warm::Began;
use super::{Keeper, Kv};
use crate::engine_cores::{EngineCore, OnCore};
use crate::kv::chain_client::Figures;
use crate::kv::chains::{Chains, EachChain, Place};
use crate::kv::claiming::ConnectError;
use crate::kv::clocks::Clocks;
use crate::kv::config::Config;
use crate::kv::dedicated::{self, Link};
use crate::kv::durable::{Durable, Plan};
use crate::kv::home::{AtHome, Seat};
use crate::kv::post::Post;
use crate::kv::registers::Id;
use crate::kv::shared::Shared;
use crate::kv::txn_door::TxnDoor;
use crate::kv::{StartError, certificate};
use crate::memcached::accept::Inbox;
use crate::memcached::counters::NetCounters;
use crate::memcached::login::Entrance;
use base::budget::Budget;
use base::hash::Hasher64;
use engine::{Core, CycleCore, EdgePort};
use protocol::planted::NoBugs;
use std::sync::Arc;
use store::warm::Whose;

/// What a node is wired from: the shared part, for each edge a port and what it waits with, and the hash that edges compute.
pub type Assembled<C = CycleCore> = (Arc<Shared<C>>, Vec<(EdgePort<Kv>, Link)>, Hasher64);

/// Makes the service on `core` and the ports of all edges, as `config` says; with `seat`, as the home of boxes; clients come in by `entrance`.
///
/// # Errors
/// The store cannot be had with these settings or in these files, or the core has no room.
pub fn assemble(
    config: &Config,
    inboxes: Vec<Arc<Inbox>>,
    core: &Arc<EngineCore>,
    (seat, entrance): (Option<Seat>, Entrance),
) -> Result<Assembled, StartError> {
    let tls = certificate(config)?;
    let registers = config.registers.clone();
    let net = Arc::new(NetCounters::default());
    let buffered = Arc::new(Budget::new(registers.size(Id::NetBufferLimit)));
    let boxes = seat.is_some();
    let durable = config.durable.plan(config.memory_file.as_deref()).map_err(StartError::Durable)?;
    let post = (durable != Plan::None || boxes).then(|| Arc::new(Post::new(inboxes.clone())));
    let mut figures = None;
    let whose = seat.as_ref().map_or((Whose::Node, false), Seat::memory);
    let (keeper, home) = match (&post, durable, seat) {
        (Some(post), Plan::Chain(places), seat) => {
            let (keeper, theirs, door) =
                over_chain(config, (&net, &buffered), places, (post, seat.as_ref()))?;
            figures = Some(theirs);
            (keeper, seat.map(|seat| seat.into_parts(door)).transpose()?)
        }
        (Some(post), plan, seat) => {
            let commands = logged(config, whose, (&net, &buffered), (plan, post))?;
            match seat {
                Some(seat) => {
                    let homed = Homed::new(&seat, commands, Arc::clone(post));
                    (Keeper::Home(Box::new(homed)), Some(seat.into_parts(None)?))
                }
                None => (Keeper::Logged(Box::new(Logged::new(commands, Arc::clone(post)))), None),
            }
        }
        (None, ..) => (Keeper::Alone(Commands::new(config, whose, net.clone(), buffered.clone())?), None),
    };
    let (shared, edges, hasher) =
        wire(config, Kv(keeper), (net, buffered), inboxes, core, (home, post, figures))?;
    Ok((Arc::new(shared.entered_by(entrance, tls)), edges, hasher))
}

/// Homes, log and chains of a service, where it has any.
type Behind = (Option<AtHome>, Option<Arc<Post>>, Option<EachChain>);

/// As [`Assembled`], before anybody else has the shared part.
type Wired<C> = (Shared<C>, Vec<(EdgePort<Kv>, Link)>, Hasher64);

/// A service on `core`, whatever tells that the time, and the ports of its edges.
fn wire<C: Core>(
    config: &Config,
    kv: Kv,
    (net, buffered): (Arc<NetCounters>, Arc<Budget>),
    inboxes: Vec<Arc<Inbox>>,
    core: &Arc<EngineCore<C>>,
    behind: Behind,
) -> Result<Wired<C>, StartError> {
    let registers = config.registers.clone();
    let hasher = *kv.commands().store.hasher();
    let entries = registers.size(Id::RingEntries).next_power_of_two();
    let arena = registers.size(Id::RingArena).next_power_of_two();
    let (hosting, links) = dedicated::hosting(&registers, inboxes.len());
    let on_core = OnCore::add(core, kv, hosting).map_err(StartError::Engine)?;
    let port = |link| Ok((on_core.open(entries as u32, arena as u64)?, link));
    let edges = links.into_iter().map(port).collect::<Result<_, _>>().map_err(StartError::Engine)?;
    Ok((Shared::new(registers, net, buffered, on_core, inboxes, behind), edges, hasher))
}

/// The same of a node that is driven by hand, without boxes, log or chain, whose clocks are told: it does the same in every run.
///
/// # Errors
/// As [`assemble`].
pub fn assemble_by_hand<C: Core>(
    config: &Config,
    inboxes: Vec<Arc<Inbox>>,
    core: &Arc<EngineCore<C>>,
    clocks: Clocks,
) -> Result<Assembled<C>, StartError> {
    let net = Arc::new(NetCounters::default());
    let buffered = Arc::new(Budget::new(config.registers.size(Id::NetBufferLimit)));
    let store = Kv::<NoBugs>::store(config).map_err(StartError::Store)?;
    let beside = (Arc::clone(&net), Arc::clone(&buffered));
    let commands = Commands::over(store, Began::default(), config, beside, clocks);
    let keeper = Kv(Keeper::Alone(commands));
    let (shared, edges, hasher) = wire(config, keeper, (net, buffered), inboxes, core, (None, None, None))?;
    Ok((Arc::new(shared), edges, hasher))
}

/// Commands that have a log, if `plan` says so.
fn logged(
    config: &Config,
    whose: (Whose, bool),
    (net, buffered): (&Arc<NetCounters>, &Arc<Budget>),
    (plan, post): (Plan<'_>, &Arc<Post>),
) -> Result<Commands, StartError> {
    let registers = &config.registers;
    if let Plan::Log(_) = plan {
        // What was acknowledged is not evicted either.
        registers.write(Id::StoreMode, 1).expect("it is one of the modes");
    }
    let mut commands = Commands::new(config, whose, Arc::clone(net), Arc::clone(buffered))?;
    if let Plan::Log(place) = plan {
        let durable = Durable::open(place, registers, &mut commands.store, post);
        let durable = durable.map_err(StartError::Durable)?;
        let (_, is_first) = whose;
        if is_first && durable.journal().last() > 0 {
            let place = place.display();
            return Err(StartError::Home(format!(
                "{place} has the log of an earlier life of this home, so boxes may have copies of its items: start without --home-first"
            )));
        }
        commands.log_in(durable);
    }
    Ok(commands)
}

/// Items in chains; what the client of each counts; where transactions of clients are taken, if boxes are before them.
type OverChains = (Keeper<NoBugs>, Vec<Arc<Figures>>, Option<TxnDoor>);

/// Items in the chains that are found there, with the home of boxes before them, if there is one.
fn over_chain(
    config: &Config,
    (net, buffered): (&Arc<NetCounters>, &Arc<Budget>),
    places: &[Place],
    (post, seat): (&Arc<Post>, Option<&Seat>),
) -> Result<OverChains, StartError> {
    let chained = Chained::new(config, Arc::clone(net), Arc::clone(buffered), NoBugs)?;
    // First the door: the claim says where it is.
    let opened =
        seat.map(|seat| seat.open_door(post, &config.tracer).map(|door| (seat, door))).transpose()?;
    let home = opened.as_ref().map(|(seat, (door, _))| seat.claiming(door));
    let connected = Chains::connect(places, &config.registers, post, home.as_ref());
    let (chains, figures) = connected.map_err(|error| match error {
        ConnectError::File(why) => StartError::Chain(why),
        ConnectError::Chain(None, error) => StartError::Chain(error.to_string()),
        ConnectError::Chain(Some(number), error) => StartError::Chain(format!("chain {number}: {error}")),
        ConnectError::Claimed(claim) => StartError::Chain(format!(
            "it was claimed before, {claim}, so boxes may have copies of its items: start without --home-first"
        )),
        ConnectError::Race => StartError::Chain("another home claims it, too: only one can have it".to_owned()),
        ConnectError::Thread(error) => StartError::System("start a thread", error),
    })?;
    let (chains, post) = (Box::new(chains), Arc::clone(post));
    Ok(match opened {
        Some((seat, (door, callers))) => {
            let items = ChainItems::new(chained.before_boxes(), chains).with_callers(callers);
            (Keeper::HomeOverChain(Box::new(Homed::new(seat, items, post))), figures, Some(door))
        }
        None => {
            let over = OverChain::new(ChainItems::new(chained, chains), post);
            (Keeper::Chain(Box::new(over)), figures, None)
        }
    })
}
