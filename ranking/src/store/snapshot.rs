//! The state of a partition at one moment, as a fold reads it.

use super::{Store, decode, foreign_key};
use crate::board::mark::BoardMark;
use crate::error::{Error, Result};
use crate::id::PartitionNo;
use crate::merge::{MemberMark, member_field};
use crate::score::rank_key::RankKey;
use crate::store::write::Dedup;
use crate::submission::{Snapshot, Wanted};
use crate::window::roll::RollMark;
use crate::window::seal::SealMark;
use redis::FromRedisValue;
use std::sync::atomic::Ordering;

/// The most looks for the buckets of event ids that count by the clock of Redis.
const LOOKS_MAX: usize = 4;

/// The keys of doubles, each with an error of its own: a foreign entry must not hide its neighbors.
pub(crate) fn keys_of(scores: Vec<Option<f64>>) -> Vec<Result<Option<RankKey>>> {
    scores.into_iter().map(|score| score.map(RankKey::from_f64).transpose()).collect()
}

fn next<T: FromRedisValue>(answer: &mut impl Iterator<Item = redis::Value>) -> Result<T> {
    decode(answer.next())
}

/// This many values of a key; all `None` if the key has none of them.
///
/// # Errors
/// `Corrupt` if the key has another type.
fn next_of<T: FromRedisValue + Clone>(
    answer: &mut impl Iterator<Item = (redis::Value, String)>,
    count: usize,
) -> Result<Vec<Option<T>>> {
    match answer.next() {
        Some((redis::Value::Nil, _)) => Ok(vec![None; count]),
        Some((redis::Value::BulkString(_), key)) => Err(foreign_key(&key)),
        answered => decode(answered.map(|(value, _)| value)),
    }
}

/// True for each number of a member who joined a board.
fn joined_of(
    answer: &mut impl Iterator<Item = (redis::Value, String)>,
    count: usize,
) -> Result<Vec<bool>> {
    let numbers: Vec<Option<String>> = next_of(answer, count)?;
    let number = |text: &Option<String>| text.as_ref()?.parse::<i64>().ok();
    Ok(numbers.iter().map(|text| number(text).is_some_and(|number| number > 0)).collect())
}

/// The newest record of each event id in some buckets.
fn seen_of(
    answer: &mut impl Iterator<Item = (redis::Value, String)>,
    buckets: usize,
    count: usize,
) -> Result<Vec<Option<String>>> {
    let mut seen: Vec<Option<String>> = vec![None; count];
    for _ in 0..buckets {
        let found: Vec<Option<String>> = next_of(answer, count)?;
        for (seen, found) in seen.iter_mut().zip(found) {
            *seen = seen.take().or(found);
        }
    }
    Ok(seen)
}

/// Numbers, each 0 where there is none.
fn numbers_of(
    answer: &mut impl Iterator<Item = (redis::Value, String)>,
    count: usize,
) -> Result<Vec<u32>> {
    let numbers: Vec<Option<u32>> = next_of(answer, count)?;
    Ok(numbers.into_iter().map(Option::unwrap_or_default).collect())
}

impl Store {
    /// Reads the state of a partition for a fold, at one moment. One round trip: `EVALSHA` of a
    /// script with `GET`, `XLEN`, an `HMGET` of the marks of boards, seals and members, one for
    /// each board's rolling windows, one for each board that members join, for each one that limits
    /// the scores of a minute and for each one with places in sources, one for each bucket of the
    /// dedup window, and a `ZMSCORE` for each of the standings; O(event ids · buckets + members).
    /// One more if the clock of Redis has come to another bucket since the last snapshot, and for
    /// the first one.
    ///
    /// # Errors
    /// `NotLevel`, `Unavailable`; `Corrupt` if a key of marks or event ids has a foreign type or
    /// value. Standings with a foreign type or score are in the snapshot as errors.
    pub async fn snapshot(
        &self,
        partition: PartitionNo,
        wanted: &Wanted,
        dedup: Dedup,
    ) -> Result<Snapshot> {
        // Of any partition at first; their clocks may differ.
        let mut clock_ms = self.inner.clock_ms.load(Ordering::Relaxed);
        for _ in 0..LOOKS_MAX {
            let buckets: Vec<i64> = dedup.buckets(clock_ms).collect();
            let snapshot = self.snapshot_with(partition, wanted, &buckets).await?;
            clock_ms = snapshot.clock_ms;
            self.inner.clock_ms.store(clock_ms, Ordering::Relaxed);
            if wanted.seen.is_empty() || dedup.buckets(snapshot.clock_ms).eq(buckets) {
                return Ok(snapshot);
            }
        }
        Err(Error::Unavailable("the clock of Redis jumps; try again".into()))
    }

