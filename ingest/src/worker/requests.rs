//! The requests of a batch: the scores of one board each, and the parts that are sent one after the
//! other where the server keeps positions.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::anyhow;

use crate::format::{Reading, Score};
use crate::message::Message;
use crate::server::{REQUEST_BYTES_MAX, REQUEST_SCORES_MAX};
use crate::source::Trouble;

/// A score, with the index of its message in the batch.
pub(super) type Numbered<'s> = (usize, &'s Score);

/// The parts of a batch that are taken one after the other. Where the server keeps positions, the
/// dead letters of a part are put aside before the next one is sent, and a part has no more scores
/// than the server remembers as refused.
pub(super) fn parts(
    batch: &[Message],
    readings: &[Reading],
    is_in_order: bool,
) -> Result<Vec<Range<usize>>, Trouble> {
    if !is_in_order {
        return Ok(std::iter::once(0..batch.len()).collect());
    }
    let mut last = BTreeMap::new();
    for place in batch.iter().filter_map(|message| message.place) {
        let before = last.insert(place.partition, place.offset);
        if before.is_some_and(|before| before >= place.offset) {
            return Err(Trouble::Lost(anyhow!(
                "message {} came out of order: expected the order of its source",
                place.offset
            )));
        }
    }
    let (mut parts, mut start, mut count) = (vec![], 0, 0);
    for (index, reading) in readings.iter().enumerate() {
        if index > start && count + reading.scores.len() > REQUEST_SCORES_MAX {
            parts.push(start..index);
            (start, count) = (index, 0);
        }
        count += reading.scores.len();
    }
    parts.push(start..readings.len());
    Ok(parts)
}

/// A `SourceInput` of some messages, as JSON: in each partition, all before the first of them is
/// settled.
pub(super) fn told(name: &str, messages: &[Message]) -> String {
    let mut first: BTreeMap<u32, u64> = BTreeMap::new();
    for place in messages.iter().filter_map(|message| message.place) {
        first.entry(place.partition).or_insert(place.offset);
    }
    let settled = first.into_iter().filter_map(|(partition, offset)| {
        let offset = offset.checked_sub(1)?.to_string();
        Some(serde_json::json!({ "partition": partition, "offset": offset }))
    });
    let settled: Vec<serde_json::Value> = settled.collect();
    serde_json::json!({ "name": name, "settled": settled }).to_string()
}

/// The board of a request, which is never empty.
pub(super) fn board<'s>(request: &[Numbered<'s>]) -> Option<&'s str> {
    request.first().map(|(_, score)| score.board.as_str())
}

/// Scores in requests: each of one board, in their order, within the bounds of a request.
pub(super) fn requests<'s>(scores: &[Numbered<'s>]) -> Vec<Vec<Numbered<'s>>> {
    let mut by_board: BTreeMap<&str, Vec<Numbered<'s>>> = BTreeMap::new();
    for &(index, score) in scores {
        by_board.entry(&score.board).or_default().push((index, score));
    }
    let mut requests = vec![];
    for scores in by_board.into_values() {
        let (mut request, mut bytes) = (vec![], 0);
        for (index, score) in scores {
            let is_full = request.len() == REQUEST_SCORES_MAX
                || bytes + score.input.len() > REQUEST_BYTES_MAX;
            if is_full && !request.is_empty() {
                requests.push(std::mem::take(&mut request));
                bytes = 0;
            }
            bytes += score.input.len();
            request.push((index, score));
        }
        requests.push(request);
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Place;

    #[test]
    fn a_part_has_no_more_scores_than_a_server_remembers_and_says_what_is_settled() {
        let message = |partition, offset| Message {
            place: Some(Place { partition, offset }),
            ..Message::default()
        };
        let reading = |count: usize| {
            let score = Score { item: None, board: "b".to_owned(), input: String::new() };
            Reading { scores: vec![score; count], fault: None }
        };
        let batch = [message(1, 5), message(0, 0), message(1, 9), message(0, 7)];
        let readings = [600, 400, 1, 1000].map(reading);
        assert_eq!(parts(&batch, &readings, true).unwrap(), [0..2, 2..3, 3..4]);
        let whole: Vec<Range<usize>> = parts(&batch, &readings, false).unwrap();
        assert_eq!((whole.len(), whole[0].clone()), (1, 0..4));
        let said = |messages| serde_json::from_str::<serde_json::Value>(&told("s", messages));
        let settled = |settled| serde_json::json!({ "name": "s", "settled": settled });
        let four = serde_json::json!([{ "partition": 1, "offset": "4" }]);
        assert_eq!(said(&batch[..2]).unwrap(), settled(four));
        for wrong in [[message(1, 5), message(1, 5)], [message(1, 5), message(1, 4)]] {
            assert!(matches!(parts(&wrong, &[], true), Err(Trouble::Lost(_))));
        }
    }

    #[test]
    fn requests_have_one_board_each_and_keep_within_their_bounds() {
        let score = |board: &str, bytes: usize| Score {
            item: None,
            board: board.to_owned(),
            input: "x".repeat(bytes),
        };
        let mut scores = vec![score("b", REQUEST_BYTES_MAX + 1)];
        scores.extend((0..2500).map(|_| score("a", 10)));
        scores.extend((0..3).map(|_| score("b", REQUEST_BYTES_MAX / 2)));
        let indexed: Vec<(usize, &Score)> = scores.iter().enumerate().collect();
        let requests = requests(&indexed);
        let sizes: Vec<usize> = requests.iter().map(Vec::len).collect();
        assert_eq!(sizes, [1000, 1000, 500, 1, 2, 1]);
        for request in &requests {
            assert!(request.iter().all(|(_, score)| score.board == request[0].1.board));
            assert!(request.is_sorted_by_key(|(index, _)| *index));
        }
        assert_eq!(requests.concat().len(), scores.len());
    }
}
