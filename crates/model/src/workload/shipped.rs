//! The workloads that come with this crate; each is a file in `workloads/`.

use super::Workload;
use crate::platform::LoadError;

/// Texts by name, in the order in which people should see them.
pub const SHIPPED: &[(&str, &str)] = &[
    ("disaggregated-kv", include_str!("../../workloads/disaggregated-kv.toml")),
    ("file-replication", include_str!("../../workloads/file-replication.toml")),
    ("key-value-cache", include_str!("../../workloads/key-value-cache.toml")),
    ("embedding-reduction", include_str!("../../workloads/embedding-reduction.toml")),
    ("image-service", include_str!("../../workloads/image-service.toml")),
];

/// The shipped workload of this name, if there is one.
///
/// # Errors
/// Its file is wrong, which a test rules out.
pub fn shipped(name: &str) -> Option<Result<Workload, LoadError>> {
    let (name, text) = SHIPPED.iter().find(|(its, _)| *its == name)?;
    Some(Workload::parse(text, &format!("{name}.toml")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_sound_and_bears_its_name() {
        for (name, _) in SHIPPED {
            let workload =
                shipped(name).expect("it is in the list").unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(workload.name, *name);
        }
        assert!(shipped("nobody's").is_none());
    }
}
