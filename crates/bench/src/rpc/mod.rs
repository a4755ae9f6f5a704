//! `millrace rpc bench`: load on one server, or every transport, window and batch size in one run.
//!
//! | file | what it is |
//! |---|---|
//! | `single` | threads, each with a connection, on a server that runs already |
//! | `matrix` | servers that it starts itself, measured in turns |
//! | `show` | both, as text and as pages |

mod matrix;
mod show;
mod single;

use crate::report::{self, Report, Undelivered};
use clap::Args;
use fabric::link::Address;
use matrix::MatrixArgs;
use serde::Serialize;
use serve::process::parse::{count, duration, rate};
use serve::process::tls::TlsClientArgs;
use serve::process::{interrupt, progress};
use serve::rpc::RpcError;
use serve::rpc::batch::Batch;
use std::path::PathBuf;
use std::time::Duration;

/// Load a server with calls, and time them.
///
/// With an ADDRESS: threads with a connection each keep --window calls under way (or start --rate calls per second). The method is
/// that of `millrace rpc serve`, demo.Echo/Say with --payload bytes of text, or any unary --method with --data.
///
/// With --transports instead: starts servers of its own, one process per batch size, on one core, and measures all combinations of
/// --transports, --windows and --batches from another core in turns, so that all see the same machine; `memory` is a thread of this process.
/// Rounds between which the
/// cores' distance changed are left out.
#[derive(Args, Clone, Debug)]
pub struct Bench {
    #[command(flatten)]
    tls: TlsClientArgs,

    /// The server: shm:/path, unix:/path, udp:HOST:PORT, tcp:HOST:PORT or tls:HOST:PORT
    #[arg(value_name = "ADDRESS", required_unless_present = "transports", conflicts_with = "transports")]
    address: Option<Address>,

    /// A unary method, called with --data [default: demo.Echo/Say, with --payload]
    #[arg(short, long, value_name = "METHOD", requires = "address", help_heading = "Load")]
    method: Option<String>,
    /// The request as JSON; @FILE reads a file
    #[arg(long, value_name = "JSON", requires = "method", help_heading = "Load")]
    data: Option<String>,
    /// Takes messages from this .proto file instead of asking the server. May be repeated
    #[arg(long, value_name = "FILE", requires = "method", help_heading = "Load")]
    proto: Vec<PathBuf>,
    /// A folder that imports of --proto are relative to. May be repeated
    #[arg(short = 'I', long = "include", value_name = "DIR", help_heading = "Load")]
    include: Vec<PathBuf>,
    /// Bytes of text in each request of demo.Echo/Say
    #[arg(
        short,
        long,
        value_name = "BYTES",
        default_value_t = 64,
        conflicts_with = "method",
        help_heading = "Load"
    )]
    payload: usize,
    /// Calls under way per connection
    #[arg(short, long, default_value_t = 1, help_heading = "Load")]
    window: usize,
    /// Threads, with a connection each
    #[arg(short, long, default_value_t = 1, help_heading = "Load")]
    threads: usize,
    /// Open loop: calls per second over all connections; latency counts from the meant start. Give it a --window with room
    #[arg(short, long, value_parser = rate, help_heading = "Load")]
    rate: Option<f64>,
    /// How long to measure
    #[arg(short, long, value_parser = duration, value_name = "TIME", default_value = "5s", help_heading = "Load")]
    duration: Duration,
    /// How long to run before that
    #[arg(long, value_parser = duration, value_name = "TIME", default_value = "500ms", help_heading = "Load")]
    warmup: Duration,
    /// Calls that take longer fail [default: none does]
    #[arg(long, value_parser = duration, value_name = "TIME", help_heading = "Load")]
    timeout: Option<Duration>,
    /// Threads never sleep: lower latency, a whole core each
    #[arg(long, help_heading = "Load")]
    spin: bool,
    /// Cores for the threads, in turns
    #[arg(long, value_delimiter = ',', value_name = "CORES", help_heading = "Load")]
    client_cores: Vec<usize>,
    /// Stop after so many calls, over all connections
    #[arg(short = 'n', long, value_parser = count, value_name = "N", conflicts_with = "transports", help_heading = "Load")]
    calls: Option<u64>,

    /// Measure these against servers of its own: memory, shm, udp, unix, tcp
    #[arg(long, value_delimiter = ',', value_name = "LIST", help_heading = "Matrix")]
    transports: Vec<String>,
    /// Calls under way
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "LIST",
        default_value = "1,8,32,64",
        help_heading = "Matrix"
    )]
    windows: Vec<usize>,
    /// Frames that are published together, or adaptive
    #[arg(
        long = "batch",
        value_delimiter = ',',
        value_name = "LIST",
        default_value = "1,4,16,adaptive",
        help_heading = "Matrix"
    )]
    batches: Vec<Batch>,
    /// Rounds over all combinations
    #[arg(long, value_name = "N", default_value_t = 7, help_heading = "Matrix")]
    rounds: usize,
    /// Time for one combination in one round
    #[arg(long, value_parser = duration, value_name = "TIME", default_value = "100ms", help_heading = "Matrix")]
    slice: Duration,
    /// Cores of client and server [default: the first two]
    #[arg(long, value_delimiter = ',', value_name = "CLIENT,SERVER", num_args = 1, help_heading = "Matrix")]
    cores: Vec<usize>,

    /// Print the whole result as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Write the result as an HTML page with plots; a name that ends in .svg: the plots alone, .csv or .parquet: its figures as rows
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,
}

impl Bench {
    /// Runs it.
    ///
    /// # Errors
    /// It could not run, or calls failed.
    pub fn run(&self) -> Result<(), RpcError> {
        self.tls.apply().map_err(RpcError::Server)?;
        let stop = interrupt::flag().map_err(RpcError::Signal)?;
        let bar = progress::bar(self.json);
        if self.address.is_some() {
            let result = single::run(self, &stop, &bar);
            bar.finish_and_clear();
            let result = result?;
            self.deliver(&result, || show::single_text(&result), || show::single_page(&result))?;
            return result.verdict();
        }
        let args = MatrixArgs::new(self)?;
        let result = matrix::run(&args, &stop, &bar);
        bar.finish_and_clear();
        let result = result?;
        self.deliver(&result, || show::matrix_page(&result).text(), || show::matrix_page(&result))?;
        result.verdict()
    }

    fn deliver(
        &self,
        result: &impl Serialize,
        text: impl FnOnce() -> String,
        page: impl FnOnce() -> Report,
    ) -> Result<(), RpcError> {
        report::deliver(result, self.json, text, page, self.report.as_deref())
            .map_err(|Undelivered { place, cause }| RpcError::Input { path: place.into(), cause })
    }
}
