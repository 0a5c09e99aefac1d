//! Two orders of a circle compared: who was overtaken, and by whom.
//!
//! A member was overtaken if it still has an entry, its key is no worse than before, and another
//! entry that was below its own is above it now. The other one then has a better key than before,
//! as all keys and members have one order. So nothing that only takes scores away overtakes anyone.

use std::collections::{BTreeMap, BTreeSet};

use ranking::id::MemberId;
use ranking::score::rank_key::RankKey;

/// The most members that an event names besides the one that it is about.
pub const OVERTAKERS_MAX: usize = 10;

/// An entry of a circle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The member; none if it was erased since.
    pub(super) member: Option<MemberId>,
    pub(super) key: RankKey,
    /// The rank in the standings.
    pub(super) rank: u64,
}

/// A member as an event names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) member: MemberId,
    pub(super) key: RankKey,
    pub(super) rank: u64,
    /// The rank before; none if it was not in the circle.
    pub(super) former_rank: Option<u64>,
}

/// A member that was overtaken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Overtaken {
    pub(super) member: Moved,
    /// Those that overtook it, the nearest first, up to [`OVERTAKERS_MAX`].
    pub(super) by: Vec<Moved>,
    /// The number of all of them.
    pub(super) by_count: usize,
}

/// The order of entries: by their keys, and equal ones by member.
fn order(place: &Place) -> (RankKey, Option<&MemberId>) {
    (place.key, place.member.as_ref())
}

/// Those of a circle who were overtaken between two looks, best first.
///
/// `before` is in order and has the circle's entries of the last look. `now` has, in order, its
/// present entries and also those of before that are in the standings still. An entry of `now`
/// whose member is not in `before` was below all of them, or was not there.
pub(super) fn compare(before: &[Place], now: &[Place]) -> Vec<Overtaken> {
    let former: BTreeMap<&MemberId, &Place> =
        before.iter().filter_map(|place| Some((place.member.as_ref()?, place))).collect();
    let present: BTreeSet<&MemberId> =
        now.iter().filter_map(|place| place.member.as_ref()).collect();
    let is_present =
        |place: &&Place| place.member.as_ref().is_some_and(|key| present.contains(key));
    let gone: BTreeSet<RankKey> =
        before.iter().filter(|place| !is_present(place)).map(|place| place.key).collect();
    // An entry under another name, as a merge or an erasure leaves it, has overtaken no other.
    let is_renamed =
        |place: &Place, former: Option<&&Place>| former.is_none() && gone.contains(&place.key);
    let mut found = vec![];
    for (index, place) in now.iter().enumerate() {
        let Some(member) = &place.member else { continue };
        let Some(own) = former.get(member) else { continue };
        if place.key > own.key {
            continue;
        }
        let (mut by, mut by_count) = (vec![], 0);
        for above in now[..index].iter().rev() {
            let Some(other) = &above.member else { continue };
            let of_other = former.get(other);
            let was_below = of_other.is_none_or(|other| order(other) > order(own));
            if !was_below || is_renamed(above, of_other) {
                continue;
            }
            by_count += 1;
            if by.len() < OVERTAKERS_MAX {
                by.push(moved(above, other, of_other));
            }
        }
        if by_count > 0 {
            found.push(Overtaken { member: moved(place, member, Some(own)), by, by_count });
        }
    }
    found
}

