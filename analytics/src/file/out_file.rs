//! A file that is there whole or not at all: written under a temporary name beside its own, and renamed at the end.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::shown;

/// A file being written. Dropped before it is finished, it leaves nothing behind.
pub struct OutFile {
    path: PathBuf,
    temporary: PathBuf,
    file: File,
}

impl OutFile {
    /// Begins a file.
    ///
    /// # Errors
    /// Where its directory cannot be written to.
    pub fn create(path: &Path) -> Result<Self> {
        let cannot = || format!("{} cannot be written", shown(path));
        let mut name = path.file_name().with_context(cannot)?.to_owned();
        name.push(format!(".{}.partial", std::process::id()));
        let temporary = path.with_file_name(name);
        let file = File::create(&temporary).with_context(cannot)?;
        Ok(Self { path: path.to_owned(), temporary, file })
    }

    /// The open file, to write to.
    ///
    /// # Errors
    /// Where the process has too many open files.
    pub fn file(&self) -> Result<File> {
        Ok(self.file.try_clone()?)
    }

    /// Gives the file its name, once all of it is on the disk; one of that name is replaced.
    ///
    /// # Errors
    /// Where the disk is full, or the directory cannot be written to.
    pub fn finish(self) -> Result<()> {
        let renamed =
            self.file.sync_all().and_then(|()| std::fs::rename(&self.temporary, &self.path));
        renamed.with_context(|| format!("{} cannot be written", shown(&self.path)))
    }
}

impl Drop for OutFile {
    fn drop(&mut self) {
        // After a rename there is none of that name.
        let _ = std::fs::remove_file(&self.temporary);
    }
}
