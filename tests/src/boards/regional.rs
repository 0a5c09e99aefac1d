//! A board with regions and friends, and a snapshot of every answer about its standings.

use std::collections::BTreeSet;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use ranking::window::Window;
use serde_json::{Value, json};

use crate::api::Api;
use crate::api::connection::{Connection, texts};
use crate::api::friends::change_friends;
use crate::api::submission::add_seasons;
use crate::documents::{ADD_FRIEND, PERIODS};
use crate::model::game::{Game, Range, every_game};
use crate::model::oracle::Oracle;

/// Every field of standings.
const ALL: &str = "
    query(
        $slug: String!, $window: String!, $period: String!, $segment: String, $one: String!,
        $members: [String!]!
    ) { board(slug: $slug) { standings(of: { window: $window, period: $period, segment: $segment }) {
        id source size segment period { label start end nextResetAt sealed }
        top(first: 100) {
            totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
            edges { cursor }
            nodes {
                id rank competition: rank(method: COMPETITION) dense: rank(method: DENSE) score
                value reachedAt percentile member { key }
            }
        }
        end: top(last: 3) { pageInfo { hasNextPage hasPreviousPage } nodes { rank member { key } } }
        beyond: top(first: 3, offset: 1000) {
            pageInfo { hasNextPage hasPreviousPage } nodes { rank }
        }
        middle: top(first: 3, offset: 2) {
            pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
            nodes { rank member { key } }
        }
        entry(member: $one) { rank percentile }
        entries(members: $members) { rank score member { key } }
        neighbors(member: $one, above: 2, below: 3) { rank member { key } }
        first: entryAt(rank: 1) { score member { key } }
        third: entryAt(rank: 3) { score member { key } } none: entryAt(rank: 1000) { score }
        friends(member: $one, first: 3, includeMissing: true) {
            totalCount pageInfo { hasNextPage endCursor }
            nodes { position isSelf member { key } entry { rank score } }
        }
        scoreFor(percentile: 50) distribution(buckets: 5) { lower upper count }
    } } }";

const PAGES: &str = "
    query(
        $slug: String!, $window: String!, $period: String!, $segment: String, $first: Int,
        $after: String, $last: Int, $before: String
    ) { board(slug: $slug) { standings(of: { window: $window, period: $period, segment: $segment }) {
        top(first: $first, after: $after, last: $last, before: $before) {
            totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
            nodes { rank score member { key } }
        }
    } } }";

/// The regions of members.
const REGIONS: [&str; 2] = ["eu", "us"];

/// Creates a board with regions, members with or without one, and friendships; returns the members.
pub async fn regional(api: &Api, game: &Game) -> Vec<String> {
    let mut input = game.board.input();
    input["segmentBy"] = json!(["region"]);
    api.create_board(input).await;
    add_seasons(api, &game.board).await;
    let members: BTreeSet<String> = game.events.iter().map(|event| event.member.clone()).collect();
    let members: Vec<String> = members.into_iter().collect();
    let with_region = |(number, key): (usize, &String)| match number % 3 {
        2 => json!({ "key": key }),
        region => json!({ "key": key, "region": REGIONS[region] }),
    };
    let input: Vec<Value> = members.iter().enumerate().map(with_region).collect();
    api.upsert_members(input).await;
    for friend in &members[1..members.len() / 2] {
        change_friends(api, ADD_FRIEND, (&members[0], friend)).await;
    }
    members
}

/// Every answer about every period except `all`, each with its source and its seal.
pub async fn snapshot(api: &Api, oracle: &Oracle, members: &[String]) -> Vec<(Value, Value)> {
    let mut said = vec![];
    for ((window, period), _) in oracle.standings() {
        for segment in [None, Some("region:eu"), Some("region:us")] {
            let asked = json!({
                "slug": oracle.board.slug, "window": window.to_string(), "period": period,
                "segment": segment, "one": members[0], "members": members,
            });
            let mut data = api.data(ALL, asked.clone()).await;
            let standings = &mut data["board"]["standings"];
            let from = json!([standings["source"].take(), standings["period"]["sealed"].take()]);
            if window == Window::All {
                assert_eq!(from[1], false);
                continue;
            }
            let pages =
                Connection { text: PAGES, variables: asked, pointer: "/board/standings/top" };
            let pages = pages.nodes(api).await;
            said.push((from, json!([standings.take(), pages])));
        }
    }
    for window in &oracle.board.windows {
        let mut periods = Connection {
            text: PERIODS,
            variables: json!({ "slug": oracle.board.slug, "window": window.to_string() }),
            pointer: "/board/periods",
        };
        let all = periods.forward(api, 1000).await;
        // A period may be sealed between two walks.
        let unsealed = PERIODS.replace(" sealed", "");
        periods.text = &unsealed;
        let paged = periods.nodes(api).await;
        let mut periods = all;
        assert_eq!(texts(&paged, "/label"), texts(&periods, "/label"));
        assert_eq!(texts(&periods, "/label"), oracle.periods(*window));
        for period in &mut periods {
            let sealed = period["sealed"].take();
            let source = if sealed == true { "ARCHIVE" } else { "LIVE" };
            said.push((json!([source, sealed]), period.take()));
        }
    }
    said
}

/// Random games of boards with windows.
pub fn random_games(rng: &mut StdRng, shards: u16, count: usize) -> Vec<Game> {
    let mut games = every_game(rng, shards, Range::Wide, 60);
    games.retain(|game| !game.board.windows.is_empty());
    games.shuffle(rng);
    games.truncate(count);
    games
}
