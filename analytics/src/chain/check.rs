//! The check of a chain: every commit leads on from the one before, has the id that its content
//! gives, and has the events that its leaves say.

use engine::history::checkpoint::Checkpoint;
use entity::history::score_event;
use entity::integrity::integrity_finding::Kind;
use ranking::commit::ROOT_COMMIT;
use ranking::commit::content::LEAF_BYTES;

use super::commits::Recorded;

/// The commit that the next one must lead on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its seq.
    pub seq: i64,
    /// Its id.
    pub id: String,
}

/// A fault of a chain at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The kind.
    pub kind: Kind,
    /// The seq of the commit.
    pub seq: i64,
    /// The event, if the commit itself is sound.
    pub event: Option<FaultyEvent>,
    /// The fault in words.
    pub note: String,
}

/// An event that is not what its leaf says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultyEvent {
    /// The index in its commit.
    pub index: i32,
    /// The board that its row names; 0 if it has no row.
    pub board_no: i64,
    /// The member that its row names; empty if it has no row.
    pub member: String,
}

impl FaultyEvent {
    fn of(row: &score_event::Model) -> Self {
        Self { index: row.event_index, board_no: row.board_no, member: row.member.clone() }
    }
}

impl Link {
    /// The beginning of every chain.
    pub fn root() -> Self {
        Self { seq: 0, id: ROOT_COMMIT.to_owned() }
    }

    /// Checks the commit that should come next, and moves on to it. `is_whole` is false if some
    /// events could not be read.
    pub fn follow(&mut self, commit: &Recorded, is_whole: bool, faults: &mut Vec<Fault>) {
        let row = &commit.row;
        let mut fault = |kind, seq, event, note| faults.push(Fault { kind, seq, event, note });
        if row.seq != self.seq + 1 {
            let next = self.seq + 1;
            if row.seq > next {
                let lost = format!("commits {next} to {} are missing", row.seq - 1);
                fault(Kind::Missing, next, None, lost);
            } else {
                let note = format!("it comes again, or too late: expected commit {next}");
                fault(Kind::Phantom, row.seq, None, note);
            }
        } else if row.parent != self.id {
            let note = format!("its parent is {}: expected {}", row.parent, self.id);
            fault(Kind::Altered, row.seq, None, note);
        }
        match row.computed_id() {
            Ok(id) if id == row.id => {}
            Ok(id) => {
                let note = format!("its content was altered: it gives the id {id}, not {}", row.id);
                fault(Kind::Altered, row.seq, None, note);
            }
            Err(error) => fault(Kind::Altered, row.seq, None, error.to_string()),
        }
        let leaves: Vec<&[u8]> = row.leaves.chunks(LEAF_BYTES).collect();
        if usize::try_from(row.events) != Ok(leaves.len()) {
            let note = format!("it counts {} events and has {} leaves", row.events, leaves.len());
            fault(Kind::Altered, row.seq, None, note);
        }
        for event in commit.events.iter().flatten() {
            let leaf = event.leaf(row.version).map(|leaf| leaf.to_vec());
            let expected = leaves.get(event.event_index.unsigned_abs() as usize).copied();
            if leaf.ok().as_deref() != expected || !is_covered(event) {
                let note = "its content was altered: it is not what its commit's id says";
                fault(Kind::Altered, row.seq, Some(FaultyEvent::of(event)), note.to_owned());
            }
        }
        for event in &commit.strays {
            let note = "its commit has no such event";
            fault(Kind::Phantom, row.seq, Some(FaultyEvent::of(event)), note.to_owned());
        }
        let missing = commit.missing();
        if is_whole && usize::try_from(row.gone) != Ok(missing) {
            let first = commit.events.iter().position(Option::is_none).unwrap_or_default();
            let event = FaultyEvent { index: first as i32, board_no: 0, member: String::new() };
            let note = format!(
                "{missing} of its commit's {} events have no row, and {} are known to be gone",
                leaves.len(),
                row.gone
            );
            fault(Kind::Missing, row.seq, Some(event), note);
        }
        *self = Self { seq: row.seq, id: row.id.clone() };
    }

    /// Checks that the chain ends here.
    pub fn end(&self, end: &Self, faults: &mut Vec<Fault>) {
        let (kind, seq, note) = if self.seq < end.seq {
            let lost = format!("commits {} to {} are missing", self.seq + 1, end.seq);
            (Kind::Missing, self.seq + 1, lost)
        } else if self != end {
            let note = format!("its id is {}: expected {}", self.id, end.id);
            (Kind::Altered, end.seq, note)
        } else {
            return;
        };
        faults.push(Fault { kind, seq, event: None, note });
    }

    /// Checks the commit that was followed last against a checkpoint, if that is of this commit.
    pub fn check(&self, checkpoint: &Checkpoint, faults: &mut Vec<Fault>) {
        if checkpoint.seq == self.seq.unsigned_abs() && checkpoint.commit_id != self.id {
            let note = format!("its id is {}: a checkpoint says {}", self.id, checkpoint.commit_id);
            faults.push(Fault { kind: Kind::Altered, seq: self.seq, event: None, note });
        }
    }
}

