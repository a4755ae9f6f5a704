//! Requests through lanes, a handler's views, kernels and serialisers: whatever the bytes are, each strategy of an accelerator answers as a server
//! without one does, byte for byte; what is refused is refused with the same code, and no memory stays behind.
//!
//! Input: a byte of which fields go to accelerator memory, then the request's message.
//!
//! `cargo +nightly fuzz run fabric_accelerated`
#![no_main]

use base::units::Nanos;
use codec::encode::Strategy;
use codec::memory::Place;
use codec::place::Options as AcceleratorOptions;
use codec::unit::{Kernel, KernelError};
use fabric::connection::handshake::{Hello, VERSION};
use fabric::frame::{Frame, Header, Kind};
use fabric::link::{Frames, Link, LinkOptions, memory};
use fabric::registers::Registers;
use fabric::server::{Options, Server};
use fabric::service::{Context, Kernels};
use fabric::status::Status;
use libfuzzer_sys::fuzz_target;
use picture::picture::{Images, ImagesServer, Part, Stored, StoredMut, Upload, UploadView};
use std::cell::RefCell;
use std::sync::Arc;

#[allow(missing_docs, clippy::undocumented_unsafe_blocks, dead_code)]
mod picture {
    include!("../../crates/fabric/tests/generated/picture.rs");
}

/// Turns every bit.
struct Turn;

impl Kernel for Turn {
    fn kernel_type(&self) -> &'static str {
        "turn"
    }

    fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, KernelError> {
        let into = output.get_mut(..input.len()).ok_or(KernelError::OutputTooSmall { needed: input.len() })?;
        into.iter_mut().zip(input).for_each(|(to, from)| *to = !from);
        Ok(input.len())
    }

    fn output_bound(&self, input_len: usize) -> usize {
        input_len
    }
}

/// Reads every field, and works on two.
struct Store;

impl Images for Store {
    fn store(
        &self,
        request: UploadView<'_>,
        reply: &mut StoredMut<'_, '_>,
        context: &mut Context<'_>,
    ) -> Result<(), Status> {
        reply.set_id(request.id() ^ u64::from(request.what()));
        context.run("turn", request, Upload::IMAGE, reply, Stored::SEALED)?;
        reply.set_sum(context.bytes(request, Upload::IMAGE)?)?;
        reply.push_tags(request.token())?;
        for tag in request.tags() {
            reply.push_tags(tag)?;
        }
        if let Some(part) = request.part() {
            let mut into = reply.part_mut()?;
            into.set_name(part.name())?;
            context.run("turn", part, Part::DATA, &mut into, Part::DATA)?;
        }
        Ok(())
    }
}

/// A server and a client's end of a link to it.
struct Side {
    server: Server,
    link: Box<dyn Link>,
    now: Nanos,
    method: u16,
}

impl Side {
    /// Without an accelerator, or with one that serialises so.
    fn new(strategy: Option<&str>) -> Side {
        let mut server = Server::new(Options::default())
            .service(ImagesServer::new(Store))
            .kernels(Kernels::new().with("turn", || Turn));
        if let Some(strategy) = strategy {
            let registers = Registers::default();
            registers.set_live("acc.on", "on").expect("live");
            registers.set_live("acc.units", "1").expect("live");
            registers.set_live("acc.follow", "off").expect("live");
            registers.set_live("acc.serialise", strategy).expect("live");
            let options = AcceleratorOptions { threads: 0, acc_bytes: 64 << 20, ..AcceleratorOptions::default() };
            server = server.accelerator(options).expect("memory").registers(Arc::new(registers));
        }
        let services = server.router();
        let info = services.services().iter().find(|info| info.name == "picture.Images").expect("it is served");
        let method = info.methods.iter().find(|method| method.name == "Store").expect("it has it").number;
        let (link, theirs) = memory::pair(&LinkOptions::default()).expect("a pair");
        server.accept(theirs, Nanos(1));
        let mut side = Side { server, link, now: Nanos(1), method };
        let hello = Hello { version: VERSION, ..Hello::default() }.emit();
        side.send(Header::new(Kind::Hello, 0), &hello);
        side.frame();
        side
    }

    fn send(&mut self, header: Header, body: &[u8]) {
        self.link.try_send(&header.emit(), body).expect("room");
        self.link.flush(self.now);
    }

    /// The next frame of the server.
    fn frame(&mut self) -> Vec<u8> {
        let mut frames = Frames::default();
        loop {
            self.now = self.now.plus(Nanos(1));
            self.server.poll(self.now);
            self.link.recv(self.now, 1, &mut frames).expect("the server is there");
            if let Some(frame) = frames.pop() {
                return frame.to_vec();
            }
        }
    }

    /// The reply: its code, and its message if that is OK.
    fn call(&mut self, body: &[u8]) -> (u16, Vec<u8>) {
        self.send(Header { method: self.method, ..Header::new(Kind::Request, 7) }, body);
        let frame = self.frame();
        let frame = Frame::parse(&frame).expect("a good frame");
        assert_eq!((frame.header.kind, frame.header.call), (Kind::Reply, 7));
        let code = frame.header.method;
        (code, if code == 0 { frame.body.to_vec() } else { Vec::new() })
    }
}

thread_local! {
    static SIDES: RefCell<Vec<Side>> = {
        let all = [None, Some("cpu"), Some("walk"), Some("affinity")];
        assert_eq!(all.len(), Strategy::ALL.len() + 1);
        RefCell::new(all.into_iter().map(Side::new).collect())
    };
}

fuzz_target!(|input: &[u8]| {
    let [how, body @ ..] = input else { return };
    SIDES.with_borrow_mut(|sides| {
        let expected = sides[0].call(body);
        for side in &mut sides[1..] {
            let live = side.server.live_table::<Upload>().expect("it is decoded");
            for (bit, field) in [(1, Upload::IMAGE), (2, Part::DATA)] {
                live.set_target(field, if how & bit != 0 { Place::Acc } else { Place::Host });
            }
            assert_eq!(side.call(body), expected);
            let held = side.server.accelerator_figures().expect("there is one").lanes.memory.held;
            assert_eq!(held, 0, "memory stays behind");
        }
    });
});
