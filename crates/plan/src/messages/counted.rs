//! What the codec makes cross for a message, counted on the codec itself, for the model's accelerator to charge.
//!
//! One message goes through lanes and serialisers that are the real ones, over a crossing that charges time ([`super::link`]): decoded
//! one-shot and field by field, and with every field that can be labelled in the accelerator's memory; sent by each of the three strategies.
//! Every reply must be the message again, byte for byte.
//!
//! So there are two sources of the same numbers, and which is one's own: the model's shapes reckon C++ objects as protoc makes them, which is what the
//! published results are about; this counts our objects. Where both see the same message the tests say what is equal (fields written, reads
//! of a walk) and what differs by layout (bytes).

use super::family::Message;
use super::link::{Clocked, Crossed, Link, Modelled};
use base::Picos;
use codec::crossing::Charged;
use codec::decode::Writes;
use codec::encode::Strategy;
use codec::memory::{CHUNK, Place};
use codec::place::{Accelerator, FieldId, Live, Options, Placed};
use codec::schema::Schema;
use model::system::rpcacc::shape::Shape;
use model::system::rpcacc::traffic::Traffic;
use std::sync::Arc;

/// Bytes of the accelerator's memory: the largest message, several times.
const ACC_BYTES: usize = 64 << 20;

/// An accelerator over a modelled link, without threads: what crosses is in the order in which one lane makes it.
pub struct Machine {
    accelerator: Accelerator<Charged<Modelled>>,
}

impl Machine {
    /// For messages of this schema; with `labelled` every field that can be is placed in the accelerator's memory.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(schema: &Schema, link: Link, labelled: bool) -> Result<Machine, String> {
        let live = Live::new(schema.table());
        live.follow_moves(false);
        if labelled {
            for message in schema.messages() {
                for (entry, _) in
                    message.fields.iter().enumerate().filter(|(_, field)| field.is_dereference())
                {
                    live.set_target(FieldId { class: message.class, entry: entry as u32 }, Place::Acc);
                }
            }
        }
        let options = Options { threads: 1, lanes: 1, acc_bytes: ACC_BYTES, ..Options::default() };
        let crossing = Arc::new(Charged::new(Modelled::new(link)));
        let accelerator = Accelerator::in_this_thread(vec![Arc::new(live)], options, crossing);
        Ok(Machine { accelerator: accelerator.map_err(|why| format!("memory for an accelerator: {why}"))? })
    }

    /// Decodes a message: it, and what crossed, without the doorbell that stands for its arrival from the network.
    ///
    /// # Errors
    /// The codec refuses it.
    pub fn receive(&mut self, class: u32, wire: &[u8], writes: Writes) -> Result<(Placed, Crossed), String> {
        self.accelerator.registers().set_writes(writes);
        let submitted = self.accelerator.submit(class, wire.to_vec());
        submitted.map_err(|busy| format!("an idle accelerator is full: {busy}"))?;
        self.accelerator.crossing().charge().take();
        let message = loop {
            if let Some((_, message)) = self.accelerator.poll() {
                break message.map_err(|why| why.to_string())?;
            }
        };
        Ok((message, self.accelerator.crossing().charge().take()))
    }

    /// Serialises a message: its bytes, and what crossed.
    ///
    /// # Errors
    /// The codec refuses it.
    pub fn send(&mut self, message: &Placed, strategy: Strategy) -> Result<(Vec<u8>, Crossed), String> {
        self.accelerator.crossing().charge().take();
        let bytes = self.accelerator.send(message, strategy, 0).map_err(|why| why.to_string())?;
        Ok((bytes, self.accelerator.crossing().charge().take()))
    }
}

/// A message, counted.
#[derive(Clone, Debug)]
pub struct Counted {
    shape: Shape,
    /// Bytes on the wire.
    pub wire: u64,
    /// Decoded field by field.
    pub by_field: Crossed,
    /// Decoded one-shot.
    pub one_shot: Crossed,
    /// Decoded one-shot, every field labelled.
    pub labelled: Crossed,
    /// Sent, by the order of [`Strategy::ALL`].
    pub sent: [Crossed; 3],
    /// Reads of a walk, by how many come before each.
    pub levels: Vec<u64>,
}

/// Counts messages of one schema over one link.
pub struct Counter {
    plain: Machine,
    labelled: Machine,
}

impl Counter {
    /// For messages of this schema.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(schema: &Schema, link: &Link) -> Result<Counter, String> {
        let machine = |labelled| Machine::new(schema, link.clone(), labelled);
        Ok(Counter { plain: machine(false)?, labelled: machine(true)? })
    }

    /// Messages of one schema, each counted.
    ///
    /// # Errors
    /// As [`Counter::count`], with the message's name.
    pub fn all(messages: &[Message], link: &Link) -> Result<Vec<Counted>, String> {
        let Some(first) = messages.first() else { return Ok(vec![]) };
        let mut counter = Counter::new(&first.schema, link)?;
        let one =
            |message: &Message| counter.count(message).map_err(|why| format!("{}: {why}", message.name));
        messages.iter().map(one).collect()
    }

    /// Runs a message through the codec.
    ///
    /// # Errors
    /// The codec refuses it, or what it sends is another message.
    pub fn count(&mut self, message: &Message) -> Result<Counted, String> {
        let (schema, class) = (&message.schema, message.tree.class(0));
        let wire = message.tree.wire(schema);
        let (_, by_field) = self.plain.receive(class, &wire, Writes::FieldByField)?;
        let (placed, one_shot) = self.plain.receive(class, &wire, Writes::OneShot)?;
        let mut sent = Vec::new();
        for strategy in Strategy::ALL {
            let (bytes, crossed) = self.plain.send(&placed, strategy)?;
            if bytes != wire {
                return Err(format!("{strategy:?} sends another message than was received"));
            }
            sent.push(crossed);
        }
        let (_, labelled) = self.labelled.receive(class, &wire, Writes::OneShot)?;
        Ok(Counted {
            shape: message.shape(),
            wire: wire.len() as u64,
            by_field,
            one_shot,
            labelled,
            sent: sent.try_into().expect("one for each strategy"),
            levels: message.tree.levels(schema),
        })
    }
}

