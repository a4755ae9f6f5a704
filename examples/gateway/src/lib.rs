//! A cloud gateway: routes, NAT and an encrypted tunnel between networks, each on the host or on an accelerator. See README.md.
//!
//! | module | one word |
//! |---|---|
//! | [`packet`] | bytes: views of headers, checksums, whole packets |
//! | [`net`] | the network, and what travels beside a packet |
//! | [`route`], [`nat`], [`tunnel`] | the three stages: machines without clock or socket |
//! | [`place`] | the stages in two memories, and what crosses between them |
//! | [`registers`], [`config`] | what is tuned, and the file |
//! | [`driver`] | packet sockets and threads |
//! | [`lab`] | two gateways between a client and a server, in namespaces |
//! | [`mod@bench`] | all placements without sockets |

pub mod bench;
pub mod config;
pub mod driver;
pub mod lab;
pub mod nat;
pub mod net;
pub mod packet;
pub mod place;
pub mod registers;
pub mod route;
pub mod tunnel;
