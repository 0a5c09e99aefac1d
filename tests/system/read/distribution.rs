//! The distribution of scores: the entry at a rank, the score for a percentile, buckets.

use rand::RngExt;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::remove;
use tests::api::submission::{create_board, submit, submit_events};
use tests::deployment::{Deployment, Redis, Sql};
use tests::model::game::{Range, every_game, seeded};
use tests::model::oracle::{Oracle, Row};

const SPREAD: &str = "
    query(
        $slug: String!, $window: String!, $period: String, $rank: Int!, $percentile: Float!,
        $buckets: Int
    ) { board(slug: $slug) { standings(of: { window: $window, period: $period }) {
        entryAt(rank: $rank) { rank score member { key } } scoreFor(percentile: $percentile)
        distribution(buckets: $buckets) { lower upper count }
    } } }";

/// Percentiles with their billionths: 0 to 100, on and between the steps of small standings.
const PERCENTILES: [(f64, u64); 8] = [
    (0.0, 0),
    (100.0, 100_000_000_000),
    (50.0, 50_000_000_000),
    (25.0, 25_000_000_000),
    (33.3, 33_300_000_000),
    (99.9, 99_900_000_000),
    (66.666_666_667, 66_666_666_667),
    (0.000_000_001, 1),
];

async fn ask(api: &Api, slug: &str, standings: (&str, &str), asked: (i64, f64, i64)) -> Value {
    let (rank, percentile, buckets) = asked;
    let variables = json!({
        "slug": slug, "window": standings.0, "period": standings.1, "rank": rank,
        "percentile": percentile, "buckets": buckets,
    });
    api.data(SPREAD, variables).await["board"]["standings"].take()
}

/// A decimal at its board's decimals.
fn raw(decimal: &Value) -> i64 {
    decimal.as_str().unwrap().replace('.', "").parse().unwrap()
}

fn check_entry(rows: &[Row], rank: i64, seen: &Value) {
    let row = usize::try_from(rank - 1).ok().and_then(|index| rows.get(index));
    let expected =
        row.map(|row| json!({ "rank": rank, "score": row.score, "member": { "key": row.member } }));
    assert_eq!(*seen, json!(expected), "rank {rank} of {}", rows.len());
}

/// Checks the score for a percentile: that of the first entry from the top with which at least 100
/// − percentile of all entries are reached.
fn check_score(rows: &[Row], billionths: u64, seen: &Value) {
    let top = 100_000_000_000 - billionths;
    let reaches = |(count, _): &(u64, &Row)| count * 100_000_000_000 >= top * rows.len() as u64;
    let (_, row) = (1..).zip(rows).find(reaches).unwrap();
    assert_eq!(*seen, row.score, "{billionths} of {}", rows.len());
}

