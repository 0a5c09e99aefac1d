//! Regional standings: an event counts in the region of its member at the time of acceptance, for
//! good.

use std::collections::BTreeMap;

use rand::RngExt;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::{add_seasons, submit_events};
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::CREATE_BOARD;
use tests::jobs::analytics::figures;
use tests::jobs::diff::check_diff;
use tests::model::game::{Range, batches, every_game, seeded};
use tests::model::oracle::{Board, Oracle};
use tests::wait::until;

const TOP: &str = "
    query($slug: String!, $window: String!, $period: String!, $segment: String) {
        board(slug: $slug) { standings(of: { window: $window, period: $period, segment: $segment }) {
            segment size top(first: 1000) { nodes { rank score member { key } } }
        } }
    }";

/// Names with the separators of Redis keys.
const REGIONS: [&str; 3] = ["eu", "us:%{}", "ü"];

/// The oracles of a board by segment: for all members, and for each region.
type Regional = BTreeMap<String, Oracle>;

async fn check(api: &Api, slug: &str, regional: &Regional) {
    for (segment, oracle) in regional {
        for ((window, period), rows) in oracle.standings() {
            let variables = json!({
                "slug": slug, "window": window.to_string(), "period": period, "segment": segment,
            });
            let entry = |row: &tests::model::oracle::Row| {
                json!({
                    "rank": row.rank, "score": row.score, "member": { "key": row.member },
                })
            };
            let expected: Vec<Value> = rows.iter().map(entry).collect();
            let what = format!("{segment:?} of {slug} in {window} {period}");
            let mut seen = Value::Null;
            until(&what, async || {
                seen = api.data(TOP, variables.clone()).await["board"]["standings"].take();
                (seen["top"]["nodes"] == json!(expected)).then_some(())
            })
            .await;
            assert_eq!(seen["size"], expected.len(), "{what}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_counts_in_the_region_its_member_had_then() {
    for (sql, shards) in Sql::all_with([1, 4]) {
        let deployment = Deployment::new(sql, Redis::Private).await;
        let api = Api::start(&deployment).await;
        let mut rng = seeded();
        let mut boards: Vec<(Board, Regional)> = vec![];
        let mut region_of: BTreeMap<String, &str> = BTreeMap::new();
        for game in every_game(&mut rng, shards, Range::Wide, 120).into_iter().step_by(4) {
            let mut input = game.board.input();
            input["segmentBy"] = json!(["region"]);
            let created = api.create_board(input).await;
            assert_eq!(created["segmentBy"], json!(["region"]));
            add_seasons(&api, &game.board).await;
            let mut regional = Regional::new();
            for batch in batches(&mut rng, &game.events) {
                let mut moves = vec![];
                for event in &batch {
                    if rng.random_bool(0.3) {
                        let region = *REGIONS.choose(&mut rng).unwrap();
                        region_of.insert(event.member.clone(), region);
                        moves.push(json!({ "key": event.member, "region": region }));
                    }
                }
                if !moves.is_empty() {
                    api.upsert_members(moves).await;
                }
                submit_events(&api, &game.board, &batch).await;
                let mut all =
                    regional.remove("").unwrap_or_else(|| Oracle::new(game.board.clone()));
                for event in &batch {
                    let known = all.accepted().len();
                    all.submit(event);
                    let accepted = all.accepted().len() > known;
                    if let Some(region) = region_of.get(&event.member).filter(|_| accepted) {
                        let oracle = regional
                            .entry(format!("region:{region}"))
                            .or_insert_with(|| Oracle::new(game.board.clone()));
                        oracle.submit(event);
                    }
                }
                regional.insert(String::new(), all);
            }
            boards.push((game.board, regional));
        }
        for (board, regional) in &boards {
            check(&api, &board.slug, regional).await;
        }
        let accepted: usize =
            boards.iter().map(|(_, regional)| regional[""].accepted().len()).sum();
        let count = "SELECT CAST(COUNT(*) AS BIGINT) FROM score_event";
        until("every event is in SQL", async || {
            (deployment.number(count).await == accepted as i64).then_some(())
        })
        .await;
        deployment.flush_redis().await;
        for (board, regional) in &boards {
            check(&api, &board.slug, regional).await;
            figures(&deployment, &["rebuild", "--board", &board.slug]);
            check(&api, &board.slug, regional).await;
        }
        check_diff(&deployment);
    }
}

#[tokio::test]
async fn a_segment_that_a_board_does_not_have_is_refused() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let api = Api::start(&deployment).await;
    for (slug, by) in [("plain", json!([])), ("regional", json!(["region"]))] {
        api.create_board(json!({ "slug": slug, "segmentBy": by })).await;
    }
    for by in [json!(["country"]), json!(["region", "region"])] {
        let input = json!({ "slug": "x", "segmentBy": by });
        let answer = api.ask(Some(api.token()), CREATE_BOARD, json!({ "input": input })).await;
        assert_eq!(answer.codes(), ["BAD_USER_INPUT"]);
    }
    let ask = "
        query($slug: String!, $segment: String) { board(slug: $slug) {
            standings(of: { segment: $segment }) { size }
        } }";
    for (slug, segment, accepted) in [
        ("plain", "", true),
        ("plain", "region:eu", false),
        ("regional", "region:eu", true),
        ("regional", "region:", false),
        ("regional", "region", false),
        ("regional", "country:eu", false),
    ] {
        let variables = json!({ "slug": slug, "segment": segment });
        let answer = api.ask(None, ask, variables).await;
        assert_eq!(answer.codes().is_empty(), accepted, "{slug} {segment:?}");
    }
}
