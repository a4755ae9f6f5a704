//! How wrong the model of each system was about results that it was not built on: the part of an answer's doubt that no range of a number has.
//!
//! Leaving results out and fitting on the others is [`crate::experiment::validate`]; what an interval takes is quicker to have: the results that count
//! as predictions (`published/*.toml`, no constant was fitted on any of them). [`ModelError::predictions`] is the root mean square of their errors,
//! which `tests/published.rs` computes again. Whoever chose them had read them, though. Results that no file lists were looked up by others later
//! (November 2026, at revision 0a21efc, some ninety numbers): [`ModelError::unseen`] is their median error. An interval takes the larger of the two.

use crate::platform::Platform;
use serde::Serialize;

/// Of one system.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ModelError {
    /// Its name.
    pub system: &'static str,
    /// Families of platforms that its composition serves.
    #[serde(skip)]
    families: &'static [&'static str],
    /// Root mean square of relative errors of predictions.
    pub predictions: f64,
    /// … of which there are so many.
    pub count: usize,
    /// Median relative error of results that no file lists.
    pub unseen: f64,
}

/// All systems.
pub const KNOWN: [ModelError; 5] = [
    of("offpath", &["off-path-smartnic"], (0.139, 21), 0.08),
    of("dagger", &["fpga-rpc-nic"], (0.029, 3), 0.05),
    of("orca", &["coherent-accelerator"], (0.021, 21), 0.27),
    of("incbricks", &["in-network-cache"], (0.059, 9), 0.59),
    of("rpcacc", &["pcie-rpc-accelerator", "onchip-rpc-accelerator", "rpc-smartnic"], (0.148, 6), 0.48),
];

const fn of(
    system: &'static str,
    families: &'static [&'static str],
    (predictions, count): (f64, usize),
    unseen: f64,
) -> ModelError {
    ModelError { system, families, predictions, count, unseen }
}

impl ModelError {
    /// Of the system that a platform's family belongs to; `None` where nobody published anything of it.
    pub fn of_family(family: &str) -> Option<&'static ModelError> {
        KNOWN.iter().find(|known| known.families.contains(&family))
    }

    /// Of a platform: by its family, or the largest of those of its parts.
    pub fn of_platform(platform: &Platform) -> Option<&'static ModelError> {
        let parts = platform.parts.iter().filter_map(|part| ModelError::of_family(&part.family));
        let all = parts.chain(ModelError::of_family(&platform.family));
        all.max_by(|a, b| a.size().total_cmp(&b.size()))
    }

    /// What an interval takes: half of its width, relative.
    pub fn size(&self) -> f64 {
        self.predictions.max(self.unseen)
    }
}

/// An interval around 1 of independent doubts: that of numbers, and the model's own.
pub fn widened(numbers: (f64, f64), model: Option<&ModelError>) -> (f64, f64) {
    widened_by(numbers, model.map_or(0.0, ModelError::size))
}

/// The same, where half the width of the model's own doubt is known otherwise.
pub fn widened_by((low, high): (f64, f64), own: f64) -> (f64, f64) {
    ((1.0 - (1.0 - low).hypot(own)).max(0.0), 1.0 + (high - 1.0).hypot(own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::families;
    use crate::system;

    #[test]
    fn every_family_of_a_published_system_has_an_error_and_doubts_add_up_in_quadrature() {
        for known in KNOWN {
            assert!(system::ALL.iter().any(|system| system.name == known.system), "{}", known.system);
            for family in known.families {
                assert!(families::ALL.iter().any(|of| of.name == *family), "{family}");
            }
        }
        let rack =
            crate::platform::shipped::shipped("cxl-behind-box").expect("it is shipped").expect("it is sound");
        assert_eq!(ModelError::of_platform(&rack).map(|of| of.system), Some("incbricks"));
        let orca = ModelError::of_family("coherent-accelerator").expect("it is published");
        assert_eq!(orca.size(), 0.27);
        let (low, high) = widened((0.64, 1.36), Some(orca));
        assert!((low - 0.55).abs() < 1e-9 && (high - 1.45).abs() < 1e-9, "{low} {high}");
        assert_eq!(widened((0.9, 1.2), ModelError::of_family("host")), (0.9, 1.2));
        assert_eq!(widened((0.1, 1.2), ModelError::of_family("rpc-smartnic")).0, 0.0);
    }
}
