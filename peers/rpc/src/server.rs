//! A server in a process of its own: this program again, told over a pipe when to serve and when to rest.
//!
//! Why: a server that polls would take its core from whoever is measured next. At rest it sleeps, and nothing of it runs.
//!
//! ```text
//! parent                          child
//!                    <- ready ADDRESS
//! go ->              <- going              serves, its thread pinned
//! rest ->            <- rested CPU CALLS   processor time in ns and calls answered since `go`
//! (end of the pipe)                        exits
//! ```
//!
//! The child is in a process group of its own, so Ctrl-C reaches the parent alone, and it ends when the pipe does, however the
//! parent died.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use base::Nanos;
use tokio::sync::Notify;

use crate::Contest;
use crate::sample::Usage;
use crate::systems::{Folder, System};

/// A system's server, ready to serve.
pub trait Serve {
    /// Where its client finds it; empty where the names are fixed.
    fn address(&self) -> String;
    /// Answers calls until the phase is over. How many it answered.
    fn serve(&mut self, phase: &Phase) -> Result<u64, String>;
}

/// From `go` to `rest`.
#[derive(Default)]
pub struct Phase {
    over: AtomicBool,
    ended: Notify,
}

impl Phase {
    /// For servers that poll. Nothing but the end itself is passed on, so no order is needed.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// For servers that sleep.
    pub async fn end(&self) {
        self.ended.notified().await;
    }

    fn finish(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.ended.notify_one();
    }
}

/// The child's whole life.
pub fn serve(system: System, core: usize, folder: &Folder, contest: &Contest) -> Result<(), String> {
    let (start, starts) = channel();
    // Listens from before the pinning on: it must get to run while the server polls.
    std::thread::spawn(move || listen(&start));
    base::cpu::pin_to(core).map_err(|error| format!("{system}: no core {core} for the server: {error}"))?;
    let mut server = system.server(folder, contest).map_err(|error| format!("{system}: {error}"))?;
    say(&format!("ready {}", server.address()))?;
    while let Ok(phase) = starts.recv() {
        let phase: Arc<Phase> = phase;
        say("going")?;
        let before = Usage::now();
        let calls = server.serve(&phase).map_err(|error| format!("{system}, serving: {error}"))?;
        let Usage { cpu, starved } = Usage::now().since(before);
        say(&format!("rested {} {} {calls}", cpu.0, starved.0))?;
    }
    Ok(())
}

/// Starts and ends phases as the parent says, until its pipe ends.
fn listen(start: &Sender<Arc<Phase>>) {
    let mut phase = Arc::new(Phase::default());
    for line in std::io::stdin().lines().map_while(Result::ok) {
        match line.as_str() {
            "go" => {
                phase = Arc::new(Phase::default());
                if start.send(phase.clone()).is_err() {
                    return;
                }
            }
            _ => phase.finish(),
        }
    }
    phase.finish();
}

fn say(line: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|error| format!("the client's process is gone: {error}"))
}

/// The parent's end. Dropping it ends the process.
pub struct Server {
    system: System,
    child: Child,
    /// `None` once the child has been told to exit.
    orders: Option<ChildStdin>,
    reports: BufReader<ChildStdout>,
    address: String,
}

/// What a server did between `go` and `rest`.
pub struct Served {
    /// What its thread got of its core.
    pub usage: Usage,
    /// Calls it answered.
    pub calls: u64,
}

impl Served {
    fn parse(report: &str) -> Option<Served> {
        let mut numbers = report.split(' ').map(|number| number.parse().ok());
        let mut next = || numbers.next().flatten();
        let usage = Usage { cpu: Nanos(next()?), starved: Nanos(next()?) };
        Some(Served { usage, calls: next()? })
    }
}

impl Server {
    /// Starts the process and waits until it can be reached.
    pub fn start(system: System, core: usize, folder: &Path, contest: &Contest) -> Result<Server, String> {
        let windows: Vec<String> = contest.windows.iter().map(u32::to_string).collect();
        let program = std::env::current_exe().map_err(|error| format!("this program's file: {error}"))?;
        let mut child = Command::new(program)
            .args(["--payload", &contest.payload.to_string(), "--windows", &windows.join(",")])
            .args(["serve", "--system", system.name(), "--core", &core.to_string(), "--folder"])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{system}: no process for the server: {error}"))?;
        let orders = child.stdin.take();
        let reports = BufReader::new(child.stdout.take().expect("its output was asked for"));
        let mut server = Server { system, child, orders, reports, address: String::new() };
        server.address = server.report("ready")?;
        Ok(server)
    }

    /// Where its client finds it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Runs `work` while the server serves.
    pub fn while_serving<T>(
        &mut self,
        work: impl FnOnce() -> Result<T, String>,
    ) -> Result<(T, Served), String> {
        self.order("go")?;
        self.report("going")?;
        let done = work();
        self.order("rest")?;
        let report = self.report("rested")?;
        let served = Served::parse(&report)
            .ok_or_else(|| format!("{}: the server reports `{report}`", self.system))?;
        Ok((done.map_err(|error| format!("{}: {error}", self.system))?, served))
    }

    fn order(&mut self, order: &str) -> Result<(), String> {
        let pipe = self.orders.as_mut().expect("orders are given before the end only");
        writeln!(pipe, "{order}").map_err(|error| format!("{}: the server is gone: {error}", self.system))
    }

    /// The rest of the next line, which must begin with `word`.
    fn report(&mut self, word: &str) -> Result<String, String> {
        let mut line = String::new();
        match self.reports.read_line(&mut line) {
            Ok(0) => Err(format!("{}: the server ended, for the reason above", self.system)),
            Err(error) => Err(format!("{}: the server's pipe: {error}", self.system)),
            Ok(_) => match line.trim_end().strip_prefix(word) {
                Some(rest) => Ok(rest.trim_start().to_string()),
                None => Err(format!("{}: the server says `{}`, not `{word}`", self.system, line.trim_end())),
            },
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        const PATIENCE_MS: u32 = 2000;
        drop(self.orders.take());
        for _ in 0..PATIENCE_MS {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // It does not end by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
