//! The state of a partition at one moment, as a fold reads it.

use super::{Store, decode};
use crate::board::mark::BoardMark;
use crate::error::Result;
use crate::id::PartitionNo;
use crate::rank_key::RankKey;
use crate::roll::RollMark;
use crate::seal::SealMark;
use crate::store::write::Dedup;
use crate::submission::{Snapshot, Wanted};
use redis::FromRedisValue;

/// The keys of doubles, each with an error of its own: a foreign entry must not hide its neighbors.
pub(crate) fn keys_of(scores: Vec<Option<f64>>) -> Vec<Result<Option<RankKey>>> {
    scores.into_iter().map(|score| score.map(RankKey::from_f64).transpose()).collect()
}

fn next<T: FromRedisValue>(answer: &mut impl Iterator<Item = redis::Value>) -> Result<T> {
    decode(answer.next())
}

/// This many values of a key; all `None` if the key does not exist.
fn next_of<T: FromRedisValue + Clone>(
    answer: &mut impl Iterator<Item = redis::Value>,
    count: usize,
) -> Result<Vec<Option<T>>> {
    let found: Option<Vec<Option<T>>> = next(answer)?;
    Ok(found.unwrap_or_else(|| vec![None; count]))
}

impl Store {
    /// Reads the state of a partition for a fold, at one moment. One round trip: `EVALSHA` of a
    /// script with `GET`, `XLEN`, an `HMGET` of the marks of boards and seals, one for each board's
    /// rolling windows, one for each day of the dedup window, and a `ZMSCORE` for each of the
    /// standings; O(event ids + members).
    ///
    /// # Errors
    /// `NotLevel`, `Unavailable`; `Corrupt` if a key has a foreign type or score.
    pub async fn snapshot(
        &self,
        partition: PartitionNo,
        wanted: &Wanted,
        dedup: Dedup,
        now_ms: i64,
    ) -> Result<Snapshot> {
        let buckets = dedup.buckets(now_ms).map(|bucket| self.keys().seen(partition, bucket));
        let buckets: Vec<String> = buckets.collect();
        let seen_in: &[String] = if wanted.seen.is_empty() { &[] } else { &buckets };
        let mut pipe = redis::pipe();
        pipe.add_command(self.snapshot_command(partition, wanted, seen_in));
        let ((answer,), _): ((Vec<redis::Value>,), _) = self.read(&pipe).await?;
        let mut answer = answer.into_iter();
        let run_id: String = next(&mut answer)?;
        let head: Option<String> = next(&mut answer)?;
        let head = Self::check_level(partition, head.as_deref(), &run_id)?;
        let log_len = next(&mut answer)?;
        let marks: Vec<Option<String>> =
            next_of(&mut answer, wanted.boards.len() + wanted.seals.len())?;
        let (boards, seals) = marks.split_at(wanted.boards.len().min(marks.len()));
        let boards =
            boards.iter().map(|mark| BoardMark::parse(mark.as_deref())).collect::<Result<_>>()?;
        let mut rolls = Vec::with_capacity(wanted.rolls.len());
        for (_, series) in &wanted.rolls {
            let marks: Vec<Option<String>> = next_of(&mut answer, series.len())?;
            let parse = |mark: &Option<String>| mark.as_deref().map(RollMark::parse).transpose();
            rolls.push(marks.iter().map(parse).collect::<Result<_>>()?);
        }
        let seals =
            seals.iter().map(|mark| SealMark::parse(mark.as_deref())).collect::<Result<_>>()?;
        let mut seen: Vec<Option<String>> = vec![None; wanted.seen.len()];
        for _ in seen_in {
            let found: Option<Vec<Option<String>>> = next(&mut answer)?;
            for (seen, found) in seen.iter_mut().zip(found.unwrap_or_default()) {
                *seen = seen.take().or(found);
            }
        }
        let members = wanted.standings.iter().map(|(_, members)| members.len());
        let keys = members
            .map(|count| Ok(keys_of(next_of(&mut answer, count)?)))
            .collect::<Result<_>>()?;
        Ok(Snapshot { head, log_len, boards, rolls, seals, seen, keys })
    }

    /// The call of the script, with the keys and then the look-ups in them.
    fn snapshot_command(
        &self,
        partition: PartitionNo,
        wanted: &Wanted,
        seen_in: &[String],
    ) -> redis::Cmd {
        let keys = self.keys();
        let looked_up = 1 + wanted.rolls.len() + seen_in.len() + wanted.standings.len();
        let mut command = redis::cmd("EVALSHA");
        command
            .arg(self.inner.scripts.snapshot.get_hash())
            .arg(2 + looked_up)
            .arg(keys.head(partition))
            .arg(keys.log(partition))
            .arg(keys.board_marks(partition));
        for (no, _) in &wanted.rolls {
            command.arg(keys.rolls(partition, *no));
        }
        command.arg(seen_in);
        for (id, _) in &wanted.standings {
            command.arg(keys.standings(partition, id));
        }
        let mut marks: Vec<String> = wanted.boards.iter().map(|no| no.0.to_string()).collect();
        marks.extend(wanted.seals.iter().map(|seal| seal.field()));
        command.arg("HMGET").arg(marks.len()).arg(marks);
        for (_, series) in &wanted.rolls {
            command.arg("HMGET").arg(series.len()).arg(series);
        }
        for _ in seen_in {
            command.arg("HMGET").arg(wanted.seen.len()).arg(&wanted.seen);
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
