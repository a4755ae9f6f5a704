//! A client: it asks the box that it is below, or the home if it is below none, and waits.

use super::{Layout, Out, Places, Ways};
use crate::coherence::client::{Answer, Call, OpId};
use crate::wire::{BoxId, ClientId, Message, Opcode, RequestId, key_hash};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A client.
#[derive(Clone, Debug)]
pub struct PublishedClient {
    id: ClientId,
    ways: Ways,
    begun: u64,
    under_way: BTreeMap<RequestId, OpId>,
    ended: VecDeque<(OpId, Answer, BoxId)>,
}

impl PublishedClient {
    /// One that has asked nothing.
    pub fn new(id: ClientId, layout: Arc<Layout>, clients: Places) -> PublishedClient {
        let ways = Ways::new(layout, &clients);
        PublishedClient { id, ways, begun: 0, under_way: BTreeMap::new(), ended: VecDeque::new() }
    }

    /// Who it is.
    pub fn id(&self) -> ClientId {
        self.id
    }

    /// Begins an operation. Fewer than 65536 may be under way: requests are told apart by so many numbers.
    pub fn start(&mut self, call: Call, out: &mut Out) -> OpId {
        self.begun += 1;
        let mut request = Message::request(call.verb, &call.key);
        request.value = call.value;
        let header = &mut request.header;
        header.client = self.id;
        header.home = self.ways.layout.home_of(key_hash(&call.key));
        header.request = RequestId(self.begun as u16);
        (header.operand, header.kind, header.item_flags) = (call.operand, call.kind, call.flags);
        self.under_way.insert(header.request, OpId(self.begun));
        out.push((self.ways.up(None, self.id, (&request.key, request.header.home)), request));
        OpId(self.begun)
    }

    /// Takes a message.
    pub fn handle(&mut self, message: Message, _: &mut Out) {
        let header = &message.header;
        let Opcode::Reply(_) = header.opcode else { return };
        let Some(id) = self.under_way.remove(&header.request) else { return };
        let answer = Answer {
            value: message.value,
            flags: header.item_flags,
            kind: header.kind,
            version: header.version,
            number: header.operand,
            from_box: header.at != BoxId::NONE,
            ..Answer::of(header.status)
        };
        self.ended.push_back((id, answer, header.at));
    }

    /// An operation that ended, with the box that answered, [`BoxId::NONE`] if the home did.
    pub fn poll_outcome(&mut self) -> Option<(OpId, Answer, BoxId)> {
        self.ended.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coherence::NodeId;
    use crate::wire::{Status, Verb};

    #[test]
    fn who_is_below_no_box_asks_the_home() {
        let layout = Arc::new(Layout::two_levels(2, 1, 1, 1).expect("a layout"));
        let places: Places = Arc::new([(ClientId(1), BoxId(1))].into());
        for (id, first) in [(1, NodeId::Box(BoxId(1))), (2, NodeId::Home(crate::wire::HomeId(1)))] {
            let mut client = PublishedClient::new(ClientId(id), layout.clone(), places.clone());
            let mut out = Out::new();
            let begun = client.start(Call::new(Verb::Get, b"k"), &mut out);
            let (to, request) = out.pop().expect("it asks");
            assert_eq!(to, first);
            let reply = request.reply(Status::Miss);
            client.handle(reply.clone(), &mut out);
            client.handle(reply, &mut out);
            let (ended, answer, at) = client.poll_outcome().expect("it was answered");
            assert_eq!((ended, answer.status, at), (begun, Status::Miss, BoxId::NONE));
            assert!(client.poll_outcome().is_none() && out.is_empty(), "a second answer is none");
        }
    }
}
