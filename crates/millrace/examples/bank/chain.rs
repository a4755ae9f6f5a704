//! The chain that the bank stands on: one that runs, or one that is started here, shot at, and compared.

use super::Args;
use super::service::Service;
use base::prng::Prng;
use fabric::link::Address;
use serve::txn::info::Info;
use serve::txn::spawned::{Plan, Spawned};
use serve::txn::{Client, Options};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(200);
/// Until all replicas are back and the same.
const PATIENCE: Duration = Duration::from_secs(60);

/// A chain.
pub struct Chain {
    spawned: Option<Spawned>,
    /// With the logs in it, and beside it the backup.
    data: Option<PathBuf>,
    program: PathBuf,
    // After all who work in it.
    folder: Option<TempDir>,
}

impl Chain {
    /// The one that is named, or a new one.
    pub fn of(args: &Args) -> Result<Chain, String> {
        if !args.connect.is_empty() {
            return Ok(Chain { spawned: None, data: None, program: PathBuf::new(), folder: None });
        }
        let program = args.program.clone().map_or_else(beside, Ok)?;
        let folder = TempDir::with_prefix("millrace-").map_err(|error| error.to_string())?;
        let data = folder.path().join("chain");
        Chain::start(args, program, (folder, data))
    }

    fn start(args: &Args, program: PathBuf, (folder, data): (TempDir, PathBuf)) -> Result<Chain, String> {
        let data = (args.media != "memory" || args.restore).then_some(data);
        let plan = Plan {
            replicas: args.replicas,
            media: args.media.clone(),
            data: data.clone(),
            restart: args.kill_every.is_some(),
            more: ["--data-size", &args.data_size].map(Into::into).into(),
        };
        let spawned = Spawned::start(&program, &plan)?;
        Ok(Chain { spawned: Some(spawned), data, program, folder: Some(folder) })
    }

    /// Another one, from the backup.
    pub fn restored(self, args: &Args) -> Result<Chain, String> {
        let Chain { folder: Some(folder), data: Some(data), program, spawned } = self else {
            return Err("it has no directory".to_owned());
        };
        let (backup, again) = (data.with_file_name("backup"), data.with_file_name("restored"));
        run_program(
            &program,
            "restore",
            &[
                ("--from", backup.clone()),
                ("--id", "1".into()),
                ("--data", again.join("1")),
                ("--state", again.join("controller")),
            ],
        )?;
        drop(spawned);
        Chain::start(args, program, (folder, again))
    }

    /// Where its replicas are.
    pub fn addresses(&self, args: &Args) -> Vec<Address> {
        self.spawned.as_ref().map_or_else(|| args.connect.clone(), Spawned::addresses)
    }

    /// Shows progress, shoots, and backs up, until the time is over; when the backup was begun.
    pub fn watch(
        &self,
        args: &Args,
        addresses: &[Address],
        (began, length): (Instant, Duration),
        service: &Service,
    ) -> Result<Option<Instant>, String> {
        let mut client =
            Client::connect(addresses, &Options::default()).map_err(|error| error.to_string())?;
        let mut shots = 0;
        let mut random = Prng::new(args.seed);
        let mut next = args.kill_every.map(|every| began + every);
        let mut told = began;
        let mut backup: Option<(Instant, JoinHandle<Result<(), String>>)> = None;
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
            if args.restore
                && backup.is_none()
                && began.elapsed() > length / 2
                && let Some(data) = &self.data
            {
                backup = Some((Instant::now(), self.back_up(data, addresses)));
            }
            let due = next.is_some_and(|at| Instant::now() >= at) && began.elapsed() + args.bound < length;
            // The next one only when the last is back: a chain survives all but one, but not all.
            if let (true, Some(spawned), Some(every)) = (due, &self.spawned, args.kill_every)
                && let Some(infos) = whole(&mut client, args.replicas)
            {
                let victim = &infos[shots as usize % infos.len()];
                let pause = args.pause.filter(|_| shots % 2 == 1).map(|most| most.mul_f64(random.unit_f64()));
                let is_controller = pause.is_some() && shots % 8 == 7;
                let part = match (is_controller, victim.is_head, victim.is_tail) {
                    (true, ..) => "controller",
                    (_, true, _) => "head",
                    (.., true) => "tail",
                    _ => "middle",
                };
                service.killed(part, if pause.is_some() { "stopped" } else { "killed" });
                let hit = match pause {
                    Some(time) if is_controller => spawned.pause_controller(time),
                    Some(time) => spawned.pause(victim.replica.0, time),
                    None => spawned.kill(victim.replica.0),
                };
                if hit {
                    shots += 1;
                    next = Some(Instant::now() + every);
                }
            }
        }
        backup.map_or(Ok(None), |(begun, made)| made.join().expect("no panic").map(|()| Some(begun)))
    }

    /// Begins a backup, beside the load.
    fn back_up(&self, data: &Path, addresses: &[Address]) -> JoinHandle<Result<(), String>> {
        let (program, key) = (self.program.clone(), data.join("cluster.key"));
        let to = data.with_file_name("backup");
        let from = addresses.iter().map(Address::to_string).collect::<Vec<_>>().join(",");
        std::thread::spawn(move || {
            run_program(&program, "backup", &[("--connect", from.into()), ("--key", key), ("--to", to)])
        })
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

/// Runs `millrace chain` to its end.
fn run_program(program: &Path, verb: &str, flags: &[(&str, PathBuf)]) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(["chain", verb]);
    for (flag, value) in flags {
        command.arg(flag).arg(value);
    }
    let output =
        command.output().map_err(|error| format!("{} cannot be started: {error}", program.display()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("millrace chain {verb} failed: {}", String::from_utf8_lossy(&output.stderr))),
    }
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
