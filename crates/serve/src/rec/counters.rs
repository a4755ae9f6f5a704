//! What a server counts: requests, and where the threads' time went.
//!
//! Each is one atomic word, written by one thread or rarely, and read by whoever shows it; they say nothing about each other.

use base::Nanos;
use std::sync::atomic::{AtomicU64, Ordering};

/// A request's time in each stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// From the socket until it is read.
    pub queue: Nanos,
    /// Reading the message.
    pub parse: Nanos,
    /// Features to ids, checks.
    pub preprocess: Nanos,
    /// For the engine, and for others to be computed with.
    pub wait: Nanos,
    /// Rows of the tables; of the whole batch.
    pub reduce: Nanos,
    /// Everything else of the model; of the whole batch.
    pub mlp: Nanos,
    /// Queries that were computed together.
    pub together: u32,
}

macro_rules! counters {
    ($($field:ident $name:literal $help:literal;)*) => {
        /// See the head of the file.
        #[derive(Debug, Default)]
        pub struct Counters {
            $(#[doc = $help] pub $field: AtomicU64,)*
        }

        impl Counters {
            /// All of them: name, value, help.
            pub fn all(&self) -> Vec<(&'static str, u64, &'static str)> {
                vec![$(($name, self.$field.load(Ordering::Relaxed), $help)),*]
            }
        }
    };
}

counters! {
    requests "requests" "Requests that were answered with scores";
    total "total_ns" "Time from the socket to the answer, of requests that were answered with scores";
    queued "queued_ns" "Of this, time spent waiting: to be read, for the engine, and for others to be computed with";
    taken "taken" "Requests that were read";
    received "received_bytes" "Bytes of requests that edges took";
    sent "sent_bytes" "Bytes of scores that requests were answered with";
    queries "queries" "Queries of these";
    rows "rows" "Rows of tables that these read, memo rows among them";
    refused "refused" "Requests that were answered with an error, or not taken";
    given_up "given_up" "Requests whose callers left before they were computed";
    expired "expired" "Requests that waited longer than rec.deadline says; they were answered so";
    panicked "panicked" "Requests over which the server panicked; they were answered so";
    batches "batches" "Batches that the engine computed";
    loads "loads" "Models that were loaded after the first";
    failed_loads "failed_loads" "Models that did not load";
    preprocess_busy "preprocess_busy_ns" "Processor time of reading and checking requests, wherever that is done";
    engine_busy "engine_busy_ns" "Processor time of computing batches and answering them";
    reply "reply_ns" "Time the engine core spent on putting replies together and handing them over";
    reduce "reduce_ns" "Time the engine core spent on rows of tables";
    mlp "mlp_ns" "Time the engine core spent on the rest of the model";
}

/// What is counted of one model, beside the server's own [`Counters`].
#[derive(Debug, Default)]
pub struct Counted {
    /// Requests that were answered with scores.
    pub requests: AtomicU64,
    /// Requests for it that were refused, given up by their callers, or over which it panicked.
    pub failed: AtomicU64,
    /// Time from the socket to the answer, of requests that were answered with scores, in nanoseconds.
    pub total: AtomicU64,
    /// Of this, time spent waiting.
    pub queued: AtomicU64,
    /// Requests that were read and checked.
    pub taken: AtomicU64,
    /// Processor time of that, in nanoseconds.
    pub preprocess: AtomicU64,
    /// Queries that were answered.
    pub queries: AtomicU64,
    /// Batches that were computed.
    pub batches: AtomicU64,
    /// Time of computing them, in nanoseconds.
    pub compute: AtomicU64,
    /// Time of answering them, in nanoseconds.
    pub reply: AtomicU64,
}

/// Adds to a counter.
pub fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}
