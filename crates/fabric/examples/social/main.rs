//! Five microservices in a graph, as a social network composes a post: how long a post takes, and where the time goes.
//!
//! ```text
//! client ─▶ compose ─▶ unique-id · user · url-shorten        at once
//!                   ─▶ social-graph                          when the user is known
//! ```
//! `cargo run --release -p millrace-fabric --example social -- --help` says what can be chosen. `social.rs` is what
//! `fabric::build` makes of `social.proto`.

mod compose;
mod drive;
mod leaves;
mod timing;
mod traces;

#[allow(clippy::undocumented_unsafe_blocks, dead_code)]
mod proto {
    include!("social.rs");
}

use base::Clock;
use compose::{ASKED, Composer, Inbox};
use fabric::channel::{Channel, Options};
use fabric::link::Address;
use fabric::server::Server;
use leaves::{Graph, Numbers, Shortener, Users};
use proto::social::{ComposeServer, SocialGraphServer, UniqueIdServer, UrlShortenServer, UserServer};
use ring::wait::WaitPolicy;
use signal_hook::consts::SIGINT;
use std::error::Error;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use timing::Timed;
use traces::Traces;

const HELP: &str = "social: five services in a graph, loaded by a client

  --transport memory|shm|unix|tcp|udp    what carries the calls [shm]
  --processes                            a process for each service, not a thread
  --window N                             posts under way [8]
  --seconds S                            for how long, or until Ctrl-C [5]
  --trace FILE                           one post of 64 as a Chrome trace, for Perfetto; not with --processes";

/// What was asked for.
struct Choice {
    transport: String,
    processes: bool,
    window: usize,
    length: Duration,
    trace: Option<PathBuf>,
}

/// What went wrong, on whichever thread.
type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, name, address, others @ ..] = &arguments[..]
        && first == "--service"
    {
        return service_process(name, address, others);
    }
    let Some(choice) = choice(&arguments)? else {
        println!("{HELP}");
        return Ok(());
    };
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&stop))?;
    signal_hook::flag::register(SIGINT, Arc::clone(&stop))?;

    let folder = std::env::temp_dir().join(format!("millrace-social-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let traces = choice.trace.is_some().then(|| Traces::new(64));
    let outcome = run(&choice, traces.as_ref(), &folder, &stop);
    std::fs::remove_dir_all(&folder)?;
    if let (Some(file), Some(traces)) = (&choice.trace, &traces) {
        std::fs::write(file, traces.chrome())?;
    }
    print!("{}", outcome?);
    Ok(())
}

fn choice(arguments: &[String]) -> Result<Option<Choice>, Failure> {
    let mut choice = Choice {
        transport: "shm".to_owned(),
        processes: false,
        window: 8,
        length: Duration::from_secs(5),
        trace: None,
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} wants a value"));
        match word.as_str() {
            "--help" => return Ok(None),
            "--transport" => choice.transport = value()?.clone(),
            "--processes" => choice.processes = true,
            "--window" => choice.window = value()?.parse()?,
            "--seconds" => choice.length = Duration::from_secs_f64(value()?.parse()?),
            "--trace" => choice.trace = Some(value()?.into()),
            _ => return Err(format!("{word} means nothing here; --help says what does").into()),
        }
    }
    if choice.processes && choice.transport == "memory" {
        return Err("memory is within a process: take shm, unix, tcp or udp".into());
    }
    if choice.processes && choice.trace.is_some() {
        return Err("each process has a trace of its own: --trace goes with threads".into());
    }
    Ok(Some(choice))
}

