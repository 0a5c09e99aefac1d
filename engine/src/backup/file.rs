//! Files of a backup: written and copied with their checksums.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};
use ranking::commit::content::to_hex;

use crate::deployment::checksum::{BLOCK_BYTES, Sum, each_block};

/// A new private file that hashes all that is written to it.
pub(super) struct HashedFile {
    file: BufWriter<File>,
    hash: Context,
    bytes: u64,
}

impl HashedFile {
    /// Makes the file, and the directories above it.
    pub(super) fn create(path: &Path) -> std::io::Result<Self> {
        if let Some(directory) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Self {
            file: BufWriter::with_capacity(BLOCK_BYTES, file),
            hash: Context::new(&SHA256),
            bytes: 0,
        })
    }

    /// Writes the rest to the disk.
    pub(super) fn finish(self) -> std::io::Result<Sum> {
        let file = self.file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok(Sum { bytes: self.bytes, sha256: to_hex(self.hash.finish().as_ref()) })
    }
}

impl Write for HashedFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// Copies a file to a new one; the sum of the bytes that were copied. If it fails, the new file is
/// gone.
pub(super) fn copy(from: &Path, to: &Path) -> std::io::Result<Sum> {
    let mut file = HashedFile::create(to)?;
    let copied = each_block(from, |block| file.write_all(block)).and_then(|()| file.finish());
    if copied.is_err() {
        fs::remove_file(to)?;
    }
    copied
}
