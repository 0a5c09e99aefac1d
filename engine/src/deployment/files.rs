//! The files of a deployment: they belong to its user, and no other user opens them.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use ranking::{Error, Result};
use rustix::fs::Mode;

/// The rights of a group and of all others.
const OTHERS: u32 = 0o077;

/// The modes of a directory and of a file for its user alone.
const DIRECTORY: u32 = 0o700;
const FILE: u32 = 0o600;

/// Makes what this process and its children create from now on their user's alone. The first call
/// of every program.
pub fn hide_new_files() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// The user of this process.
pub(crate) fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Makes a directory unless it is there, and takes from others the right to open it and all that is
/// in it.
///
/// # Errors
/// `Invalid` if another user owns some of it; `Unavailable` if the system refuses.
pub fn keep_private(dir: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(DIRECTORY).create(dir);
    made.map_err(|error| failed(dir, &error))?;
    let found = fs::metadata(dir).map_err(|error| failed(dir, &error))?;
    let narrowed = narrow(dir, &found)?;
    if narrowed > 0 {
        tracing::warn!(
            dir = %dir.display(),
            narrowed,
            "other users had rights to files of this deployment; now they have none"
        );
    }
    Ok(())
}

/// Takes the rights of others to a file, or to a directory and all that is in it. Returns how many
/// had such rights.
fn narrow(path: &Path, found: &Metadata) -> Result<usize> {
    check_owner(path, found)?;
    let mut narrowed = 0;
    if found.mode() & OTHERS != 0 {
        let own = Permissions::from_mode(found.mode() & DIRECTORY);
        ignore_missing(path, fs::set_permissions(path, own))?;
        narrowed += 1;
    }
    if !found.is_dir() {
        return Ok(narrowed);
    }
    // Redis and SQLite replace files while they run.
    for entry in ignore_missing(path, fs::read_dir(path))?.into_iter().flatten() {
        let path = entry.map_err(|error| failed(path, &error))?.path();
        // A link may lead out of the directory.
        let found = ignore_missing(&path, fs::symlink_metadata(&path))?;
        if let Some(found) = found.filter(|found| !found.is_symlink()) {
            narrowed += narrow(&path, &found)?;
        }
    }
    Ok(narrowed)
}

/// True if a directory is there and this user's alone; false if it is not there.
///
/// # Errors
/// `Invalid` if it is a link or no directory, or if another user owns it or has rights to it.
pub(crate) fn is_private(dir: &Path) -> Result<bool> {
    let Some(found) = ignore_missing(dir, fs::symlink_metadata(dir))? else {
        return Ok(false);
    };
    check_owner(dir, &found)?;
    if !found.is_dir() || found.mode() & OTHERS != 0 {
        return Err(Error::Invalid(format!(
            "invalid directory {} of mode {:o}: expected a directory of mode 700, which no other user can open; remove it",
            dir.display(),
            found.mode() & 0o7777
        )));
    }
    Ok(true)
}

fn check_owner(path: &Path, found: &Metadata) -> Result<()> {
    let (owner, own) = (found.uid(), own_user());
    if owner == own {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "{} belongs to user {owner}: expected user {own}, as which this process runs; change its owner, or run as user {owner}",
        path.display()
    )))
}

/// Writes a file that its user alone can open, in place of a former one. It is there whole or not
/// at all, and stays after a power cut.
///
/// # Errors
/// The system's.
pub fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    place_private(path, text, |beside| fs::rename(beside, path))
}

/// As [`write_private`], unless a file is there, such as one of another process that was first.
///
/// # Errors
/// The system's.
pub(crate) fn make_private(path: &Path, text: &str) -> std::io::Result<()> {
    place_private(path, text, |beside| match fs::hard_link(beside, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    })
}

