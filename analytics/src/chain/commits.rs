//! The commits of a partition with their events, wherever these are: in SQL, or in files of the
//! archive.

use std::collections::{BTreeMap, HashMap};

use anyhow::Result;
use engine::deployment::Deployment;
use entity::archive::{archive_file, archive_mark, commit_file};
use entity::history::{commit, score_event};
use polars::prelude::{col, lit};
use ranking::commit::content::LEAF_BYTES;
use ranking::id::PartitionNo;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter};
use tokio::task::block_in_place;

use super::files;
use crate::frame::counted::in_parts;
use crate::frame::{events, parquet};

/// The most commits of a page.
const COMMITS_MAX: u64 = 1000;

/// The most events of a page, unless its first commit has more.
const EVENTS_MAX: usize = 50_000;

/// A commit, and those of its events that history has.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The commit.
    pub row: commit::Model,
    /// Its events, by index: `None` for those without a row.
    pub events: Vec<Option<score_event::Model>>,
    /// Rows of events that it has no place for.
    pub strays: Vec<score_event::Model>,
}

impl Recorded {
    /// A commit without its events.
    pub fn new(row: commit::Model) -> Self {
        let events = vec![None; row.leaves.len() / LEAF_BYTES];
        Self { row, events, strays: vec![] }
    }

    /// Puts an event in its place.
    pub fn put(&mut self, event: score_event::Model) {
        let index = usize::try_from(event.event_index).unwrap_or(usize::MAX);
        match self.events.get_mut(index) {
            Some(place) if place.is_none() => *place = Some(event),
            _ => self.strays.push(event),
        }
    }

    /// The number of its events without a row.
    pub fn missing(&self) -> usize {
        self.events.iter().filter(|event| event.is_none()).count()
    }
}

/// A page of commits.
pub struct Page {
    /// The commits, oldest first; none if the file that holds them cannot be read.
    pub commits: Vec<Recorded>,
    /// The errors of files that could not be read: their commits or events are missing.
    pub unread: Vec<String>,
}

/// Reads the commits of a partition page by page.
pub struct Commits<'a> {
    deployment: &'a Deployment,
    partition: PartitionNo,
    after_seq: i64,
    through_seq: i64,
}

/// The rows of a page in SQL.
struct Rows {
    commits: Vec<commit::Model>,
    events: Vec<score_event::Model>,
    files: Vec<archive_file::Model>,
}

impl<'a> Commits<'a> {
    /// The commits after one seq, up to another.
    pub fn new(deployment: &'a Deployment, partition: PartitionNo, seqs: (i64, i64)) -> Self {
        Self { deployment, partition, after_seq: seqs.0, through_seq: seqs.1 }
    }

    /// The next page; `None` at the end.
    ///
    /// # Errors
    /// If SQL does not answer.
    pub async fn next(&mut self) -> Result<Option<Page>> {
        let view = self.deployment.view().await?;
        let rows = self.rows(&view).await;
        view.rollback().await?;
        let Rows { commits, events, files } = match rows? {
            Ok(rows) => rows,
            Err(unread) => return Ok(Some(Page { commits: vec![], unread: vec![unread] })),
        };
        let (Some(first), Some(last)) = (commits.first(), commits.last()) else {
            return Ok(None);
        };
        let (first, last) = (first.seq, last.seq);
        self.after_seq = last;
        let mut page: BTreeMap<i64, Recorded> =
            commits.into_iter().map(|row| (row.seq, Recorded::new(row))).collect();
        let mut put = |events: Vec<score_event::Model>| {
            for event in events {
                if let Some(commit) = page.get_mut(&event.seq) {
                    commit.put(event);
                }
            }
        };
        put(events);
        let mut unread = vec![];
        for file in files {
            match block_in_place(|| self.archived(&file, first, last)) {
                Ok(events) => put(events),
                Err(error) => unread.push(format!("{error:#}")),
            }
        }
        Ok(Some(Page { commits: page.into_values().collect(), unread }))
    }

    /// Reads a page's rows, and which files hold events of it, at one moment; or says which file of
    /// commits cannot be read.
    async fn rows(&self, view: &DatabaseTransaction) -> Result<std::result::Result<Rows, String>> {
        let after_seq = self.after_seq;
        let mut commits = match commit_file::first_after(view, self.partition, after_seq).await? {
            Some(file) => {
                let read = || files::read(self.deployment, &file, after_seq, COMMITS_MAX);
                match block_in_place(read) {
                    Ok(commits) => commits,
                    Err(error) => return Ok(Err(format!("{error:#}"))),
                }
            }
            None => commit::page_after(view, self.partition, after_seq, COMMITS_MAX).await?,
        };
        let mut events = 0;
        let fits = commits.iter().take_while(|commit| {
            events += commit.leaves.len() / LEAF_BYTES;
            commit.seq <= self.through_seq && events <= EVENTS_MAX
        });
        let count = fits.count().max(1);
        commits.truncate(count);
        commits.retain(|commit| commit.seq <= self.through_seq);
        let (Some(first), Some(last)) = (commits.first(), commits.last()) else {
            return Ok(Ok(Rows { commits, events: vec![], files: vec![] }));
        };
        let partition = i32::from(self.partition);
        let marks = archive_mark::of_partition(view, self.partition).await?;
        let marks: HashMap<i64, i64> =
            marks.into_iter().map(|mark| (mark.board_no, mark.archived_seq)).collect();
        let mut events = score_event::Entity::find()
            .filter(score_event::Column::Partition.eq(partition))
            .filter(score_event::Column::Seq.between(first.seq, last.seq))
            .all(view)
            .await?;
        // Archived events may still have rows that no reader counts.
        events.retain(|event| marks.get(&event.board_no).is_none_or(|&mark| event.seq > mark));
        use archive_file::{Column as F, State};
        let files = archive_file::Entity::find()
            .filter(F::Partition.eq(partition))
            .filter(F::State.is_in([State::Archived, State::Dropped, State::Gone]))
            .filter(F::FirstSeq.lte(last.seq))
            .filter(F::LastSeq.gte(first.seq))
            .all(view)
            .await?;
        Ok(Ok(Rows { commits, events, files }))
    }

    /// The events of a file of the archive in some commits.
    fn archived(
        &self,
        file: &archive_file::Model,
        first: i64,
        last: i64,
    ) -> Result<Vec<score_event::Model>> {
        let frame = parquet::scan(&self.deployment.archive_dir.join(&file.path))?;
        let of_page = col("seq").gt_eq(lit(first)).and(col("seq").lt_eq(lit(last)));
        events::rows(&in_parts(frame.filter(of_page))?)
    }
}
