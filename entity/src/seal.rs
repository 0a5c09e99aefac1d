//! Seals: past periods of a board's windows leave Redis for SQL.
//!
//! 1. The board's row says before which instant periods are being sealed.
//! 2. A commit in each partition marks it: from there on nobody writes to them in Redis, and what comes late goes to the history alone. Who
//!    writes that to SQL corrects the sealed entries with it ([`crate::correction`]).
//! 3. Once SQL has the mark's commit, the entries are copied, page by page, but for those that were corrected since the mark.
//! 4. The board's row says that they are sealed: readers go to the archive.
//! 5. The keys go by commits that say so in the mark, so that a reader with an old row does not take them for empty.
//!
//! Each step can be taken again. Where Redis is loaded anew in between, the mark says as of which commit the entries are now, and a partition
//! whose mark changed while it was copied is copied again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{LazyLock, Mutex};

use ranking::board::Board;
use ranking::id::{BoardNo, Partition};
use ranking::key::StandingsId;
use ranking::seal::{NEVER_MS, SealMark, SealName, kept_from_ms};
use ranking::store::read::Placed;
use ranking::store::seal::FinalPage;
use ranking::store::write::Writes;
use ranking::window::{Period, Window};
use sea_orm::{
    ColumnTrait, Condition, DatabaseTransaction, EntityTrait, IntoActiveModel, PaginatorTrait,
    QueryFilter, QueryOrder, QuerySelect, TransactionTrait,
};
use tokio::time::{Duration, Instant};

use crate::board::{self, WindowRow, WindowState, windows_text};
use crate::change::{Change, Proposal, carry_out};
use crate::correction::{cursor_lock, set_windows};
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::persist::insert_chunked;
use crate::recovery::settle;
use crate::{log_cursor, score_event, sealed_entry, sealed_period};

/// How many entries one transaction copies.
const ENTRIES_MAX: usize = 1000;

/// How many keys, or periods of a list, one commit drops.
const KEYS_MAX: usize = 500;

/// How many rows one statement takes away.
const ROWS_MAX: u64 = 5000;

/// How often a partition is copied again because Redis was loaded anew, before something else is done first.
const COPIES_MAX: usize = 5;

/// How many steps are taken for one board, before something else is done first.
const STEPS_MAX: usize = 100;

/// How long one commit is tried for.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(20);

/// What was sealed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sealing {
    /// How many windows of boards.
    pub windows: usize,
    /// How many standings of past periods, by shard.
    pub standings: usize,
    /// How many entries.
    pub entries: usize,
}

impl fmt::Display for Sealing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            windows,
            standings,
            entries,
        } = self;
        write!(
            f,
            "sealed {entries} entries of {standings} standings in {windows} windows"
        )
    }
}

/// Seals what is due at an instant: of each window the periods beside the present one and those that it retains. One board's trouble is not
/// the others'.
///
/// # Errors
/// What the stores say of the last board in trouble: call it again.
pub async fn seal(deployment: &Deployment, now_ms: i64) -> Result<Sealing> {
    let with_windows = board::living().filter(board::Column::Windows.ne("[]"));
    let (mut sealing, mut failed) = (Sealing::default(), None);
    for row in with_windows.all(&deployment.db).await? {
        if let Err(error) = seal_board(deployment, row, now_ms, &mut sealing).await {
            failed = Some(error);
        }
    }
    failed.map_or(Ok(sealing), Err)
}

