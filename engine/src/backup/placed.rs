//! Files of the archive that an apply puts in their places, and takes away again if it fails.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use entity::error::Result;
use ranking::Error;

use super::{ArchiveFile, file};
use crate::deployment::files::failed;

/// The files and directories that a run has made. Dropping it removes them, unless
/// [`Placed::keep`] came first.
#[derive(Debug, Default)]
pub(super) struct Placed {
    files: Vec<PathBuf>,
    /// Each comes after those above it.
    directories: Vec<PathBuf>,
}

impl Placed {
    /// Copies files from one directory to another, and the directories above them.
    ///
    /// # Errors
    /// If a file is there already, or the system fails; `Corrupt` if a file is not what the
    /// manifest says.
    pub(super) fn copy(&mut self, files: &[ArchiveFile], from: &Path, to: &Path) -> Result<()> {
        for wanted in files {
            let path = to.join(&wanted.path);
            let copied = self.make_parent(&path).and_then(|()| {
                let sum = file::copy(&from.join(&wanted.path), &path)?;
                self.files.push(path.clone());
                Ok(sum)
            });
            let sum = copied.map_err(|error| failed(&path, &error))?;
            if (sum.bytes, &sum.sha256) != (wanted.bytes, &wanted.sha256) {
                return Err(Error::Corrupt(format!(
                    "{} was altered while it was copied: take another backup",
                    from.join(&wanted.path).display()
                ))
                .into());
            }
        }
        Ok(())
    }

    /// Makes the missing directories above a path.
    fn make_parent(&mut self, path: &Path) -> std::io::Result<()> {
        let above = path.ancestors().skip(1);
        let missing = above.take_while(|path| !path.as_os_str().is_empty() && !path.exists());
        for directory in missing.collect::<Vec<_>>().into_iter().rev() {
            // "a/.." is there once "a" is.
            if !directory.is_dir() {
                DirBuilder::new().mode(0o700).create(directory)?;
                self.directories.push(directory.to_owned());
            }
        }
        Ok(())
    }

    /// Writes the names of all that was made to the disk, which has the files already.
    pub(super) fn sync(&self) -> Result<()> {
        let made = self.files.iter().chain(&self.directories);
        let parents: BTreeSet<&Path> = made.filter_map(|path| path.parent()).collect();
        for parent in parents {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            let synced = File::open(parent).and_then(|directory| directory.sync_all());
            synced.map_err(|error| failed(parent, &error))?;
        }
        Ok(())
    }

    /// Leaves all that was made where it is.
    pub(super) fn keep(&mut self) {
        self.files.clear();
        self.directories.clear();
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        let files = self.files.iter().map(|path| (path, fs::remove_file(path)));
        // A directory in which others have put something stays.
        let directories = self.directories.iter().rev().map(|path| (path, fs::remove_dir(path)));
        for (path, removed) in files.chain(directories) {
            if let Err(error) = removed {
                tracing::warn!(path = %path.display(), %error, "this is left of the backup: remove it");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::deployment::checksum;

    /// A directory with two files, and their list.
    fn source(dir: &Path) -> Vec<ArchiveFile> {
        fs::create_dir_all(dir.join("board-1/2026")).unwrap();
        let wanted = |path: &str| {
            fs::write(dir.join(path), path).unwrap();
            let checksum::Sum { bytes, sha256 } = checksum::sum_of(&dir.join(path)).unwrap();
            ArchiveFile { path: path.to_owned(), bytes, sha256 }
        };
        vec![wanted("board-1/2026/a.parquet"), wanted("commits.parquet")]
    }

    #[test]
    fn what_a_run_made_goes_unless_it_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("new/archive"));
        let files = source(&from);
        let mut placed = Placed::default();
        placed.copy(&files, &from, &to).unwrap();
        placed.sync().unwrap();
        drop(placed);
        assert!(!dir.path().join("new").exists());

        let mut placed = Placed::default();
        placed.copy(&files, &from, &to).unwrap();
        placed.keep();
        drop(placed);
        for file in &files {
            assert_eq!(fs::read_to_string(to.join(&file.path)).unwrap(), file.path);
        }
        let mode = fs::metadata(to.join("board-1")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn a_run_that_fails_half_way_leaves_only_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("archive"));
        let mut files = source(&from);
        fs::create_dir(&to).unwrap();
        fs::write(to.join("of another"), "").unwrap();
        let names = |path: &Path| {
            let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
            names.collect::<Vec<_>>()
        };
        let fails = |files: &[ArchiveFile]| {
            let mut placed = Placed::default();
            let error = placed.copy(files, &from, &to).unwrap_err().to_string();
            assert!(to.join("board-1/2026/a.parquet").exists());
            drop(placed);
            assert_eq!(names(&to), ["of another"]);
            error
        };
        // The second file is not what the list says, is missing, or its place is taken.
        files[1].bytes += 1;
        assert!(fails(&files).contains("was altered"));
        files[1].path = "missing.parquet".to_owned();
        assert!(fails(&files).contains("missing.parquet"));
        fs::write(from.join("of another"), "").unwrap();
        files[1].path = "of another".to_owned();
        assert!(fails(&files).contains("of another"));
    }
}
