//! What a plan means where streams connect clients and a node: nothing that was sent is lost, but with who is gone.

use super::super::words;
use super::world::World;
use serve::kv::by_hand::Width;
use sim::faults::{Step, Trouble};
use sim::network::{Effect, Links};

/// How wide connections are when all is well.
const WIDE: Width = Width { room: 1 << 16, call: 1 << 16 };
/// Under weather a call gives so little.
const NARROW: usize = 1 << 10;

impl World<'_> {
    pub(super) fn fault(&mut self, step: Step) {
        let (plan, script) = (&self.script.plan, self.script);
        let name =
            |node| if node < script.node() { format!("client {node}") } else { format!("node {node}") };
        self.note(|| format!("fault         {}", words::step(name, u32::MAX, plan, step)));
        match step {
            Step::Crash(client) if (client as usize) < self.clients.len() => self.reset(client as usize),
            Step::Crash(_) | Step::Restart(_) => {}
            Step::Power(_) => self.stop(),
            Step::Begin(number, links, effect) => {
                self.links.insert(number, (links, effect));
                self.set_widths();
            }
            Step::End(number) => {
                self.links.remove(&number);
                self.set_widths();
                self.all_go_on();
            }
            Step::Trouble(node, trouble) => self.trouble(node, trouble, true),
            Step::Relief(node, trouble) => self.trouble(node, trouble, false),
        }
    }

    fn trouble(&mut self, number: u32, trouble: Trouble, begins: bool) {
        let (Some(edge), Some(node)) = (self.script.edge(number), &self.node) else { return };
        match trouble {
            Trouble::Pause => {
                node.pause_edge(edge, begins);
                self.look_after();
            }
            Trouble::Full => {
                let service = node.service_of(edge);
                for (register, full, was) in self.script.full(service) {
                    node.order(service, register, if begins { full } else { was });
                }
                node.obey();
            }
            _ => {}
        }
    }

    fn reset(&mut self, client: usize) {
        let Some(line) = &self.clients[client].line else { return };
        line.peer.reset();
        self.forget(client);
        self.look_after();
    }

    /// Its connection is gone; of what it had asked nobody knows anything.
    pub(super) fn forget(&mut self, client: usize) {
        self.clients[client].line = None;
    }

    /// Whether bytes go from the one to the other now.
    pub(super) fn is_open(&self, from: u32, to: u32) -> bool {
        let stops = |(links, effect): &(Links, Effect)| {
            links.contain(from, to) && matches!(effect, Effect::Cut | Effect::Clog(_))
        };
        !self.links.values().any(stops)
    }

    pub(super) fn set_widths(&self) {
        for (number, client) in (0u32..).zip(&self.clients) {
            if let Some(line) = &client.line {
                line.peer.set_width(self.width(number, client.connections));
            }
        }
    }

    pub(super) fn width(&self, client: u32, connection: u64) -> Width {
        if self.is_calm {
            return WIDE;
        }
        let width = self.script.width(client, connection);
        let node = self.script.node();
        let is_foul = |(links, effect): &(Links, Effect)| {
            matches!(effect, Effect::Weather(_))
                && (links.contain(client, node) || links.contain(node, client))
        };
        match self.links.values().any(is_foul) {
            true => Width { call: width.call.min(NARROW), ..width },
            false => width,
        }
    }
}
