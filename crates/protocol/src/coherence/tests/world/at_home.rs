//! Clients of another protocol, at the homes themselves: what they ask by ticket is judged like what the others ask.

use super::{Call, HomeId, Message, NodeId, Out, Status, Verb, Version, World};
use crate::coherence::home::Ticket;
use crate::coherence::home::items::Replied;
use crate::wire::Ttl;
use crate::wire::key_hash;
use std::collections::BTreeMap;

/// Who asked, and what the home called it. Tickets of another life of the home are other ones.
type Asked = (HomeId, Ticket);

/// What was asked by ticket.
#[derive(Default)]
pub(super) struct AtHome {
    /// With the highest version that any answer had shown before.
    under_way: BTreeMap<Asked, (Call, Version)>,
    replies: BTreeMap<Asked, Message>,
    /// How each ended.
    ends: Vec<(Call, Message)>,
}

impl World {
    /// A client of another protocol asks home `id`.
    pub(in super::super) fn ask(&mut self, id: u16, call: Call) -> Asked {
        let home = HomeId(id);
        let now = self.clock(NodeId::Home(home));
        let mut request = Message::request(call.verb, &call.key);
        (request.header.operand, request.header.version) = (call.operand, call.version);
        request.header.ttl = Ttl::new(call.life);
        request.value.clone_from(&call.value);
        let floor = self.floor.get(&call.key).copied().unwrap_or_default();
        self.keys.insert(call.key.clone());
        let mut out = Out::new();
        let ticket = self.homes.get_mut(&home).expect("it runs").ask(now, request, &mut out);
        // A home that begins anew has lost the tickets of its earlier life.
        self.at_home.replies.remove(&(home, ticket));
        self.at_home.under_way.insert((home, ticket), (call, floor));
        self.send_all(NodeId::Home(home), out);
        self.collect();
        (home, ticket)
    }

    /// The same of the home whose key it is.
    pub(in super::super) fn ask_its_home(&mut self, call: Call) -> Asked {
        let home =
            if call.verb == Verb::Flush { call.home } else { self.layout.home_of(key_hash(&call.key)) };
        self.ask(home.0, call)
    }

    /// Whose key it is.
    pub(in super::super) fn home_of(&self, key: &str) -> HomeId {
        self.layout.home_of(key_hash(key.as_bytes()))
    }

    pub(in super::super) fn ask_set(&mut self, key: &str, value: &str) -> Asked {
        self.ask(1, Call::new(Verb::Set, key.as_bytes()).value(value.as_bytes()))
    }

    pub(in super::super) fn ask_get(&mut self, key: &str) -> Asked {
        self.ask(1, Call::new(Verb::Get, key.as_bytes()))
    }

    /// What came of it: the value, the number, or how it went. `None`: not over.
    pub(in super::super) fn reply(&self, asked: Asked) -> Option<String> {
        let reply = self.at_home.replies.get(&asked)?;
        Some(match (reply.header.status, reply.header.operand) {
            (Status::Ok, 0) if reply.value.is_empty() => "Ok".to_string(),
            (Status::Ok, 0) => String::from_utf8_lossy(&reply.value).into_owned(),
            (Status::Ok, number) => number.to_string(),
            (status, _) => format!("{status:?}"),
        })
    }

    /// The version that it showed; 0 where it is not over.
    pub(in super::super) fn version_of(&self, asked: Asked) -> Version {
        self.at_home.replies.get(&asked).map_or(Version(0), |reply| reply.header.version)
    }

    /// Tickets that are not over.
    pub(in super::super) fn tickets_under_way(&self) -> usize {
        self.at_home.under_way.len()
    }

    /// Increments of `key` by ticket that ended so.
    pub(super) fn ended_at_homes(&self, key: &str, status: Status) -> u64 {
        let is_it = |(call, reply): &&(Call, Message)| {
            (call.verb, &*call.key, reply.header.status) == (Verb::Incr, key.as_bytes(), status)
        };
        self.at_home.ends.iter().filter(is_it).count() as u64
    }

    /// A home dies, with what waits at it: nothing of that was done.
    pub(super) fn forget_tickets(&mut self, home: HomeId) {
        self.at_home.under_way.retain(|(at, _), _| *at != home);
    }

    pub(super) fn collect_replies(&mut self) {
        let ids: Vec<HomeId> = self.homes.keys().copied().collect();
        for id in ids {
            while let Some(Replied { ticket, reply, .. }) =
                self.homes.get_mut(&id).and_then(|home| home.items_mut().poll_reply())
            {
                self.judge_reply((id, ticket), reply);
            }
        }
    }

    fn judge_reply(&mut self, asked: Asked, reply: Message) {
        let Some((call, floor)) = self.at_home.under_way.remove(&asked) else {
            return self.violations.push(format!("{asked:?} ended twice"));
        };
        self.judge_version(&call, floor, reply.header.version, reply.header.status);
        self.at_home.ends.push((call, reply.clone()));
        self.at_home.replies.insert(asked, reply);
    }
}
