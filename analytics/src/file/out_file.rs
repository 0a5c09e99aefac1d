//! A file that is there whole or not at all: written under a temporary name beside its own, and
//! renamed at the end.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::display_path;

/// A file being written. If it is dropped before `finish`, it leaves nothing behind.
pub struct OutFile {
    path: PathBuf,
    temporary: PathBuf,
    file: File,
}

impl OutFile {
    /// Begins a file.
    ///
    /// # Errors
    /// If its directory cannot be written to.
    pub fn create(path: &Path) -> Result<Self> {
        let cannot = || format!("{} cannot be written", display_path(path));
        let mut name = path.file_name().with_context(cannot)?.to_owned();
        name.push(format!(".{}.partial", std::process::id()));
        let temporary = path.with_file_name(name);
        let file = File::create(&temporary).with_context(cannot)?;
        Ok(Self { path: path.to_owned(), temporary, file })
    }

    /// A handle to write to.
    ///
    /// # Errors
    /// If the process has too many open files.
    pub fn file(&self) -> Result<File> {
        Ok(self.file.try_clone()?)
    }

    /// As [`Self::finish`], unless something has the name by now.
    ///
    /// # Errors
    /// As [`Self::finish`], and if something has the name.
    pub fn finish_new(self) -> Result<()> {
        let linked =
            self.file.sync_all().and_then(|()| std::fs::hard_link(&self.temporary, &self.path));
        linked.with_context(|| format!("{} cannot be written", display_path(&self.path)))
    }

    /// Gives the file its name once the disk has all of it. An existing file is replaced.
    ///
    /// # Errors
    /// If the disk is full, or the directory cannot be written to.
    pub fn finish(self) -> Result<()> {
        let renamed =
            self.file.sync_all().and_then(|()| std::fs::rename(&self.temporary, &self.path));
        renamed.with_context(|| format!("{} cannot be written", display_path(&self.path)))
    }
}

impl Drop for OutFile {
    fn drop(&mut self) {
        // After a rename the temporary name is gone.
        let _ = std::fs::remove_file(&self.temporary);
    }
}