/// Takes back what the archive has of a board, or of one window of it, in bounded steps. Nobody adds to it any more.
///
/// # Errors
/// What SQL says.
pub(crate) async fn purge(
    deployment: &Deployment,
    no: BoardNo,
    window: Option<(Window, u32)>,
) -> Result<()> {
    use sealed_entry::Column::{Member, StandingsNo};
    let db = &deployment.db;
    let mut meant = Condition::all().add(sealed_period::Column::BoardNo.eq(no.0));
    if let Some((window, generation)) = window {
        meant = meant
            .add(sealed_period::Column::Window.eq(window.to_string()))
            .add(sealed_period::Column::Generation.eq(generation as i32));
    }
    while let Some(period) = sealed_period::Entity::find()
        .filter(meant.clone())
        .one(db)
        .await?
    {
        loop {
            let last: Option<String> = sealed_entry::Entity::find()
                .select_only()
                .column(Member)
                .filter(StandingsNo.eq(period.no))
                .order_by_asc(Member)
                .offset(ROWS_MAX)
                .limit(1)
                .into_tuple()
                .one(db)
                .await?;
            let mut delete = sealed_entry::Entity::delete_many().filter(StandingsNo.eq(period.no));
            if let Some(last) = &last {
                delete = delete.filter(Member.lt(last));
            }
            delete.exec(db).await?;
            if last.is_none() {
                break;
            }
        }
        sealed_period::Entity::delete_by_id(period.no)
            .exec(db)
            .await?;
    }
    Ok(())
}

/// Whether the archive has something of a board's window.
///
/// # Errors
/// What SQL says.
pub(crate) async fn has(deployment: &Deployment, no: BoardNo, window: Window) -> Result<bool> {
    let of_window = sealed_period::Entity::find()
        .filter(sealed_period::Column::BoardNo.eq(no.0))
        .filter(sealed_period::Column::Window.eq(window.to_string()));
    Ok(of_window.one(&deployment.db).await?.is_some())
}

/// What is to be done next with a window.
enum Step {
    /// Say in the board's row that periods before an instant are being sealed.
    Decide(i64),
    /// Mark, copy, and say in the row that they are sealed.
    Copy(i64),
    /// Drop what is sealed from Redis.
    Drop(i64),
}

/// A window of a board.
struct Part<'a> {
    deployment: &'a Deployment,
    row: &'a board::Model,
    board: &'a Board,
    name: SealName,
}

async fn seal_board(
    deployment: &Deployment,
    mut row: board::Model,
    now_ms: i64,
    sealing: &mut Sealing,
) -> Result<()> {
    for _ in 0..STEPS_MAX {
        let board = row.to_ranking()?;
        let mut windows = row.window_rows()?;
        // What is being filled or dropped comes first.
        if windows
            .iter()
            .any(|window| window.state != WindowState::Whole)
        {
            return Ok(());
        }
        let mut next = None;
        for (index, window) in windows.iter().enumerate() {
            let Some(mut step) = step(window, &board, now_ms)? else {
                continue;
            };
            if let Step::Decide(before_ms) = &mut step {
                let open_ms = open_from_ms(deployment, &board, window.name.parse()?).await?;
                *before_ms = open_ms.min(*before_ms);
                if *before_ms <= window.sealed().sealing_before_ms {
                    continue;
                }
            }
            next = Some((index, step));
            break;
        }
        let Some((index, step)) = next else {
            return Ok(());
        };
        let window = &mut windows[index];
        let part = Part {
            deployment,
            row: &row,
            board: &board,
            name: SealName {
                board: board.no,
                generation: window.since,
                window: window.name.parse()?,
            },
        };
        match step {
            Step::Decide(before_ms) => window.sealing_before_ms = Some(before_ms),
            Step::Copy(before_ms) => {
                let from_ms = window.sealed_before_ms.unwrap_or(NEVER_MS);
                part.mark(before_ms).await?;
                part.copy(from_ms, before_ms, sealing).await?;
                window.sealed_before_ms = Some(before_ms);
                sealing.windows += 1;
            }
            Step::Drop(before_ms) => {
                part.drop_keys(before_ms).await?;
                window.dropped_before_ms = Some(before_ms);
            }
        }
        // Whoever changed the row meanwhile was first: it is looked at again.
        set_windows(&row, &windows_text(&windows))
            .exec(&deployment.db)
            .await?;
        let Some(later) = board::living()
            .filter(board::Column::No.eq(row.no))
            .one(&deployment.db)
            .await?
        else {
            return Ok(());
        };
        row = later;
    }
    Ok(())
}

