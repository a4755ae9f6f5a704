//! The command line: which command is in which crate.

mod command;

use bench::load::{self, BenchArgs};
use bench::probe;
use clap::{CommandFactory as _, Parser, Subcommand};
use command::metrics;
use command::output;
use command::pages::{Completions, Man};
use command::rec::Rec;
use command::registers;
use command::rpc::Rpc;
use command::txn::Txn;
use plan::model::Model;
use plan::model::repro::Repro;
use plan::planner::Plan;
use plan::sweep::Sweep;
use prove::check::Check;
use prove::demo::Demo;
use prove::lab::Lab;
use prove::sim::Sim;
use prove::soak::Soak;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serve::chain::Chain;
use serve::cluster::Cluster;
use serve::inc::Inc;
use serve::inc::one::{BoxNode, ControllerNode, HomeNode};
use serve::key::Key;
use serve::node::Up;
use serve::process::logger;
use serve::process::tls::TlsClientArgs;
use serve::proxy::Proxy;
use serve::trace::TraceArgs;
use serve::wire::Wire;
use std::process::ExitCode;

/// millrace serves datacenter requests on the path they travel.
#[derive(Parser)]
#[command(name = "millrace", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(Box<Up>),
    Demo(Demo),
    Bench(Box<BenchArgs>),
    /// Measure this machine: clocks, caches, memory, wake-ups, sockets, storage
    Probe(probe::Args),
    Rpc(Rpc),
    Check(Check),
    Sim(Box<Sim>),
    Inc(Inc),
    Chain(Chain),
    Cluster(Cluster),
    #[command(name = "box")]
    CacheBox(BoxNode),
    Home(HomeNode),
    Controller(ControllerNode),
    Key(Key),
    Lab(Lab),
    Model(Model),
    Plan(Box<Plan>),
    Proxy(Proxy),
    Rec(Rec),
    Repro(Repro),
    Soak(Soak),
    Sweep(Sweep),
    Txn(Box<Txn>),
    Registers(registers::List),
    Metrics(metrics::List),
    Trace(TraceArgs),
    Wire(Wire),
    Completions(Completions),
    Man(Man),
}

/// What went wrong, and the exit status that says so.
struct Failure {
    error: Box<dyn std::error::Error>,
    code: u8,
}

impl<E: Into<Box<dyn std::error::Error>>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure { error: error.into(), code: 1 }
    }
}

/// Takes as many descriptors as this process may have: the soft limit, 1024, is for programs that still use select. One that cannot be raised
/// is as good as before.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// How a command ended that only prints.
fn printed(result: Result<(), Box<dyn std::error::Error>>) -> Result<(), Failure> {
    result
        .map_err(|error| Failure { code: if output::is_closed(&*error) { output::CLOSED } else { 1 }, error })
}

fn main() -> ExitCode {
    raise_descriptor_limit();
    logger::install();
    output::end_quietly_when_closed();
    let command = Cli::parse().command;
    // What the environment says; flags of a command say more.
    if let Err(why) = TlsClientArgs::default().apply() {
        eprintln!("millrace: MILLRACE_TLS_CA and what belongs to it: {why}");
        return ExitCode::from(2);
    }
    let result: Result<(), Failure> = match command {
        Command::Up(up) => up.run().map_err(Into::into),
        Command::Demo(demo) => demo.run().map_err(Into::into),
        Command::Bench(args) => load::run(&args).map_err(Into::into),
        Command::Probe(args) => probe::run(args).map_err(Into::into),
        Command::Rpc(rpc) => rpc.run().map_err(|e| Failure { code: e.exit_code(), error: e.into() }),
        Command::Check(check) => check.run().map_err(|e| Failure { code: e.exit_code(), error: e.into() }),
        Command::Sim(sim) => sim.run().map_err(Into::into),
        Command::Inc(inc) => inc.run().map_err(|e| Failure { code: e.exit_code(), error: e.into() }),
        Command::Chain(chain) => chain.run().map_err(|e| Failure { code: e.exit_code(), error: e.into() }),
        Command::Cluster(cluster) => match cluster.run() {
            Ok(code) => return ExitCode::from(code),
            Err(error) => Err(error.into()),
        },
        Command::CacheBox(node) => node.run().map_err(Into::into),
        Command::Home(node) => node.run().map_err(Into::into),
        Command::Controller(node) => node.run().map_err(Into::into),
        Command::Key(key) => key.run().map_err(Into::into),
        Command::Lab(lab) => lab.run().map_err(|e| Failure { code: e.exit_code(), error: e.into() }),
        Command::Model(model) => model.run().map_err(|error| Failure { error, code: 1 }),
        Command::Plan(plan) => plan.run().map_err(|error| Failure { error, code: 1 }),
        Command::Proxy(proxy) => proxy.run().map_err(Into::into),
        Command::Rec(rec) => rec.run().map_err(|error| Failure { error, code: 1 }),
        Command::Repro(repro) => repro.run().map_err(|error| Failure { error, code: 1 }),
        Command::Soak(soak) => soak.run().map_err(Into::into),
        Command::Txn(txn) => return txn.run(),
        Command::Sweep(sweep) => sweep.run().map_err(|error| Failure { error, code: 1 }),
        Command::Registers(list) => printed(list.run()),
        Command::Metrics(list) => printed(list.run().map_err(Into::into)),
        Command::Trace(args) => args.run().map_err(|error| Failure { error, code: 1 }),
        Command::Wire(wire) => wire.run().map_err(Into::into),
        Command::Completions(completions) => printed(completions.run(Cli::command()).map_err(Into::into)),
        Command::Man(man) => printed(man.run(Cli::command())),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { code: output::CLOSED, .. }) => ExitCode::from(output::CLOSED),
        Err(Failure { error, code }) => {
            log::error!("{error}");
            ExitCode::from(code)
        }
    }
}
