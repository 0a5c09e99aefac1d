//! Repair of rows in SQL, in a transaction that compares again first.

use std::collections::{BTreeMap, BTreeSet};

use ranking::board::Board;
use ranking::id::{BoardNo, PartitionNo};
use ranking::window::Window;
use ranking::window::roll::Rolls;
use sea_orm::{
    ColumnTrait, Condition, DatabaseTransaction, EntityTrait, IntoActiveModel, QueryFilter,
};

use crate::integrity::look::{ArchivedHistory, InSql, Location, Locations, StoredValues, text_of};
use crate::partition::Partition;
use entity::archive::archived_entry;
use entity::error::Result;
use entity::sql::insert_chunked;
use entity::standings::{sealed_entry, sealed_period, standing};

/// Repairs rows in a transaction that locks the partition's cursor. Returns how many still
/// differed.
pub(super) async fn mend_in(
    partition: Partition<'_>,
    transaction: &DatabaseTransaction,
    board: &Board,
    archived: &ArchivedHistory,
    places: &Locations,
) -> Result<usize> {
    number_sealed(transaction, board, places, partition.clock.now_ms()).await?;
    let in_sql = InSql::read(partition, transaction, board, archived, places).await?;
    let rolls = Rolls::to(partition.clock.now_ms());
    let (mut mended, mut rows) = (0, Rows::default());
    for (bytes, locations) in places {
        let Some(member) = text_of(bytes) else {
            continue;
        };
        let folded = in_sql.fold(board, bytes, u64::MAX, &rolls, locations)?;
        let events = in_sql.events.get(member).map_or(&[][..], Vec::as_slice);
        let seq = events.last().map_or(0, |(place, _)| place.seq) as i64;
        for location in locations {
            if matches!(location, Location::Entry(id) if id.window != Window::All) {
                continue;
            }
            let history = folded.held(board, location)?;
            if history == Some(StoredValues::Foreign)
                || history == in_sql.row(board, bytes, location)
            {
                continue;
            }
            mended += 1;
            let place = RowPlace {
                member,
                partition: partition.no.into(),
                last_seq: seq,
                row_seq: in_sql.row_seq(member, location),
            };
            rows.put(&in_sql, board.no, place, location, history);
        }
    }
    rows.write(transaction, board.no, partition.no, in_sql.archived_seq).await?;
    Ok(mended)
}

/// Gives numbers to the sealed standings of the locations.
async fn number_sealed(
    transaction: &DatabaseTransaction,
    board: &Board,
    places: &Locations,
    now_ms: i64,
) -> Result<()> {
    let mut standings = BTreeMap::new();
    for location in places.values().flatten() {
        if let Location::Sealed(id) = location {
            let period = id.window.period_named(&id.period, &board.rules.calendar)?;
            standings.insert(id.clone(), period);
        }
    }
    Ok(sealed_period::number(transaction, &standings, now_ms).await?)
}

/// The member and partition of a row, the commit of the member's last event, and the commit that
/// the row names.
#[derive(Clone, Copy)]
struct RowPlace<'a> {
    member: &'a str,
    partition: i32,
    last_seq: i64,
    row_seq: Option<i64>,
}

/// Rows to write, and rows to delete.
#[derive(Default)]
struct Rows {
    standings: Vec<standing::Model>,
    sealed: Vec<sealed_entry::Model>,
    archived: Vec<archived_entry::Model>,
    no_standings: Vec<(String, String)>,
    no_sealed: Vec<(i64, String)>,
    no_archived: Vec<(String, String)>,
}

impl Rows {
    fn put(
        &mut self,
        in_sql: &InSql,
        no: BoardNo,
        place: RowPlace<'_>,
        location: &Location,
        history: Option<StoredValues>,
    ) {
        let RowPlace { member, partition, last_seq, row_seq } = place;
        let member = member.to_owned();
        match (location, history) {
            (Location::Entry(id), Some(StoredValues::Key(key, score))) => {
                self.standings.push(standing::Model {
                    board_no: no.0,
                    segment: id.segment.clone(),
                    member,
                    score,
                    rank_key: key.to_i64(),
                    partition,
                    seq: row_seq.unwrap_or(last_seq),
                })
            }
            (Location::Entry(id), _) => self.no_standings.push((id.segment.clone(), member)),
            (Location::Sealed(id), history) => {
                let Some(&standings_no) = in_sql.sealed_nos.get(id) else {
                    return;
                };
                match history {
                    Some(StoredValues::Key(key, score)) => self.sealed.push(sealed_entry::Model {
                        standings_no,
                        member,
                        score,
                        rank_key: key.to_i64(),
                        partition,
                        // The commit of the last correction is unknown, so the row counts as never
                        // corrected.
                        seq: row_seq.unwrap_or(0),
                    }),
                    _ => self.no_sealed.push((standings_no, member)),
                }
            }
            (Location::Archived(segment), history) => {
                // A row with a smaller seq would count in its place, so all of them go.
                self.no_archived.push((segment.clone(), member.clone()));
                if let Some(StoredValues::Archived { score, tick, events }) = history {
                    self.archived.push(archived_entry::Model {
                        board_no: no.0,
                        member,
                        segment: segment.clone(),
                        through_seq: in_sql.archived_seq,
                        partition,
                        score,
                        tick,
                        events,
                    });
                }
            }
        }
    }

    async fn write(
        self,
        transaction: &DatabaseTransaction,
        no: BoardNo,
        partition: PartitionNo,
        archived_seq: i64,
    ) -> Result<()> {
        for (segment, member) in self.no_standings {
            standing::Entity::delete_by_id((no.0, segment, member)).exec(transaction).await?;
        }
        let mut sealed: BTreeSet<i64> = self.sealed.iter().map(|row| row.standings_no).collect();
        sealed.extend(self.no_sealed.iter().map(|(no, _)| *no));
        for (standings_no, member) in self.no_sealed {
            sealed_entry::Entity::delete_by_id((standings_no, member)).exec(transaction).await?;
        }
        for (segment, member) in self.no_archived {
            use archived_entry::Column::{
                BoardNo as No, Member, Partition as In, Segment, ThroughSeq,
            };
            let of_place = Condition::all()
                .add(No.eq(no.0))
                .add(In.eq(i32::from(partition)))
                .add(Member.eq(member))
                .add(Segment.eq(segment))
                .add(ThroughSeq.lte(archived_seq));
            archived_entry::Entity::delete_many().filter(of_place).exec(transaction).await?;
        }
        let standings = self.standings.into_iter().map(IntoActiveModel::into_active_model);
        insert_chunked::<standing::Entity, _>(
            transaction,
            standings.collect(),
            Some(standing::replace()),
        )
        .await?;
        // The rows were spoiled, and perhaps the sizes with them: all are counted.
        let _ = sealed_entry::insert(transaction, self.sealed, sealed_entry::replace()).await?;
        sealed_period::recount(transaction, sealed).await?;
        let archived = self.archived.into_iter().map(IntoActiveModel::into_active_model);
        insert_chunked::<archived_entry::Entity, _>(
            transaction,
            archived.collect(),
            Some(archived_entry::replace()),
        )
        .await?;
        Ok(())
    }
}
