//! Segments: an event counts in those of its own attributes and of its member's at the time of
//! acceptance, for good.

use std::collections::BTreeMap;

use rand::RngExt;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::{add_seasons, submit_completed};
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

/// The attributes of the boards, and of members and scores.
const SEGMENT_BY: [&str; 3] = ["region", "class", "platform"];

/// The oracles of a board by segment: for all members, and for each value of an attribute.
type Regional = BTreeMap<String, Oracle>;

/// Values by attribute.
type Attributes = BTreeMap<&'static str, &'static str>;

/// Attributes as clients send them.
fn listed(attributes: &Attributes) -> Vec<Value> {
    let others = attributes.iter().filter(|(name, _)| **name != "region");
    others.map(|(name, value)| json!({ "name": name, "value": value })).collect()
}

/// Some attributes with a value each.
fn chosen(rng: &mut impl rand::Rng, among: &[&'static str]) -> Attributes {
    let mut chosen = Attributes::new();
    for &name in among {
        if rng.random_bool(0.5) {
            chosen.insert(name, REGIONS.choose(rng).unwrap());
        }
    }
    chosen
}

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
async fn an_event_counts_in_the_segments_that_it_or_its_member_had_then() {
    for (sql, shards) in Sql::all_with([1, 4]) {
        let deployment = Deployment::new(sql, Redis::Private).await;
        let api = Api::start(&deployment).await;
        let mut rng = seeded();
        let mut boards: Vec<(Board, Regional)> = vec![];
        let mut known: BTreeMap<String, Attributes> = BTreeMap::new();
        for game in every_game(&mut rng, shards, Range::Wide, 120).into_iter().step_by(4) {
            let mut input = game.board.input();
            input["segmentBy"] = json!(SEGMENT_BY);
            let created = api.create_board(input).await;
            assert_eq!(created["segmentBy"], json!(SEGMENT_BY));
            add_seasons(&api, &game.board).await;
            let mut regional = Regional::new();
            for batch in batches(&mut rng, &game.events) {
                let mut moves = vec![];
                for event in &batch {
                    if rng.random_bool(0.3) {
                        let attributes = chosen(&mut rng, &["region", "class", "hidden"]);
                        let mut input = json!({ "key": event.member });
                        input["region"] = json!(attributes.get("region"));
                        input["attributes"] = json!(listed(&attributes));
                        moves.push(input);
                        known.insert(event.member.clone(), attributes);
                    }
                }
                if !moves.is_empty() {
                    api.upsert_members(moves).await;
                }
                // Of the scores of one request, each has its own.
                let own: Vec<Attributes> =
                    batch.iter().map(|_| chosen(&mut rng, &["class", "platform"])).collect();
                let complete = |index: usize, score: &mut Value| {
                    score["attributes"] = json!(listed(&own[index]));
                };
                submit_completed(&api, &game.board, &batch, complete).await;
                let mut all =
                    regional.remove("").unwrap_or_else(|| Oracle::new(game.board.clone()));
                for (event, own) in batch.iter().zip(&own) {
                    let before = all.accepted().len();
                    all.submit(event);
                    if all.accepted().len() == before {
                        continue;
                    }
                    let mut attributes = known.get(&event.member).cloned().unwrap_or_default();
                    attributes.extend(own);
                    for name in SEGMENT_BY {
                        let Some(value) = attributes.get(name) else { continue };
                        let oracle = regional
                            .entry(format!("{name}:{value}"))
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
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    for (slug, by) in [("plain", json!([])), ("regional", json!(["region"]))] {
        api.create_board(json!({ "slug": slug, "segmentBy": by })).await;
    }
    for (by, code) in [
        (json!(["Country"]), "BAD_USER_INPUT"),
        (json!(["region", "region"]), "BAD_USER_INPUT"),
        (json!(["a", "b", "c", "d"]), "LIMIT_EXCEEDED"),
    ] {
        let input = json!({ "slug": "x", "segmentBy": by });
        let answer = api.ask(Some(api.token()), CREATE_BOARD, json!({ "input": input })).await;
        assert_eq!(answer.codes(), [code]);
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

#[tokio::test]
async fn attributes_are_the_members_own_until_they_are_replaced() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let attribute = |name: &str, value: &str| json!({ "name": name, "value": value });
    let upsert = async |input: Value| {
        let ask = "mutation($input: UpsertMembersInput!) {
            upsertMembers(input: $input) { members { region attributes { name value } } }
        }";
        let variables = json!({ "input": { "members": [input] } });
        api.ask(Some(api.token()), ask, variables).await
    };
    let own = json!([attribute("platform", "pc"), attribute("class", "mage")]);
    let input = json!({ "key": "ann", "region": "eu", "attributes": own });
    let answer = upsert(input).await;
    let sorted = json!([attribute("class", "mage"), attribute("platform", "pc")]);
    let member = json!({ "region": "eu", "attributes": sorted });
    assert_eq!(answer.body["data"]["upsertMembers"]["members"][0], member);
    let answer = upsert(json!({ "key": "ann", "name": "Ann" })).await;
    assert_eq!(answer.body["data"]["upsertMembers"]["members"][0], member);
    for (attributes, says) in [
        (json!([attribute("region", "eu")]), "expected it in region"),
        (json!([attribute("a", "x"), attribute("a", "y")]), "comes twice"),
        (json!([attribute("a", " ")]), "expected 1 to 200 characters"),
        (json!([attribute("A", "x")]), "expected a name of 1 to 32 characters"),
    ] {
        let answer = upsert(json!({ "key": "ann", "attributes": attributes })).await;
        let error = &answer.body["errors"][0];
        assert!(error["message"].as_str().unwrap().contains(says), "{error}");
        assert_eq!(error["extensions"]["argument"], "input.members[0].attributes");
    }
    let answer = upsert(json!({ "key": "ann", "attributes": null })).await;
    assert_eq!(answer.body["data"]["upsertMembers"]["members"][0]["attributes"], json!([]));
}

#[tokio::test]
async fn a_score_with_an_attribute_of_no_segment_is_refused_alone() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let by = json!(["class", "map", "mode"]);
    api.create_board(json!({ "slug": "b", "segmentBy": by })).await;
    let score = |member: &str, name: &str, value: &str| {
        let attributes = json!([{ "name": name, "value": value }]);
        json!({ "member": member, "score": 1, "attributes": attributes })
    };
    let scores = [
        score("ann", "class", "mage"),
        score("ben", "country", "de"),
        score("cid", "mode", "hard"),
        score("dan", "class", "elf"),
    ];
    let variables = json!({ "input": { "board": "b", "scores": scores, "ack": "DURABLE" } });
    let ask = "mutation($input: SubmitScoresInput!) { submitScores(input: $input) {
        accepted results { error { code argument message } }
    } }";
    let submitted = api.data(ask, variables).await["submitScores"].take();
    assert_eq!(submitted["accepted"], 3);
    let error = &submitted["results"][1]["error"];
    assert_eq!(
        (&error["code"], &error["argument"]),
        (&json!("BAD_USER_INPUT"), &json!("input.scores[1].attributes"))
    );
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("expected class, map, mode"), "{message}");
    let ask = "query($attribute: String, $after: String) { board(slug: \"b\") {
        segments(attribute: $attribute, first: 2, after: $after) {
            nodes { segment size } pageInfo { hasNextPage endCursor }
        }
    } }";
    let page = async |attribute: Value, after: Value| {
        let variables = json!({ "attribute": attribute, "after": after });
        let mut answer = api.data(ask, variables).await;
        let page = answer["board"]["segments"].take();
        let names = page["nodes"].as_array().unwrap().iter();
        let names: Vec<String> =
            names.map(|node| node["segment"].as_str().unwrap().to_owned()).collect();
        (names, page["pageInfo"].clone())
    };
    let (names, info) = page(json!("class"), Value::Null).await;
    assert_eq!(
        (names, &info["hasNextPage"]),
        (vec!["class:elf".into(), "class:mage".into()], &json!(false))
    );
    let (names, info) = page(Value::Null, Value::Null).await;
    assert_eq!(names, ["class:elf", "class:mage"]);
    let (names, _) = page(Value::Null, info["endCursor"].clone()).await;
    assert_eq!(names, ["mode:hard"]);
    let (names, _) = page(json!("map"), Value::Null).await;
    assert!(names.is_empty());
    let answer = api.ask(None, ask, json!({ "attribute": "country" })).await;
    assert_eq!(answer.codes(), ["BAD_USER_INPUT"]);
}
