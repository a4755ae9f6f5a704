//! A service that is the same with and without an accelerator, servers of it, and calls to it.

use crate::proto::picture::{Images, ImagesServer, PartMut, StoredMut, Upload, UploadMut, UploadView};
use base::clock::Clock;
use base::prng::Prng;
use codec::encode::{Encoder, Strategy};
use codec::memory::{Arena, OutOfMemory};
use codec::place::Options;
use codec::typed::{Message, MessageView};
use codec::unit::{Kernel, KernelError};
use fabric::channel::{CallOptions, Channel, Options as ChannelOptions, What};
use fabric::link::{Link, LinkOptions, memory};
use fabric::registers::Registers;
use fabric::server::{Options as ServerOptions, Server};
use fabric::service::{Context, Kernels, Ran};
use fabric::status::{Code, Status};
use fabric::stub::Deferred;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What a request asks for.
pub mod what {
    /// The image through `turn`, its sum by `sum`, tags and part as they are.
    pub const STORE: u32 = 0;
    pub const PANIC: u32 = 1;
    pub const FAIL: u32 = 2;
    /// Reads the image through the view.
    pub const READ: u32 = 3;
    /// Reads the image as it should be read.
    pub const BYTES: u32 = 4;
    /// The part's data through `turn`.
    pub const PART: u32 = 5;
    /// A reply that is longer than one may be.
    pub const LONG: u32 = 6;
    pub const NO_KERNEL: u32 = 7;
    /// Moves the image there and back by hand.
    pub const BY_HAND: u32 = 8;
    /// No field is touched.
    pub const ID: u32 = 9;
}

/// Turns every bit, and is of two minds about some inputs.
struct Turn;

impl Kernel for Turn {
    fn kernel_type(&self) -> &'static str {
        "turn"
    }

    fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, KernelError> {
        match input {
            [b'!', b'c', ..] => return Err(KernelError::Corrupt),
            // Dies on a unit; its thread's name is the unit's.
            [b'!', b'd', ..] if std::thread::current().name() == Some("unit0") => {
                std::panic::resume_unwind(Box::new("as planned"))
            }
            _ => {}
        }
        let into =
            output.get_mut(..input.len()).ok_or(KernelError::OutputTooSmall { needed: input.len() })?;
        into.iter_mut().zip(input).for_each(|(to, from)| *to = !from);
        Ok(input.len())
    }

    fn output_bound(&self, input_len: usize) -> usize {
        input_len
    }
}

/// The sum of the bytes, as eight.
struct Sum;

impl Kernel for Sum {
    fn kernel_type(&self) -> &'static str {
        "sum"
    }

    fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, KernelError> {
        let sum: u64 = input.iter().map(|&byte| u64::from(byte)).sum();
        output
            .get_mut(..8)
            .ok_or(KernelError::OutputTooSmall { needed: 8 })?
            .copy_from_slice(&sum.to_le_bytes());
        Ok(8)
    }

    fn output_bound(&self, _: usize) -> usize {
        8
    }
}

pub fn kernels() -> Kernels {
    Kernels::new().with("turn", || Turn).with("sum", || Sum)
}

/// Sees in which order it is called, and where its work is done.
#[derive(Default)]
pub struct Store {
    pub order: Mutex<Vec<u64>>,
    pub on_units: AtomicU64,
    pub on_host: AtomicU64,
    later: Mutex<Vec<Deferred<crate::proto::picture::Stored>>>,
}

impl Store {
    fn note(&self, ran: Ran) {
        match ran {
            Ran::Unit => &self.on_units,
            Ran::Host => &self.on_host,
        }
        .fetch_add(1, Ordering::Relaxed);
    }

    pub fn ran(&self) -> (u64, u64) {
        (self.on_units.load(Ordering::Relaxed), self.on_host.load(Ordering::Relaxed))
    }
}

impl Images for Store {
    fn store(
        &self,
        request: UploadView<'_>,
        reply: &mut StoredMut<'_, '_>,
        context: &mut Context<'_>,
    ) -> Result<(), Status> {
        use crate::proto::picture::{Part, Stored};
        self.order.lock().expect("no poison").push(request.id());
        reply.set_id(request.id());
        match request.what() {
            what::PANIC => std::panic::resume_unwind(Box::new("as planned")),
            what::FAIL => return Err(Status::new(Code::Aborted, "as you wish")),
            what::READ => return Ok(reply.set_sum(request.image())?),
            what::BYTES => return Ok(reply.set_sum(context.bytes(request, Upload::IMAGE)?)?),
            what::LONG => return Ok(reply.set_sum(&vec![7; (8 << 20) + 1])?),
            what::ID => return Ok(()),
            what::NO_KERNEL => {
                return context.run("fly", request, Upload::IMAGE, reply, Stored::SEALED).map(drop);
            }
            what::PART => {
                if let Some(part) = request.part() {
                    let mut into = reply.part_mut()?;
                    self.note(context.run("turn", part, Part::DATA, &mut into, Part::DATA)?);
                }
                return Ok(());
            }
            what::BY_HAND => {
                context.move_to_acc(request, Upload::IMAGE)?;
                context.move_to_cpu(request, Upload::IMAGE)?;
                return Ok(reply.set_sum(context.bytes(request, Upload::IMAGE)?)?);
            }
            _ => {}
        }
        if let Some(tone) = context.metadata_value("tone").map(<[u8]>::to_vec) {
            assert!(context.push_metadata("tone", &tone), "a key that came is one");
        }
        self.note(context.run("turn", request, Upload::IMAGE, reply, Stored::SEALED)?);
        context.run("sum", request, Upload::IMAGE, reply, Stored::SUM)?;
        for tag in request.tags() {
            reply.push_tags(tag)?;
        }
        if let Some(part) = request.part() {
            let mut into = reply.part_mut()?;
            into.set_name(part.name())?;
            into.set_data(context.bytes(part, Part::DATA)?)?;
        }
        Ok(())
    }

