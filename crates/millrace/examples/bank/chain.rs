//! The chain that the bank stands on: one that runs, or one that is started here, shot at, and compared.

use super::Args;
use super::service::Service;
use base::prng::Prng;
use fabric::link::Address;
use millrace::txn::info::Info;
use millrace::txn::spawned::{Plan, Spawned};
use millrace::txn::{Client, Options};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(200);
/// Until all replicas are back and the same.
const PATIENCE: Duration = Duration::from_secs(60);

/// A chain.
pub struct Chain {
    spawned: Option<Spawned>,
    folder: Option<PathBuf>,
}

impl Chain {
    /// The one that is named, or a new one.
    pub fn of(args: &Args) -> Result<Chain, String> {
        if !args.connect.is_empty() {
            return Ok(Chain { spawned: None, folder: None });
        }
        let program = args.program.clone().map_or_else(beside, Ok)?;
        let folder = std::env::temp_dir().join(format!("millrace-bank-{}", std::process::id()));
        let needs_folder = args.media != "memory";
        let plan = Plan {
            replicas: args.replicas,
            media: args.media.clone(),
            data: needs_folder.then(|| folder.clone()),
            restart: args.kill_every.is_some(),
            more: ["--data-size", &args.data_size].map(Into::into).into(),
        };
        let spawned = Spawned::start(&program, &plan)?;
        Ok(Chain { spawned: Some(spawned), folder: needs_folder.then_some(folder) })
    }

    /// Where its replicas are.
    pub fn addresses(&self, args: &Args) -> Vec<Address> {
        self.spawned.as_ref().map_or_else(|| args.connect.clone(), Spawned::addresses)
    }

    /// Shows progress and shoots, until the time is over.
    pub fn watch(
        &self,
        args: &Args,
        addresses: &[Address],
        (began, length): (Instant, Duration),
        service: &Service,
    ) -> Result<(), String> {
        let mut client =
            Client::connect(addresses, &Options::default()).map_err(|error| error.to_string())?;
        let mut shots = 0;
        let mut random = Prng::new(args.seed);
        let mut next = args.kill_every.map(|every| began + every);
        let mut told = began;
        while began.elapsed() < length {
            std::thread::sleep(LOOK.min(length.saturating_sub(began.elapsed())));
            if told.elapsed() > Duration::from_secs(1) {
                told = Instant::now();
                let (done, silence) = service.progress();
                eprintln!(
                    "{:>4} s  {done} transfers, {:.0}/s, the last {} ms ago, {shots} kills",
                    began.elapsed().as_secs(),
                    done as f64 / began.elapsed().as_secs_f64(),
                    silence.as_millis()
                );
            }
            let due = next.is_some_and(|at| Instant::now() >= at) && began.elapsed() + args.bound < length;
            // The next one only when the last is back: a chain survives all but one, but not all.
            if let (true, Some(spawned), Some(every)) = (due, &self.spawned, args.kill_every)
                && let Some(infos) = whole(&mut client, args.replicas)
            {
                let victim = &infos[shots as usize % infos.len()];
                let part = match (victim.is_head, victim.is_tail) {
                    (true, _) => "head",
                    (_, true) => "tail",
                    _ => "middle",
                };
                let pause = args.pause.filter(|_| shots % 2 == 1);
                service.killed(part, if pause.is_some() { "stopped" } else { "killed" });
                let hit = match pause {
                    Some(most) => {
                        let time = most.mul_f64(random.unit_f64());
                        spawned.pause(victim.replica.0, time)
                    }
                    None => spawned.kill(victim.replica.0),
                };
                if hit {
                    shots += 1;
                    next = Some(Instant::now() + every);
                }
            }
        }
        Ok(())
    }

    /// Whether the stores of all replicas are the same, once all are back.
    pub fn compare(&self, args: &Args, addresses: &[Address]) -> Result<(), String> {
        let mut client =
            Client::connect(addresses, &Options::default()).map_err(|error| error.to_string())?;
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(infos) = whole(&mut client, args.replicas.min(addresses.len() as u16)) {
                let at = infos.iter().map(|info| info.applied.0).max().unwrap_or(0);
                let sums: Vec<(u64, Option<u64>)> = client
                    .infos(Some(at))
                    .into_iter()
                    .filter_map(|(.., info)| info.ok())
                    .map(|info| (info.applied.0, info.digest))
                    .collect();
                let same_lsn = sums.windows(2).all(|pair| pair[0].0 == pair[1].0);
                if sums.len() == infos.len() && same_lsn {
                    return report(&sums);
                }
            }
            if Instant::now() > until {
                return Err("not all replicas are back, or they do not come to rest".to_owned());
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// What all replicas say, from head to tail, if all serve.
fn whole(client: &mut Client, replicas: u16) -> Option<Vec<Info>> {
    let infos: Vec<Info> = client.infos(None).into_iter().filter_map(|(.., info)| info.ok()).collect();
    let newest = infos.iter().max_by_key(|info| info.epoch)?;
    let members = newest.members.clone();
    let serving = members.iter().filter(|member| !member.syncing).count();
    let agreed = infos.iter().all(|info| info.epoch == newest.epoch);
    if serving < replicas.into() || infos.len() < replicas.into() || !agreed {
        return None;
    }
    let mut infos = infos;
    infos.sort_by_key(|info| members.iter().position(|member| member.replica == info.replica));
    Some(infos)
}

fn report(sums: &[(u64, Option<u64>)]) -> Result<(), String> {
    let digests: Vec<String> = sums.iter().map(|(_, sum)| format!("{:016x}", sum.unwrap_or(0))).collect();
    if sums.windows(2).any(|pair| pair[0].1 != pair[1].1) {
        return Err(format!(
            "the replicas' stores differ as of transaction {}: {}",
            sums[0].0,
            digests.join(" ")
        ));
    }
    println!("{} replicas have the same store as of transaction {}: {}", sums.len(), sums[0].0, digests[0]);
    Ok(())
}

/// The millrace that was built with this example.
fn beside() -> Result<PathBuf, String> {
    let example = std::env::current_exe().map_err(|error| error.to_string())?;
    let built = example.parent().and_then(|folder| folder.parent()).map(|folder| folder.join("millrace"));
    built.filter(|path| path.exists()).ok_or_else(|| {
        "there is no millrace beside this example: `cargo build` makes it, or name one with --program"
            .to_owned()
    })
}

impl Drop for Chain {
    fn drop(&mut self) {
        drop(self.spawned.take());
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
