//! The client: posts, their end-to-end latency, and a table of where it went.

use super::compose::ASKED;
use super::leaves::USERS;
use super::proto::social::{ComposeClient, PostReply};
use base::prng::Prng;
use base::{Clock, Nanos};
use fabric::channel::{CallOptions, Channel, StartError, What};
use fabric::status::{Code, Status};
use hdrhistogram::Histogram;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Of how many posts one says where its time went.
const TIMED: u64 = 16;

/// What came of it.
pub struct Outcome {
    pub posts: u64,
    pub failed: u64,
    pub example: Option<Status>,
    pub span: Nanos,
    end_to_end: Histogram<u64>,
    /// Of posts that were timed: compose's own share, and its way.
    composed: Histogram<u64>,
    way: Histogram<u64>,
    hops: [Hop; 4],
}

#[derive(Clone)]
struct Hop {
    total: Histogram<u64>,
    handler: Histogram<u64>,
    way: Histogram<u64>,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 100_000_000_000, 3).expect("the bounds are good")
}

impl Outcome {
    fn new() -> Outcome {
        let hop = Hop { total: histogram(), handler: histogram(), way: histogram() };
        Outcome {
            posts: 0,
            failed: 0,
            example: None,
            span: Nanos::ZERO,
            end_to_end: histogram(),
            composed: histogram(),
            way: histogram(),
            hops: std::array::from_fn(|_| hop.clone()),
        }
    }

    fn fail(&mut self, status: &Status) {
        self.failed += 1;
        self.example.get_or_insert_with(|| status.clone());
    }

    /// A post that was answered.
    fn note(&mut self, took: Nanos, reply: <PostReply as codec::typed::Message>::View<'_>) {
        self.posts += 1;
        self.end_to_end.saturating_record(took.0);
        if reply.hops().len() != ASKED.len() {
            return;
        }
        self.composed.saturating_record(reply.composed_ns());
        self.way.saturating_record(took.0.saturating_sub(reply.composed_ns()));
        for (hop, seen) in self.hops.iter_mut().zip(reply.hops().iter()) {
            hop.total.saturating_record(seen.total_ns());
            hop.handler.saturating_record(seen.handler_ns());
            hop.way.saturating_record(seen.total_ns().saturating_sub(seen.handler_ns()));
        }
    }
}

/// Posts until `length` is over, or `stop`.
///
/// # Errors
/// The channel does not lead to compose.
pub fn drive(
    channel: &mut Channel,
    window: usize,
    length: Duration,
    stop: &AtomicBool,
) -> Result<Outcome, Box<dyn std::error::Error + Send + Sync>> {
    let client = ComposeClient::new(channel)?;
    let options = CallOptions::within(Duration::from_secs(5));
    let clock = Clock::shared();
    let begin = clock.now();
    let until = begin.plus(length.into());
    let (mut random, mut outcome) = (Prng::new(1), Outcome::new());
    let (mut under_way, mut started, mut now) = (0, 0u64, begin);
    loop {
        let open = now < until && !stop.load(Ordering::Relaxed);
        while open && under_way < window {
            let (user, number) = (random.below(u64::from(USERS)), random.next_u64());
            let begun = client.post_async(channel, &options, now.0, |request| {
                request.set_timed(started.is_multiple_of(TIMED));
                request.set_user(&format!("user{user}"))?;
                request
                    .set_text(&format!("look at http://example.com/{number:x} and http://example.org/ soon"))
            });
            match begun {
                Ok(_) => (under_way, started) = (under_way + 1, started + 1),
                Err(StartError::Full) => break,
                Err(error) => return Err(error.into()),
            }
        }
        if !open && under_way == 0 {
            outcome.span = now.since(begin);
            return Ok(outcome);
        }
        let count = channel.poll(64, |mut event| {
            under_way -= 1;
            let took = clock.now().since(Nanos(event.user));
            if let What::Failed(status) = &event.what {
                return outcome.fail(status);
            }
            match event.message::<PostReply>() {
                Ok(reply) if reply.text().contains("http://s.ly/") => outcome.note(took, reply),
                Ok(_) => outcome.fail(&Status::new(Code::DataLoss, "an address was not shortened")),
                Err(status) => outcome.fail(&status),
            }
        });
        if count == 0 {
            channel.wait(Default::default(), Some(Duration::from_millis(100)));
        }
        now = clock.now();
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.posts as f64 / self.span.as_secs_f64().max(1e-9);
        writeln!(
            f,
            "  {} posts in {:.1} s, {rate:.0} per second, {} failed",
            self.posts,
            self.span.as_secs_f64(),
            self.failed
        )?;
        writeln!(f, "  {:<26}{:>12}{:>12}{:>12}", "", "p50", "p99", "mean")?;
        row(f, "end to end", &self.end_to_end)?;
        writeln!(f, "  where it went (of 1 post in {TIMED}):")?;
        row(f, "client ⇄ compose: way", &self.way)?;
        row(f, "compose, all of it", &self.composed)?;
        for (name, hop) in ASKED.iter().zip(&self.hops) {
            row(f, &format!("  {name}"), &hop.total)?;
            row(f, "    way and queue", &hop.way)?;
            row(f, "    handler", &hop.handler)?;
        }
        writeln!(
            f,
            "  (unique-id, user and url-shorten are asked at once, social-graph when user has answered)"
        )
    }
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, of: &Histogram<u64>) -> fmt::Result {
    let at = |quantile: f64| Nanos(of.value_at_quantile(quantile)).to_string();
    let mean = Nanos(of.mean() as u64).to_string();
    writeln!(f, "  {name:<26}{:>12}{:>12}{mean:>12}", at(0.5), at(0.99))
}
