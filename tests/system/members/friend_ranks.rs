//! Ranks among friends.

use std::collections::BTreeSet;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use ranking::window::Window;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::friends::{change_friends, start_with_members, upsert};
use tests::api::submission::{create_board, submit, submit_events};
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::{ADD_FRIEND, RANKED_FRIENDS};
use tests::model::game::{Game, Range, every_game, seeded};
use tests::model::oracle::{Oracle, Row};

/// The expected friends: first those with an entry, with positions and ranks; then the others, by
/// key, if they are wanted.
fn expected(
    rows: &[Row],
    me: &str,
    friends: &BTreeSet<String>,
    own: bool,
    missing: bool,
) -> Vec<Value> {
    let among: BTreeSet<&str> = friends.iter().map(String::as_str).chain([me]).collect();
    let ranked = rows.iter().filter(|row| among.contains(&*row.member));
    let node = |(position, row): (i64, &Row)| {
        let entry = json!({
            "rank": row.rank, "competition": row.competition_rank, "score": row.score,
            "member": { "key": row.member },
        });
        json!({
            "position": position, "isSelf": row.member == me, "member": { "key": row.member },
            "entry": entry,
        })
    };
    let without = among.iter().filter(|key| !rows.iter().any(|row| row.member == **key));
    let without = without.filter(|_| missing).map(|key| {
        json!({
            "position": null, "isSelf": *key == me, "member": { "key": key }, "entry": null,
        })
    });
    let nodes = (1..).zip(ranked).map(node).chain(without);
    nodes.filter(|node| own || node["isSelf"] == false).collect()
}

/// Walks the list in pages of one size: all ranked friends, then all without an entry; a page may
/// have both.
async fn check_pages(api: &Api, mut variables: Value, page: usize, expected: &[Value]) {
    let total = expected.len();
    let mut nodes: Vec<Value> = vec![];
    variables["first"] = page.into();
    loop {
        let data = api.data(RANKED_FRIENDS, variables.clone()).await;
        let list = &data["board"]["standings"]["friends"];
        let info = &list["pageInfo"];
        assert_eq!(info["hasPreviousPage"], !nodes.is_empty(), "{variables}");
        let here = list["nodes"].as_array().unwrap().clone();
        assert_eq!(here.len(), page.min(total - nodes.len()), "{variables}");
        let edges = list["edges"].as_array().unwrap();
        assert_eq!(edges.len(), here.len());
        if let (Some(first), Some(last)) = (edges.first(), edges.last()) {
            assert_eq!(info["startCursor"], first["cursor"]);
            assert_eq!(info["endCursor"], last["cursor"]);
        }
        nodes.extend(here);
        assert_eq!(list["totalCount"], total, "{variables}");
        let more = nodes.len() < total;
        assert_eq!(info["hasNextPage"], more, "{variables}");
        if !more {
            break;
        }
        variables["after"] = info["endCursor"].clone();
    }
    assert_eq!(nodes, expected, "{variables}");
}

