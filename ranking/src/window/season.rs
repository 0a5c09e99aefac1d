//! Seasons: periods that the owner of a board lists, and the gaps between them.

use super::{Calendar, Period};
use crate::error::{Error, Result, shown};
use crate::id::check_slug;

/// The most seasons of a board.
pub const SEASONS_MAX: usize = 200;

/// The longest season, in days of 24 hours.
pub const SEASON_DAYS_MAX: i64 = 366;

/// A period that the owner of a board lists.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Season {
    /// The first instant in it, in Unix milliseconds.
    pub start_ms: i64,
    /// The first instant after it, in Unix milliseconds.
    pub end_ms: i64,
    /// The name, which is the label of the period.
    pub name: String,
    /// True once its standings contain all events that came before the season was listed.
    pub is_ready: bool,
}

impl Season {
    /// A season that is not ready yet.
    ///
    /// # Errors
    /// `Invalid`, with the accepted values; `LimitExceeded` if it is too long.
    pub fn new(name: &str, start_ms: i64, end_ms: i64) -> Result<Self> {
        check_name(name)?;
        if start_ms < 0 || end_ms <= start_ms {
            return Err(Error::invalid(format!(
                "invalid season {name}: expected startsAt from 1970 on, and endsAt after it"
            )));
        }
        if end_ms - start_ms > SEASON_DAYS_MAX * super::DAY_S * 1000 {
            return Err(Error::LimitExceeded(format!(
                "invalid season {name}: it is too long: expected at most {SEASON_DAYS_MAX} days"
            )));
        }
        Ok(Self { start_ms, end_ms, name: name.to_owned(), is_ready: false })
    }

    /// The period.
    pub fn period(&self) -> Period {
        Period {
            label: self.name.clone(),
            start_ms: self.start_ms,
            end_ms: Some(self.end_ms),
            present_from_ms: self.start_ms,
        }
    }
}

impl Calendar {
    /// The calendar with these seasons.
    ///
    /// # Errors
    /// `Invalid` if two of them have the same name or overlap; `LimitExceeded` for too many.
    pub fn with_seasons(self, mut seasons: Vec<Season>) -> Result<Self> {
        seasons.sort_unstable();
        if seasons.len() > SEASONS_MAX {
            return Err(Error::LimitExceeded(format!(
                "too many seasons: expected at most {SEASONS_MAX} on a board"
            )));
        }
        for (index, season) in seasons.iter().enumerate() {
            let Season { name, .. } = season;
            if seasons[..index].iter().any(|other| other.name == *name) {
                return Err(Error::invalid(format!(
                    "invalid season {name}: the board has one of that name: expected another name"
                )));
            }
        }
        if let Some([first, second]) =
            seasons.array_windows().find(|[first, second]| second.start_ms < first.end_ms)
        {
            return Err(Error::invalid(format!(
                "the seasons {} and {} overlap: expected one to end before the other begins, or just then",
                first.name, second.name
            )));
        }
        Ok(Self { seasons: seasons.into(), ..self })
    }

    /// The season of an instant, or the [gap](Period::is_gap) around it.
    pub(super) fn season_at(&self, at_ms: i64) -> Period {
        let begun = self.seasons.partition_point(|season| season.start_ms <= at_ms);
        let last = begun.checked_sub(1).map(|index| &self.seasons[index]);
        if let Some(open) = last.filter(|season| at_ms < season.end_ms) {
            return open.period();
        }
        let start_ms = last.map_or(0, |season| season.end_ms);
        let end_ms = self.seasons.get(begun).map(|season| season.start_ms);
        Period { label: String::new(), start_ms, end_ms, present_from_ms: start_ms }
    }

    /// The season of a name.
    pub fn season_named(&self, name: &str) -> Option<&Season> {
        self.seasons.iter().find(|season| season.name == name)
    }

    /// The instant before which seasons are sealed if the open one and `retain` before it stay, in
    /// Unix milliseconds; `None` if all stay.
    pub(super) fn seasons_kept_from_ms(&self, now_ms: i64, retain: u32) -> Option<i64> {
        let begun = self.seasons.partition_point(|season| season.start_ms <= now_ms);
        let ended = self.seasons.partition_point(|season| season.end_ms <= now_ms);
        let sealed = ended.checked_sub(usize::try_from(retain).ok()?).filter(|&some| some > 0)?;
        if sealed < begun {
            return Some(self.seasons[sealed].start_ms);
        }
        Some(self.seasons[sealed - 1].end_ms)
    }
}

