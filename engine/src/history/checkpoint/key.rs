//! The key that signs checkpoints.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use ranking::commit::content::{from_hex, to_hex};
use ranking::{Error, Result};

use crate::deployment::files::make_private;

/// An Ed25519 key.
pub struct Key(Ed25519KeyPair);

impl Key {
    /// Reads the key of a file, as 64 hexadecimal digits; makes the file if it is not there.
    ///
    /// # Errors
    /// `Invalid` if it holds no key; `Unavailable` if the system refuses.
    pub fn load(path: &Path) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::Unavailable(format!("the key of checkpoints {}: {error}", path.display()))
        };
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let seed = to_hex(&rand::random::<[u8; 32]>());
                make_private(path, &format!("{seed}\n")).map_err(failed)?;
                fs::read_to_string(path).map_err(failed)?
            }
            read => read.map_err(failed)?,
        };
        let pair = from_hex(text.trim())
            .and_then(|seed| Ed25519KeyPair::from_seed_unchecked(&seed).ok())
            .ok_or_else(|| {
                Error::Invalid(format!(
                    "invalid key of checkpoints {}: expected 64 hexadecimal digits in lower case",
                    path.display()
                ))
            })?;
        Ok(Self(pair))
    }

    /// The public key, as hexadecimal digits.
    pub fn public(&self) -> String {
        to_hex(self.0.public_key().as_ref())
    }

    /// The signature of a text.
    pub(super) fn sign(&self, text: &[u8]) -> Vec<u8> {
        self.0.sign(text).as_ref().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_for_its_user_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("checkpoint.key");
        let made = Key::load(&path).unwrap();
        assert_eq!(Key::load(&path).unwrap().public(), made.public());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        fs::write(&path, "x").unwrap();
        assert!(Key::load(&path).is_err());
    }
}
