//! The search for members by the start of a key or name.

use reqwest::Client;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::connection::texts;
use tests::attack::request::Attack;
use tests::deployment::{Deployment, Redis, Sql};

const SEARCH: &str = "
    query($prefix: String!, $first: Int, $after: String) {
        searchMembers(prefix: $prefix, first: $first, after: $after) {
            totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
            nodes { key name }
        }
    }";

/// Keys and names.
const MEMBERS: [(&str, Option<&str>); 16] = [
    ("an", None),
    ("ann", Some("Zoë")),
    ("anna", Some("anna")),
    ("Ann", None),
    ("x1", Some("ANNA B")),
    ("x2", Some("anna a")),
    ("x3", Some("Anna a")),
    ("x4", Some("Ängström")),
    ("x5", Some("ängstrom")),
    ("x6", Some("100% sure")),
    ("x7", Some("100 sure")),
    ("x8", Some("_under")),
    ("x9", Some("under")),
    ("%key", None),
    ("'or\"1", Some("'; DROP TABLE member; --")),
    ("Äz", Some("ŠKODA")),
];

async fn members(sql: Sql) -> Api {
    let deployment = Deployment::new(sql, Redis::Private).await;
    let api = Api::start(&deployment).await;
    let member = |(key, name): &(&str, Option<&str>)| json!({ "key": key, "name": name });
    let input: Vec<Value> = MEMBERS.iter().map(member).collect();
    api.upsert_members(input).await;
    api
}

/// The keys that a search finds; checks that they are the same in pages of every size.
async fn search(api: &Api, prefix: &str) -> Vec<String> {
    let mut found: Vec<Vec<String>> = vec![];
    for page in [1, 2, 3, 1000] {
        let (mut keys, mut after) = (vec![], Value::Null);
        loop {
            let variables = json!({ "prefix": prefix, "first": page, "after": after });
            let data = api.data(SEARCH, variables).await;
            let connection = &data["searchMembers"];
            let info = &connection["pageInfo"];
            assert_eq!(info["hasPreviousPage"], !keys.is_empty(), "{prefix}");
            keys.extend(texts(connection["nodes"].as_array().unwrap(), "/key"));
            if info["hasNextPage"] == false {
                assert_eq!(connection["totalCount"], keys.len(), "{prefix}");
                break;
            }
            after = info["endCursor"].clone();
        }
        found.push(keys);
    }
    assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "{found:?}");
    found.remove(0)
}

/// The expected keys: by key those whose key begins with the prefix, then by name in lower case and
/// key those whose name does.
fn expected(prefix: &str) -> Vec<String> {
    let (mut by_key, mut by_name) = (vec![], vec![]);
    for (key, name) in MEMBERS {
        let name = name.map(str::to_lowercase).unwrap_or_default();
        if key.starts_with(prefix) {
            by_key.push(key.to_owned());
        } else if name.starts_with(&prefix.to_lowercase()) {
            by_name.push((name, key.to_owned()));
        }
    }
    by_key.sort_unstable();
    by_name.sort_unstable();
    by_key.extend(by_name.into_iter().map(|(_, key)| key));
    by_key
}

#[tokio::test]
async fn members_are_found_by_key_and_then_by_name_whatever_the_case() {
    for sql in Sql::all() {
        let api = members(sql).await;
        assert_eq!(search(&api, "an").await, ["an", "ann", "anna", "x2", "x3", "x1"]);
        assert_eq!(search(&api, "Ä").await, ["Äz", "x5", "x4"]);
        assert_eq!(search(&api, "ä").await, ["x5", "x4"]);
        for prefix in [
            "a",
            "A",
            "ANN",
            "anna a",
            "zoË",
            "x",
            "1",
            "100%",
            "%",
            "_",
            "_u",
            "'",
            "'; drop",
            "\"",
            "\\",
            "š",
            "Š",
            "nobody",
            "\u{10FFFF}",
        ] {
            assert_eq!(search(&api, prefix).await, expected(prefix), "{prefix} {sql:?}");
        }
    }
}

#[tokio::test]
async fn names_that_begin_as_their_keys_are_found_once_and_passed_for_their_price() {
    const COUNT: usize = 1500;
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let member = |no: usize| json!({ "key": format!("p{no:04}"), "name": format!("P{no:04}") });
    let other = json!({ "key": "other", "name": "Pat" });
    let members: Vec<Value> = (0..COUNT).map(member).chain([other]).collect();
    for some in members.chunks(1000) {
        api.upsert_members(some.to_vec()).await;
    }
    let variables = |after: &Value| json!({ "prefix": "p", "first": 1000, "after": after });
    let data = api.data(SEARCH, variables(&Value::Null)).await;
    let after = &data["searchMembers"]["pageInfo"]["endCursor"];
    let rest = Attack::new("the last page", SEARCH, variables(after)).as_admin();
    let reply = rest.send(&Client::new(), api.url(), api.token()).await.unwrap();
    let body = reply.body();
    let found = texts(body["data"]["searchMembers"]["nodes"].as_array().unwrap(), "/key");
    assert_eq!((found.len(), found.last().unwrap().as_str()), (COUNT - 1000 + 1, "other"));
    // The names of all that were found by key lie in the way.
    assert!(reply.points().unwrap() >= 8 * COUNT as u64, "{:?}", reply.points());
}

#[tokio::test]
async fn a_name_that_changes_is_found_as_it_is_now() {
    let api = members(Sql::any()).await;
    for (name, finds) in [(json!("Quinn"), vec!["x9"]), (Value::Null, vec![])] {
        let input = json!([{ "key": "x9", "name": name }]);
        api.upsert_members(input).await;
        assert_eq!(search(&api, "qui").await, finds);
        assert_eq!(search(&api, "under").await, [""; 0]);
    }
}

#[tokio::test]
async fn a_search_by_nothing_or_too_much_is_refused() {
    let api = members(Sql::any()).await;
    let long = "ä".repeat(64);
    assert_eq!(search(&api, &long).await, [""; 0]);
    for (prefix, first, after, code) in [
        ("", json!(1), Value::Null, "BAD_USER_INPUT"),
        (&*format!("{long}a"), json!(1), Value::Null, "BAD_USER_INPUT"),
        ("a\n", json!(1), Value::Null, "BAD_USER_INPUT"),
        ("a", json!(-1), Value::Null, "BAD_USER_INPUT"),
        ("a", json!(1001), Value::Null, "LIMIT_EXCEEDED"),
        ("a", json!(1), json!("here"), "BAD_USER_INPUT"),
    ] {
        let variables = json!({ "prefix": prefix, "first": first, "after": after });
        let answer = api.ask(Some(api.token()), SEARCH, variables).await;
        assert_eq!(answer.codes(), [code], "{prefix} {first} {after}");
    }
}
