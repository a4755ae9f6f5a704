//! What runs on real cores, run unchanged in virtual time on modelled hardware.
//!
//! ```text
//!   the store's coroutines ──a yield is a touch──▶ core::Core ──a program of the model──▶ kernel's resources
//!   protocol machines ──handle, next_deadline──▶ node::Node ──packets, real bytes──▶ wire::Wires ──▶ the other node
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
//! | [`wire`] | links between nodes that carry bytes |
//! | [`node`] | a machine of `protocol::coherence` at a core, with its inbox and deadlines |
//! | [`rack`] | clients, boxes and a home, joined |
//! | [`places`] | experiment M-E2: the in-network cache by where its boxes are |
//! | [`box_cores`] | experiment M-E3: misses of a box by its cores |
//! | [`kv`] | a key-value node with its edges, engine cores and clients; experiment M-E4 |

pub mod box_cores;
pub mod core;
pub mod kv;
pub mod lookup;
pub mod node;
pub mod places;
pub mod rack;
pub mod wire;

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
