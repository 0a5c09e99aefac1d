//! The expected state of a board whose events are taken back, computed naively: from the events
//! that count, as if the others had never been submitted.

use crate::model::oracle::{Board, Event, Oracle, Verdict};

/// One accepted event of any kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    Score(Event),
    /// A member's removal.
    Removal(String),
    /// Voids the item with that number.
    Void(usize),
}

/// The expected outcome of an amendment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amended {
    Done,
    Nothing,
    OutOfRange,
}

/// A board's events of all kinds, in the order in which they were accepted.
pub struct History {
    pub board: Board,
    items: Vec<Item>,
    /// The members that were merged into others.
    merged: Vec<String>,
}

impl History {
    /// A board without events.
    pub fn new(board: Board) -> Self {
        Self { board, items: vec![], merged: vec![] }
    }

    /// The events, by number.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The member of an event.
    pub fn member(&self, number: usize) -> &str {
        match &self.items[number] {
            Item::Score(event) => &event.member,
            Item::Removal(member) => member,
            Item::Void(target) => self.member(*target),
        }
    }

    /// The numbers of a member's events, newest first.
    pub fn of_member(&self, member: &str) -> Vec<usize> {
        let numbers = (0..self.items.len()).rev();
        numbers.filter(|&number| self.member(number) == member).collect()
    }

    /// True if an event was voided.
    pub fn is_voided(&self, number: usize) -> bool {
        self.items.contains(&Item::Void(number))
    }

    /// The board of the events that count: those that were not voided and are not followed by a
    /// removal that still stands.
    pub fn oracle(&self) -> Oracle {
        let counts = |number: usize, event: &Event| {
            let removed = |later: usize| {
                self.items[later] == Item::Removal(event.member.clone()) && !self.is_voided(later)
            };
            !self.is_voided(number) && !(number + 1..self.items.len()).any(removed)
        };
        let event = |(number, item): (usize, &Item)| match item {
            Item::Score(event) => counts(number, event).then(|| event.clone()),
            _ => None,
        };
        let counting = self.items.iter().enumerate().filter_map(event);
        Oracle::of(self.board.clone(), counting.collect())
    }

    /// Accepts or refuses the next score. An id counts once for good, even if its event was
    /// removed; the id of a voided event is free.
    pub fn submit(&mut self, event: &Event) -> Verdict {
        if self.is_merged(&event.member) {
            return Verdict::Rejected;
        }
        let named = |(number, item): (usize, &Item)| match item {
            Item::Score(known) => {
                let same_name = known.member == event.member && known.id == event.id;
                (same_name && !self.is_voided(number)).then(|| known.clone())
            }
            _ => None,
        };
        let known = self.items.iter().enumerate().find_map(named);
        if let Some(known) = known.filter(|_| event.id.is_some()) {
            return match known == *event {
                true => Verdict::Duplicate,
                false => Verdict::Rejected,
            };
        }
        let verdict = self.oracle().submit(event);
        if verdict == Verdict::Applied {
            self.items.push(Item::Score(event.clone()));
        }
        verdict
    }

    /// Removes a member from the board.
    pub fn remove(&mut self, member: &str) -> Amended {
        let oracle = self.oracle();
        if !oracle.accepted().iter().any(|event| event.member == member) {
            return Amended::Nothing;
        }
        self.items.push(Item::Removal(member.to_owned()));
        Amended::Done
    }

    /// Merges a member into another one: the target gets a copy of each score of the source that
    /// counts, without an id that it has itself.
    pub fn merge(&mut self, source: &str, target: &str) {
        let of_source = |event: &&Event| event.member == source;
        let counting: Vec<Event> =
            self.oracle().accepted().iter().filter(of_source).cloned().collect();
        let is_left = !counting.is_empty();
        for event in counting {
            let has_id = |(number, item): (usize, &Item)| {
                let of_target = |known: &Event| known.member == target && known.id == event.id;
                let is_such = matches!(item, Item::Score(known) if of_target(known));
                is_such && !self.is_voided(number)
            };
            let is_known = self.items.iter().enumerate().any(has_id);
            let id = event.id.clone().filter(|_| !is_known);
            self.items.push(Item::Score(Event { member: target.to_owned(), id, ..event }));
        }
        if is_left {
            self.items.push(Item::Removal(source.to_owned()));
        }
        self.merged.push(source.to_owned());
    }

    /// True if a member was merged into another one.
    pub fn is_merged(&self, member: &str) -> bool {
        self.merged.iter().any(|merged| merged == member)
    }

    /// Voids a score or a removal.
    pub fn void(&mut self, number: usize) -> Amended {
        if self.is_voided(number) {
            return Amended::Nothing;
        }
        self.items.push(Item::Void(number));
        if !self.oracle().fits(self.member(number)) {
            self.items.pop();
            return Amended::OutOfRange;
        }
        Amended::Done
    }
}
