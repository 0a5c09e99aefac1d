//! A part of a job that several processes run: its partitions, its end, and its outcome.

use std::fmt;
use std::ops::RangeInclusive;

use anyhow::{Context, Result, bail};
use engine::deployment::Deployment;
use engine::job::part::Part;
use engine::job::shared::{self, Begun};
use entity::board::reshard::former_layouts;
use entity::job::part::Terms;
use ranking::id::PartitionNo;
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbErr};
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use xxhash_rust::xxh3::xxh3_128;

use super::{Job, Record};

/// The figures of a part, which add up to those of the job.
pub trait Figures: Serialize + DeserializeOwned + fmt::Display + Copy {
    /// The figures of two parts together.
    fn plus(self, other: Self) -> Self;

    /// The figures of the whole job, which took some seconds from its first to its last part.
    fn in_seconds(self, seconds: f64) -> Self;
}

/// A part that has begun, or that an earlier process did.
pub enum BegunPart<F> {
    /// This process runs it.
    Running(Job),
    /// An earlier process did it; its figures.
    Done(DonePart<F, F>),
}

/// The outcome of a part, and of the job if this was the last part.
#[derive(Debug)]
pub struct DonePart<O, F> {
    pub(crate) part: Part,
    pub(crate) job_id: i64,
    /// The run of the integrity diff that the parts share.
    pub(crate) run_id: Option<i64>,
    pub(crate) own: O,
    /// The figures of all parts, of the last one.
    pub(crate) all: Option<F>,
    /// An earlier process did the part.
    pub(crate) is_earlier: bool,
}

impl<O: fmt::Display, F: fmt::Display> fmt::Display for DonePart<O, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, job_id, own, .. } = self;
        match self.is_earlier {
            true => write!(f, "part {part} of job {job_id} was done by an earlier process: {own}")?,
            false => write!(f, "part {part} of job {job_id}: {own}")?,
        }
        match &self.all {
            Some(all) => write!(f, "\nall {} parts of job {job_id}: {all}", part.count()),
            None => Ok(()),
        }
    }
}

impl<O: Serialize, F: Serialize> Serialize for DonePart<O, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown<'a, O, F> {
            part: String,
            job: i64,
            run: Option<i64>,
            own: &'a O,
            all: &'a Option<F>,
            earlier: bool,
        }
        let shown = Shown {
            part: self.part.to_string(),
            job: self.job_id,
            run: self.run_id,
            own: &self.own,
            all: &self.all,
            earlier: self.is_earlier,
        };
        shown.serialize(serializer)
    }
}

/// The numbers of the partitions of a part.
///
/// # Errors
/// If there are more parts than `partitions`, which `whose` has.
pub fn share(part: Part, partitions: &[PartitionNo], whose: &str) -> Result<RangeInclusive<u16>> {
    part.share(partitions).with_context(|| {
        format!(
            "{whose} has {} partitions: expected at most as many parts, and not {}",
            partitions.len(),
            part.count()
        )
    })
}

/// The layouts of a board, or of all boards, as a text that changes with every move; it is empty
/// if none ever moved.
pub async fn layouts(db: &impl ConnectionTrait, board_no: Option<i64>) -> Result<String, DbErr> {
    let layouts = former_layouts(db, board_no).await?;
    if layouts.is_empty() {
        return Ok(String::new());
    }
    let lines: Vec<String> = layouts.iter().map(|(no, former)| format!("{no} {former}")).collect();
    Ok(format!("{:032x}", xxh3_128(lines.join("\n").as_bytes())))
}

impl Job {
    /// Begins a part of a job of a kind on a board or on all. `options` are those of the command
    /// that change its work.
    ///
    /// # Errors
    /// If another job or another process is in the way, or a board moved since the job began; the
    /// message says which, and what would be accepted.
    pub async fn begin_part<F: Figures>(
        deployment: &Deployment,
        kind: &str,
        board_no: Option<i64>,
        part: Part,
        options: String,
    ) -> Result<BegunPart<F>> {
        let (db, clock) = (&deployment.db, &deployment.clock);
        let terms = Terms { options, layouts: layouts(db, board_no).await?, run_id: None };
        match shared::begin(db, clock, kind, board_no, part, &terms).await? {
            Begun::Running(running) => {
                Ok(BegunPart::Running(Self::new(Some(Record::Part(running)))?))
            }
            Begun::Done { job_id, run_id, figures } => {
                let own = figures_of(&figures)?;
                let all = None;
                Ok(BegunPart::Done(DonePart { part, job_id, run_id, own, all, is_earlier: true }))
            }
            Begun::Refused(why) => bail!(why),
        }
    }

    /// Marks the part as done in a transaction, and the job if it is the last one. Returns the
    /// figures of all parts then.
    ///
    /// # Errors
    /// If the job was ended meanwhile, or a board moved.
    pub async fn end_part_in<F: Figures>(
        &self,
        transaction: &DatabaseTransaction,
        board_no: Option<i64>,
        own: F,
    ) -> Result<Option<F>> {
        let Some(Record::Part(running)) = &self.record else {
            bail!("the job has no parts");
        };
        let layouts = layouts(transaction, board_no).await?;
        let figures = serde_json::to_string(&own)?;
        let Some(all) = running.end_in(transaction, &figures, &layouts).await? else {
            return Ok(None);
        };
        let all = all.iter().map(|figures| figures_of::<F>(figures)).collect::<Result<Vec<F>>>()?;
        let all = all.into_iter().reduce(F::plus).context("a job has no parts")?;
        let all = all.in_seconds(running.job_seconds());
        running.finish_in(transaction, &all.to_string()).await?;
        Ok(Some(all))
    }

    /// The outcome of a part: recorded if it failed.
    ///
    /// # Errors
    /// Those of the outcome.
    pub async fn or_fail_part<T>(
        &self,
        deployment: &Deployment,
        board_no: Option<i64>,
        outcome: Result<T>,
    ) -> Result<T> {
        self.bar.finish_and_clear();
        if let (Err(error), Some(Record::Part(running))) = (&outcome, &self.record) {
            let failing = async {
                let layouts = layouts(&deployment.db, board_no).await?;
                Ok::<_, anyhow::Error>(running.fail(&format!("{error:#}"), &layouts).await?)
            };
            if let Err(error) = failing.await {
                eprintln!("warning: the end of the part cannot be recorded: {error:#}");
            }
        }
        outcome
    }

    /// The part with its outcome.
    pub fn done_part<O, F>(&self, own: O, all: Option<F>) -> Result<DonePart<O, F>> {
        let Some(Record::Part(running)) = &self.record else {
            bail!("the job has no parts");
        };
        let (part, job_id, run_id) = (running.part(), running.job_id(), running.run_id());
        Ok(DonePart { part, job_id, run_id, own, all, is_earlier: false })
    }

    /// The run of the integrity diff that the parts share.
    pub fn run_id(&self) -> Option<i64> {
        match &self.record {
            Some(Record::Part(running)) => running.run_id(),
            _ => None,
        }
    }
}

fn figures_of<F: Figures>(text: &str) -> Result<F> {
    serde_json::from_str(text)
        .context("the figures of another part are of another version: expected one version")
}
