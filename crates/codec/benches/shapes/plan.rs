//! How long a bench takes.

/// Rounds, and how long a sample is.
pub struct Plan {
    pub rounds: usize,
    pub sample_ns: f64,
}

impl Plan {
    /// A full one, or with `--quick` a short one.
    pub fn asked_for() -> Plan {
        let quick = std::env::args().any(|arg| arg == "--quick");
        if quick { Plan { rounds: 7, sample_ns: 1e6 } } else { Plan { rounds: 31, sample_ns: 5e6 } }
    }
}
