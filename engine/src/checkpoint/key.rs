//! The key that signs checkpoints.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use ranking::commit::content::{from_hex, to_hex};
use ranking::{Error, Result};

/// The mode of the key's file: its user alone opens it.
const MODE: u32 = 0o600;

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
                make(path).map_err(failed)?;
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

/// Writes a new key to a file, unless another process was first. The file is there whole or not at
/// all.
fn make(path: &Path) -> std::io::Result<()> {
    let beside = path.with_extension(format!("{}.partial", entity::random_id()));
    let written = || -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(MODE).open(&beside)?;
        writeln!(file, "{}", to_hex(&rand::random::<[u8; 32]>()))?;
        file.sync_all()?;
        match fs::hard_link(&beside, path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            linked => linked?,
        }
        // What it signs outlives a power cut, so the key does as well.
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    };
    let made = written();
    let _ = fs::remove_file(&beside);
    made
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
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        fs::write(&path, "x").unwrap();
        assert!(Key::load(&path).is_err());
    }
}