fn moved(place: &Place, member: &MemberId, former: Option<&&Place>) -> Moved {
    let former_rank = former.map(|former| former.rank);
    Moved { member: member.clone(), key: place.key, rank: place.rank, former_rank }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Standings: each member's key.
    type Keys = BTreeMap<u8, i64>;

    fn key(number: i64) -> RankKey {
        RankKey::from_i64(number).unwrap()
    }

    fn member(no: u8) -> MemberId {
        MemberId::new(&format!("m{no}")).unwrap()
    }

    /// All entries in order.
    fn ranked(keys: &Keys) -> Vec<Place> {
        let mut all: Vec<(i64, u8)> = keys.iter().map(|(no, key)| (*key, *no)).collect();
        all.sort_unstable();
        let place = |(index, (number, no)): (usize, (i64, u8))| Place {
            member: Some(member(no)),
            key: key(number),
            rank: index as u64 + 1,
        };
        all.into_iter().enumerate().map(place).collect()
    }

    /// A pass: who was overtaken, and by whom.
    type Passes = BTreeSet<(MemberId, MemberId)>;

    /// The passes by their definition, pair by pair.
    fn passes(before: &Keys, now: &Keys, of_circle: &dyn Fn(&Keys, u8) -> bool) -> Passes {
        let left = |no: u8| of_circle(before, no) && !now.contains_key(&no);
        let is_renamed = |no: u8| {
            !of_circle(before, no)
                && before.iter().any(|(other, key)| left(*other) && *key == now[&no])
        };
        let mut passes = Passes::new();
        for (&own, &own_now) in now.iter().filter(|(no, _)| of_circle(before, **no)) {
            for (&other, &other_now) in now.iter().filter(|(no, _)| **no != own) {
                let own_before = before[&own];
                let was_below =
                    before.get(&other).is_none_or(|key| (*key, other) > (own_before, own));
                let is_above = (other_now, other) < (own_now, own);
                let is_known = of_circle(before, other) || of_circle(now, other);
                if own_now <= own_before && was_below && is_above && is_known && !is_renamed(other)
                {
                    let rose = before.get(&other).is_none_or(|key| other_now < *key);
                    assert!(rose, "an overtaker has a better key than before");
                    passes.insert((member(own), member(other)));
                }
            }
        }
        passes
    }

    fn told(found: &[Overtaken]) -> Passes {
        let by = |of: &Overtaken| {
            let own = of.member.member.clone();
            of.by.iter().map(move |by| (own.clone(), by.member.clone())).collect::<Vec<_>>()
        };
        found.iter().flat_map(by).collect()
    }

    fn keys() -> impl Strategy<Value = Keys> {
        proptest::collection::btree_map(0_u8..9, 0_i64..12, 0..9)
    }

    proptest! {
        #[test]
        fn the_first_entries_hear_of_each_pass_and_of_nothing_else(
            before in keys(), now in keys(), top in 1_usize..7,
        ) {
            let first = |keys: &Keys| -> Vec<Place> {
                ranked(keys).into_iter().take(top).collect()
            };
            let of_circle = |keys: &Keys, no: u8| {
                first(keys).iter().any(|place| place.member == Some(member(no)))
            };
            let was = first(&before);
            let was_here = |place: &Place| was.iter().any(|was| was.member == place.member);
            let here = |(index, place): &(usize, Place)| *index < top || was_here(place);
            let present: Vec<Place> =
                ranked(&now).into_iter().enumerate().filter(here).map(|(_, place)| place).collect();
            let found = compare(&was, &present);
            prop_assert_eq!(told(&found), passes(&before, &now, &of_circle));
            for overtaken in &found {
                prop_assert_eq!(overtaken.by.len(), overtaken.by_count);
                let ranks: Vec<u64> = overtaken.by.iter().map(|by| by.rank).collect();
                prop_assert!(ranks.is_sorted_by(|near, far| near > far), "nearest first");
                prop_assert!(ranks[0] < overtaken.member.rank);
            }
        }

        #[test]
        fn a_group_hears_of_each_pass_and_of_nothing_else(before in keys(), now in keys()) {
            let group = |keys: &Keys| -> Keys {
                keys.iter().filter(|(no, _)| **no % 2 == 0).map(|(no, key)| (*no, *key)).collect()
            };
            let (before, now) = (group(&before), group(&now));
            let found = compare(&ranked(&before), &ranked(&now));
            let expected = passes(&before, &now, &|keys, no| keys.contains_key(&no));
            prop_assert_eq!(told(&found), expected);
        }

        #[test]
        fn over_any_number_of_looks_each_pair_is_told_as_often_as_it_changed(
            mut rounds in proptest::collection::vec(
                proptest::collection::btree_map(0_u8..6, 0_i64..40, 0..4), 1..8),
        ) {
            // Scores that only get better, so that each change of a pair is a pass.
            let mut state = Keys::new();
            let (mut before, first) = (vec![], rounds.remove(0));
            state.extend(first);
            let began = state.clone();
            before.extend(ranked(&state));
            let mut counts: BTreeMap<(MemberId, MemberId), i32> = BTreeMap::new();
            for round in rounds {
                for (no, key) in round {
                    let own = state.entry(no).or_insert(key);
                    *own = key.min(*own);
                }
                let now = ranked(&state);
                for (own, by) in told(&compare(&before, &now)) {
                    *counts.entry((own, by)).or_default() += 1;
                }
                before = now;
            }
            for (&own, &own_key) in &began {
                for &by in state.keys().filter(|no| **no != own) {
                    let was_below = began.get(&by).is_none_or(|key| (*key, by) > (own_key, own));
                    let is_above = (state[&by], by) < (state[&own], own);
                    let count = |own, by| {
                        counts.get(&(member(own), member(by))).copied().unwrap_or(0)
                    };
                    let more = count(own, by) - count(by, own);
                    if was_below {
                        prop_assert_eq!(more, i32::from(is_above), "{} by {}", own, by);
                    }
                }
            }
        }
    }

    #[test]
    fn an_event_names_the_nearest_and_counts_all() {
        let before: Keys = (0..30).map(|no| (no, i64::from(no))).collect();
        let mut now: Keys = (0..30).map(|no| (no, 100 + i64::from(no))).collect();
        now.insert(0, 0);
        assert_eq!(compare(&ranked(&before), &ranked(&now)), []);
        let before: Keys = [(0, 50)].into();
        let now: Keys = (0..30).map(|no| (no, 50 - i64::from(no))).collect();
        let found = compare(&ranked(&before), &ranked(&now));
        assert_eq!((found.len(), found[0].by_count), (1, 29));
        let named: Vec<&MemberId> = found[0].by.iter().map(|by| &by.member).collect();
        let nearest: Vec<MemberId> = (1..=10).map(member).collect();
        assert_eq!(named, nearest.iter().collect::<Vec<_>>());
        assert_eq!((found[0].member.rank, found[0].member.former_rank), (30, Some(1)));
    }

    #[test]
    fn an_entry_under_another_name_overtakes_no_other() {
        let before: Keys = [(1, 10), (2, 20)].into();
        let now: Keys = [(2, 20), (3, 10)].into();
        assert_eq!(compare(&ranked(&before), &ranked(&now)), []);
        let mut erased = ranked(&before);
        erased[0].member = None;
        assert_eq!(compare(&erased, &ranked(&now)), []);
    }
}
