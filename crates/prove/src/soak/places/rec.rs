//! The recommendation server: a random model, and the same queries again and again.

use super::{Account, Run, Subject};
use bench::rec::{Form, Ids, Subject as Described, Target};
use fabric::channel::{CallOptions, Channel, Options, StartError};
use ring::wait::{Outcome, WaitPolicy};
use serve::rec::proto::millrace::InferReply;
use serve::rec::registers::Registers;
use serve::rec::{Plan, Server, Synthetic};
use std::sync::Arc;
use std::time::Duration;

/// Queries of a request.
const BATCH: usize = 2;
const WINDOW: usize = 8;
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
/// Scores of a query do not depend on which queries are computed with it, but for the order of sums.
const TOLERANCE: f32 = 1e-5;

pub(super) struct Rec {
    server: Server,
    requests: Vec<Vec<u8>>,
    expected: Vec<Vec<f32>>,
}

impl Rec {
    pub(super) fn start() -> Result<Rec, String> {
        let model = Synthetic {
            tables: 4,
            rows: 2000,
            dim: 16,
            format: "f32".parse().expect("a format"),
            dense: 8,
            bottom: vec![16],
            top: vec![16],
            memo: None,
            seed: 1,
        };
        let plan = Plan {
            source: Box::new(move || model.model()),
            listen: vec!["tcp:127.0.0.1:0".parse().expect("an address")],
            http: None,
            grpc: None,
            cores: None,
            registers: Arc::new(Registers::default()),
            rights: None,
        };
        let server = Server::start(plan).map_err(|error| error.to_string())?;
        let subject = Described::of(&Target::Fabric(server.addresses()[0].clone()))?;
        let requests = subject.requests(BATCH, Ids::Uniform, 8, 1).into_iter().take(50);
        let requests = requests.map(|request| request.message(Form::Features)).collect();
        let mut rec = Rec { server, requests, expected: Vec::new() };
        rec.expected = rec.ask_all()?;
        Ok(rec)
    }

    fn connect(&self) -> Result<Channel, String> {
        Channel::connect(&self.server.addresses()[0], &Options::default()).map_err(|error| error.to_string())
    }

    /// The answers to all requests, one at a time.
    fn ask_all(&self) -> Result<Vec<Vec<f32>>, String> {
        let mut channel = self.connect()?;
        let mut answers = Vec::new();
        while answers.len() < self.requests.len() {
            let mut told = None;
            self.send(&mut channel, answers.len() as u64)?;
            while told.is_none() {
                if channel.wait(WaitPolicy::default(), Some(REPLY_TIMEOUT)) == Outcome::TimedOut {
                    return Err("rec does not answer".to_owned());
                }
                channel.poll(1, |mut event| {
                    let reply = event.message::<InferReply>().map(|reply| reply.scores().to_vec());
                    told = Some(reply.map_err(|status| status.to_string()));
                });
            }
            answers.push(told.expect("looked at just now")?);
        }
        Ok(answers)
    }

    fn send(&self, channel: &mut Channel, user: u64) -> Result<bool, String> {
        let method = channel.method("millrace.Recommend/Infer").ok_or("the server has no Infer")?;
        let body = &self.requests[user as usize % self.requests.len()];
        match channel.start(method, &CallOptions::default(), user, body) {
            Ok(_) => Ok(true),
            Err(StartError::Full) => Ok(false),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Subject for Rec {
    fn places(&self) -> (&'static str, &'static str, &'static [&'static str]) {
        ("rec", "place.rec.preprocess", &["host", "engine", "edge"])
    }

    fn go_to(&self, place: &str) -> Result<(), String> {
        self.server.registers().set_live("place.rec.preprocess", place).map_err(|error| error.to_string())
    }

    fn client(&self, number: u32, run: &Run) -> Result<Account, String> {
        let mut channel = self.connect()?;
        let (mut account, mut open, mut next) = (Account::default(), Vec::new(), u64::from(number) * 17);
        while !run.is_over() || !open.is_empty() {
            while !run.is_over() && open.len() < WINDOW && self.send(&mut channel, next)? {
                open.push(next);
                next += 1;
            }
            let polled = channel.poll(64, |mut event| {
                account.calls += 1;
                let user = event.user;
                let known = open.iter().position(|&other| other == user).map(|at| open.swap_remove(at));
                let expected = &self.expected[user as usize % self.expected.len()];
                let is_right = known.is_some()
                    && event.message::<InferReply>().is_ok_and(|reply| {
                        let scores = reply.scores();
                        let is_near = |(a, b): (&f32, &f32)| (a - b).abs() <= TOLERANCE * a.abs().max(1.0);
                        scores.len() == expected.len() && scores.iter().zip(expected).all(is_near)
                    });
                account.wrong += u64::from(!is_right);
            });
            if polled == 0
                && channel.wait(WaitPolicy::default(), Some(REPLY_TIMEOUT)) == Outcome::TimedOut
                && !open.is_empty()
            {
                account.unanswered = open.len() as u64;
                break;
            }
        }
        Ok(account)
    }
}
