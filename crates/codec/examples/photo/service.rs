//! The service: authorise on the host, then compress and encrypt the avatar where the unit is, or here if there is none.

use base::{Clock, Nanos};
use codec::compile::Compiler;
use codec::crossing::{Counts, Crossing, Shared};
use codec::decode::DecodeError;
use codec::encode::{EncodeError, Strategy};
use codec::memory::{OutOfMemory, Place};
use codec::object::dynamic::{SetError, Value};
use codec::place::{Accelerator, FieldId, FieldUnit, Live, MoveError, Options, RunError};
use codec::schema::Types;
use codec::unit::kernels::{Chain, Jpeg, Seal, SealingKey};
use codec::unit::{self, Kernel, KernelError, ProgramError};
use std::sync::{Arc, LazyLock};

/// What the unit must be programmed with, for the avatar to be worked on there.
const WORK: &str = "jpeg.seal";

/// The schema of `photo.proto`.
pub static TYPES: LazyLock<Types> = LazyLock::new(|| {
    let compiler = Compiler::new().source("photo.proto", include_str!("photo.proto"));
    Types::new(compiler.compile(&["photo.proto"]).expect("photo.proto is right"))
});

/// Where the work of a request was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    Unit,
    Host,
}

/// A served request.
pub struct Served {
    pub response: Vec<u8>,
    pub ran: Ran,
    /// Its avatar was not where the work was done.
    pub moved: bool,
    pub crossed: Counts,
    /// From the request's bytes to the response's.
    pub total: Nanos,
    /// Of that, compressing and encrypting.
    pub work: Nanos,
}

/// Why a request has no response.
#[derive(Debug)]
#[allow(dead_code, reason = "read by those who print it")]
pub enum Failure {
    /// The token is not the user's.
    Denied,
    Decode(DecodeError),
    Move(MoveError),
    Unit(RunError),
    Kernel(KernelError),
    Set(SetError),
    Send(EncodeError),
    Memory(OutOfMemory),
}

macro_rules! failures {
    ($($variant:ident($from:ty)),*) => { $(
        impl From<$from> for Failure {
            fn from(error: $from) -> Failure {
                Failure::$variant(error)
            }
        }
    )* };
}
failures!(
    Decode(DecodeError),
    Move(MoveError),
    Unit(RunError),
    Kernel(KernelError),
    Set(SetError),
    Send(EncodeError),
    Memory(OutOfMemory)
);

pub struct Service {
    accelerator: Accelerator,
    unit: FieldUnit<Shared>,
    key: Arc<SealingKey>,
    /// The same work, for when there is no unit.
    kernel: Chain,
    sealed: Vec<u8>,
    user: u32,
    photo: u32,
    avatar: FieldId,
    into: FieldId,
}

impl Service {
    /// A service without a unit, whose avatars begin in accelerator memory.
    pub fn new(key: Arc<SealingKey>) -> std::io::Result<Service> {
        let schema = TYPES.schema();
        let field = |message, name| FieldId::named(schema, message, name).expect("photo.proto has it");
        let class = |name| schema.class(name).expect("photo.proto has it");
        let live = Arc::new(Live::new(TYPES.table().clone()));
        let accelerator = Accelerator::start(live, Options { acc_bytes: 64 << 20, ..Options::default() })?;
        let unit = FieldUnit::new("photo", &accelerator, unit::Options::default());
        let kernel = work(&key);
        Ok(Service {
            accelerator,
            unit,
            key,
            kernel,
            sealed: Vec::new(),
            user: class("photo.User"),
            photo: class("photo.Photo"),
            avatar: field("photo.User", "avatar"),
            into: field("photo.Photo", "sealed"),
        })
    }

    /// Where later avatars land, until moves say otherwise.
    pub fn put_avatars(&self, place: Place) {
        self.accelerator.live().set_target(self.avatar, place);
    }

    /// Whether the target bit follows moves from now on.
    pub fn follow_moves(&self, follow: bool) {
        self.accelerator.live().follow_moves(follow);
    }

    /// The unit is ours: from the next request on it can be asked.
    pub fn give_unit(&mut self) -> Result<(), ProgramError> {
        self.unit.program(work(&self.key))
    }

    /// Somebody else needs the unit.
    pub fn take_unit(&mut self) -> Result<(), ProgramError> {
        self.unit.take_away()
    }

    /// Serves one request.
    pub fn serve(&mut self, wire: Vec<u8>) -> Result<Served, Failure> {
        let clock = Clock::shared();
        let before = self.accelerator.crossing().counts();
        let start = clock.now();
        let mut request = self.accelerator.receive(self.user, wire)?;
        let user = request.dynamic(&TYPES);
        let id = user.get_or_default("id").and_then(Value::as_i128).unwrap_or(0) as u64;
        if user.get("token").and_then(Value::as_str) != Some(&token(id)) {
            return Err(Failure::Denied);
        }
        let mut response = self.accelerator.message(self.photo)?;
        let ran = if self.unit.kernel_type() == Some(WORK) { Ran::Unit } else { Ran::Host };
        let to = if ran == Ran::Unit { Place::Acc } else { Place::Host };
        let moved = self.accelerator.move_field(&mut request, &[self.avatar], to)?;
        let work = clock.now();
        let strategy = match ran {
            Ran::Unit => {
                let room = request.acc_bytes(&[self.avatar]).map_or(0, |span| span.len) + 4096;
                self.unit.run(&request, &[self.avatar], &mut response, &[self.into], room)?;
                Strategy::MemoryAffinity
            }
            Ran::Host => {
                let user = request.dynamic(&TYPES);
                let avatar = user.get("avatar").and_then(Value::as_bytes).unwrap_or(&[]);
                self.sealed.resize(avatar.len() + 4096, 0);
                let len = self.kernel.run(avatar, &mut self.sealed)?;
                response.dynamic_mut(&TYPES).set("sealed", Value::Bytes(&self.sealed[..len]))?;
                Strategy::CpuOnly
            }
        };
        let worked = clock.now();
        let mut photo = response.dynamic_mut(&TYPES);
        photo.set("id", Value::U64(id))?;
        photo.set("made_by", Value::Str(if ran == Ran::Unit { "unit" } else { "host" }))?;
        let response = self.accelerator.send(&response, strategy, 0)?;
        let total = clock.now().since(start);
        let crossed = self.accelerator.crossing().counts() - before;
        Ok(Served { response, ran, moved, crossed, total, work: worked.since(work) })
    }
}

fn work(key: &Arc<SealingKey>) -> Chain {
    Chain::new(WORK, vec![Box::new(Jpeg::new(85)), Box::new(Seal::new(Arc::clone(key)))])
}

/// What a user shows to be let in. (A real service would ask who gives them out.)
pub fn token(id: u64) -> String {
    format!("{:016x}", id.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
