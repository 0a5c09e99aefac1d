//! A command until its end, and its row in the audit log.

use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use engine::audit::{Begun, of_command};
use engine::deployment::Deployment;

use crate::job::stop::Stop;
use crate::{Command, work};

impl Command {
    /// The act of an operator, with the slug of its board; `None` if the command changes nothing.
    fn act(&self) -> Option<(&'static str, Option<&str>)> {
        Some(match self {
            Self::Rebuild(job) => ("laurel rebuild", Some(&job.own.board)),
            Self::Diff(job) if job.own.repair => ("laurel diff", job.own.board.as_deref()),
            Self::Roll(_) => ("laurel roll", None),
            Self::Seal(_) => ("laurel seal", None),
            Self::Restore(job) => ("laurel restore", job.own.board.as_deref()),
            Self::Archive(job) => ("laurel archive", job.own.board.as_deref()),
            Self::Mirror(job) if !job.own.check => ("laurel mirror", None),
            Self::EraseFiles(_) => ("laurel erase-files", None),
            Self::Import(job) => ("laurel import", job.own.board.as_deref()),
            _ => return None,
        })
    }
}

/// Runs a job until it is done or a signal stops it; the job's row then says so, and that of the
/// audit log. After a second signal it does not wait for computations.
pub(crate) async fn work_until(
    mut stop: Stop,
    deployment: &Deployment,
    command: Command,
    json: bool,
) -> Result<ExitCode> {
    let begun = match command.act().filter(|_| !stop.is_of_server()) {
        Some((name, slug)) => {
            let act = of_command(name, &deployment.clock);
            let act = slug.into_iter().fold(act, |act, slug| act.on_slug(slug));
            let begun = Begun::new(&deployment.db, act).await;
            Some(begun.context("the audit log cannot be written")?)
        }
        None => None,
    };
    let mut working = tokio::spawn({
        let deployment = deployment.clone();
        async move { work(&deployment, command, json).await }
    });
    let why = tokio::select! {
        outcome = &mut working => {
            let outcome = outcome?;
            if let Some(begun) = begun {
                begun.finish(&outcome).await;
            }
            return outcome;
        }
        why = stop.wait() => why,
    };
    working.abort();
    // The end of the task removes its temporary files.
    let is_impatient = tokio::select! {
        _ = working => false,
        _ = stop.wait() => true,
    };
    engine::job::end_own(&deployment.db, why, deployment.clock.now_ms()).await?;
    if let Some(begun) = begun {
        begun.finish(&Err::<(), _>(anyhow!(why))).await;
    }
    if is_impatient {
        eprintln!("error: {why} during a computation; nothing is half done, run it again");
        std::process::exit(1);
    }
    bail!("{why}; nothing is half done, run it again")
}
