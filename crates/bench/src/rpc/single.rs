//! Load on a server that runs already.

use super::Bench;
use crate::drive::{Caller, Calls, Pace, Plan, together};
use crate::report::environment::{self, Fact};
use crate::tally::Tally;
use base::Prng;
use fabric::batch::Policy;
use fabric::channel::{CallOptions, Channel, Event, Method, StartError};
use fabric::status::{Code, Status};
use indicatif::ProgressBar;
use serde::Serialize;
use serve::process::progress;
use serve::rpc::demo::proto::demo::{EchoClient, SayReply};
use serve::rpc::descriptions::{Described, Descriptions};
use serve::rpc::{RpcError, json, target};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub struct Single {
    /// The server.
    pub address: String,
    /// The method.
    pub method: String,
    /// Threads, with a connection each.
    pub threads: usize,
    /// Calls under way per connection.
    pub window: usize,
    /// Calls per second that were meant, if any.
    pub rate: Option<f64>,
    /// How long was measured.
    pub seconds: f64,
    /// Calls that ended with a right reply.
    pub replies: u64,
    /// Those per second.
    pub replies_per_sec: f64,
    /// Calls that ended otherwise, by status.
    pub failed: BTreeMap<&'static str, u64>,
    /// The first of these.
    pub example: Option<String>,
    /// Latency by quantile, in microseconds.
    pub latency_us: Vec<(f64, f64)>,
    /// The longest, in microseconds.
    pub max_us: f64,
    /// Where.
    pub environment: Vec<Fact>,
}

impl Single {
    /// An error if calls failed.
    ///
    /// # Errors
    /// [`RpcError::Failed`].
    pub fn verdict(&self) -> Result<(), RpcError> {
        let count: u64 = self.failed.values().sum();
        let of = self.replies + count;
        match &self.example {
            None => Ok(()),
            Some(example) => Err(RpcError::Failed { count, of, example: example.clone() }),
        }
    }
}

/// What is called.
enum Subject {
    /// The demonstration's echo, by its stub.
    Say { text: String },
    /// Any unary method, by bytes.
    Bytes { path: String, body: Vec<u8> },
}

impl Subject {
    fn of(args: &Bench, channel: &mut Channel) -> Result<Subject, RpcError> {
        let Some(name) = &args.method else { return Ok(Subject::Say { text: "x".repeat(args.payload) }) };
        let descriptions = if args.proto.is_empty() {
            target::reflected(channel)?
        } else {
            Descriptions::of_files(&args.proto, &args.include)?
        };
        let Described { types, path, method } = descriptions.method(name)?;
        if method.client_streaming || method.server_streaming {
            return Err(RpcError::Plan(format!("{name} streams; load is made of unary calls")));
        }
        let body = match &args.data {
            None => Vec::new(),
            Some(text) => {
                let mut messages = json::read(json::source(text)?, &types, method.input);
                messages.next().transpose()?.unwrap_or_default()
            }
        };
        Ok(Subject::Bytes { path: format!("/{path}"), body })
    }

    fn at<'a>(&'a self, channel: &Channel, options: CallOptions<'static>) -> Result<Call<'a>, RpcError> {
        Ok(match self {
            Subject::Say { text } => Call::Say { client: EchoClient::new(channel)?, text, options },
            Subject::Bytes { path, body } => {
                let method = channel.method(path).ok_or_else(|| RpcError::NotServed(path.clone()))?;
                Call::Bytes { method, body, options }
            }
        })
    }

    fn path(&self) -> &str {
        match self {
            Subject::Say { .. } => "/demo.Echo/Say",
            Subject::Bytes { path, .. } => path,
        }
    }
}

/// The subject at one channel.
enum Call<'a> {
    Say { client: EchoClient, text: &'a str, options: CallOptions<'static> },
    Bytes { method: Method, body: &'a [u8], options: CallOptions<'static> },
}