/// Checks that buckets go from the lowest score to the highest without a gap, are equally wide, and
/// have each entry in the one of its score.
fn check_buckets(rows: &[Row], asked: i64, seen: &Value) {
    let mut scores: Vec<i64> = rows.iter().map(|row| raw(&json!(row.score))).collect();
    scores.sort_unstable();
    let (low, high) = (scores[0], scores[scores.len() - 1]);
    let buckets: Vec<(i64, i64, i64)> = seen
        .as_array()
        .unwrap()
        .iter()
        .map(|bucket| {
            (raw(&bucket["lower"]), raw(&bucket["upper"]), bucket["count"].as_i64().unwrap())
        })
        .collect();
    let count = buckets.len();
    assert_eq!(count as i64, asked.min(high - low).max(1), "{seen}");
    assert_eq!((buckets[0].0, buckets[count - 1].1), (low, high), "{seen}");
    assert!(buckets.windows(2).all(|pair| pair[0].1 == pair[1].0), "{seen}");
    let widths = || buckets.iter().map(|(from, to, _)| to - from);
    assert!(widths().max().unwrap() - widths().min().unwrap() <= 1, "{seen}");
    for (number, (from, to, said)) in buckets.iter().enumerate() {
        let is_in =
            |score: &&i64| (from..to).contains(score) || (number + 1 == count && *score == to);
        assert_eq!(scores.iter().filter(is_in).count() as i64, *said, "{from} of {seen}");
    }
    assert_eq!(buckets.iter().map(|(_, _, count)| count).sum::<i64>(), rows.len() as i64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranks_percentiles_and_buckets_are_those_of_all_entries() {
    let mut rng = seeded();
    for (sql, shards) in Sql::all_with([1, 4]) {
        let deployment = Deployment::new(sql, Redis::Private).await;
        let api = Api::start(&deployment).await;
        for game in every_game(&mut rng, shards, Range::Wide, 60) {
            create_board(&api, &game.board).await;
            submit_events(&api, &game.board, &game.events).await;
            let mut oracle = Oracle::new(game.board);
            game.events.iter().for_each(|event| {
                oracle.submit(event);
            });
            for ((window, period), rows) in oracle.standings() {
                for _ in 0..6 {
                    let rank = rng.random_range(1..=rows.len() as i64 + 1);
                    let (percentile, billionths) =
                        PERCENTILES[rng.random_range(0..PERCENTILES.len())];
                    let buckets = [1, 2, 3, 7, 20, 1000][rng.random_range(0..6)];
                    let window = window.to_string();
                    let standings = (&*window, &*period);
                    let seen =
                        ask(&api, &oracle.board.slug, standings, (rank, percentile, buckets)).await;
                    check_entry(&rows, rank, &seen["entryAt"]);
                    check_score(&rows, billionths, &seen["scoreFor"]);
                    check_buckets(&rows, buckets, &seen["distribution"]);
                }
            }
        }
    }
}

/// A board whose scores have two decimals, from −5 to 5.
async fn small(direction: &str) -> Api {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({
        "slug": "b", "direction": direction, "decimals": 2, "minScore": -5, "maxScore": 5,
        "shards": 2,
    }))
    .await;
    api
}

#[tokio::test]
async fn an_empty_board_has_no_distribution_and_one_entry_is_all_of_it() {
    for direction in ["HIGH_FIRST", "LOW_FIRST"] {
        let api = small(direction).await;
        let all = ("all", "all");
        let nothing = json!({ "entryAt": null, "scoreFor": null, "distribution": [] });
        assert_eq!(ask(&api, "b", all, (1, 50.0, 20)).await, nothing);
        // The worst possible score, the best, and one between.
        for (score, text) in [("-5", "-5.00"), ("5", "5.00"), ("-0.01", "-0.01")] {
            remove(&api, "b", "ann").await;
            submit(&api, "b", json!([{ "member": "ann", "score": score }])).await;
            for (percentile, buckets) in [(0.0, 1), (50.0, 20), (100.0, 1000)] {
                let entry = json!({ "rank": 1, "score": text, "member": { "key": "ann" } });
                let bucket = json!([{ "lower": text, "upper": text, "count": 1 }]);
                let expected =
                    json!({ "entryAt": entry, "scoreFor": text, "distribution": bucket });
                assert_eq!(ask(&api, "b", all, (1, percentile, buckets)).await, expected);
            }
            assert_eq!(ask(&api, "b", all, (2, 50.0, 1)).await["entryAt"], Value::Null);
        }
    }
}

#[tokio::test]
async fn the_ends_of_the_range_are_in_the_outermost_buckets() {
    for direction in ["HIGH_FIRST", "LOW_FIRST"] {
        let api = small(direction).await;
        let score = |(member, score): (&str, &str)| json!({ "member": member, "score": score });
        let scores = [("a", "-5"), ("b", "5"), ("c", "5"), ("d", "0"), ("e", "-0.01"), ("f", "-5")];
        submit(&api, "b", scores.map(score).into()).await;
        let seen = ask(&api, "b", ("all", "all"), (6, 0.0, 2)).await;
        let expected = json!([
            { "lower": "-5.00", "upper": "0.00", "count": 3 },
            { "lower": "0.00", "upper": "5.00", "count": 3 },
        ]);
        assert_eq!(seen["distribution"], expected);
        assert_eq!(seen["scoreFor"], if direction == "HIGH_FIRST" { "-5.00" } else { "5.00" });
    }
}

#[tokio::test]
async fn a_rank_a_percentile_and_a_number_of_buckets_that_cannot_be_are_refused() {
    let api = small("HIGH_FIRST").await;
    for with_entries in [false, true] {
        if with_entries {
            submit(&api, "b", json!([{ "member": "ann", "score": 1 }])).await;
        }
        for (field, code) in [
            ("entryAt(rank: 0) { rank }", "BAD_USER_INPUT"),
            ("entryAt(rank: -1) { rank }", "BAD_USER_INPUT"),
            ("entryAt(rank: -2147483648) { rank }", "BAD_USER_INPUT"),
            ("scoreFor(percentile: -1)", "BAD_USER_INPUT"),
            ("scoreFor(percentile: 101)", "BAD_USER_INPUT"),
            ("scoreFor(percentile: 100.0000001)", "BAD_USER_INPUT"),
            ("distribution(buckets: 0) { count }", "BAD_USER_INPUT"),
            ("distribution(buckets: -1) { count }", "BAD_USER_INPUT"),
            ("distribution(buckets: 1001) { count }", "LIMIT_EXCEEDED"),
        ] {
            let text = format!("{{ board(slug: \"b\") {{ standings {{ {field} }} }} }}");
            let answer = api.ask(Some(api.token()), &text, json!({})).await;
            assert_eq!(answer.codes(), [code], "{field}");
        }
        let text = "
            { board(slug: \"b\") { standings {
                entryAt(rank: 2147483647) { rank } distribution { count }
            } } }";
        let seen = api.data(text, json!({})).await["board"]["standings"].take();
        assert_eq!(seen["entryAt"], Value::Null);
    }
}
