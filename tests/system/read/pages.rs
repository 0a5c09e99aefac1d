//! Pages of standings: forward, backward, from an offset, and continued by cursors.

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::submit;
use tests::boards::race::race;
use tests::deployment::{Deployment, Redis, Sql};

const TOP: &str = "
    query($first: Int, $after: String, $last: Int, $before: String, $offset: Int) {
        board(slug: \"race\") { standings {
            top(first: $first, after: $after, last: $last, before: $before, offset: $offset) {
                totalCount pageInfo { hasPreviousPage hasNextPage startCursor endCursor }
                edges { cursor node { rank member { key } } }
            }
        } }
    }";

/// The members of a page, the flags for more before and after it, and its first and last cursor.
async fn page(api: &Api, variables: Value) -> (String, (bool, bool), (Value, Value)) {
    let mut top = api.data(TOP, variables).await["board"]["standings"]["top"].take();
    assert_eq!(top["totalCount"], 5);
    let edges = top["edges"].as_array().unwrap();
    let first =
        edges.first().map(|edge| edge["node"]["rank"].as_i64().unwrap()).unwrap_or_default();
    for (edge, rank) in edges.iter().zip(first..) {
        assert_eq!(edge["node"]["rank"], rank);
    }
    let members: Vec<&str> =
        edges.iter().map(|edge| edge["node"]["member"]["key"].as_str().unwrap()).collect();
    let cursors = (
        edges.first().map_or(Value::Null, |edge| edge["cursor"].clone()),
        edges.last().map_or(Value::Null, |edge| edge["cursor"].clone()),
    );
    let members = members.join(" ");
    let info = top["pageInfo"].take();
    assert_eq!((&info["startCursor"], &info["endCursor"]), (&cursors.0, &cursors.1));
    let more = (info["hasPreviousPage"] == true, info["hasNextPage"] == true);
    (members, more, cursors)
}

#[tokio::test]
async fn pages_follow_each_other_both_ways() {
    let (_deployment, api) = race().await;
    let (members, more, cursors) = page(&api, json!({ "first": 2 })).await;
    assert_eq!((members.as_str(), more), ("ann cy", (false, true)));
    let (members, more, cursors) = page(&api, json!({ "first": 2, "after": cursors.1 })).await;
    assert_eq!((members.as_str(), more), ("bob dee", (true, true)));
    let (members, more, _) = page(&api, json!({ "first": 2, "after": cursors.1 })).await;
    assert_eq!((members.as_str(), more), ("eve", (true, false)));
    let (members, more, _) = page(&api, json!({ "last": 10, "before": cursors.0 })).await;
    assert_eq!((members.as_str(), more), ("ann cy", (false, true)));
    let (members, more, cursors) = page(&api, json!({ "last": 2 })).await;
    assert_eq!((members.as_str(), more), ("dee eve", (true, false)));
    let (members, more, _) = page(&api, json!({ "last": 2, "before": cursors.0 })).await;
    assert_eq!((members.as_str(), more), ("cy bob", (true, true)));
}

#[tokio::test]
async fn a_page_begins_at_its_offset_or_is_empty_beyond_the_end() {
    let (_deployment, api) = race().await;
    let (members, more, _) = page(&api, json!({ "offset": 3, "first": 1 })).await;
    assert_eq!((members.as_str(), more), ("dee", (true, true)));
    let (members, more, _) = page(&api, json!({ "offset": 0 })).await;
    assert_eq!((members.as_str(), more), ("ann cy bob dee eve", (false, false)));
    for beyond in [json!({ "offset": 5 }), json!({ "offset": 2_000_000_000 })] {
        let (members, more, _) = page(&api, beyond).await;
        assert_eq!((members.as_str(), more), ("", (true, false)));
    }
    let (members, more, _) = page(&api, json!({ "first": 0 })).await;
    assert_eq!((members.as_str(), more), ("", (false, true)));
}

#[tokio::test]
async fn a_cursor_goes_on_where_it_was_when_its_entry_has_moved() {
    let (_deployment, api) = race().await;
    let (_, _, cursors) = page(&api, json!({ "first": 2 })).await;
    // cy, the last entry of the page, moves to the top: bob and dee still follow its old place.
    submit(&api, "race", json!([{ "member": "cy", "score": 100 }])).await;
    let (members, _, _) = page(&api, json!({ "first": 2, "after": cursors.1 })).await;
    assert_eq!(members, "bob dee");
}

#[tokio::test]
async fn neighbors_are_the_entries_around_a_member() {
    let (_deployment, api) = race().await;
    let text =
        "query($member: String!, $above: Int, $below: Int) { board(slug: \"race\") { standings {
        neighbors(member: $member, above: $above, below: $below) { rank member { key } } } } }";
    for (member, above, below, expected) in [
        ("bob", 1, 1, "2 cy 3 bob 4 dee"),
        ("ann", 3, 1, "1 ann 2 cy"),
        ("eve", 1, 3, "4 dee 5 eve"),
        ("cy", 0, 0, "2 cy"),
        ("cy", 1000, 1000, "1 ann 2 cy 3 bob 4 dee 5 eve"),
        ("nobody", 2, 2, ""),
    ] {
        let variables = json!({ "member": member, "above": above, "below": below });
        let data = api.data(text, variables).await;
        let neighbors = data["board"]["standings"]["neighbors"].as_array().unwrap().clone();
        let said: Vec<String> = neighbors
            .iter()
            .map(|entry| format!("{} {}", entry["rank"], entry["member"]["key"].as_str().unwrap()))
            .collect();
        assert_eq!(said.join(" "), expected, "{member} {above} {below}");
    }
}

#[tokio::test]
async fn a_cursor_continues_the_period_it_came_from() {
    let (_deployment, api) = race().await;
    let text = "
        query($period: String, $after: String) { board(slug: \"race\") {
            standings(of: { window: \"daily\", period: $period }) { top(first: 2, after: $after) {
                pageInfo { endCursor } nodes { rank member { key } standings { period { label } } }
            } }
        } }";
    let first = api.data(text, json!({ "period": "2025-09-03" })).await;
    let cursor = first["board"]["standings"]["top"]["pageInfo"]["endCursor"].clone();
    let next =
        api.data(text, json!({ "after": cursor })).await["board"]["standings"]["top"]["nodes"][0]
            .take();
    assert_eq!(
        next,
        json!({
            "rank": 3, "member": { "key": "bob" },
            "standings": { "period": { "label": "2025-09-03" } },
        })
    );
    let refused = api.query(text, json!({ "after": cursor, "period": "2025-09-04" })).await;
    assert_eq!(refused["errors"][0]["extensions"]["code"], "BAD_USER_INPUT");
}

#[tokio::test]
async fn an_answer_has_its_fields_in_the_order_asked() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let query = "%7Bviewer%7Bscopes%7D%20boards%7BtotalCount%20nodes%7Bslug%7D%7D%20__typename%7D";
    let answer = reqwest::get(format!("{}/graphql?query={query}", api.url())).await.unwrap();
    let expected =
        r#"{"data":{"viewer":null,"boards":{"totalCount":0,"nodes":[]},"__typename":"Query"}}"#;
    assert_eq!(answer.text().await.unwrap(), expected);
}
