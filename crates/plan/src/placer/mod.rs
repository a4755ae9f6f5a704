//! The placer: moves the services of a node that runs between edge, engine and host, by registers that a person could set. docs/placer.md,
//! docs/design/017-placer.md.
//!
//! ```text
//!   admin port ─▶ observation (`crate::observed`) ─▶ brain ─▶ decision ─▶ PUT /registers/NAME
//!                                                    │ ▲
//!                                predict, correct ◀──┘ └── log, replay
//! ```
//! | file | what it is |
//! |---|---|
//! | `choice` | where a service could be |
//! | `predict`, `of_model`, `correct` | what a choice would do, by what a node measures or by a model of its machine, and how wrong that was |
//! | `verdict` | which of two is better |
//! | `marginal` | what more memory would bring a cache, and less take |
//! | `brain`, `budget`, `options` | the machine that decides, without clock or socket |
//! | `log` | its lines, and a log played again |
//! | `drive`, `command`, `show` | clocks, sockets and files; the command; lines as sentences |
//! | `service` | the loop over nodes, and the port of the placer itself |
//! | `contest` | the placer against its rivals and every fixed placement, on a node and under load, or on a machine of the model in virtual time |
//! | `planted`, `tests` | mistakes on purpose, and the world of faults that finds them |

pub mod brain;
mod budget;
pub mod choice;
mod command;
mod contest;
mod correct;
pub mod drive;
pub mod log;
mod marginal;
mod of_model;
pub mod options;
mod planted;
pub mod predict;
mod service;
mod show;
#[cfg(test)]
mod tests;
pub mod verdict;

pub use command::PlaceArgs;
pub use planted::Planted;
pub use service::{PlacerRegisters, metrics};

use serve::trace::Port;

/// Names of the services of a node that can be moved.
///
/// # Errors
/// The node cannot be reached, or is none.
fn services_of(port: Port) -> Result<Vec<String>, String> {
    let reading = crate::observed::ask(port, 0)?;
    Ok(reading.services.into_iter().map(|service| service.name).collect())
}
