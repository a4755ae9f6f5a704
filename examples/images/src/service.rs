//! The service: authorise on the host, then compress and encrypt the avatar, on a compute unit where there is one. Nothing here says where.

use crate::proto::photo::{Photo, PhotoMut, Photos, User, UserView};
use base::Clock;
use codec::unit::kernels::{Chain, Jpeg, Seal, SealingKey};
use fabric::service::{Context, Kernels, Ran};
use fabric::status::{Code, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The name of the work.
pub const WORK: &str = "jpeg.seal";

/// Of JPEGs, 1 to 100.
pub const QUALITY: u8 = 85;

/// Seals pictures.
#[derive(Default)]
pub struct Sealer {
    /// Nanoseconds that the last request's work took, for the plot.
    pub work_ns: AtomicU64,
}

impl Photos for Sealer {
    fn seal(
        &self,
        request: UserView<'_>,
        reply: &mut PhotoMut<'_, '_>,
        context: &mut Context<'_>,
    ) -> Result<(), Status> {
        if request.token() != token(request.id()) {
            return Err(Status::new(Code::PermissionDenied, "the token is not this user's"));
        }
        let clock = Clock::shared();
        let start = clock.now();
        let ran = context.run(WORK, request, User::AVATAR, reply, Photo::SEALED)?;
        self.work_ns.store(clock.now().since(start).0, Ordering::Relaxed);
        reply.set_id(request.id());
        Ok(reply.set_made_by(if ran == Ran::Unit { "unit" } else { "host" })?)
    }
}

/// The work: compress, then encrypt.
pub fn work(key: &Arc<SealingKey>) -> Chain {
    Chain::new(WORK, vec![Box::new(Jpeg::new(QUALITY)), Box::new(Seal::new(Arc::clone(key)))])
}

/// What the server has units for, and does itself where it has none.
pub fn kernels(key: &Arc<SealingKey>) -> Kernels {
    let key = Arc::clone(key);
    Kernels::new().with(WORK, move || work(&key))
}

/// What a user shows to be let in. (A real service would ask who gives them out.)
pub fn token(id: u64) -> String {
    format!("{:016x}", id.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