/// The instant from which on a window's periods are still needed: of a rolling window what has begun last and comes after it, of its base
/// window whatever is in that.
async fn open_from_ms(deployment: &Deployment, board: &Board, window: Window) -> Result<i64> {
    let mut open_ms = i64::MAX;
    let is_made_of = |other: &Window| match other.rolling() {
        Some(rolling) => *other == window || rolling.base() == window,
        None => false,
    };
    if !board.rules.windows.iter().any(is_made_of) {
        return Ok(open_ms);
    }
    for partition in deployment.store.partitions().of_board(board) {
        let (_, marks) = deployment.store.rolls(partition, board.no).await?;
        for &rolling in board.rules.windows.iter().filter(|other| is_made_of(other)) {
            let suffix = format!(":{rolling}");
            for (_, mark) in marks.iter().filter(|(name, _)| name.ends_with(&suffix)) {
                let begun = rolling.period_at(mark.begun_ms, &board.rules.zone)?;
                open_ms = open_ms.min(match rolling == window {
                    true => begun.present_from_ms,
                    false => begun.start_ms,
                });
            }
        }
    }
    Ok(open_ms)
}

/// What is to be done next with a window; what was begun is finished first.
fn step(window: &WindowRow, board: &Board, now_ms: i64) -> Result<Option<Step>> {
    let sealed = window.sealed();
    if sealed.sealing_before_ms > sealed.sealed_before_ms {
        return Ok(Some(Step::Copy(sealed.sealing_before_ms)));
    }
    if sealed.sealed_before_ms > window.dropped_before_ms.unwrap_or(NEVER_MS) {
        return Ok(Some(Step::Drop(sealed.sealed_before_ms)));
    }
    let due_ms = due_ms(window, board, now_ms)?;
    Ok(due_ms
        .filter(|&due_ms| due_ms > sealed.sealing_before_ms)
        .map(Step::Decide))
}

/// The instant before which a window's periods are to be sealed. As it is asked for again and again, the last answers are remembered.
fn due_ms(window: &WindowRow, board: &Board, now_ms: i64) -> Result<Option<i64>> {
    type Asked = (String, Window, u32);
    static LAST: LazyLock<Mutex<BTreeMap<Asked, (i64, Option<i64>)>>> =
        LazyLock::new(Mutex::default);
    let (rule, retain, zone) = (window.name.parse()?, window.retained(), &board.rules.zone);
    if retain == ranking::seal::RETAIN_MAX {
        return Ok(None);
    }
    let present_ms = Window::period_at(rule, now_ms, zone)?.present_from_ms;
    let asked = (
        zone.iana_name().unwrap_or_default().to_owned(),
        rule,
        retain,
    );
    let mut last = LAST
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(&(at_ms, due_ms)) = last.get(&asked)
        && at_ms == present_ms
    {
        return Ok(due_ms);
    }
    let due_ms = kept_from_ms(rule, zone, now_ms, retain)?;
    if last.len() > 10_000 {
        last.clear();
    }
    last.insert(asked, (present_ms, due_ms));
    Ok(due_ms)
}

