//! The checksums by which files of the archive and of backups are known.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256, digest};
use ranking::commit::content::to_hex;

/// The bytes that are read at once.
pub(crate) const BLOCK_BYTES: usize = 1 << 20;

/// The size and the checksum of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sum {
    /// The number of bytes.
    pub bytes: u64,
    /// The SHA-256, in hexadecimal digits.
    pub sha256: String,
}

/// The SHA-256 of some bytes, in hexadecimal digits.
pub fn sha256_of(bytes: &[u8]) -> String {
    to_hex(digest(&SHA256, bytes).as_ref())
}

/// The size and the checksum of a file, as the disk gives it now.
pub fn sum_of(path: &Path) -> std::io::Result<Sum> {
    let (mut hash, mut bytes) = (Context::new(&SHA256), 0);
    each_block(path, |block| {
        hash.update(block);
        bytes += block.len() as u64;
        Ok(())
    })?;
    Ok(Sum { bytes, sha256: to_hex(hash.finish().as_ref()) })
}

/// Reads a file block by block.
pub(crate) fn each_block(
    path: &Path,
    mut each: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let (mut file, mut block) = (File::open(path)?, vec![0; BLOCK_BYTES]);
    loop {
        match file.read(&mut block)? {
            0 => return Ok(()),
            read => each(&block[..read])?,
        }
    }
}
