//! Random boards and events, from a seed: few distinct scores and times, so that ties abound.

use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use ranking::window::Window;
use ranking::window::calendar::Weekday::{Monday, Saturday, Sunday};

use crate::failure;
use crate::model::oracle::{Board, Event};

/// A time zone, and an instant near which its clocks or its calendar change.
const PLACES: [(&str, &str); 6] = [
    ("Europe/London", "2025-10-26T00:20:00Z"),
    ("Australia/Lord_Howe", "2025-04-05T14:40:00Z"),
    ("America/St_Johns", "2025-11-02T03:50:00Z"),
    ("Asia/Kathmandu", "2025-06-30T18:00:00Z"),
    ("Pacific/Apia", "2011-12-30T09:30:00Z"),
    ("UTC", "2024-12-29T23:30:00Z"),
];

/// Distances of events from that instant, in minutes: within the hour, the day, the week and the
/// months around it.
const MINUTES: [i64; 9] = [0, 25, 45, 60, 100, 1440, -1500, 11_520, 46_080];

/// Members whose order by bytes differs from that of any language, and of UTF-16.
const MEMBERS: [&str; 12] = [
    "a",
    "B",
    "ab",
    "é",
    "e\u{301}",
    "Z",
    "ü:%{}",
    "日本",
    "\u{fffd}",
    "\u{1f3c6}",
    "a b",
    "'\"\\",
];

/// The width of a board's range of scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// Far wider than the scores: nothing is rejected, in any order.
    Wide,
    /// Narrower than the scores.
    Narrow,
}

/// A board and events for it.
#[derive(Debug, Clone)]
pub struct Game {
    pub board: Board,
    pub events: Vec<Event>,
}

/// The random generator of a test, with its seed.
pub fn seeded() -> StdRng {
    StdRng::seed_from_u64(random_seed())
}

/// The seed of a test: `LAUREL_TEST_SEED`, or a random number; prints it.
pub fn random_seed() -> u64 {
    let seed = std::env::var("LAUREL_TEST_SEED")
        .map_or_else(|_| rand::random(), |text| text.parse().expect("a seed is a number"));
    println!("LAUREL_TEST_SEED={seed}");
    failure::set_seed(seed);
    seed
}

/// A board with events for each policy, direction and tie-break.
pub fn every_game(rng: &mut StdRng, shards: u16, range: Range, events: usize) -> Vec<Game> {
    let mut games = vec![];
    for policy in ["SUM", "BEST", "LATEST"] {
        for direction in ["HIGH_FIRST", "LOW_FIRST"] {
            for tie_break in ["EARLIEST", "LATEST", "MEMBER"] {
                if (policy, tie_break) == ("LATEST", "MEMBER") {
                    continue;
                }
                let (zone, around) = *PLACES.choose(rng).unwrap();
                let kept = |_: &Window| rng.random_bool(0.7);
                let windows: Vec<Window> =
                    Window::EVERY[1..].iter().copied().filter(kept).collect();
                let every = [Window::All].into_iter().chain(windows.iter().copied());
                let limited = every.filter(|_| range == Range::Narrow && rng.random_bool(0.3));
                let limited: Vec<Window> = limited.collect();
                let attempts = limited.into_iter().map(|of| (of, rng.random_range(1..20)));
                let attempts = attempts.collect();
                let seasons = match windows.contains(&Window::Season) {
                    true => random_seasons(rng, around),
                    false => vec![],
                };
                let board = Board {
                    slug: format!("{range:?}-{policy}-{direction}-{tie_break}").to_lowercase(),
                    direction,
                    policy,
                    tie_break,
                    windows,
                    attempts,
                    seasons,
                    tick_ms: *[100, 1000, 10_000].choose(rng).unwrap(),
                    decimals: rng.random_range(0..3),
                    min: if range == Range::Wide { -100_000 } else { -2 },
                    max: if range == Range::Wide { 100_000 } else { 4 },
                    zone,
                    reset_hour: *[0, 0, 2, 4, 23].choose(rng).unwrap(),
                    week_start: *[Monday, Saturday, Sunday].choose(rng).unwrap(),
                    shards,
                    // The time in a key leads to the event of an entry.
                    metadata: tie_break != "MEMBER",
                };
                let events = random_events(rng, &board, range, around, events);
                games.push(Game { board, events });
            }
        }
    }
    games
}

/// Two seasons around an instant, with events before, between and after them, or in them.
fn random_seasons(rng: &mut StdRng, around: &str) -> Vec<(&'static str, i64, i64)> {
    let around_ms = around.parse::<Timestamp>().unwrap().as_millisecond();
    let mut minutes = [-40_000, -1500, -30, 0, 25, 46, 100, 1441, 20_000, 50_000];
    minutes.shuffle(rng);
    minutes[..4].sort_unstable();
    let at_ms = |index: usize| around_ms + minutes[index] * 60_000;
    vec![("later", at_ms(2), at_ms(3)), ("first", at_ms(0), at_ms(1))]
}

/// Random events. Some are sent twice, in a narrow game sometimes with another score.
fn random_events(
    rng: &mut StdRng,
    board: &Board,
    range: Range,
    around: &str,
    count: usize,
) -> Vec<Event> {
    let around_ms = around.parse::<Timestamp>().unwrap().as_millisecond();
    let mut events: Vec<Event> = vec![];
    for number in 0..count {
        if rng.random_bool(0.15)
            && let Some(again) = events.choose(rng).filter(|event| event.id.is_some())
        {
            let mut again = again.clone();
            if range == Range::Narrow && rng.random_bool(0.2) {
                match again.metadata.take() {
                    None => again.score += 1,
                    Some(_) => again.metadata = Some(r#"{"r":"other"}"#.to_owned()),
                }
            }
            events.push(again);
            continue;
        }
        let member = match rng.random_range(0..24) {
            index @ 0..12 => MEMBERS[index].to_owned(),
            other => format!("u{other}"),
        };
        let tick = rng.random_range(0..3) * board.tick_ms + rng.random_range(0..board.tick_ms);
        events.push(Event {
            member,
            score: rng.random_range(-3..=4),
            at_ms: around_ms + MINUTES.choose(rng).unwrap() * 60_000 + tick,
            id: rng.random_bool(0.6).then(|| format!("e{number}")),
            metadata: metadata(rng, board),
        });
    }
    events
}

/// The metadata of an event: few, so that ties abound.
fn metadata(rng: &mut StdRng, board: &Board) -> Option<String> {
    let number = rng.random_range(0..4);
    (board.metadata && rng.random_bool(0.7))
        .then(|| format!(r#"{{"r":[{number},{{"ü":null}}],"s":"'\\\n"}}"#))
}

/// Events in batches of random sizes.
pub fn batches(rng: &mut StdRng, mut events: &[Event]) -> Vec<Vec<Event>> {
    let mut batches = vec![];
    while !events.is_empty() {
        let (batch, rest) = events.split_at(rng.random_range(1..=40).min(events.len()));
        batches.push(batch.to_vec());
        events = rest;
    }
    batches
}
