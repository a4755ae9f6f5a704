//! The platforms that come with this crate; each is a file in `platforms/`.

use super::{LoadError, Platform};

/// Texts by name, in the order in which people should see them.
pub const SHIPPED: &[(&str, &str)] = &[
    ("bluefield2-ib", include_str!("../../platforms/bluefield2-ib.toml")),
    ("broadwell-fpga", include_str!("../../platforms/broadwell-fpga.toml")),
    ("bluefield2-eth", include_str!("../../platforms/bluefield2-eth.toml")),
    ("connectx6", include_str!("../../platforms/connectx6.toml")),
    ("harp-upi", include_str!("../../platforms/harp-upi.toml")),
    ("u280-ddr4", include_str!("../../platforms/u280-ddr4.toml")),
    ("u280-hbm2", include_str!("../../platforms/u280-hbm2.toml")),
    ("cxl-type2", include_str!("../../platforms/cxl-type2.toml")),
    ("xpliant-octeon", include_str!("../../platforms/xpliant-octeon.toml")),
    ("pcie-rpc-accelerator", include_str!("../../platforms/pcie-rpc-accelerator.toml")),
    ("onchip-rpc-accelerator", include_str!("../../platforms/onchip-rpc-accelerator.toml")),
    ("bluefield3", include_str!("../../platforms/bluefield3.toml")),
    ("bluefield3-ib", include_str!("../../platforms/bluefield3-ib.toml")),
    ("connectx7", include_str!("../../platforms/connectx7.toml")),
    ("epyc-9224", include_str!("../../platforms/epyc-9224.toml")),
    ("cxl-type3", include_str!("../../platforms/cxl-type3.toml")),
    ("this-host", include_str!("../../platforms/this-host.toml")),
    ("rack-of-this-host", include_str!("../../platforms/rack-of-this-host.toml")),
    ("rack-of-bluefield2", include_str!("../../platforms/rack-of-bluefield2.toml")),
    ("cxl-behind-box", include_str!("../../platforms/cxl-behind-box.toml")),
];

/// The shipped platform of this name, if there is one.
///
/// # Errors
/// Its file is wrong, which a test rules out.
pub fn shipped(name: &str) -> Option<Result<Platform, LoadError>> {
    let (name, text) = SHIPPED.iter().find(|(its, _)| *its == name)?;
    Some(Platform::parse(text, &format!("{name}.toml")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_sound_and_bears_its_name() {
        for (name, _) in SHIPPED {
            let platform =
                shipped(name).expect("it is in the list").unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(platform.name, *name);
        }
        assert!(shipped("nobody's").is_none());
    }
}
