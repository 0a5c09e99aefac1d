//! `laurel completions` and `laurel manual`: the commands, for shells and for man.

use std::fs;
use std::io;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use super::Arguments;

/// Prints the completions of all commands for a shell.
pub(super) fn complete(shell: Shell) {
    let mut command = Arguments::command();
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command, name, &mut io::stdout());
}

/// Writes a manual page for each command into a directory, and says how many.
///
/// # Errors
/// If the directory cannot be made or written.
pub(super) fn write_manual(directory: &PathBuf) -> Result<()> {
    let written = || -> io::Result<usize> {
        fs::create_dir_all(directory)?;
        clap_mangen::generate_to(Arguments::command(), directory)?;
        Ok(fs::read_dir(directory)?.count())
    };
    let pages =
        written().with_context(|| format!("{} does not take manual pages", directory.display()))?;
    println!("{pages} pages in {}", directory.display());
    Ok(())
}