/// Starts the leaves, then compose, which connects to them, and loads it.
fn run(
    choice: &Choice,
    traces: Option<&Traces>,
    folder: &Path,
    stop: &AtomicBool,
) -> Result<drive::Outcome, Failure> {
    let mut services = Vec::new();
    for name in ASKED {
        services.push(Running::start(choice, traces, folder, name, &[])?);
    }
    let asked: Vec<Address> = services.iter().map(|service| service.address.clone()).collect();
    services.push(Running::start(choice, traces, folder, "compose", &asked)?);
    let compose = services.last().expect("it was pushed just now");
    let how = if choice.processes { "processes" } else { "threads" };
    println!("  five services as {how} over {}, {} posts under way", choice.transport, choice.window);
    let monitor = traces.map(|traces| traces.client.clone());
    let mut channel = Channel::connect(&compose.address, &Options { monitor, ..Options::default() })?;
    let outcome = drive::drive(&mut channel, choice.window, choice.length, stop)?;
    drop(channel);
    // Compose first: it is a client of the others.
    while let Some(service) = services.pop() {
        service.stop()?;
    }
    if let Some(example) = &outcome.example {
        println!("  {} posts failed, the first: {example}", outcome.failed);
    }
    Ok(outcome)
}

/// A service that was started.
struct Running {
    address: Address,
    what: What,
}

enum What {
    Thread(Arc<AtomicBool>, JoinHandle<Result<(), Failure>>),
    Process(Child),
}

impl Running {
    fn start(
        choice: &Choice,
        traces: Option<&Traces>,
        folder: &Path,
        name: &'static str,
        asked: &[Address],
    ) -> Result<Running, Failure> {
        let transport = &choice.transport;
        let address = match transport.as_str() {
            "memory" => format!("memory:{name}"),
            "tcp" | "udp" => format!("{transport}:127.0.0.1:0"),
            _ => format!("{transport}:{}", folder.join(name).display()),
        };
        if choice.processes {
            return Running::process(name, &address, asked);
        }
        let service = Service::new(name, &address.parse()?, asked, traces)?;
        let (address, stop) = (service.address(), Arc::new(AtomicBool::new(false)));
        let over = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || service.run(&over))?;
        Ok(Running { address, what: What::Thread(stop, thread) })
    }

    fn process(name: &str, address: &str, asked: &[Address]) -> Result<Running, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--service", name, address]).args(asked.iter().map(Address::to_string));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().expect("it is piped");
        let line = BufReader::new(output.take(4096)).lines().next().ok_or("a service ended at once")??;
        Ok(Running { address: line.parse()?, what: What::Process(child) })
    }

    fn stop(self) -> Result<(), Failure> {
        match self.what {
            What::Thread(stop, thread) => {
                stop.store(true, Ordering::Relaxed);
                thread.join().expect("a service does not panic")
            }
            What::Process(mut child) => {
                drop(child.stdin.take());
                match child.wait()?.success() {
                    true => Ok(()),
                    false => Err("a service failed; its words are above".into()),
                }
            }
        }
    }
}

/// A process that serves until its input ends.
fn service_process(name: &str, address: &str, asked: &[String]) -> Result<(), Failure> {
    let asked: Vec<Address> = asked.iter().map(|address| address.parse()).collect::<Result<_, _>>()?;
    let service = Service::new(name, &address.parse()?, &asked, None)?;
    println!("{}", service.address());
    let stop = Arc::new(AtomicBool::new(false));
    // Ctrl-C reaches all processes of a terminal: this one ends when the client closes its input.
    signal_hook::flag::register(SIGINT, Arc::new(AtomicBool::new(false)))?;
    let over = Arc::clone(&stop);
    std::thread::spawn(move || {
        // An error ends it as the end does.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        over.store(true, Ordering::Relaxed);
    });
    service.run(&stop)
}

/// A service's server, and for compose the channels beside it.
struct Service {
    server: Server,
    composer: Option<Composer>,
}