    /// The state of a partition, with the event ids of some buckets.
    async fn snapshot_with(
        &self,
        partition: PartitionNo,
        wanted: &Wanted,
        buckets: &[i64],
    ) -> Result<Snapshot> {
        let buckets = buckets.iter().map(|bucket| self.keys().seen(partition, *bucket));
        let seen_in: Vec<String> = if wanted.seen.is_empty() { vec![] } else { buckets.collect() };
        let read_keys = self.snapshot_keys(partition, wanted, &seen_in);
        let mut pipe = redis::pipe();
        pipe.add_command(self.snapshot_command(partition, wanted, &read_keys, seen_in.len()));
        let ((answer,), run_id): ((Vec<redis::Value>,), _) = self.read(&pipe).await?;
        let mut answer = answer.into_iter();
        let head: Option<String> = next(&mut answer)?;
        let head = self.check_level(partition, head.as_deref(), &run_id)?;
        let log_len = next(&mut answer)?;
        let clock_ms = head.clock_ms.max(next(&mut answer)?);
        let log_bytes = next(&mut answer)?;
        let mut answer = answer.zip(read_keys);
        let marks: Vec<Option<String>> =
            next_of(&mut answer, wanted.boards.len() + wanted.seals.len() + wanted.members.len())?;
        let (boards, marks) = marks.split_at(wanted.boards.len().min(marks.len()));
        let (seals, members) = marks.split_at(wanted.seals.len().min(marks.len()));
        let members =
            members.iter().map(|mark| MemberMark::parse(mark.as_deref())).collect::<Result<_>>()?;
        let boards =
            boards.iter().map(|mark| BoardMark::parse(mark.as_deref())).collect::<Result<_>>()?;
        let mut rolls = Vec::with_capacity(wanted.rolls.len());
        for (_, series) in &wanted.rolls {
            let marks: Vec<Option<String>> = next_of(&mut answer, series.len())?;
            let parse = |mark: &Option<String>| mark.as_deref().map(RollMark::parse).transpose();
            rolls.push(marks.iter().map(parse).collect::<Result<_>>()?);
        }
        let entrants = wanted.entrants.iter();
        let joined = |(.., members): &(_, _, Vec<_>)| joined_of(&mut answer, members.len());
        let entrants = entrants.map(joined).collect::<Result<_>>()?;
        let pace = |(.., members): &(_, _, Vec<_>)| numbers_of(&mut answer, members.len());
        let paces = wanted.paces.iter().map(pace).collect::<Result<_>>()?;
        let found = |(.., fields): &(_, _, Vec<_>)| next_of(&mut answer, fields.len());
        let positions = wanted.positions.iter().map(found).collect::<Result<_>>()?;
        let seals =
            seals.iter().map(|mark| SealMark::parse(mark.as_deref())).collect::<Result<_>>()?;
        let seen = seen_of(&mut answer, seen_in.len(), wanted.seen.len())?;
        // A foreign key in the place of standings refuses only what touches those.
        let keys =
            wanted.standings.iter().map(|(_, members)| match next_of(&mut answer, members.len()) {
                Ok(scores) => keys_of(scores),
                Err(error) => vec![Err(error); members.len()],
            });
        let keys = keys.collect();
        Ok(Snapshot {
            head,
            log_len,
            log_bytes,
            clock_ms,
            boards,
            rolls,
            seals,
            members,
            entrants,
            paces,
            positions,
            seen,
            keys,
        })
    }

    /// The keys that the script looks into, in the order of their look-ups.
    fn snapshot_keys(
        &self,
        partition: PartitionNo,
        wanted: &Wanted,
        seen_in: &[String],
    ) -> Vec<String> {
        let keys = self.keys();
        let rolls = wanted.rolls.iter().map(|(no, _)| keys.rolls(partition, *no));
        let standings = wanted.standings.iter().map(|(id, _)| keys.standings(partition, id));
        let entrants =
            wanted.entrants.iter().map(|(no, since, _)| keys.entrants(partition, *no, *since));
        let paces = wanted.paces.iter().map(|(no, minute, _)| keys.pace(partition, *no, *minute));
        let positions = wanted.positions.iter();
        let positions = positions.map(|(no, since, _)| keys.positions(partition, *no, *since));
        let marks = std::iter::once(keys.board_marks(partition));
        let marks = marks.chain(rolls).chain(entrants).chain(paces).chain(positions);
        marks.chain(seen_in.iter().cloned()).chain(standings).collect()
    }

    /// The call of the script, with the keys and then the look-ups in them.
    fn snapshot_command(
        &self,
        partition: PartitionNo,
        wanted: &Wanted,
        read_keys: &[String],
        seen_in: usize,
    ) -> redis::Cmd {
        let keys = self.keys();
        let mut command = redis::cmd("EVALSHA");
        command
            .arg(self.inner.scripts.snapshot.get_hash())
            .arg(3 + read_keys.len())
            .arg(keys.head(partition))
            .arg(keys.log(partition))
            .arg(keys.sizes(partition))
            .arg(read_keys);
        let mut marks: Vec<String> = wanted.boards.iter().map(|no| no.0.to_string()).collect();
        marks.extend(wanted.seals.iter().map(|seal| seal.field()));
        marks.extend(wanted.members.iter().map(member_field));
        command.arg("HMGET").arg(marks.len()).arg(marks);
        for (_, series) in &wanted.rolls {
            command.arg("HMGET").arg(series.len()).arg(series);
        }
        let entrants = wanted.entrants.iter().map(|(_, _, members)| members);
        let paces = wanted.paces.iter().map(|(_, _, members)| members);
        for members in entrants.chain(paces) {
            command.arg("HMGET").arg(members.len());
            for member in members {
                command.arg(member.as_str());
            }
        }
        for (_, _, fields) in &wanted.positions {
            command.arg("HMGET").arg(fields.len()).arg(fields);
        }
        for bucket in 0..seen_in {
            command.arg("HMGET");
            match bucket {
                0 => command.arg(wanted.seen.len()).arg(&wanted.seen),
                _ => command.arg(0),
            };
        }
        for (_, members) in &wanted.standings {
            command.arg("ZMSCORE").arg(members.len());
            for member in members {
                command.arg(member.as_str());
            }
        }
        command
    }
}
