//! Walks through a board beside writers: a member that does not move is seen once, in its place.

use std::sync::atomic::{AtomicBool, Ordering};

use rand::prelude::*;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::listing::Way;
use tests::api::submission::submit;
use tests::deployment::{Deployment, Redis, Sql};
use tests::model::game::seeded;

const PAGE: &str = "
    query($slug: String!, $first: Int, $after: String, $last: Int, $before: String) {
        board(slug: $slug) { standings {
            top(first: $first, after: $after, last: $last, before: $before) {
                pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
                nodes { rank member { key } }
            }
        } }
    }";

/// Half of them move.
const MEMBERS: usize = 1200;

/// How often the board is walked each way.
const WALKS: usize = 6;

/// A score: few distinct ones, so that runs of equal scores go over pages and shards.
fn score(rng: &mut StdRng, member: &str) -> Value {
    json!({ "member": member, "score": rng.random_range(-6..6) })
}

fn name(member: usize) -> String {
    let kind = if member.is_multiple_of(2) { "still" } else { "moves" };
    format!("{kind}-{member}")
}

/// The members of one walk, in pages of random sizes; checks that ranks within a page are in order.
async fn walk(api: &Api, slug: &str, rng: &mut StdRng, way: Way) -> Vec<String> {
    let (count, from, more, end) = match way {
        Way::Forward => ("first", "after", "hasNextPage", "endCursor"),
        Way::Backward => ("last", "before", "hasPreviousPage", "startCursor"),
    };
    let (mut seen, mut cursor) = (vec![], Value::Null);
    loop {
        let mut variables = json!({ "slug": slug, from: cursor });
        variables[count] = rng.random_range(1..200).into();
        let mut top = api.data(PAGE, variables).await["board"]["standings"]["top"].take();
        let nodes = top["nodes"].as_array().unwrap();
        let ranks = nodes.iter().map(|node| node["rank"].as_i64().unwrap());
        assert!(ranks.clone().zip(ranks.skip(1)).all(|(rank, next)| next == rank + 1));
        let members = nodes.iter().map(|node| node["member"]["key"].as_str().unwrap().to_owned());
        match way {
            Way::Forward => seen.extend(members),
            Way::Backward => seen.extend(members.rev()),
        }
        let info = top["pageInfo"].take();
        if info[more] == false {
            break;
        }
        cursor = info[end].clone();
    }
    if matches!(way, Way::Backward) {
        seen.reverse();
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_walk_neither_repeats_nor_skips_members_that_do_not_move() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let mut rng = seeded();
    for (shards, tie_break) in [(1, "MEMBER"), (4, "EARLIEST"), (16, "MEMBER")] {
        let slug = format!("b{shards}");
        let policy = if tie_break == "MEMBER" { "SUM" } else { "LATEST" };
        let input = json!({
            "slug": slug, "policy": policy, "minScore": -1_000_000, "shards": shards,
            "tieBreak": tie_break,
        });
        api.create_board(input).await;
        let scores: Vec<Value> =
            (0..MEMBERS).map(|member| score(&mut rng, &name(member))).collect();
        for batch in scores.chunks(500) {
            submit(&api, &slug, json!(batch)).await;
        }
        let still = |members: Vec<String>| -> Vec<String> {
            let still = |member: &String| member.starts_with("still");
            members.into_iter().filter(still).collect()
        };
        let expected = still(walk(&api, &slug, &mut rng, Way::Forward).await);
        assert_eq!(expected.len(), MEMBERS / 2);
        let (done, mut writing) = (AtomicBool::new(false), StdRng::seed_from_u64(rng.random()));
        let write = async {
            let mut written = 0;
            while !done.load(Ordering::Relaxed) {
                let moves: Vec<Value> = (0..50)
                    .map(|_| {
                        let member = name(writing.random_range(0..MEMBERS / 2) * 2 + 1);
                        score(&mut writing, &member)
                    })
                    .collect();
                submit(&api, &slug, json!(moves)).await;
                written += 1;
            }
            written
        };
        let read = async {
            for number in 0..2 * WALKS {
                let way = [Way::Forward, Way::Backward][number % 2];
                let seen = still(walk(&api, &slug, &mut rng, way).await);
                assert_eq!(seen, expected, "{way:?} in {shards} shards");
            }
            done.store(true, Ordering::Relaxed);
        };
        let (written, ()) = futures::join!(write, read);
        assert!(written > WALKS, "{written} batches were written beside the walks");
    }
}