/// Checks the name of a season.
///
/// # Errors
/// `Invalid` if it is none.
pub fn check_name(name: &str) -> Result<()> {
    check_slug(name).map_err(|_| {
        let shown = shown(name);
        Error::invalid(format!(
            "invalid season {shown}: expected a name of 1 to 64 characters from a-z, 0-9, _ and -, the first a letter or digit"
        ))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::window::Window;
    use crate::window::seal::kept_from_ms;

    const DAY_MS: i64 = 86_400_000;

    fn season(name: &str, start: i64, end: i64) -> Season {
        Season::new(name, start * DAY_MS, end * DAY_MS).unwrap()
    }

    fn calendar(seasons: &[Season]) -> Result<Calendar> {
        Calendar::default().with_seasons(seasons.to_vec())
    }

    #[test]
    fn an_instant_is_in_one_season_or_in_a_gap() {
        let calendar =
            calendar(&[season("b", 20, 30), season("a", 5, 10), season("c", 30, 31)]).unwrap();
        let check = |day: i64, label: &str, start: i64, end: Option<i64>| {
            let period = Window::Season.period_at(day * DAY_MS, &calendar).unwrap();
            let end_ms = end.map(|end| end * DAY_MS);
            assert_eq!((period.label.as_str(), period.start_ms), (label, start * DAY_MS), "{day}");
            assert_eq!((period.end_ms, period.is_gap()), (end_ms, label.is_empty()), "{day}");
        };
        check(0, "", 0, Some(5));
        check(5, "a", 5, Some(10));
        check(10, "", 10, Some(20));
        check(29, "b", 20, Some(30));
        check(30, "c", 30, Some(31));
        check(31, "", 31, None);
        let named = |name: &str| Window::Season.period_named(name, &calendar);
        assert_eq!(named("b").unwrap(), season("b", 20, 30).period());
        for name in ["", "d", "A"] {
            let refused = named(name).unwrap_err().to_string();
            assert!(refused.contains("such as \"c\""), "{refused}");
        }
        let before = |name: &str| {
            let period = named(name).unwrap();
            let before = Window::Season.period_before(&period, &calendar).unwrap();
            before.map(|period| period.label)
        };
        assert_eq!(before("c"), Some("b".to_owned()));
        assert_eq!(before("b"), Some("a".to_owned()));
        assert_eq!(before("a"), None);
        let none = Window::Season.period_named("a", &Calendar::default()).unwrap_err();
        assert!(none.to_string().contains("no season"), "{none}");
    }

    #[test]
    fn seasons_that_cannot_be_are_refused() {
        for (seasons, reason) in [
            ([season("a", 1, 3), season("b", 2, 4)], "a and b overlap"),
            ([season("a", 1, 9), season("b", 2, 4)], "a and b overlap"),
            ([season("b", 1, 2), season("a", 1, 3)], "overlap"),
            ([season("a", 1, 2), season("a", 3, 4)], "another name"),
        ] {
            let refused = calendar(&seasons).unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
        }
        for (name, start_ms, end_ms) in [
            ("", 0, 1),
            ("A", 0, 1),
            ("a", -1, 1),
            ("a", 5, 5),
            ("a", 5, 4),
            ("a", 0, 367 * DAY_MS),
        ] {
            assert!(Season::new(name, start_ms, end_ms).is_err(), "{name} {start_ms} {end_ms}");
        }
        let many = (0..=SEASONS_MAX as i64).map(|day| season(&format!("s{day}"), day, day + 1));
        let refused = Calendar::default().with_seasons(many.collect()).unwrap_err();
        assert!(refused.to_string().contains("at most 200"), "{refused}");
    }

    #[test]
    fn the_open_season_and_so_many_before_it_are_kept() {
        let calendar =
            calendar(&[season("a", 5, 10), season("b", 20, 30), season("c", 30, 31)]).unwrap();
        let check = |day: i64, retain, expected: Option<i64>| {
            let kept = kept_from_ms(Window::Season, &calendar, day * DAY_MS, retain).unwrap();
            assert_eq!(kept, expected.map(|day| day * DAY_MS), "{day} {retain}");
        };
        check(4, 0, None);
        check(9, 0, None);
        check(10, 0, Some(10));
        check(15, 0, Some(10));
        check(15, 1, None);
        check(20, 0, Some(20));
        check(29, 1, None);
        check(30, 0, Some(30));
        check(30, 1, Some(20));
        check(40, 0, Some(31));
        check(40, 2, Some(20));
        check(40, 3, None);
        check(40, 5, None);
    }

    proptest! {
        #[test]
        fn seasons_and_gaps_are_contiguous_and_hold_their_instants(
            lengths in proptest::collection::vec((0_i64..5, 1_i64..5), 0..6), at in 0_i64..40
        ) {
            let mut next = 0;
            let mut seasons = vec![];
            for (number, (gap, length)) in lengths.into_iter().enumerate() {
                seasons.push(season(&format!("s{number}"), next + gap, next + gap + length));
                next += gap + length;
            }
            let calendar = calendar(&seasons).unwrap();
            let period = Window::Season.period_at(at * DAY_MS, &calendar).unwrap();
            prop_assert!(period.is_present(at * DAY_MS));
            let listed = seasons.iter().find(|season| season.period().is_present(at * DAY_MS));
            prop_assert_eq!(period.is_gap(), listed.is_none());
            if let Some(season) = listed {
                prop_assert_eq!(Window::Season.period_named(&season.name, &calendar).unwrap(), period.clone());
            }
            if let Some(next) = Window::Season.period_after(&period, &calendar).unwrap() {
                prop_assert_eq!(Some(next.start_ms), period.end_ms);
                prop_assert!(!next.is_gap() || !period.is_gap());
            }
        }
    }
}
