//! Plans: what machines would do, by the hardware model, and what to make ready before a server starts.
//!
//! | module | what it is |
//! |---|---|
//! | [`model`] | `millrace model`, `millrace repro`: the model's files, what its answers rest on, published evaluations on it |
//! | [`messages`] | `millrace model messages`: production-shaped messages through the codec, over a modelled link |
//! | [`planner`] | `millrace plan`: the cheapest machines that keep a promise |
//! | [`observed`] | what a node that runs says of its load, for planner and placer |
//! | [`placer`] | `millrace place`: moves the services of a node that runs, by their registers |
//! | [`sweep`], [`parallel`] | `millrace sweep`: many points of the model, in processes that know nothing of each other; threads for them |
//! | [`timed`] | our own store and cache machines in virtual time on modelled hardware |
//! | [`host`] | this machine as a platform of the model, and the model held against it |
//! | [`rec`] | memo plans for recommendation models, and query logs for them |

#[cfg(feature = "model")]
pub mod host;
#[cfg(feature = "model")]
pub mod messages;
#[cfg(feature = "model")]
pub mod model;
#[cfg(feature = "model")]
pub mod observed;
#[cfg(feature = "model")]
pub mod parallel;
#[cfg(feature = "model")]
pub mod placer;
#[cfg(feature = "model")]
pub mod planner;
#[cfg(feature = "rec")]
pub mod rec;
#[cfg(feature = "model")]
pub mod sweep;
#[cfg(feature = "model")]
pub mod timed;

/// Prints what a command has to say.
#[cfg(any(feature = "model", feature = "rec"))]
pub(crate) fn print(text: &str) -> Result<(), Box<dyn std::error::Error>> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
