//! Certificates for servers that are reached over TLS.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::error::SettingsError;

/// Trusts the certificates in a file, or those of the system.
///
/// The cryptography is chosen here and not by the process, so that it does not depend on what other
/// parts of the program use.
pub(crate) fn connector(ca_file: Option<&Path>) -> Result<TlsConnector, SettingsError> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = ca_file {
        let unusable = |why: String| SettingsError::CaFile { file: file.to_owned(), why };
        let certificates =
            CertificateDer::pem_file_iter(file).map_err(|error| unusable(error.to_string()))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
            roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(unusable("there is none in it".to_owned()));
        }
    } else {
        // Single certificates of the system that cannot be read are usual, and no reason to trust
        // none of the others.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(SettingsError::NoCertificates);
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| SettingsError::Tls(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