/// Creates members with friends, some of whom have no score.
async fn random_friends(
    rng: &mut StdRng,
    api: &Api,
    games: &[Game],
) -> Vec<(String, BTreeSet<String>)> {
    let mut members: BTreeSet<String> =
        games.iter().flat_map(|game| &game.events).map(|event| event.member.clone()).collect();
    members.extend((0..6).map(|number| format!("n{number}")));
    let names: Vec<&str> = members.iter().map(String::as_str).collect();
    upsert(api, &names).await;
    let mut circles: Vec<(String, BTreeSet<String>)> = vec![];
    for me in ["a", "u20", "n0"] {
        let count = rng.random_range(6..members.len());
        let others = members.iter().filter(|key| *key != me).cloned();
        let friends: BTreeSet<String> = others.sample(rng, count).into_iter().collect();
        circles.push((me.to_owned(), friends));
    }
    // A friendship between two of them is in both circles.
    for index in 0..circles.len() {
        let (me, friends) = circles[index].clone();
        for friend in &friends {
            change_friends(api, ADD_FRIEND, (&me, friend)).await;
            for (other, circle) in &mut circles {
                if other == friend {
                    circle.insert(me.clone());
                }
            }
        }
    }
    circles
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn friends_stand_in_rank_order_with_their_ranks_among_everybody() {
    let mut rng = seeded();
    for (sql, shards) in Sql::all_with([1, 4]) {
        let deployment = Deployment::new(sql, Redis::Private).await;
        let api = Api::start(&deployment).await;
        let mut games = every_game(&mut rng, shards, Range::Wide, 60);
        games.truncate(6);
        let circles = random_friends(&mut rng, &api, &games).await;
        for game in games {
            create_board(&api, &game.board).await;
            submit_events(&api, &game.board, &game.events).await;
            let mut oracle = Oracle::new(game.board);
            game.events.iter().for_each(|event| {
                oracle.submit(event);
            });
            let standings = oracle.standings().into_iter();
            for ((window, period), rows) in standings.sample(&mut rng, 5) {
                let (me, friends) = circles.iter().choose(&mut rng).unwrap();
                for (own, missing) in [(true, false), (false, false), (true, true), (false, true)] {
                    let variables = json!({
                        "slug": oracle.board.slug, "window": window.to_string(), "period": period,
                        "member": me, "own": own, "missing": missing,
                    });
                    let expected = expected(&rows, me, friends, own, missing);
                    let page = [1, 3, 4, 1000][rng.random_range(0..4)];
                    check_pages(&api, variables, page, &expected).await;
                }
            }
            check_together(&api, &oracle, &circles).await;
        }
    }
}

/// Several members in several windows, in one query.
async fn check_together(api: &Api, oracle: &Oracle, circles: &[(String, BTreeSet<String>)]) {
    let (mut text, mut results) = (String::new(), vec![]);
    for ((window, period), rows) in oracle.standings() {
        let (slug, number) = (&oracle.board.slug, results.len());
        let (me, friends) = &circles[number % circles.len()];
        text += &format!(
            "q{number}: board(slug: {slug:?}) {{ standings(of: {{ window: {:?}, period: {period:?} }}) {{
                friends(member: {me:?}, first: 100) {{ nodes {{
                    position isSelf member {{ key }}
                    entry {{ rank competition: rank(method: COMPETITION) score member {{ key }} }}
                }} }}
            }} }} ",
            window.to_string()
        );
        results.push(expected(&rows, me, friends, true, false));
        if window == Window::Monthly {
            break;
        }
    }
    let data = api.data(&format!("{{ {text} }}"), json!({})).await;
    for (number, nodes) in results.iter().enumerate() {
        let seen = &data[format!("q{number}")]["standings"]["friends"]["nodes"];
        assert_eq!(*seen, json!(nodes), "{number} of {:?}", oracle.board);
    }
}

