//! Queries whose price and cost may differ: each asks as much as the report did of boards a fifth as
//! large.

use serde_json::{Map, Value, json};

use crate::attack::boards::{HOURS, key};
use crate::attack::request::Attack;

/// A field under so many aliases; `#` in it is the number.
fn aliases(count: usize, field: &str) -> String {
    let fields =
        (0..count).map(|number| format!("a{number}:{}", field.replace('#', &number.to_string())));
    fields.collect::<Vec<_>>().join(" ")
}

/// The standings of all time of a board.
fn standings(slug: &str, fields: &str) -> String {
    format!("{{board(slug:\"{slug}\"){{standings{{{fields}}}}}}}")
}

/// One query for each row of §1.3 of the report, small enough to be answered or refused at once;
/// the benchmark prints the microseconds of a point.
pub fn rows() -> Vec<Attack> {
    let query = |what: &str, text: String| Attack::query(what, &text).answered();
    let ranks = |slug: &str| {
        let keys: Vec<String> = (0..1000).map(key).collect();
        let text =
            "query($s:String!$k:[String!]!){board(slug:$s){standings{ranks(members:$k){rank}}}}";
        let variables = json!({ "s": slug, "k": keys });
        Attack::new(&format!("1,000 ranks of {slug}"), text, variables).answered()
    };
    let top = |slug: &str, fields: &str| {
        standings(slug, &format!("top(first:1000){{nodes{{{fields}}}}}"))
    };
    vec![
        query(
            "top 1,000 under 98 aliases",
            standings("big", &aliases(98, "top(first:1000){nodes{rank}}")),
        ),
        query("top 1,000 with 5 fields", top("big", "rank score value percentile reachedAt")),
        query("top 1,000 of 16 shards", top("big16", "rank score value")),
        query(
            "1,000 neighbors on either side",
            standings("big", "neighbors(member:\"m00077\",above:1000,below:1000){rank score}"),
        ),
        query("the names of 1,000", top("big", "member{name}")),
        ranks("big"),
        ranks("big16"),
        ranks("tie"),
        query(
            "friends of 5,000, 10 times",
            standings("big", &aliases(10, "friends(member:\"m00000\",first:#){totalCount}")),
        ),
        query(
            "friends of 50 members",
            "{members(keys:[KEYS]){friends(first:100){totalCount nodes{key}}}}"
                .replace("KEYS", &keys(50)),
        ),
        query(
            "a distribution in 1,000, 10 times",
            standings("big", &aliases(10, "distribution(buckets:99#){count}")),
        ),
        query(
            "a distribution of 16 shards, 100 times",
            standings("big16", &aliases(100, "distribution(buckets:1#){count}")),
        ),
        query(
            "events counted 100 times",
            format!(
                "{{{}}}",
                aliases(
                    100,
                    "member(key:\"m00000\"){events(board:\"events\",first:#){totalCount}}"
                )
            ),
        ),
        query(
            "the size below 1,000 entries, 12 times",
            top("big", &aliases(12, "standings{size}")),
        ),
        query(
            "neighbors of 1,000 on 16 shards",
            top("big16", "standings{neighbors(member:\"m00077\",above:0,below:0){rank}}"),
        ),
        query(
            "offsets, 100 times on 16 shards",
            standings("big16", &aliases(100, "top(first:1,offset:19#){nodes{rank}}")),
        ),
        query(
            "a dense rank at place 9,000",
            standings("big", "entryAt(rank:9000){rank(method:DENSE)}"),
        ),
        query(
            "scoreFor, 100 times on 16 shards",
            standings("big16", &aliases(100, "scoreFor(percentile:0.#)")),
        ),
        query(
            "entryAt, 100 times on 16 shards",
            standings("big16", &aliases(100, "entryAt(rank:9#){rank}")),
        ),
        query(
            "entryAt, 100 times among equals",
            standings("tie", &aliases(100, "entryAt(rank:9#){rank}")),
        ),
        query(
            &format!("a count of {HOURS} periods, 100 times"),
            format!(
                "{{board(slug:\"hour\"){{{}}}}}",
                aliases(100, "periods(window:\"hourly\",first:1){totalCount}")
            ),
        ),
        query(
            "totalCount of periods, 100 times",
            format!(
                "{{board(slug:\"hour\"){{periods(window:\"hourly\",first:1){{{}}}}}}}",
                aliases(100, "totalCount")
            ),
        ),
        query(
            "a search that matches all",
            "{searchMembers(prefix:\"m\",first:1000){totalCount nodes{key name}}}".to_owned(),
        ),
    ]
}