impl Caller for Call<'_> {
    type Counts = ();

    #[inline]
    fn start(&mut self, channel: &mut Channel, user: u64) -> Result<(), StartError> {
        match self {
            Call::Say { client, text, options } => {
                client.say_async(channel, options, user, |request| request.set_text(text)).map(drop)
            }
            Call::Bytes { method, body, options } => channel.start(*method, options, user, body).map(drop),
        }
    }

    #[inline]
    fn check(&mut self, event: &mut Event<'_>, (): &mut ()) -> Result<(), Status> {
        let Call::Say { text, .. } = self else { return Ok(()) };
        if event.message::<SayReply>()?.text() != *text {
            return Err(Status::new(Code::DataLoss, "the reply is not what was said"));
        }
        Ok(())
    }
}

/// See the head of the file.
pub fn run(args: &Bench, stop: &AtomicBool, bar: &ProgressBar) -> Result<Single, RpcError> {
    let address = args.address.as_ref().expect("asked for where there is one");
    let mut channels = vec![target::connect(address, Policy::default())?];
    let subject = Subject::of(args, &mut channels[0])?;
    while channels.len() < args.threads.max(1) {
        channels.push(target::connect(address, Policy::default())?);
    }
    let mut fleet = Fleet { args, subject: &subject, channels, stop, bar };
    let warm = fleet.phase("warm-up", args.warmup, u64::MAX)?;
    let tally = match warm.examples.first() {
        // What fails at once fails for ever; the figures of the warm-up say how.
        Some(_) => warm,
        None => fleet.phase("measure", args.duration, args.calls.unwrap_or(u64::MAX))?,
    };
    let latency = tally.all_latencies();
    let at = |quantile: f64| (quantile, latency.value_at_quantile(quantile) as f64 / 1e3);
    let quantiles = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999];
    Ok(Single {
        address: address.to_string(),
        method: subject.path().to_owned(),
        threads: args.threads.max(1),
        window: args.window,
        rate: args.rate,
        seconds: tally.elapsed.as_secs_f64(),
        replies: tally.ops(),
        replies_per_sec: tally.throughput(),
        latency_us: quantiles.into_iter().map(at).collect(),
        max_us: latency.max() as f64 / 1e3,
        failed: tally.failed,
        example: tally.examples.into_iter().next(),
        environment: environment::facts(),
    })
}

/// Connections, and what they are loaded with.
struct Fleet<'a> {
    args: &'a Bench,
    subject: &'a Subject,
    channels: Vec<Channel>,
    stop: &'a AtomicBool,
    bar: &'a ProgressBar,
}

impl Fleet<'_> {
    /// Loads all channels for some time, or until so many calls are done.
    fn phase(&mut self, name: &str, length: Duration, calls: u64) -> Result<Tally, RpcError> {
        let options = CallOptions { timeout: self.args.timeout, ..CallOptions::default() };
        let threads = self.channels.len() as u64;
        let mut driven = Vec::new();
        for channel in &mut self.channels {
            let caller = self.subject.at(channel, options)?;
            let mut one = Calls::new(channel, caller, self.args.window.max(1), 1);
            (one.spin, one.left) = (self.args.spin, calls.div_ceil(threads));
            driven.push(one);
        }
        let plan = |thread| Plan {
            pace: self.args.rate.map_or(Pace::FULL, |rate| Pace::Open { rate, poisson: true }),
            share: (thread, threads),
            random: Prng::new(thread),
            ..Plan::full(length.into())
        };
        // What cannot be started ends this phase and not the program.
        let (over, began) = (AtomicBool::new(false), Instant::now());
        let mut show = |done: u64| {
            let time = began.elapsed().as_secs_f64() / length.as_secs_f64();
            progress::show(self.bar, time.max(done as f64 / calls as f64), name);
            if self.stop.load(Ordering::Relaxed) {
                over.store(true, Ordering::Relaxed);
            }
        };
        Ok(together(&mut driven, plan, &self.args.client_cores, &over, Some(&mut show)))
    }
}
