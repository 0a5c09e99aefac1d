//! Queries whose price and cost may differ, as those of the report.

use serde_json::{Map, Value, json};

use crate::attack::boards::{SEALED_HOUR, key};
use crate::attack::request::{Attack, aliases};

/// Fields, each under so many aliases: what it is, where it stands, their number, and the field,
/// with `#` for the number of an alias.
type Row = (&'static str, Place, usize, &'static str);

/// The selections that the fields of a row stand in.
#[derive(Clone, Copy)]
enum Place {
    /// Those of a query.
    Query,
    /// Those of a board.
    Board(&'static str),
    /// Those of a board's standings of all time.
    Standings(&'static str),
    /// Those of each of its first 1,000 entries.
    Entries(&'static str),
    /// Those of sealed standings, and of each of their first 1,000 entries.
    Sealed,
    SealedEntries,
}

use Place::{Board, Entries, Query, Sealed, SealedEntries, Standings};

/// The rows of §1.3 of the report but for those with variables, smaller where they took long.
const ROWS: [Row; 21] = [
    ("top 1,000 under 98 aliases", Standings("big"), 98, "top(first:1000){nodes{rank}}"),
    ("top 1,000 of 16 shards", Standings("big16"), 1, "top(first:1000){nodes{rank score value}}"),
    (
        "1,000 neighbors on either side",
        Standings("big"),
        1,
        "neighbors(member:\"m00077\",above:1000,below:1000){rank score}",
    ),
    ("the names of 1,000", Entries("big"), 1, "member{name}"),
    ("5 fields of 1,000", Entries("big"), 1, "rank score value percentile reachedAt"),
    (
        "friends of 5,000, 10 times",
        Standings("big"),
        10,
        "friends(member:\"m00000\",first:#){totalCount}",
    ),
    (
        "friends of 50 members",
        Query,
        50,
        "member(key:\"m000##\"){friends(first:100){totalCount nodes{key}}}",
    ),
    ("a distribution in 1,000, 10 times", Standings("big"), 10, "distribution(buckets:99#){count}"),
    (
        "a distribution of 16 shards, 100 times",
        Standings("big16"),
        100,
        "distribution(buckets:1#){count}",
    ),
    (
        "5,000 events counted 100 times",
        Query,
        100,
        "member(key:\"m00000\"){events(board:\"events\",first:#){totalCount}}",
    ),
    ("the size below 1,000 entries, 12 times", Entries("big"), 12, "standings{size}"),
    (
        "neighbors of one member 1,000 times",
        Entries("big16"),
        1,
        "standings{neighbors(member:\"m00077\",above:0,below:0){rank}}",
    ),
    (
        "neighbors of 100 members on 16 shards",
        Standings("big16"),
        100,
        "neighbors(member:\"m100##\",above:1,below:1){rank}",
    ),
    ("offsets on 16 shards", Standings("big16"), 100, "top(first:1,offset:19#){nodes{rank}}"),
    ("a dense rank at place 9,000", Standings("big"), 1, "entryAt(rank:9000){rank(method:DENSE)}"),
    ("scoreFor on 16 shards", Standings("big16"), 100, "scoreFor(percentile:0.#)"),
    ("entryAt on 16 shards", Standings("big16"), 100, "entryAt(rank:9#){rank}"),
    ("entryAt among equals", Standings("tie"), 100, "entryAt(rank:9#){rank}"),
    (
        "a count of 2,000 periods",
        Board("hour"),
        100,
        "periods(window:\"hourly\",first:1){totalCount}",
    ),
    (
        "2,000 periods in pages of 20",
        Board("hour"),
        100,
        "periods(window:\"hourly\",first:20){nodes{label sealed}}",
    ),
    (
        "a search that matches all",
        Query,
        1,
        "searchMembers(prefix:\"m\",first:1000){totalCount nodes{key name}}",
    ),
];

/// Reads of sealed standings far from their beginning, whose positions SQL counts.
const SEALED: [Row; 7] = [
    ("98 × an offset in sealed standings", Sealed, 98, "top(first:1,offset:199##){nodes{rank}}"),
    ("4,000 × the end of sealed ones", SealedEntries, 4, "standings{top(last:#){nodes{rank}}}"),
    (
        "4,000 × a range of scores in sealed ones",
        SealedEntries,
        4,
        "standings{top(first:1,maxScore:\"10#\"){nodes{rank}}}",
    ),
    (
        "4,000 × friends in sealed ones",
        SealedEntries,
        4,
        "standings{friends(member:\"m00000\",first:1){nodes{rank}}}",
    ),
    (
        "100 × neighbors in sealed ones",
        Sealed,
        100,
        "neighbors(member:\"m190##\",above:1,below:1){rank}",
    ),
    ("100 × a place in sealed ones", Sealed, 100, "entryAt(rank:99##){rank(method:DENSE)}"),
    ("100 × the rank of a score in sealed ones", Sealed, 100, "rankOf(score:\"1##\")"),
];

/// Products of what is costly.
const BOMBS: [Row; 19] = [
    ("49,000 × scoreFor", Entries("big16"), 49, "standings{scoreFor(percentile:50.#)}"),
    ("99,000 × size", Entries("big"), 99, "standings{size}"),
    (
        "48,000 × standings from an offset",
        Standings("big"),
        48,
        "top(first:1000,offset:#){nodes{standings{size}}}",
    ),
    ("4,000 × entryAt among equals", Entries("tie"), 4, "standings{entryAt(rank:9#){rank}}"),
    ("100,000 × entryAt", Entries("big16"), 100, "standings{entryAt(rank:#){rank}}"),
    ("1,000 × distribution", Entries("big16"), 1, "standings{distribution(buckets:1000){count}}"),
    (
        "1,000 × a dense rank",
        Standings("big"),
        1,
        "top(first:1000,offset:8000){nodes{rank(method:DENSE)}}",
    ),
    ("1,000 × an offset", Entries("big16"), 1, "standings{top(first:1,offset:18000){nodes{rank}}}"),
    (
        "1,000 × friends",
        Entries("big"),
        1,
        "standings{friends(member:\"m00000\",first:1){totalCount}}",
    ),
    (
        "totalCount below pages of none",
        Board("hour"),
        100,
        "periods(window:\"hourly\",first:0){totalCount a:totalCount b:totalCount c:totalCount}",
    ),
    (
        "100 × 1,000 periods",
        Board("hour"),
        100,
        "periods(window:\"hourly\",first:1000){totalCount nodes{sealed}}",
    ),
    (
        "50 × 1,000 events",
        Query,
        50,
        "member(key:\"m00000\"){events(board:\"events\",first:1000){nodes{id score}}}",
    ),
    (
        "50 searches",
        Query,
        50,
        "searchMembers(prefix:\"m\",first:1000){totalCount nodes{name friends{totalCount}}}",
    ),
    (
        "an answer of 20 MB",
        Standings("big"),
        90,
        "top(first:1000){nodes{id member{id name key} score rank percentile}}",
    ),
    (
        "90 × friends, missing ones too",
        Standings("big16"),
        90,
        "friends(member:\"m00000\",first:9#,includeMissing:true){totalCount}",
    ),
    (
        "100 × entries on 20 boards",
        Query,
        100,
        "member(key:\"m001##\"){entries(boards:[\"big\",\"big16\",\"tie\",\"hour\",\"big\",\"big16\",\"tie\",\"hour\",\"big\",\"big16\",\"tie\",\"hour\",\"big\",\"big16\",\"tie\",\"hour\",\"big\",\"big16\",\"tie\",\"hour\"]){rank}}",
    ),
    ("99 fields of 1,000 entries", Entries("big"), 99, "rank"),
    ("97,000 × another rank", Entries("tie"), 97, "rank(method:DENSE)"),
    (
        "100 × all standings of a board",
        Board("big16"),
        100,
        "standings{top(first:1000){nodes{id}}}",
    ),
];

/// A query with fields in a place.
fn query(place: Place, fields: &str) -> String {
    match place {
        Query => format!("{{{fields}}}"),
        Board(slug) => format!("{{board(slug:\"{slug}\"){{{fields}}}}}"),
        Standings(slug) => query(Board(slug), &format!("standings{{{fields}}}")),
        Entries(slug) => query(Standings(slug), &format!("top(first:1000){{nodes{{{fields}}}}}")),
        Sealed => {
            let of = format!("of:{{window:\"hourly\",period:\"{SEALED_HOUR}\"}}");
            query(Board("sealed"), &format!("standings({of}){{{fields}}}"))
        }
        SealedEntries => query(Sealed, &format!("top(first:1000){{nodes{{{fields}}}}}")),
    }
}

fn attack((what, place, count, field): Row) -> Attack {
    // Plain fields of an entry stand for themselves.
    let fields = if count == 1 { field.to_owned() } else { aliases(count, field) };
    Attack::query(what, &query(place, &fields)).answered()
}

/// Ranks of the first members, in parts of 1,000.
fn ranks(slug: &'static str, parts: usize) -> Attack {
    let fields = (0..parts).map(|part| format!("a{part}:entries(members:$k{part}){{rank}} "));
    let text = query(Standings(slug), &fields.collect::<String>());
    let declared: String = (0..parts).map(|part| format!("$k{part}:[String!]!")).collect();
    let keys = |part: usize| (part * 1000..(part + 1) * 1000).map(key).collect::<Vec<_>>();
    let variables: Map<String, Value> =
        (0..parts).map(|part| (format!("k{part}"), json!(keys(part)))).collect();
    let what = format!("{parts},000 ranks of {slug}");
    Attack::new(&what, &format!("query({declared}){text}"), variables.into()).answered()
}

/// Queries that are answered or refused at once; the benchmark prints the microseconds of a point.
pub fn rows() -> Vec<Attack> {
    let ranks = ["big", "big16", "tie"].map(|slug| ranks(slug, 1));
    ROWS.map(attack).into_iter().chain(ranks).collect()
}

/// Queries most of which must be refused, and that must stop where they are begun.
pub fn bombs() -> Vec<Attack> {
    let ranks = ["big16", "tie"].map(|slug| ranks(slug, 20));
    let products = BOMBS.into_iter().chain(SEALED).map(attack);
    products.chain(ranks).chain(failing()).chain(wide()).collect()
}

/// Many of a field below items that a list of keys gives, which says the same key again and again.
fn below_members(what: &str, slug: &'static str, member: usize, fields: &str) -> Attack {
    let text = query(Standings(slug), &format!("entries(members:$m){{{fields}}}"));
    let members = vec![key(member); 1000];
    // Some segment that no member is in: each of its colons is three bytes in an id.
    let segment = format!("region:{}", ":".repeat(1017));
    let declared = if fields.contains("$s") { ",$s:String" } else { "" };
    let variables = json!({ "m": members, "s": segment });
    Attack::new(what, &format!("query($m:[String!]!{declared}){text}"), variables).answered()
}

/// Queries whose fields have little text and large values, or whose value is kept while others are
/// found.
fn wide() -> Vec<Attack> {
    let of_entry = format!("fragment f on Entry{{{}}}", aliases(80, "id"));
    let last = query(Standings("big"), &aliases(59, "top(first:10,last:1000){nodes{...f}}"));
    let totals = aliases(9, "top(first:1000){totalCount}");
    let totals =
        query(Standings("big"), &format!("top(first:990){{nodes{{standings{{{totals}}}}}}}"));
    let ids = |letter: &str, count: usize| {
        let ids = aliases(count, "id").replace('a', letter);
        format!("{letter}:standings(of:{{segment:$s}}){{{ids}}}")
    };
    let ids = format!("standings{{board{{{} {}}}}}", ids("x", 100), ids("y", 35));
    let friends = aliases(18, "friends(first:1000){__typename}");
    let friends = format!("query($k:[String!]!){{members(keys:$k){{{friends}}}}}");
    // A page of friends with ids of a segment that there need not be.
    let of_friend = aliases(99, "id");
    let long =
        format!("friends(member:\"m00000\",first:20,includeMissing:true){{nodes{{{of_friend}}}}}");
    let long =
        format!("board(slug:\"big\"){{standings(of:{{segment:$s}}){{{}}}}}", aliases(9, &long));
    let long = format!("query($s:String!){{{long}}}");
    let segment = json!({ "s": format!("region:{}", ":".repeat(1017)) });
    let elsewhere = aliases(3, "entry(board:\"no-#\"){__typename}");
    let elsewhere = format!("top(first:1000){{nodes{{member{{{elsewhere}}}}}}}");
    let keys = json!({ "k": vec![key(0); 1000] });
    vec![
        Attack::query("59 × 80 ids of the last 1,000", &(last + &of_entry)).answered(),
        Attack::query("990 × 9 totals of pages", &totals).answered(),
        below_members("100,000 ids", "big", 0, &aliases(100, "id")),
        below_members("100,000 cursors", "big", 0, &aliases(100, "cursor")),
        below_members("135,000 ids of 3 KB", "big", 0, &ids),
        below_members("18,000 × metadata of 1 KB", "meta", 0, &aliases(18, "metadata")),
        Attack::new("18,000 × 1,000 friends", &friends, keys).answered(),
        Attack::new("18,000 ids of friends of 3 KB", &long, segment).answered(),
        Attack::query("3,000 entries elsewhere", &query(Standings("big"), &elsewhere)).answered(),
    ]
}

/// The queries for friends.
pub fn friends() -> Vec<Attack> {
    let rows = ROWS.into_iter().chain(BOMBS);
    rows.filter(|(.., field)| field.contains("friends(")).map(attack).collect()
}

/// Fields of each of many entries that all fail: each error has the names that lead to its field.
fn failing() -> Vec<Attack> {
    let below = |field: &str, pages: usize| {
        let fields = aliases(pages, "top(first:1000){nodes{...f}}");
        query(Standings("big16"), &fields) + &format!("fragment f on Entry{{{field}}}")
    };
    let name = |bytes: usize| "n".repeat(bytes);
    let of_rank = |bytes: usize| below(&format!("{}:rank(method:COMPETITION)", name(bytes)), 9);
    let of_score = |bytes: usize| below(&format!("standings{{{}:scoreFor}}", name(bytes)), 6);
    vec![
        Attack::query("6,000 errors below a name of 31 KB", &of_score(31_000)),
        Attack::query("6,000 errors below a name of 120 B", &of_score(120)).answered(),
        Attack::query("9,000 ranks below a name of 31 KB", &of_rank(31_000)),
        Attack::query("9,000 ranks below a name of 120 B", &of_rank(120)).answered(),
    ]
}

/// A query of several hundred different look-ups, all of them costly. Queries of different numbers
/// share none of them.
pub fn long(number: usize) -> Attack {
    let text = query(Board("tie"), &look_ups(number));
    Attack::query("several hundred look-ups among equals", &text).answered()
}

/// A mutation that reads as much after its change.
pub fn long_mutation() -> Attack {
    let text = format!(
        "mutation{{updateBoard(input:{{slug:\"tie\",title:\"changed\"}}){{board{{{}}}}}}}",
        look_ups(0)
    );
    Attack::query("several hundred look-ups after a change", &text).answered().as_admin()
}

fn look_ups(number: usize) -> String {
    let sets = (0..2).map(|set| {
        let entries = aliases(75, &format!("entryAt(rank:1{number}{set}#){{rank}}"));
        let scores = aliases(75, &format!("scoreFor(percentile:1{number}.{set}#)"));
        let buckets = aliases(25, &format!("distribution(buckets:{}#){{count}}", number + 10));
        format!(
            "e{set}:standings{{{entries}}} s{set}:standings{{{scores}}} d{set}:standings{{{buckets}}}"
        )
    });
    sets.collect()
}
