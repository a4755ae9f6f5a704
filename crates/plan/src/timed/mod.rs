//! What runs on real cores, run unchanged in virtual time on modelled hardware.
//!
//! ```text
//!   the store's coroutines ──a yield is a touch──▶ core::Core ──a program of the model──▶ kernel's resources
//!   protocol machines ──handle, next_deadline──▶ net::Net ──packets, real bytes──▶ programs of the hardware ──▶ the other machine
//!   a key-value node by hand ──a step's acts──▶ kv::Timed ──times of calls, requests, touches──▶ processors, wake-ups
//! ```
//!
//! Nothing here knows what a GET or an invalidation means: it charges what they cost. Answers come from the code that production runs, times from
//! the model.
//!
//! | file | what |
//! |---|---|
//! | [`core`] | a core that has many touching futures under way |
//! | [`lookup`] | experiment M-E1: the store's GET, plain, in groups and as coroutines, by working set |
//! | [`net`] | machines of `protocol::coherence` that write to each other over hardware, with their deadlines |
//! | [`users`] | what clients ask of them, what they saw, and whether it may be so |
//! | [`rack`] | clients, boxes and a home on hosts, joined |
//! | [`places`] | experiment M-E2: the in-network cache by where its boxes are |
//! | [`box_cores`] | experiment M-E3: misses of a box by its cores |
//! | [`incbricks`] | the published in-network cache on its published hardware: experiments I-E1 to I-E5 |
//! | [`kv`] | a key-value node with its edges, engine cores and clients; experiment M-E4 |

pub mod box_cores;
pub mod core;
pub mod incbricks;
pub mod kv;
pub mod lookup;
pub mod net;
pub mod places;
pub mod rack;
pub mod users;

use model::experiment::Experiment;
use model::system::System;

/// Experiments of ours, beside the published systems.
pub static OWN: System = System::own(
    "own",
    "millrace itself, in virtual time on this kind of host",
    &[
        Experiment {
            id: "M-E1",
            title: "the store's GET by working set and requests in flight",
            run: &lookup::run,
        },
        Experiment { id: "M-E2", title: "the in-network cache by where its boxes are", run: &places::run },
        Experiment { id: "M-E3", title: "misses of a box by its cores", run: &box_cores::run },
        Experiment {
            id: "M-E4",
            title: "GETs and SETs of a whole node by place and requests under way",
            run: &kv::experiment::run,
        },
    ],
);
