//! Scores from a source that hands messages out in order: each says its place there, so that it
//! counts once for good, whatever is handed out again.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_graphql::InputObject;
use ranking::id::SourceName;
use ranking::position::{OFFSET_MAX, Provenance, Source, SourcePlace};

use super::SubmitScoresInput;
use crate::access::Principal;
use crate::error::{Error, Result};
use crate::graphql::types::scalar::Decimal;

/// The most source partitions of which a request says how far they are settled.
const SETTLED_MAX: usize = 1000;

/// A source that hands messages out in order, such as a topic of Kafka.
#[derive(InputObject)]
pub struct SourceInput {
    /// The name of the source, which the client chooses: 1 to 64 bytes. A board keeps a position
    /// for each name and partition, so a topic that was deleted and made again needs another name.
    name: String,
    /// How far partitions of the source are settled, at most 1,000: all their messages up to an
    /// offset are put aside or count, so the server forgets which of their scores it refused.
    settled: Option<Vec<SettledInput>>,
}

/// How far a partition of a source is settled.
#[derive(InputObject)]
pub struct SettledInput {
    /// The partition of the source.
    #[graphql(default_with = "Some(0)")]
    partition: Option<i32>,
    /// The last offset that is settled, from 0 to 9223372036854775807; as a string if it has more
    /// than 15 digits.
    offset: Decimal,
}

/// The place of a score in its source.
#[derive(InputObject)]
pub struct PositionInput {
    /// The partition of the source.
    #[graphql(default_with = "Some(0)")]
    partition: Option<i32>,
    /// The offset of its message, from 0 to 9223372036854775807; as a string if it has more than 15
    /// digits.
    offset: Decimal,
    /// The index in its message, of one with several scores.
    #[graphql(default_with = "Some(0)")]
    index: Option<i32>,
}

/// The source of a request, and the places of its scores.
pub(super) struct Sources {
    name: SourceName,
    settled: BTreeMap<u32, u64>,
    /// For each score, its source partition and its place; none for a score without a position.
    places: Vec<Option<(u32, SourcePlace)>>,
}

impl Sources {
    /// Reads the places of a request's scores; `None` if it names no source.
    ///
    /// # Errors
    /// `FORBIDDEN` for a member's own token; `BAD_USER_INPUT` for a position without a source, one
    /// that is none, or one that does not follow those before it.
    pub(super) fn read(principal: &Principal, input: &SubmitScoresInput) -> Result<Option<Self>> {
        let Some(SourceInput { name, settled }) = &input.source else {
            let without = input.scores.iter().position(|score| score.position.is_some());
            return match without {
                None => Ok(None),
                Some(index) => {
                    let message = "a position of no source: expected source beside scores";
                    Err(Error::bad_input(message).at(format!("input.scores[{index}].position")))
                }
            };
        };
        if principal.member.is_some() {
            return Err(Error::forbidden(
                "a member's own access token sends no source: expected the token of a service",
            ));
        }
        let name = SourceName::new(name).map_err(|error| Error::from(error).at("input.source"))?;
        let settled = settled.as_deref().unwrap_or_default();
        if settled.len() > SETTLED_MAX {
            let count = settled.len();
            return Err(Error::limit_exceeded(format!(
                "{count} partitions are settled: expected at most {SETTLED_MAX}"
            ))
            .at("input.source.settled"));
        }
        let settled = settled.iter().map(|SettledInput { partition, offset }| {
            Ok((part("partition", *partition)?, read_offset(offset)?))
        });
        let settled: Result<BTreeMap<u32, u64>> = settled.collect();
        let settled = settled.map_err(|error| error.at("input.source.settled"))?;
        let mut places = Vec::with_capacity(input.scores.len());
        let mut last: BTreeMap<u32, SourcePlace> = BTreeMap::new();
        for (index, score) in input.scores.iter().enumerate() {
            let place = score.position.as_ref().map(|position| place(position, &mut last));
            let at = |error: Error| error.at(format!("input.scores[{index}].position"));
            places.push(place.transpose().map_err(at)?);
        }
        Ok(Some(Self { name, settled, places }))
    }

    /// For each score the place where it comes from, given which of them were refused before any
    /// partition judges them.
    pub(super) fn provenances(
        &self,
        is_refused: impl Fn(usize) -> bool,
    ) -> Vec<Option<Provenance>> {
        let mut refused: BTreeMap<u32, Vec<SourcePlace>> = BTreeMap::new();
        for (index, place) in self.places.iter().enumerate() {
            if let Some((partition, place)) = place {
                let of_partition = refused.entry(*partition).or_default();
                of_partition.extend(is_refused(index).then_some(*place));
            }
        }
        let source = |(partition, refused)| {
            let settled = self.settled.get(&partition).copied();
            let source = Source { name: self.name.clone(), partition, settled, refused };
            (partition, Arc::new(source))
        };
        let sources: BTreeMap<u32, Arc<Source>> = refused.into_iter().map(source).collect();
        let provenance = |place: &Option<(u32, SourcePlace)>| {
            let (partition, place) = (*place)?;
            Some(Provenance { source: sources.get(&partition)?.clone(), place })
        };
        self.places.iter().map(provenance).collect()
    }
}

/// The source partition and the place of a score, which come after those before it.
fn place(
    position: &PositionInput,
    last: &mut BTreeMap<u32, SourcePlace>,
) -> Result<(u32, SourcePlace)> {
    let partition = part("partition", position.partition)?;
    let offset = read_offset(&position.offset)?;
    let place = SourcePlace { offset, index: part("index", position.index)? };
    if last.insert(partition, place).is_some_and(|before| before >= place) {
        return Err(Error::bad_input(
            "invalid position: expected one after those of the scores before it, in each partition of the source",
        ));
    }
    Ok((partition, place))
}

fn part(what: &str, number: Option<i32>) -> Result<u32> {
    let number = number.unwrap_or(0);
    u32::try_from(number)
        .map_err(|_| Error::bad_input(format!("invalid {what} {number}: expected a number from 0")))
}

fn read_offset(Decimal(text): &Decimal) -> Result<u64> {
    let offset = text.parse().ok().filter(|offset| *offset <= OFFSET_MAX);
    offset.ok_or_else(|| {
        Error::bad_input(format!(
            "invalid offset {}: expected a whole number from 0 to {OFFSET_MAX}",
            ranking::shown(text)
        ))
    })
}
