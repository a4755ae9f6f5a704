//! See README.md.

use clap::{Parser, Subcommand};
use codec::unit::kernels::SealingKey;
use images::check::Check;
use images::cores::Cores;
use images::crossed::Crossings;
use images::pictures::KEY;
use images::replace::Replace;
use images::served::{Served, Transport};
use serve::process::interrupt;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Keeps users' pictures secret: authorised on the host, compressed and encrypted in a compute unit that comes and goes.
#[derive(Parser, Debug)]
#[command(name = "images")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Serve(Serve),
    Check(WithKey),
    Replace(Replace),
    Cores(Cores),
    Crossings(Crossings),
}

/// Serve, until Ctrl-C
#[derive(clap::Args, Debug)]
struct Serve {
    /// What carries the calls; may be repeated
    #[arg(long, value_enum, default_values = ["tcp", "grpc"])]
    transport: Vec<Transport>,
    /// Where, one for each transport: tcp:HOST:PORT, HOST:PORT for gRPC, shm:PATH [default: anywhere free]
    #[arg(long)]
    address: Vec<String>,
    /// HTTP port for metrics, registers (acc.units gives and takes the unit), health and traces [default: any free]
    #[arg(long, value_name = "ADDR:PORT")]
    admin: Option<String>,
    /// A file with the key, 32 bytes [default: one that all know]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

#[derive(clap::Args, Debug)]
#[command(about = "Have pictures sealed, and check each: it opens, decompresses, and is what was sent")]
struct WithKey {
    #[command(flatten)]
    check: Check,
    /// A file with the key, 32 bytes [default: one that all know]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

fn key(file: Option<&Path>) -> Result<[u8; 32], String> {
    let Some(file) = file else { return Ok(KEY) };
    let bytes = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let len = bytes.len();
    bytes.try_into().map_err(|_| format!("{}: a key has 32 bytes, not {len}", file.display()))
}

fn main() -> ExitCode {
    let outcome = run(&Args::parse().command);
    if let Err(error) = &outcome {
        eprintln!("images: {error}");
    }
    ExitCode::from(u8::from(outcome.is_err()))
}

fn run(command: &Command) -> Result<(), Box<dyn Error>> {
    if let Command::Serve(serve) = command {
        return serve.run();
    }
    let stop = interrupt::flag()?;
    match command {
        Command::Serve(_) => Ok(()),
        Command::Check(WithKey { check, key: file }) => {
            println!("{}", check.run(&key(file.as_deref())?, &stop)?);
            Ok(())
        }
        Command::Replace(replace) => show(&replace.run(&stop)?, replace.report.as_deref()),
        Command::Crossings(crossings) => show(&crossings.run(&stop)?, crossings.report.as_deref()),
        Command::Cores(cores) => show(&cores.run(&stop)?, cores.report.as_deref()),
    }
}

fn show(report: &bench::report::Report, file: Option<&Path>) -> Result<(), Box<dyn Error>> {
    bench::report::deliver(&(), false, || report.text(), || report.clone(), file)
        .map_err(|error| error.to_string())?;
    println!("\n  {}", report.verdict.1);
    Ok(())
}

impl Serve {
    fn run(&self) -> Result<(), Box<dyn Error>> {
        let folder = std::env::temp_dir().join(format!("millrace-images-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        if self.address.len() > self.transport.len() {
            return Err("each --address wants its --transport".into());
        }
        let places = self.transport.iter().enumerate();
        let listen: Vec<(Transport, String)> = places
            .map(|(at, transport)| {
                let address = self.address.get(at).cloned();
                (*transport, address.unwrap_or_else(|| transport.anywhere(&folder)))
            })
            .collect();
        // A number that no start had before: seconds since 1970 last until 2106.
        let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let key = SealingKey::new(&key(self.key.as_deref())?, u32::try_from(since.as_secs())?);
        let (node, ..) = Served::node(&listen, self.admin.as_deref(), &key)?;
        // It says where, and which file has the operators' token.
        node.run()?;
        std::fs::remove_dir_all(&folder)?;
        Ok(())
    }
}