/// Queries that multiply what is costly: most must be refused, and what is begun must stop.
pub fn bombs() -> Vec<Attack> {
    let query = |what: &str, text: String| Attack::query(what, &text).answered();
    let below = |slug: &str, fields: &str| {
        let entries = format!("top(first:1000){{nodes{{standings{{{fields}}}}}}}");
        standings(slug, &entries)
    };
    let all_ranks: Vec<String> = (0..20_000).map(key).collect();
    let many_ranks = |slug: &str| {
        let fields = (0..20).map(|part| format!("a{part}:ranks(members:$k{part}){{rank}}"));
        let fields: Vec<String> = fields.collect();
        let declared: String = (0..20).map(|part| format!("$k{part}:[String!]!")).collect();
        let parts = all_ranks.chunks(1000).enumerate();
        let variables: Map<String, Value> =
            parts.map(|(part, keys)| (format!("k{part}"), json!(keys))).collect();
        let text = format!("query({declared}){}", standings(slug, &fields.join(" ")));
        Attack::new(&format!("20,000 ranks of {slug}"), &text, variables.into()).answered()
    };
    vec![
        query("49,000 × scoreFor", below("big16", &aliases(49, "scoreFor(percentile:50.#)"))),
        query("99,000 × size", below("big", &aliases(99, "size"))),
        query(
            "48,000 × standings",
            standings(
                "big",
                &format!("top(first:1000,offset:7){{nodes{{{}}}}}", aliases(48, "standings{size}")),
            ),
        ),
        query("4,000 × entryAt among equals", below("tie", &aliases(4, "entryAt(rank:9#){rank}"))),
        query("100,000 × entryAt", below("big16", &aliases(100, "entryAt(rank:#){rank}"))),
        query("1,000 × distribution", below("big16", "distribution(buckets:1000){count}")),
        query(
            "1,000 × a dense rank",
            standings("big", "top(first:1000,offset:8000){nodes{rank(method:DENSE)}}"),
        ),
        query("1,000 × offsets", below("big16", "top(first:1,offset:18000){nodes{rank}}")),
        query("1,000 × friends", below("big", "friends(member:\"m00000\",first:1){totalCount}")),
        query(
            "100 × totalCount of periods below a page of none",
            format!(
                "{{board(slug:\"hour\"){{periods(window:\"hourly\",first:0){{{}}}}}}}",
                aliases(100, "totalCount")
            ),
        ),
        query(
            "100 × 1,000 periods",
            format!(
                "{{board(slug:\"hour\"){{{}}}}}",
                aliases(100, "periods(window:\"hourly\",first:1000){totalCount nodes{sealed}}")
            ),
        ),
        query(
            "50 boards of 1,000 events",
            format!(
                "{{{}}}",
                aliases(
                    50,
                    "member(key:\"m00000\"){events(board:\"events\",first:1000){nodes{id score}}}"
                )
            ),
        ),
        query(
            "50 searches",
            format!(
                "{{{}}}",
                aliases(
                    50,
                    "searchMembers(prefix:\"m\",first:1000){totalCount nodes{name friends{totalCount}}}"
                )
            ),
        ),
        query(
            "an answer of 50 MB",
            standings(
                "big",
                &aliases(
                    90,
                    "top(first:1000){nodes{id member{id name key} score rank percentile}}",
                ),
            ),
        ),
        many_ranks("tie"),
        many_ranks("big16"),
    ]
}

/// A query of several hundred different look-ups, all of them costly. Queries of different numbers
/// share none of them.
pub fn long(number: usize) -> Attack {
    let sets = (0..2).map(|set| {
        let entries = aliases(75, &format!("entryAt(rank:1{number}{set}#){{rank}}"));
        let scores = aliases(75, &format!("scoreFor(percentile:1{number}.{set}#)"));
        let buckets = aliases(25, &format!("distribution(buckets:{}#){{count}}", number + 10));
        format!(
            "e{set}:standings{{{entries}}} s{set}:standings{{{scores}}} d{set}:standings{{{buckets}}}"
        )
    });
    let sets: String = sets.collect();
    let query = format!("{{board(slug:\"tie\"){{{sets}}}}}");
    Attack::query("several hundred look-ups among equals", &query).answered()
}

fn keys(count: usize) -> String {
    let keys: Vec<String> = (0..count).map(|number| format!("\"{}\"", key(number + 1))).collect();
    keys.join(",")
}
