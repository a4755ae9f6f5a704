//! Who a client is by its certificate, which rustls has believed before: common name, DNS names, URIs.
//!
//! Bounds: [`NAMES_MAX`] names.

use crate::rights::Identity;
use rustls::pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

/// Names of a certificate that are looked at.
pub const NAMES_MAX: usize = 64;

/// Names of the first of these certificates; none where there is none, or it cannot be read: its owner is anybody then.
pub fn identities(certificates: Option<&[CertificateDer<'_>]>) -> Vec<Identity> {
    let Some(own) = certificates.and_then(<[_]>::first) else { return Vec::new() };
    let Ok((_, own)) = parse_x509_certificate(own) else { return Vec::new() };
    let common = own.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    let common = common.map(|name| Identity::CommonName(name.into()));
    let alternative = own.subject_alternative_name().ok().flatten();
    let names = alternative.iter().flat_map(|extension| &extension.value.general_names);
    let others = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(Identity::dns(name)),
        GeneralName::URI(uri) => Some(Identity::Uri((*uri).into())),
        _ => None,
    });
    common.chain(others).take(NAMES_MAX).collect()
}
