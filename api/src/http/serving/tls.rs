//! TLS of the server: its certificate and key, read from files, and read again on SIGHUP.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::{Context, Result, ensure};
use engine::settings::ConnectionSettings;
use tokio::signal::unix::{SignalKind, signal};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The certificate chain and the key of the server.
pub struct Certificates {
    certificate: PathBuf,
    key: PathBuf,
    acceptor: RwLock<TlsAcceptor>,
}

impl Certificates {
    /// Reads the files that the settings name; `None` if they name none.
    ///
    /// # Errors
    /// The file that cannot be read, or files that do not belong together.
    pub fn load(settings: &ConnectionSettings) -> Result<Option<Arc<Self>>> {
        let (Some(certificate), Some(key)) = (&settings.tls_cert, &settings.tls_key) else {
            return Ok(None);
        };
        let acceptor = RwLock::new(acceptor(certificate, key)?);
        Ok(Some(Arc::new(Self { certificate: certificate.clone(), key: key.clone(), acceptor })))
    }

    /// The present certificate and key, for a new connection.
    pub fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the files again on each SIGHUP. Files that do not hold are logged, and those of before
    /// stay in use.
    ///
    /// # Errors
    /// The system's, if it has no room for a handler.
    pub fn follow(self: &Arc<Self>) -> Result<()> {
        let mut hangups = signal(SignalKind::hangup())?;
        let certificates = self.clone();
        tokio::spawn(async move {
            while hangups.recv().await.is_some() {
                match acceptor(&certificates.certificate, &certificates.key) {
                    Ok(acceptor) => {
                        let mut present =
                            certificates.acceptor.write().unwrap_or_else(PoisonError::into_inner);
                        *present = acceptor;
                        tracing::info!("the certificate was read again");
                    }
                    Err(error) => tracing::error!("the certificate stays as it was: {error:#}"),
                }
            }
        });
        Ok(())
    }
}

fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
    let described = |name: &str, path: &Path| format!("{name}: {} cannot be read", path.display());
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| described("LAUREL_TLS_CERT", certificate))?;
    ensure!(
        !chain.is_empty(),
        "LAUREL_TLS_CERT: {} has no certificate: expected PEM",
        certificate.display()
    );
    let secret =
        PrivateKeyDer::from_pem_file(key).with_context(|| described("LAUREL_TLS_KEY", key))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .context("LAUREL_TLS_CERT and LAUREL_TLS_KEY do not belong together")?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A client that comes again shows its ticket, and the key signs nothing.
    config.ticketer = aws_lc_rs::Ticketer::new()?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
