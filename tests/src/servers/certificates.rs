//! Certificates of a test's own: an authority, and a server's certificate for this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Makes both with openssl, in the directory where it runs. A certificate of an authority does not
/// pass for a server's, so there are two.
const SCRIPT: &str = r#"
key="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
openssl req -x509 $key -keyout ca.key -out ca.pem -subj "/CN=authority of a test" -days 2
openssl req $key -keyout server.key -out server.csr -subj /CN=localhost
printf 'basicConstraints=CA:FALSE\nsubjectAltName=DNS:localhost,IP:127.0.0.1\n' >server.ext
openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
    -extfile server.ext -out server.pem
"#;

/// An authority and a certificate that it signed, as PEM files.
pub struct Certificates(TempDir);

impl Certificates {
    /// Makes new ones.
    pub fn create() -> Self {
        let dir = tempfile::Builder::new().prefix("laurel-certificates-").tempdir().unwrap();
        let made = Command::new("sh").args(["-e", "-c", SCRIPT]).current_dir(dir.path()).output();
        let made = made.unwrap();
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "openssl makes no certificate: {said}");
        Self(dir)
    }

    /// The directory, which has `server.pem` and `server.key`, too.
    pub fn dir(&self) -> &Path {
        self.0.path()
    }

    /// The file of the authority's certificate.
    pub fn authority(&self) -> PathBuf {
        self.0.path().join("ca.pem")
    }
}