impl Part<'_> {
    fn partitions(&self) -> Vec<Partition> {
        self.deployment
            .store
            .partitions()
            .of_board(self.board)
            .into_iter()
            .collect()
    }

    /// Marks every partition, and waits until SQL has the marks' commits.
    async fn mark(&self, before_ms: i64) -> Result<()> {
        for partition in self.partitions() {
            let mut marking = Marking {
                board: self.board,
                name: self.name,
                before_ms,
                dropping: None,
            };
            let deadline = Instant::now() + COMMIT_TIMEOUT;
            carry_out(self.deployment, partition, &mut marking, deadline).await?;
            settle(self.deployment, partition).await?;
        }
        Ok(())
    }

    /// The standings of the window that a partition has, of periods that start in a span.
    async fn standings(
        &self,
        partition: Partition,
        from_ms: i64,
        before_ms: i64,
    ) -> Result<Vec<(StandingsId, Period)>> {
        let store = &self.deployment.store;
        let keys = store.standings_keys(partition, Some(self.board.no)).await?;
        let mut found = vec![];
        for key in keys {
            let Some(id) = store.keys().parse_standings(partition, &key) else {
                continue;
            };
            // A label that no period has is nobody's.
            if SealName::of(&id) == Some(self.name)
                && let Ok(period) = id.window.period_named(&id.period, &self.board.rules.zone)
                && (from_ms..before_ms).contains(&period.present_from_ms)
            {
                found.push((id, period));
            }
        }
        Ok(found)
    }

    /// Copies the entries of the periods that start in a span.
    async fn copy(&self, from_ms: i64, before_ms: i64, sealing: &mut Sealing) -> Result<()> {
        for partition in self.partitions() {
            let mut copied = None;
            for _ in 0..COPIES_MAX {
                copied = self.copy_partition(partition, from_ms, before_ms).await?;
                if copied.is_some() {
                    break;
                }
                settle(self.deployment, partition).await?;
            }
            let (standings, entries) = copied.ok_or_else(|| {
                ranking::Error::Unavailable(format!(
                    "partition {partition} is loaded anew all the while; later again"
                ))
            })?;
            sealing.standings += standings;
            sealing.entries += entries;
        }
        Ok(())
    }

    /// How many standings and entries were copied; `None` where Redis was loaded anew meanwhile.
    async fn copy_partition(
        &self,
        partition: Partition,
        from_ms: i64,
        before_ms: i64,
    ) -> Result<Option<(usize, usize)>> {
        let standings = self.standings(partition, from_ms, before_ms).await?;
        let Some(mark) = self.mark_of(partition, before_ms).await? else {
            return Ok(None);
        };
        let mut copied = 0;
        for (id, period) in &standings {
            let mut start = 0;
            loop {
                let page = self
                    .deployment
                    .store
                    .final_page(partition, id, start, ENTRIES_MAX)
                    .await?;
                if page.mark != mark {
                    return Ok(None);
                }
                start += page.count;
                if page.entries.len() < page.count {
                    tracing::error!(board = self.row.slug, standings = %id, "a sorted set holds what is no entry; it is not sealed");
                }
                copied += page.entries.len();
                let is_last = page.count < ENTRIES_MAX;
                self.copy_page(partition, id, period, page, is_last).await?;
                if is_last {
                    break;
                }
            }
        }
        // The list of keys may have been read while another one loaded them.
        let now = self.mark_of(partition, before_ms).await?;
        let again = self.standings(partition, from_ms, before_ms).await?;
        Ok((now == Some(mark) && again == standings).then_some((standings.len(), copied)))
    }

    /// How far a partition says that the window is sealed; `None` where it does not say that it is sealed before that instant.
    async fn mark_of(&self, partition: Partition, before_ms: i64) -> Result<Option<SealMark>> {
        let seals = [self.name];
        let store = &self.deployment.store;
        let tail = store
            .tail(partition, u64::MAX - 1, 1, self.board.no, &seals, None)
            .await?;
        let mark = tail.seals.first().copied();
        Ok(mark.filter(|mark| mark.sealing_before_ms >= before_ms))
    }

    /// Copies a page, and checks that SQL then has just that.
    async fn copy_page(
        &self,
        partition: Partition,
        id: &StandingsId,
        period: &Period,
        page: FinalPage,
        is_last: bool,
    ) -> Result<()> {
        let transaction = self.deployment.db.begin().await?;
        // Whoever changes the windows or deletes the board waits, and no persister corrects meanwhile.
        let held = set_windows(self.row, &self.row.windows)
            .exec(&transaction)
            .await?;
        let locked = cursor_lock(partition).exec(&transaction).await?;
        if held.rows_affected != 1 || locked.rows_affected != 1 {
            transaction.rollback().await?;
            return Err(changed(&self.row.slug));
        }
        self.copy_into(&transaction, partition, id, period, page, is_last)
            .await?;
        Ok(transaction.commit().await?)
    }

    async fn copy_into(
        &self,
        transaction: &DatabaseTransaction,
        partition: Partition,
        id: &StandingsId,
        period: &Period,
        page: FinalPage,
        is_last: bool,
    ) -> Result<()> {
        let of_one = BTreeMap::from([(id.clone(), period.clone())]);
        if !page.entries.is_empty() {
            sealed_period::number(transaction, &of_one, crate::now_ms()).await?;
        }
        let Some(no) = sealed_period::numbers(transaction, &of_one)
            .await?
            .remove(id)
        else {
            return Ok(());
        };
        let members: Vec<&str> = page
            .entries
            .iter()
            .map(|entry| entry.member.as_str())
            .collect();
        let late = late(
            transaction,
            self.board.no,
            partition,
            period,
            page.mark.seq,
            &members,
        )
        .await?;
        let rules = &self.board.rules;
        let row = |entry: &&Placed| sealed_entry::Model {
            standings_no: no,
            member: entry.member.to_string(),
            score: rules.state(id.window, period, entry.key).score,
            rank_key: entry.key.to_i64(),
            partition: partition.0.into(),
            seq: 0,
        };
        let in_time = || {
            let entries = page.entries.iter();
            entries.filter(|entry| {
                late.binary_search_by(|late| late.as_str().cmp(entry.member.as_str()))
                    .is_err()
            })
        };
        let rows = in_time().map(|entry| row(&entry).into_active_model());
        insert_chunked::<sealed_entry::Entity, _>(
            transaction,
            rows.collect(),
            Some(sealed_entry::keep()),
        )
        .await?;
        let of_page = Condition::all()
            .add(sealed_entry::Column::StandingsNo.eq(no))
            .add(sealed_entry::Column::Member.is_in(members));
        let stored: BTreeMap<String, sealed_entry::Model> = sealed_entry::Entity::find()
            .filter(of_page)
            .all(transaction)
            .await?
            .into_iter()
            .map(|row| (row.member.clone(), row))
            .collect();
        let is_there = |entry: &&Placed| {
            let row = stored.get(entry.member.as_str());
            row.is_some_and(|row| row.seq > 0 || row.rank_key == entry.key.to_i64())
        };
        if let Some(entry) = in_time().find(|entry| !is_there(entry)) {
            return Err(ranking::Error::Corrupt(format!(
                "the archive has something else of {} in {id} than Redis had",
                entry.member
            ))
            .into());
        }
        let of_partition = Condition::all()
            .add(sealed_entry::Column::StandingsNo.eq(no))
            .add(sealed_entry::Column::Partition.eq(i32::from(partition.0)))
            .add(sealed_entry::Column::Seq.eq(0));
        if is_last
            && sealed_entry::Entity::find()
                .filter(of_partition)
                .count(transaction)
                .await?
                > page.size
        {
            return Err(ranking::Error::Corrupt(format!(
                "the archive has more entries of {id} in partition {partition} than Redis had"
            ))
            .into());
        }
        Ok(())
    }

    /// Drops the keys of sealed periods, and takes them from the lists of periods.
    async fn drop_keys(&self, before_ms: i64) -> Result<()> {
        let store = &self.deployment.store;
        for partition in self.partitions() {
            let mut steps: Vec<Dropping> = vec![];
            let standings = self.standings(partition, NEVER_MS, before_ms).await?;
            let keys: Vec<String> = standings
                .iter()
                .map(|(id, _)| store.keys().standings(partition, id))
                .collect();
            steps.extend(
                keys.chunks(KEYS_MAX)
                    .map(|keys| Dropping::Keys(keys.to_vec())),
            );
            for list in store.periods_keys(partition, self.board.no).await? {
                let window = store.keys().window_of(partition, &list);
                if window != Some((self.name.window, self.name.generation)) {
                    continue;
                }
                let labels = store.listed_before(&list, before_ms).await?;
                let chunks = labels.chunks(KEYS_MAX);
                steps.extend(chunks.map(|labels| Dropping::Periods(list.clone(), labels.to_vec())));
            }
            // Also where there is nothing to drop: whoever reads an old row has to learn of it.
            if steps.is_empty() {
                steps.push(Dropping::Keys(vec![]));
            }
            for dropping in steps {
                let mut marking = Marking {
                    board: self.board,
                    name: self.name,
                    before_ms,
                    dropping: Some(dropping),
                };
                let deadline = Instant::now() + COMMIT_TIMEOUT;
                carry_out(self.deployment, partition, &mut marking, deadline).await?;
            }
        }
        Ok(())
    }
}

