//! `images check`: has pictures sealed, and checks every one of them.

use crate::client::Client;
use crate::pictures::Picture;
use crate::service::token;
use base::{Clock, Nanos, Prng};
use bench::report::format::{micros, whole};
use bench::tally::Tally;
use clap::Args;
use std::sync::atomic::{AtomicBool, Ordering};

/// Have pictures sealed, and check each: it opens, decompresses, and is what was sent
#[derive(Args, Clone, Debug)]
pub struct Check {
    /// Where the service is: tcp:HOST:PORT, shm:PATH or grpc://HOST:PORT
    address: String,
    /// How many pictures
    #[arg(short = 'n', long, default_value_t = 200)]
    pictures: u64,
    /// Pixels of a picture's side
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(8..=2048))]
    side: u32,
    /// Seed of the pictures
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Check {
    /// Checks pictures until all are, or until `stop`.
    ///
    /// # Errors
    /// In words: nobody is there, or a picture that is wrong.
    pub fn run(&self, key: &[u8; 32], stop: &AtomicBool) -> Result<String, String> {
        let mut client = Client::connect(&self.address)?;
        if client.seal(7, "a guess", &[]).is_ok() {
            return Err("a stranger was let in".to_owned());
        }
        let (clock, mut random) = (Clock::shared(), Prng::new(self.seed));
        let (mut tally, mut on_unit) = (Tally::<()>::default(), 0);
        let few: Vec<Picture> = (0..8).map(|_| Picture::drawn(self.side, &mut random)).collect();
        for id in 0..self.pictures {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let picture = &few[id as usize % few.len()];
            let begin = clock.now();
            let photo = client
                .seal(id, &token(id), &picture.raw)
                .map_err(|error| format!("picture {id}: {error}"))?;
            tally.record((), begin, clock.now());
            let photo = photo.view();
            if photo.id() != id {
                return Err(format!("picture {id} came back as {}", photo.id()));
            }
            picture.is_in(photo.sealed(), key).map_err(|wrong| format!("picture {id}: {wrong}"))?;
            on_unit += u64::from(photo.made_by() == "unit");
        }
        let all = tally.all_latencies();
        let at = |quantile| micros(all.value_at_quantile(quantile) as f64 / 1e3);
        let longest = Nanos(all.max());
        Ok(format!(
            "{} pictures checked: opened, decompressed, and as sent; {} by the unit; p50 {}, p99 {}, longest {longest}",
            whole(all.len()),
            whole(on_unit),
            at(0.5),
            at(0.99)
        ))
    }
}
