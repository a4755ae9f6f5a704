//! The sweeps that come with this crate; each is a file in `sweeps/`.

/// Texts by name.
pub const SHIPPED: &[(&str, &str)] = &[
    ("soc-memory", include_str!("../../sweeps/soc-memory.toml")),
    ("pcie-latency", include_str!("../../sweeps/pcie-latency.toml")),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Platforms;
    use crate::sweep::Sweep;
    use crate::system;

    #[test]
    fn every_file_is_sound_and_its_experiment_reads_its_axes() {
        for (name, text) in SHIPPED {
            let sweep = Sweep::parse(text, name, &Platforms::shipped()).unwrap_or_else(|why| panic!("{why}"));
            let mut all = system::ALL.iter().flat_map(|system| system.experiments);
            let experiment = all.find(|one| one.id == sweep.experiment).expect("there is such an experiment");
            let block = sweep.perform(0, experiment).unwrap_or_else(|why| panic!("{name}: {why}"));
            assert_eq!((block.run, block.key), (0, sweep.key(0)));
        }
    }
}