/// The members of a list, in order, whose history in a period went on after a commit: the persister corrects them.
async fn late(
    transaction: &DatabaseTransaction,
    board: BoardNo,
    partition: Partition,
    period: &Period,
    seq: u64,
    members: &[&str],
) -> Result<Vec<String>> {
    use score_event::Column::{AtMs, BoardNo as No, Kind, Member, Partition as In, Seq};
    let cursor = log_cursor::Entity::find_by_id(i32::from(partition.0))
        .one(transaction)
        .await?;
    if cursor.is_some_and(|cursor| cursor.seq as u64 <= seq) {
        return Ok(vec![]);
    }
    let in_period = Condition::all()
        .add(AtMs.gte(period.start_ms))
        .add(AtMs.lt(period.end_ms.unwrap_or(i64::MAX)));
    let after = Condition::all()
        .add(No.eq(board.0))
        .add(Member.is_in(members.iter().copied()))
        .add(In.eq(i32::from(partition.0)))
        .add(Seq.gt(seq as i64))
        .add(Condition::any().add(Kind.ne("SCORE")).add(in_period));
    let mut late: Vec<String> = score_event::Entity::find()
        .select_only()
        .column(Member)
        .distinct()
        .filter(after)
        .into_tuple()
        .all(transaction)
        .await?;
    late.sort_unstable();
    Ok(late)
}

