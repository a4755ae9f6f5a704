//! The placer: moves the services of a node that runs between edge, engine and host, by registers that a person could set. docs/placer.md,
//! docs/design/017-placer.md.
//!
//! ```text
//!   admin port ─▶ reading ─▶ difference ─▶ observation ─▶ brain ─▶ decision ─▶ PUT /registers/NAME
//!                                                          │ ▲
//!                                      predict, correct ◀──┘ └── log, replay
//! ```
//! | file | what it is |
//! |---|---|
//! | `reading`, `difference` | what an admin port says, and what that means since the last time |
//! | `observation` | rates, sizes, times, registers; what is wrong with them |
//! | `choice` | where a service could be |
//! | `predict`, `correct` | what a choice would do, and how wrong that was |
//! | `verdict` | which of two is better |
//! | `brain`, `budget`, `options` | the machine that decides, without clock or socket |
//! | `log` | its lines, and a log played again |
//! | `drive`, `command`, `show` | clocks, sockets and files; the command; lines as sentences |
//! | `contest` | the placer against its rivals and every fixed placement, on a node and under load |
//! | `planted`, `tests` | mistakes on purpose, and the world of faults that finds them |

pub mod brain;
mod budget;
pub mod choice;
mod command;
mod contest;
mod correct;
mod difference;
pub mod drive;
pub mod log;
pub mod observation;
pub mod options;
mod planted;
pub mod predict;
mod reading;
mod show;
#[cfg(test)]
mod tests;
pub mod verdict;

pub use command::PlaceArgs;
pub use planted::Planted;

use serve::trace::Port;

/// Names of the services of a node that can be moved.
///
/// # Errors
/// The node cannot be reached, or is none.
fn services_of(port: Port) -> Result<Vec<String>, String> {
    let (metrics, registers) = (port.get("/metrics")?, port.get("/registers")?);
    let reading = reading::Reading::of(0, &metrics, &registers).map_err(|why| {
        format!("what answers at {port} is no admin port of this version of millrace: {why}")
    })?;
    Ok(reading.services.into_iter().map(|service| service.name).collect())
}
