//! The service that asks the others. Its thread drives its server and, beside it, a channel to each of the four.
//!
//! ```text
//! Post ─▶ handler: defers, leaves a Job ─▶ unique-id ┐
//!                                      ─▶ user      ┼─ all there ─▶ reply
//!                                      ─▶ url-shorten ┘    ▲
//!                                           └ user known ─▶ social-graph
//! ```
//! Three are asked at once; the fourth needs the user's number. The caller's time that is left is theirs.
//!
//! Bounds: jobs are calls in flight of our callers, so [`fabric::server::Options::max_calls`] per connection.

use super::proto::social::{
    CheckReply, Compose, FollowersReply, NextReply, PostReply, PostRequestView, ShortenReply,
    SocialGraphClient, UniqueIdClient, UrlShortenClient, UserClient,
};
use super::timing::{KEY, handler_time};
use base::{Clock, Nanos};
use fabric::channel::{CallId, CallOptions, Channel, Event, StartError, What};
use fabric::frame::push_metadata;
use fabric::monitor::trace::TRACEPARENT;
use fabric::service::Context;
use fabric::status::{Code, Status};
use fabric::stub::{Deferred, NotServed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The services that are asked, in the order of channels.
pub const ASKED: [&str; 4] = ["unique-id", "user", "url-shorten", "social-graph"];

const UNIQUE_ID: usize = 0;
const USER: usize = 1;
const URL_SHORTEN: usize = 2;
const SOCIAL_GRAPH: usize = 3;

/// A post on its way.
struct Job {
    reply: Deferred<PostReply>,
    user: String,
    text: String,
    until: Option<Duration>,
    timed: bool,
    /// For the calls that are made because of this one.
    metadata: Vec<u8>,
    begun: Nanos,
    /// When each service was asked, what it took as seen from here, and what its handler took.
    asked: [Nanos; 4],
    total: [Nanos; 4],
    handler: [Nanos; 4],
    /// Answers that are owed.
    open: u32,
    id: u64,
    short: Vec<String>,
    timelines: u32,
    failure: Option<Status>,
}

/// The handler: it leaves jobs for the thread that drives the server.
#[derive(Clone, Default)]
pub struct Inbox(Arc<Mutex<Vec<Job>>>);

impl Compose for Inbox {
    fn post(&self, request: PostRequestView<'_>, reply: Deferred<PostReply>, context: &mut Context<'_>) {
        let mut metadata = Vec::new();
        let pushed = request.timed() && push_metadata(&mut metadata, KEY, b"");
        assert!(pushed == request.timed(), "the key is one");
        if let Some(parent) = context.traceparent() {
            assert!(push_metadata(&mut metadata, TRACEPARENT, parent), "there is room for it");
        }
        let job = Job {
            reply,
            user: request.user().to_owned(),
            text: request.text().to_owned(),
            until: context.time_left(),
            timed: request.timed(),
            metadata,
            begun: Clock::shared().now(),
            asked: [Nanos::ZERO; 4],
            total: [Nanos::ZERO; 4],
            handler: [Nanos::ZERO; 4],
            open: 0,
            id: 0,
            short: Vec::new(),
            timelines: 0,
            failure: None,
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(job);
    }
}

/// The four others, and the posts that wait for them.
pub struct Composer {
    inbox: Inbox,
    pub channels: [Channel; 4],
    unique_id: UniqueIdClient,
    user: UserClient,
    url_shorten: UrlShortenClient,
    social_graph: SocialGraphClient,
    jobs: Vec<Option<Job>>,
    free: Vec<usize>,
    fresh: Vec<Job>,
}

impl Composer {
    /// Asks over these channels.
    ///
    /// # Errors
    /// One of them leads to another service.
    pub fn new(inbox: Inbox, channels: [Channel; 4]) -> Result<Composer, NotServed> {
        Ok(Composer {
            inbox,
            unique_id: UniqueIdClient::new(&channels[UNIQUE_ID])?,
            user: UserClient::new(&channels[USER])?,
            url_shorten: UrlShortenClient::new(&channels[URL_SHORTEN])?,
            social_graph: SocialGraphClient::new(&channels[SOCIAL_GRAPH])?,
            channels,
            jobs: Vec::new(),
            free: Vec::new(),
            fresh: Vec::new(),
        })
    }

    /// Begins what the handler left, and takes what the others answered; how much that was.
    pub fn poll(&mut self) -> usize {
        std::mem::swap(&mut self.fresh, &mut *self.inbox.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut done = self.fresh.len();
        let mut fresh = std::mem::take(&mut self.fresh);
        fresh.drain(..).for_each(|job| self.begin(job));
        self.fresh = fresh;
        for service in 0..ASKED.len() {
            done += self.take(service);
        }
        done
    }

    /// Asks the three that do not depend on each other.
    fn begin(&mut self, job: Job) {
        let at = self.free.pop().unwrap_or_else(|| {
            self.jobs.push(None);
            self.jobs.len() - 1
        });
        self.jobs[at] = Some(job);
        let (unique_id, user, url_shorten) = (self.unique_id, self.user, self.url_shorten);
        self.ask(at, UNIQUE_ID, |channel, options, number, _| {
            unique_id.next_async(channel, options, number, |_| Ok(()))
        });
        self.ask(at, USER, |channel, options, number, job| {
            user.check_async(channel, options, number, |request| request.set_name(&job.user))
        });
        self.ask(at, URL_SHORTEN, |channel, options, number, job| {
            url_shorten.shorten_async(channel, options, number, |request| {
                urls(&job.text).try_for_each(|url| request.push_urls(url).map(drop))
            })
        });
        self.settle(at);
    }

    /// Asks one service for a job. `user` words of calls are jobs' places.
    fn ask(
        &mut self,
        at: usize,
        service: usize,
        start: impl FnOnce(&mut Channel, &CallOptions<'_>, u64, &Job) -> Result<CallId, StartError>,
    ) {
        let job = self.jobs[at].as_mut().expect("a job that asks is there");
        let clock = Clock::shared();
        let now = clock.now();
        let timeout = job.until.map(|until| until.saturating_sub(now.since(job.begun).into()));
        let options = CallOptions { timeout, metadata: &job.metadata, ..CallOptions::default() };
        match start(&mut self.channels[service], &options, at as u64, job) {
            Ok(_) => {
                job.open += 1;
                job.asked[service] = now;
            }
            Err(error) => job.fail(service, error.into()),
        }
    }

    /// Takes what a service answered.
    fn take(&mut self, service: usize) -> usize {
        let now = Clock::shared().now();
        let (jobs, mut answered) = (&mut self.jobs, Vec::new());
        let count = self.channels[service].poll(64, |mut event| {
            let at = event.user as usize;
            let job = jobs[at].as_mut().expect("a job stays until all that it asked have answered");
            job.open -= 1;
            if job.timed {
                job.total[service] = now.since(job.asked[service]);
                job.handler[service] = handler_time(event.metadata_entries()).unwrap_or(Nanos::ZERO);
            }
            let user = job.note(service, &mut event);
            answered.push((at, user));
        });
        for (at, user) in answered {
            if let Some(number) = user {
                let graph = self.social_graph;
                self.ask(at, SOCIAL_GRAPH, |channel, options, place, _| {
                    graph.followers_async(channel, options, place, |request| {
                        request.set_user(number);
                        Ok(())
                    })
                });
            }
            self.settle(at);
        }
        count
    }

    /// Answers a job if nothing is open any more.
    fn settle(&mut self, at: usize) {
        if let Some(job) = self.jobs[at].take_if(|job| job.open == 0) {
            self.free.push(at);
            job.answer();
        }
    }
}

impl Job {
    /// Keeps an answer; the user's number if that is what came.
    fn note(&mut self, service: usize, event: &mut Event<'_>) -> Option<u32> {
        if let What::Failed(status) = &event.what {
            self.fail(service, status.clone());
            return None;
        }
        let noted = match service {
            UNIQUE_ID => event.message::<NextReply>().map(|reply| self.id = reply.id()),
            USER => match event.message::<CheckReply>() {
                Ok(reply) => return Some(reply.user()),
                Err(status) => Err(status),
            },
            URL_SHORTEN => event
                .message::<ShortenReply>()
                .map(|reply| self.short = reply.short().iter().map(str::to_owned).collect()),
            _ => event.message::<FollowersReply>().map(|reply| self.timelines = reply.users().len() as u32),
        };
        if let Err(status) = noted {
            self.fail(service, status);
        }
        None
    }

    /// The first failure is the post's.
    fn fail(&mut self, service: usize, status: Status) {
        let name = ASKED[service];
        self.failure
            .get_or_insert_with(|| Status::new(status.code(), format!("{name}: {}", status.message())));
    }

    fn answer(self) {
        if let Some(status) = self.failure {
            return self.reply.fail(status);
        }
        if self.short.len() != urls(&self.text).count() {
            return self
                .reply
                .fail(Status::new(Code::Internal, "url-shorten gave another number of addresses"));
        }
        let mut short = self.short.iter();
        let words = self.text.split(' ').map(|word| match is_url(word) {
            true => short.next().map_or(word, String::as_str),
            false => word,
        });
        let text = words.collect::<Vec<_>>().join(" ");
        let composed = Clock::shared().now().since(self.begun);
        self.reply.reply(|reply| {
            reply.set_id(self.id);
            reply.set_text(&text)?;
            reply.set_timelines(self.timelines);
            if self.timed {
                reply.set_composed_ns(composed.0);
                for (service, asked) in ASKED.iter().enumerate() {
                    let mut hop = reply.push_hops()?;
                    hop.set_service(asked)?;
                    hop.set_total_ns(self.total[service].0);
                    hop.set_handler_ns(self.handler[service].0);
                }
            }
            Ok(())
        });
    }
}

fn is_url(word: &str) -> bool {
    word.starts_with("http")
}

fn urls(text: &str) -> impl Iterator<Item = &str> {
    text.split(' ').filter(|word| is_url(word))
}