fn changed(slug: &str) -> Error {
    ranking::Error::Unavailable(format!(
        "board {slug} was changed while it was sealed; later again"
    ))
    .into()
}

/// What a commit drops.
enum Dropping {
    /// Keys.
    Keys(Vec<String>),
    /// Periods of a list.
    Periods(String, Vec<String>),
}

/// Moves a window's mark on, with what is dropped by it.
struct Marking<'a> {
    board: &'a Board,
    name: SealName,
    before_ms: i64,
    dropping: Option<Dropping>,
}

impl Change for Marking<'_> {
    type Outcome = ();

    async fn propose(
        &mut self,
        deployment: &Deployment,
        partition: Partition,
    ) -> Result<Proposal<()>> {
        let store = &deployment.store;
        let seals = [self.name];
        let tail = store
            .tail(partition, u64::MAX - 1, 1, self.board.no, &seals, None)
            .await?;
        tail.board.check(self.board)?;
        let known = tail.seals.first().copied().unwrap_or_default();
        let mut mark = known;
        if known.sealing_before_ms < self.before_ms {
            mark.sealing_before_ms = self.before_ms;
            mark.seq = tail.head.seq + 1;
        }
        let mut writes = Writes::default();
        let mut drops = false;
        if let Some(dropping) = &self.dropping {
            mark.dropped_before_ms = mark.dropped_before_ms.max(self.before_ms);
            match dropping {
                Dropping::Keys(keys) => keys.iter().for_each(|key| writes.drop_key(key)),
                Dropping::Periods(list, labels) => writes.forget_periods(list, labels),
            }
            drops = !matches!(dropping, Dropping::Keys(keys) if keys.is_empty());
        }
        writes.mark_seal(store.keys(), partition, self.name, mark);
        let commit = tail.head.next(crate::random_id(), crate::now_ms(), vec![]);
        Ok(Proposal {
            head: tail.head,
            log_len: 0,
            commit: (mark != known || drops).then_some((commit, writes)),
            outcome: (),
        })
    }
}