/// Writes a private file beside a path, and puts it there by `place`.
fn place_private(
    path: &Path,
    text: &str,
    place: impl FnOnce(&Path) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let beside = path.with_extension(format!("{}.partial", entity::random_id()));
    let written = || -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(FILE).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        place(&beside)?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    };
    let placed = written();
    let _ = fs::remove_file(&beside);
    placed
}

/// A file for locks; made if it is not there.
pub(crate) fn lock_file(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    let opened = options.create(true).truncate(false).write(true).mode(FILE).open(path);
    opened.map_err(|error| failed(path, &error))
}

/// The other processes that hold locks of files, for a message.
pub(crate) fn lock_holders(files: &[&Path]) -> String {
    let inodes = files.iter().filter_map(|file| Some(fs::metadata(file).ok()?.ino()));
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    holders(&locks, &inodes.collect::<Vec<_>>())
}

/// The processes in a list of locks, as Linux gives it, that hold those of some inodes.
fn holders(locks: &str, inodes: &[u64]) -> String {
    let mut pids = BTreeSet::new();
    for line in locks.lines() {
        // A process that waits has an arrow in the second field.
        let [_, kind, _, _, pid, place, ..] = line.split_whitespace().collect::<Vec<_>>()[..]
        else {
            continue;
        };
        let inode = place.rsplit(':').next().and_then(|inode| inode.parse().ok());
        if kind != "->" && inode.is_some_and(|inode| inodes.contains(&inode)) {
            pids.extend(pid.parse::<u32>().ok().filter(|pid| *pid != std::process::id()));
        }
    }
    let named: Vec<String> = pids.iter().map(u32::to_string).collect();
    match named.len() {
        0 => "another process".to_owned(),
        1 => format!("process {}", named[0]),
        _ => format!("processes {}", named.join(", ")),
    }
}

/// The value of a call on a path; `None` if nothing is at the path.
fn ignore_missing<T>(path: &Path, answer: std::io::Result<T>) -> Result<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, &error)),
    }
}

/// An error of the system about a path.
pub(crate) fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::Unavailable(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn wide_modes_are_narrowed_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (data, outside) = (dir.path().join("data"), dir.path().join("outside"));
        let inner = data.join("redis");
        fs::create_dir_all(&inner).unwrap();
        for (path, wide) in [(inner.join("a.aof"), 0o644), (data.join("tool"), 0o755)] {
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(wide)).unwrap();
        }
        fs::write(&outside, "").unwrap();
        fs::set_permissions(&outside, Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(&outside, data.join("link")).unwrap();
        fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();
        keep_private(&data).unwrap();
        assert_eq!((mode(&data), mode(&inner)), (0o700, 0o700));
        assert_eq!((mode(&inner.join("a.aof")), mode(&data.join("tool"))), (0o600, 0o700));
        assert_eq!(mode(&outside), 0o644);
        keep_private(&data.join("new/deeper")).unwrap();
        assert_eq!(mode(&data.join("new/deeper")), 0o700);
    }

    #[test]
    fn a_directory_that_others_can_open_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        assert!(!is_private(&path).unwrap());
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        assert!(is_private(&path).unwrap());
        fs::set_permissions(&path, Permissions::from_mode(0o701)).unwrap();
        assert!(is_private(&path).unwrap_err().to_string().contains("expected"));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        assert!(is_private(&link).unwrap_err().to_string().contains("expected"));
    }

    #[test]
    fn holders_are_named_and_those_that_wait_are_not() {
        let locks = "\
            1: FLOCK  ADVISORY  WRITE 12 08:01:77 0 EOF\n\
            1: -> FLOCK  ADVISORY  WRITE 13 08:01:77 0 EOF\n\
            2: POSIX  ADVISORY  READ  14 fd:00:78 128 128\n\
            3: OFDLCK ADVISORY  READ  -1 fd:00:78 128 128\n";
        assert_eq!(holders(locks, &[77]), "process 12");
        assert_eq!(holders(locks, &[77, 78]), "processes 12, 14");
        assert_eq!(holders(locks, &[7]), "another process");
    }
}
