//! Plans: what machines would do, by the hardware model, and what to make ready before a server starts.
//!
//! | module | what it is |
//! |---|---|
//! | [`model`] | `millrace model`, `millrace repro`: the model's files, what its answers rest on, published evaluations on it |
//! | [`messages`] | `millrace model messages`: production-shaped messages through the codec, over a modelled link |
//! | [`planner`] | `millrace plan`: the cheapest machines that keep a promise |
//! | [`sweep`], [`parallel`] | `millrace sweep`: many points of the model, in processes that know nothing of each other; threads for them |
//! | [`timed`] | our own store and cache machines in virtual time on modelled hardware |
//! | [`host`] | this machine as a platform of the model, and the model held against it |
//! | [`rec`] | memo plans for recommendation models, and query logs for them |

pub mod host;
pub mod messages;
pub mod model;
pub mod parallel;
pub mod planner;
pub mod rec;
pub mod sweep;
pub mod timed;
