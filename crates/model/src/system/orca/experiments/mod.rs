//! ORCA's setups: E0 where writes land, E1 notification, E2 key-value store, E3 power, E4 transactions, E5 embedding reduction.

mod kv;
mod kv_sweeps;
mod landing;
mod notification;
mod power;
mod reduction;
mod transactions;

use crate::experiment::Experiment;

/// All of them.
pub const ALL: &[Experiment] = &[
    Experiment { id: "E0", title: "memory traffic of a device's writes by DDIO and TPH", run: &landing::run },
    Experiment { id: "E1", title: "how long a notification takes: cpoll, polling", run: &notification::run },
    Experiment { id: "E2", title: "key-value store on cores, SmartNIC, accelerator", run: &kv::run },
    Experiment { id: "E3", title: "power of the key-value store, and requests per watt", run: &power::run },
    Experiment { id: "E4", title: "transactions on a chain of two", run: &transactions::run },
    Experiment { id: "E5", title: "embedding reduction by cores and accelerators", run: &reduction::run },
];

/// The paper's server with its prototype.
const PROTOTYPE: &str = "harp-upi";
/// … with local DDR4, and with HBM2.
const LOCAL: [(&str, &str); 2] = [("ORCA-LD", "u280-ddr4"), ("ORCA-LH", "u280-hbm2")];