impl Service {
    fn new(
        name: &str,
        address: &Address,
        asked: &[Address],
        traces: Option<&Traces>,
    ) -> Result<Service, Failure> {
        let monitor = traces.map(|traces| traces.of(name).clone());
        let mut server = Server::new(Default::default());
        if let Some(monitor) = &monitor {
            server = server.monitor(monitor);
        }
        let mut composer = None;
        let server = match name {
            "unique-id" => server.service(Timed(UniqueIdServer::new(Numbers::default()))),
            "user" => server.service(Timed(UserServer::new(Users))),
            "url-shorten" => server.service(Timed(UrlShortenServer::new(Shortener))),
            "social-graph" => server.service(Timed(SocialGraphServer::new(Graph))),
            _ => {
                let inbox = Inbox::default();
                let options = Options { monitor, ..Options::default() };
                let connect = |address| Channel::connect(address, &options);
                let channels: Vec<Channel> = asked.iter().map(connect).collect::<Result<_, _>>()?;
                let channels = channels.try_into().map_err(|_| "compose asks four services")?;
                composer = Some(Composer::new(inbox.clone(), channels)?);
                server.service(ComposeServer::new(inbox))
            }
        };
        Ok(Service { server: server.listen(address)?, composer })
    }

    fn address(&self) -> Address {
        self.server.addresses().next().expect("it listens on one").clone()
    }

    /// Serves until `stop`.
    fn run(mut self, stop: &AtomicBool) -> Result<(), Failure> {
        let policy = WaitPolicy::default();
        let Some(composer) = &mut self.composer else {
            self.server.run(policy, stop);
            return Ok(());
        };
        let clock = Clock::shared();
        while !stop.load(Ordering::Relaxed) {
            let done = self.server.poll(clock.now()) + composer.poll();
            if done == 0 {
                let until = clock.now().plus(Duration::from_millis(100).into());
                self.server.wait_beside(policy, until, &mut composer.channels);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::trace::Kind;
    use fabric::monitor::Span;
    use serde_json::Value;

    /// A post that was traced is a tree: the client's call, compose's, its four calls, and what the four did.
    #[test]
    fn a_post_is_one_trace_whose_spans_nest() {
        let length = Duration::from_millis(50);
        let (transport, trace) = ("memory".to_owned(), None);
        let choice = Choice { transport, processes: false, window: 2, length, trace };
        let traces = Traces::new(1);
        let stop = AtomicBool::new(false);
        let outcome = run(&choice, Some(&traces), Path::new("/"), &stop).expect("it runs");
        assert!(outcome.posts > 0 && outcome.failed == 0);

        let spans: Vec<Span> = traces.all();
        // The last post: the ring of spans has forgotten others.
        let is_post = |span: &&Span| span.parent.is_none() && span.kind == Kind::Client;
        let post = spans.iter().rfind(is_post).expect("the client's call has no parent");
        let whole: Vec<&Span> =
            spans.iter().filter(|span| span.context.trace == post.context.trace).collect();
        let calls: Vec<&Span> = whole.iter().copied().filter(|span| span.kind != Kind::Part).collect();
        assert_eq!(calls.len(), 10, "five calls, each seen from both sides");
        assert_eq!(whole.len(), 10 * 4, "each with three stages");
        for span in &calls {
            let Some(number) = span.parent else { continue };
            let parent =
                calls.iter().find(|parent| parent.context.span == number).expect("it is in the trace");
            // A caller may have the reply before the one who sent it has looked at the clock again.
            let handled = |part: &&&Span| part.parent == Some(span.context.span) && part.name == "handle";
            let end = whole.iter().find(handled).map_or(span.end, |handle| handle.end);
            assert!(parent.begin <= span.begin && end <= parent.end, "{span:?} in {parent:?}");
            assert_ne!(
                parent.kind, span.kind,
                "a call is made by what was called, and served by what it calls"
            );
        }
        assert_eq!(calls.iter().filter(|span| span.kind == Kind::Client).count(), 5);

        let chrome: Value = serde_json::from_str(&traces.chrome()).expect("JSON");
        let events = chrome["traceEvents"].as_array().expect("a list");
        let calls = events.iter().filter(|event| event["args"]["trace"].is_string()).count();
        assert_eq!(calls, spans.len());
    }
}