impl Counted {
    /// How long a lane alone takes to decode it: its own work, and the link's time.
    pub fn decode_time(&self, writes: Writes, clocked: &Clocked) -> Picos {
        let fields = self.by_field.writes().len() as u64;
        let (crossed, bytes) = match writes {
            // Characters stream through the lane as the link takes them.
            Writes::FieldByField => (&self.by_field, 0),
            Writes::OneShot => (&self.one_shot, self.wire),
        };
        clocked.decode(fields, bytes).plus(crossed.time)
    }
}

impl Traffic for Counted {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn wire(&self) -> u64 {
        self.wire
    }

    fn writes(&self) -> Vec<u64> {
        self.by_field.writes()
    }

    /// # Panics
    /// If the buffer is not as long as the codec's.
    fn flushes(&self, buffer: u64) -> Vec<u64> {
        assert_eq!(buffer, CHUNK as u64, "a lane's temp buffer is the codec's");
        self.one_shot.writes()
    }

    fn left_to_host(&self) -> Vec<u64> {
        self.labelled.writes()
    }

    fn dereferences(&self) -> Vec<u64> {
        self.levels.clone()
    }

    fn walked(&self) -> u64 {
        self.sent[1].reads().iter().sum()
    }

    fn presented(&self) -> u64 {
        self.sent[2].reads().iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::family::{Family, drawn, services, shipped};
    use super::super::link::Kind;
    use super::*;
    use model::platform::Platforms;
    use model::system::rpcacc::accelerator::{Accelerator as Model, Placing};
    use model::system::rpcacc::messages::all_benches;

    fn pcie() -> Link {
        Link::load(&Platforms::shipped(), Kind::Pcie(None)).expect("shipped platforms are complete")
    }

    /// Fields that a lane writes one by one are as many as the model reckons; the codec has no short strings in their objects, so that each
    /// of these is one write more. A walk reads what the tree says that there is to read.
    #[test]
    fn the_codec_counts_what_the_model_reckons() {
        for ((bench, shapes), family) in shipped(all_benches).iter().zip(drawn()) {
            let all = Counter::all(&family.messages, &pcie()).expect("drawn messages are good");
            for (shape, counted) in shapes.iter().zip(&all) {
                let short = shape.strings.len() - shape.long_strings().count();
                let writes = counted.writes().len();
                assert_eq!(writes, shape.writes().len() + short, "{bench} {}", shape.name);
                let reads = counted.sent[1].reads().len() as u64;
                assert_eq!(reads, counted.levels.iter().sum::<u64>());
                assert_eq!(
                    reads + shape.strings.len() as u64,
                    shape.dereferences().iter().sum::<u64>() + short as u64
                );
                assert_eq!(counted.sent[0].reads().iter().sum::<u64>(), counted.wire);
                let (ours, theirs) =
                    (counted.one_shot.writes().iter().sum::<u64>() as f64, shape.memory() as f64);
                assert!((0.5..1.3).contains(&(ours / theirs)), "{bench} {}: {ours} {theirs}", shape.name);
            }
        }
    }

    /// The crossing's clock and the model's kernel are two readings of one journal.
    #[test]
    fn the_crossings_time_is_the_kernels() {
        let platform = Platforms::shipped().named("pcie-rpc-accelerator").expect("shipped");
        let clocked = Clocked::load(&platform).expect("complete");
        let all = |family: &Family| Counter::all(&family.messages, &pcie()).expect("these messages are good");
        for counted in services().iter().chain(&drawn()[..2]).flat_map(all) {
            for (placing, writes) in
                [(Placing::FieldByField, Writes::FieldByField), (Placing::OneShot, Writes::OneShot)]
            {
                let mut model = Model::new(&platform, None, 1).expect("complete");
                let mut steps = model.deserialise(&counted, placing);
                // The kernel's lane is free when its last write is on its way; the crossing's clock has the notification besides.
                steps.push(model.host.dma.write(16));
                let program = model.kernel.program("decode", steps);
                let kernel = model.kernel.unloaded(program).plus(model.host.dma.one_way());
                let clock = counted.decode_time(writes, &clocked);
                // Cycles are rounded to whole bytes of a flush there.
                let cycles = 4_000 * (counted.one_shot.writes().len() as u64 + 1);
                assert!(
                    kernel.0.abs_diff(clock.0) <= cycles,
                    "{} {placing:?}: {kernel} {clock}",
                    counted.shape.name
                );
            }
        }
    }

    #[test]
    fn a_labelled_messages_root_crosses_and_nothing_else() {
        for family in services() {
            for counted in Counter::all(&family.messages, &pcie()).expect("these messages are good") {
                assert_eq!(counted.left_to_host().len(), 1, "{}", family.name);
                assert!(counted.left_to_host()[0] < 256);
            }
        }
    }
}