    fn later(
        &self,
        request: UploadView<'_>,
        reply: Deferred<crate::proto::picture::Stored>,
        _: &mut Context<'_>,
    ) {
        self.order.lock().expect("no poison").push(request.id());
        if request.what() == what::PANIC {
            // Kept: the client never hears of it, and the connection ends with it open.
            self.later.lock().expect("no poison").push(reply);
            return;
        }
        let id = request.id();
        reply.reply(|reply| {
            reply.set_id(id);
            Ok(())
        });
    }
}

/// A small accelerator that the server's own polls drive.
pub fn driven() -> Options {
    Options { threads: 0, acc_bytes: 4 << 20, ..Options::default() }
}

/// With threads.
pub fn threaded(threads: usize) -> Options {
    Options { threads, acc_bytes: 16 << 20, ..Options::default() }
}

/// A server of [`Store`] without an accelerator.
pub fn plain(store: &Arc<Store>) -> Server {
    Server::new(ServerOptions::default()).service(ImagesServer::shared(Arc::clone(store))).kernels(kernels())
}

/// Registers for an accelerator with that serialiser.
pub fn registers(strategy: Strategy, units: usize) -> Arc<Registers> {
    let registers = Registers::default();
    registers.set_live("acc.on", "on").expect("live");
    let words = ["cpu", "walk", "affinity"];
    registers.set_live("acc.serialise", words[strategy as usize - 1]).expect("live");
    registers.set_live("acc.units", &units.to_string()).expect("live");
    Arc::new(registers)
}

/// A request, encoded.
pub fn upload(fill: impl FnOnce(&mut UploadMut<'_, '_>) -> Result<(), OutOfMemory>) -> Vec<u8> {
    let arena = Arena::default();
    let mut message = Upload::new(&arena).expect("room");
    fill(&mut message).expect("room");
    let mut encoder = Encoder::default();
    Upload::freeze(message).encode(&mut encoder).expect("a good message").to_vec()
}

/// A request with an image, for something to be done.
pub fn request(id: u64, what: u32, image: &[u8]) -> Vec<u8> {
    upload(|message| {
        message.set_id(id);
        message.set_what(what);
        message.set_image(image)
    })
}

/// Any request that is handled without an error.
pub fn random(id: u64, prng: &mut Prng) -> Vec<u8> {
    let bytes = |prng: &mut Prng, most: u64| -> Vec<u8> {
        (0..prng.below(most)).map(|_| b'a' + prng.below(20) as u8).collect()
    };
    upload(|message| {
        message.set_id(id);
        message.set_what(
            [what::STORE, what::STORE, what::BYTES, what::PART, what::BY_HAND, what::ID]
                [prng.below(6) as usize],
        );
        let most = [1, 40, 6000, 40_000][prng.below(4) as usize];
        message.set_image(&bytes(prng, most))?;
        for _ in 0..prng.below(4) {
            let tag = bytes(prng, 30);
            message.push_tags(std::str::from_utf8(&tag).expect("letters"))?;
        }
        if prng.chance(0.5) {
            let mut part: PartMut<'_, '_> = message.part_mut()?;
            part.set_name("part")?;
            part.set_data(&bytes(prng, 3000))?;
        }
        Ok(())
    })
}

/// An outcome: the reply's bytes, or code and text.
pub type Outcome = Result<Vec<u8>, (Code, String)>;

/// A server and a channel to it, driven by one thread.
pub struct Pair {
    pub server: Server,
    pub channel: Channel,
}

impl Pair {
    pub fn new(mut server: Server) -> Pair {
        let (ours, theirs) = memory::pair(&LinkOptions::default()).expect("a link");
        server.accept(theirs, Clock::shared().now());
        let channel = connect(&mut server, ours);
        Pair { server, channel }
    }

    /// Starts a call; its outcome comes with `user`.
    pub fn start(&mut self, method: &str, user: u64, body: &[u8]) {
        let method = self.channel.method(&format!("/picture.Images/{method}")).expect("it is served");
        self.channel.start(method, &CallOptions::default(), user, body).expect("room");
        self.channel.flush();
    }

    /// Polls both until `count` outcomes are there: in the order of coming.
    pub fn outcomes(&mut self, count: usize) -> Vec<(u64, Outcome)> {
        let mut all = Vec::new();
        while all.len() < count {
            self.server.poll(Clock::shared().now());
            self.channel.poll(64, |event| {
                let outcome = match event.what {
                    What::Reply(body) => Ok(body.to_vec()),
                    What::Failed(status) => Err((status.code(), status.message().to_owned())),
                    other => panic!("{other:?}"),
                };
                all.push((event.user, outcome));
            });
            std::thread::yield_now();
        }
        all
    }

    pub fn call(&mut self, body: &[u8]) -> Outcome {
        self.start("Store", 0, body);
        self.outcomes(1).pop().expect("one").1
    }
}

fn connect(server: &mut Server, link: Box<dyn Link>) -> Channel {
    std::thread::scope(|scope| {
        let connecting =
            scope.spawn(|| Channel::over(link, &ChannelOptions::default()).expect("a handshake"));
        while !connecting.is_finished() {
            server.poll(Clock::shared().now());
            std::thread::yield_now();
        }
        connecting.join().expect("it is well")
    })
}