#[tokio::test]
async fn a_cursor_among_friends_is_one_of_its_list() {
    let (_deployment, api) = start_with_members(Sql::any(), &["ann", "bob", "cy", "dee"]).await;
    for slug in ["b", "c"] {
        api.create_board(json!({ "slug": slug, "windows": [{ "name": "daily" }] })).await;
        let score = |(member, day): (&str, u32)| {
            json!({
                "member": member, "score": day, "at": format!("2025-09-0{day}T12:00:00Z"),
            })
        };
        let scores: Vec<Value> = [("ann", 3), ("bob", 3), ("cy", 3), ("ann", 4)].map(score).into();
        submit(&api, slug, json!(scores)).await;
    }
    for friend in ["bob", "cy", "dee"] {
        change_friends(&api, ADD_FRIEND, ("ann", friend)).await;
    }
    let ask = async |slug: &str, period: Value, after: &Value| {
        let variables = json!({
            "slug": slug, "window": "daily", "period": period, "member": "ann", "first": 1,
            "missing": true, "after": after,
        });
        api.ask(Some(api.token()), RANKED_FRIENDS, variables).await
    };
    let mut cursor = Value::Null;
    // The cursor of a ranked friend, then of one without a score.
    for _ in 0..2 {
        for _ in 0..2 {
            let answer = ask("b", json!("2025-09-03"), &cursor).await;
            cursor = answer.body["data"]["board"]["standings"]["friends"]["pageInfo"]["endCursor"]
                .clone();
        }
        // A cursor continues in its own period if the query names none.
        let here = ask("b", Value::Null, &cursor).await;
        let there = ask("b", json!("2025-09-03"), &cursor).await;
        assert_eq!(here.body, there.body);
        assert_eq!(here.codes(), [""; 0]);
        for (slug, period) in [("c", Value::Null), ("b", json!("2025-09-04"))] {
            assert_eq!(ask(slug, period, &cursor).await.codes(), ["BAD_USER_INPUT"]);
        }
    }
    for bad in ["", "x", "%"] {
        assert_eq!(ask("b", Value::Null, &json!(bad)).await.codes(), ["BAD_USER_INPUT"]);
    }
}

#[tokio::test]
async fn the_page_around_a_member_fills_at_the_edges() {
    let names: Vec<String> = (0..10).map(|number| format!("m{number}")).collect();
    let members: Vec<&str> = names.iter().map(String::as_str).collect();
    let (_deployment, api) = start_with_members(Sql::any(), &members).await;
    api.create_board(json!({ "slug": "b" })).await;
    // The ninth has no score.
    let scores: Vec<Value> = (0..9)
        .filter(|number| *number != 8)
        .map(|number| json!({ "member": names[number], "score": 100 - number }))
        .collect();
    submit(&api, "b", json!(scores)).await;
    for (number, me) in members.iter().enumerate() {
        for friend in &members[..number] {
            change_friends(&api, ADD_FRIEND, (me, friend)).await;
        }
    }
    let ask = async |member: &str, arguments: &str| {
        let query = format!(
            "{{ board(slug: \"b\") {{ standings {{ friends(member: {member:?}, {arguments}) {{ nodes {{ member {{ key }} }} }} }} }} }}"
        );
        api.ask(Some(api.token()), &query, json!({})).await
    };
    let around = async |member: &str, arguments: &str| {
        let answer = ask(member, &format!("around: true, {arguments}")).await;
        assert_eq!(answer.codes(), [""; 0], "{}", answer.body);
        let nodes = &answer.body["data"]["board"]["standings"]["friends"]["nodes"];
        let nodes = nodes.as_array().unwrap().iter();
        nodes
            .map(|node| node["member"]["key"].as_str().unwrap()[1..].to_owned())
            .collect::<String>()
    };
    for (member, arguments, expected) in [
        ("m0", "first: 3", "012"),
        ("m1", "first: 3", "012"),
        ("m4", "first: 3", "345"),
        ("m4", "first: 4", "2345"),
        ("m4", "first: 4, includeSelf: false", "2356"),
        ("m7", "first: 3", "567"),
        ("m4", "first: 1", "4"),
        ("m4", "first: 0", ""),
        ("m4", "first: 50", "01234567"),
        // Without an entry, the last page.
        ("m8", "first: 3", "567"),
        ("m8", "first: 3, includeMissing: true", "789"),
    ] {
        assert_eq!(around(member, arguments).await, expected, "{member} {arguments}");
    }
    let answer = ask("m4", "first: 1").await;
    assert_eq!(answer.codes(), [""; 0]);
    let both = ask("m4", "around: true, after: \"x\"").await;
    assert_eq!(both.codes(), ["BAD_USER_INPUT"]);
    assert_eq!(both.body["errors"][0]["extensions"]["argument"], "around");
}
