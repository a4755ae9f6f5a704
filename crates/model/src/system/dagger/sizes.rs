//! D-E6: sizes of requests and replies in microservices, and what they come to on each interface.
//!
//! The paper measures Social Network and Media Service of DeathStarBench and prints of their sizes: over 70 % of requests below 256 B, almost all within
//! 1280 B; nearly all replies below 256 B and 95 % below 64 B. Its shares of networking in latency are figures of software that this model does not have.
//! What is reported: calls of each size with replies of a line, and the other way round, on one thread. Beyond one line the NIC sends so many lines, which the
//! prototype leaves to software.

use super::PLATFORM;
use super::echo::{Calls, Drive};
use super::experiments::{latencies, line_echo, run};
use super::interface::Interface;
use super::machine::lines;
use crate::experiment::Rows;
use crate::platform::{LoadError, Platforms};

const REQUESTS: [u64; 9] = [16, 32, 64, 128, 256, 512, 768, 1024, 1280];
const REPLIES: [u64; 5] = [8, 64, 128, 192, 256];
const INTERFACES: [Interface; 5] =
    [Interface::MMIO, Interface::doorbell(1), Interface::doorbell(11), Interface::upi(1), Interface::upi(4)];

pub(super) fn sizes(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = &platforms.named(PLATFORM)?;
    let mut rows = Rows::default();
    for interface in INTERFACES {
        let variant = interface.to_string();
        let line = line_echo(platform)?;
        let requests = REQUESTS.map(|request| (format!("request {request} B"), Calls { request, ..line }));
        let replies = REPLIES.map(|reply| (format!("reply {reply} B"), Calls { reply, ..line }));
        for (point, calls) in requests.into_iter().chain(replies) {
            let at = ("D-E6", &*variant, &*point);
            let rate = run(platform, interface, 1, calls, Drive::Saturate, seed)?.seen.rate();
            rows.add(at, "throughput", "Mrps", rate / 1e6);
            rows.add(at, "bandwidth", "GB/s", rate * (calls.request + calls.reply) as f64 / 1e9);
            rows.add(at, "lines", "lines", (lines(calls.request) + lines(calls.reply)) as f64);
            let half = run(platform, interface, 1, calls, Drive::Paced(rate / 2.0), seed)?;
            latencies(&mut rows, ("D-E6", &variant, &format!("{point}, half the load")), &half.seen);
        }
    }
    Ok(rows)
}