/// True if a row says nothing that its leaf leaves out, because its kind has no such field.
fn is_covered(row: &score_event::Model) -> bool {
    let target = [row.void_partition.is_some(), row.void_seq.is_some(), row.void_index.is_some()];
    target == [row.kind == score_event::Kind::Void; 3]
        && (!row.at_sent || row.kind == score_event::Kind::Score)
}

#[cfg(test)]
mod tests {
    use entity::history::commit;
    use ranking::commit::{Event, EventKind, Head};
    use ranking::id::{BoardNo, MemberId, PartitionNo};

    use super::*;

    fn removal(member: &str) -> Event {
        Event {
            board: BoardNo(3),
            generation: 1,
            member: MemberId::new(member).unwrap(),
            kind: EventKind::Removal,
            event_id: None,
            segments: vec![],
            metadata: None,
            origin: None,
        }
    }

    /// Three commits, the second without events.
    fn chain() -> Vec<Recorded> {
        let (commit, deployment) = (ROOT_COMMIT.to_owned(), "d".to_owned());
        let (clock_ms, run_id) = (1_700_000_000_000, "r".to_owned());
        let mut head = Head { seq: 0, commit, clock_ms, epoch: 1, deployment, run_id };
        let events = [vec![removal("ann"), removal("bob")], vec![], vec![removal("cid")]];
        let commits = (1..).zip(events).map(|(random, events)| {
            let commit = head.next([random; 32], 1_700_000_000_000, events);
            head = head.moved_to(&commit);
            let no = PartitionNo(2);
            let mut recorded = Recorded::new(commit::Model::of_commit(no, &commit, 0));
            for index in 0..commit.events.len() {
                recorded.put(score_event::Model::of_event(no, &commit, index));
            }
            recorded
        });
        commits.collect()
    }

    /// The kinds of the faults of a chain, with their seqs, and true for those of events.
    fn faults(chain: &[Recorded]) -> Vec<(Kind, i64, bool)> {
        let (mut link, mut faults) = (Link::root(), vec![]);
        chain.iter().for_each(|commit| link.follow(commit, true, &mut faults));
        faults.iter().map(|fault| (fault.kind, fault.seq, fault.event.is_some())).collect()
    }

    #[test]
    fn every_kind_of_change_is_named() {
        assert!(faults(&chain()).is_empty());
        let mut altered = chain();
        altered[0].events[1].as_mut().unwrap().member = "eve".to_owned();
        assert_eq!(faults(&altered), [(Kind::Altered, 1, true)]);
        let mut sent = chain();
        sent[0].events[0].as_mut().unwrap().at_sent = true;
        sent[0].events[1].as_mut().unwrap().void_seq = Some(1);
        assert_eq!(faults(&sent), [(Kind::Altered, 1, true), (Kind::Altered, 1, true)]);
        let mut salted = chain();
        salted[0].events[0].as_mut().unwrap().salt.pop();
        assert_eq!(faults(&salted), [(Kind::Altered, 1, true)]);
        let mut erased = chain();
        erased[0].events[1] = None;
        assert_eq!(faults(&erased), [(Kind::Missing, 1, true)]);
        erased[0].row.gone = 1;
        assert!(faults(&erased).is_empty());
        let mut added = chain();
        let mut event = added[2].events[0].clone().unwrap();
        event.event_index = 1;
        added[2].put(event);
        assert_eq!(faults(&added), [(Kind::Phantom, 3, true)]);
        let mut at_another_time = chain();
        at_another_time[1].row.accepted_at_ms += 1;
        assert_eq!(faults(&at_another_time), [(Kind::Altered, 2, false)]);
        at_another_time[1].row.accepted_at_ms -= 1;
        at_another_time[1].row.clock_ms += 1;
        assert_eq!(faults(&at_another_time), [(Kind::Altered, 2, false)]);
        at_another_time[1].row.id = at_another_time[1].row.computed_id().unwrap();
        assert_eq!(faults(&at_another_time), [(Kind::Altered, 3, false)]);
        let mut twice = chain();
        twice.insert(1, twice[0].clone());
        assert_eq!(faults(&twice), [(Kind::Phantom, 1, false)]);
        let mut lost = chain();
        lost.remove(1);
        assert_eq!(faults(&lost), [(Kind::Missing, 2, false)]);
    }

    #[test]
    fn a_chain_ends_where_it_should() {
        let (mut link, mut found) = (Link::root(), vec![]);
        chain()[..2].iter().for_each(|commit| link.follow(commit, true, &mut found));
        link.end(&link.clone(), &mut found);
        assert!(found.is_empty());
        link.end(&Link { seq: 3, id: "x".to_owned() }, &mut found);
        link.end(&Link { seq: 2, id: "x".to_owned() }, &mut found);
        let kinds: Vec<_> = found.iter().map(|fault| (fault.kind, fault.seq)).collect();
        assert_eq!(kinds, [(Kind::Missing, 3), (Kind::Altered, 2)]);
    }
}
