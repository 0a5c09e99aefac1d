//! Entries: rank, score, time and percentile, by every path.

use serde_json::{Value, json};

use tests::api::friends::change_friends;
use tests::api::submission::submit;
use tests::boards::race::race;
use tests::documents::ADD_FRIEND;

#[tokio::test]
async fn an_entry_has_rank_score_time_and_percentile() {
    let (_deployment, api) = race().await;
    let text = "
        { board(slug: \"race\") { standings {
            id size segment source
            bob: entry(member: \"bob\") {
                id rank competition: rank(method: COMPETITION) score value reachedAt percentile
                member { key } standings { size }
            }
            eve: entry(member: \"eve\") { rank percentile score value }
            nobody: entry(member: \"nobody\") { rank }
            entries(members: [\"dee\", \"nobody\", \"ann\", \"dee\"]) { rank member { key } }
        } } }";
    let standings = api.data(text, json!({})).await["board"]["standings"].take();
    let expected = json!({
        "id": "standings:race.1:all:all:", "size": 5, "segment": null, "source": "LIVE",
        "bob": {
            "id": "entry:race.1:all:all::bob", "rank": 3, "competition": 2, "score": "20.00",
            "value": 20.0, "reachedAt": "2025-09-03T10:02:00.000Z", "percentile": 50.0,
            "member": { "key": "bob" }, "standings": { "size": 5 },
        },
        "eve": { "rank": 5, "percentile": 0.0, "score": "5.50", "value": 5.5 },
        "nobody": null,
        "entries": [
            { "rank": 4, "member": { "key": "dee" } }, null,
            { "rank": 1, "member": { "key": "ann" } }, { "rank": 4, "member": { "key": "dee" } },
        ],
    });
    assert_eq!(standings, expected);
}

#[tokio::test]
async fn earlier_submission_wins_a_tie() {
    let (_deployment, api) = race().await;
    let text = "
        { board(slug: \"race\") { standings { entries(members: [\"cy\", \"bob\"]) {
            rank competition: rank(method: COMPETITION)
        } } } }";
    let ranks = api.data(text, json!({})).await["board"]["standings"]["entries"].take();
    assert_eq!(ranks, json!([{ "rank": 2, "competition": 2 }, { "rank": 3, "competition": 2 }]));
}

#[tokio::test]
async fn a_lone_entry_has_percentile_100() {
    let (_deployment, api) = race().await;
    submit(&api, "race", json!([{ "member": "ann", "score": 1 }])).await;
    let text = "
        { board(slug: \"race\") { standings(of: { window: \"daily\" }) {
            size entry(member: \"ann\") { rank percentile score }
        } } }";
    let standings = api.data(text, json!({})).await["board"]["standings"].take();
    assert_eq!(
        standings,
        json!({ "size": 1, "entry": { "rank": 1, "percentile": 100.0, "score": "1.00" } })
    );
}

#[tokio::test]
async fn an_answer_to_a_submission_shows_where_the_member_is_now() {
    let (_deployment, api) = race().await;
    let text = "
        mutation { submitScores(input: { board: \"race\", scores: [
            { member: \"dee\", score: \"25.25\" }, { member: \"eve\", score: \"-6\" }
        ] }) { accepted rejected results { member status entry { rank score } error { code } } } }";
    let payload = api.data(text, json!({})).await["submitScores"].take();
    let expected = json!({
        "accepted": 1, "rejected": 1,
        "results": [
            {
                "member": "dee", "status": "APPLIED", "entry": { "rank": 1, "score": "35.25" },
                "error": null,
            },
            {
                "member": "eve", "status": "REJECTED", "entry": null,
                "error": { "code": "SCORE_OUT_OF_RANGE" },
            },
        ],
    });
    assert_eq!(payload, expected);
}

#[tokio::test]
async fn a_node_is_what_its_id_names() {
    let (_deployment, api) = race().await;
    change_friends(&api, ADD_FRIEND, ("ann", "bob")).await;
    let text = "
        query($id: ID!) { node(id: $id) {
            __typename id ... on Entry { rank } ... on Standings { size }
            ... on BoardWindow { name } ... on Period { label }
            ... on FriendEntry { position entry { rank } }
        } }";
    for (id, node) in [
        ("board:race.1", json!({ "__typename": "Board", "id": "board:race.1" })),
        ("member:ann", json!({ "__typename": "Member", "id": "member:ann" })),
        (
            "standings:race.1:daily:2025-09-03:",
            json!({ "__typename": "Standings", "id": "standings:race.1:daily:2025-09-03:", "size": 5 }),
        ),
        (
            "entry:race.1:all:all::cy",
            json!({ "__typename": "Entry", "id": "entry:race.1:all:all::cy", "rank": 2 }),
        ),
        ("board:none.1", Value::Null),
        ("board:race.2", Value::Null),
        (
            "window:race.1:daily",
            json!({ "__typename": "BoardWindow", "id": "window:race.1:daily", "name": "daily" }),
        ),
        ("window:race.1:weekly", Value::Null),
        (
            "period:race.1:daily:2025-09-03",
            json!({
                "__typename": "Period", "id": "period:race.1:daily:2025-09-03",
                "label": "2025-09-03",
            }),
        ),
        (
            "friendEntry:race.1:all:all::ann:bob",
            json!({
                "__typename": "FriendEntry", "id": "friendEntry:race.1:all:all::ann:bob",
                "position": 2, "entry": { "rank": 3 },
            }),
        ),
        ("friendEntry:race.1:all:all::ann:cy", Value::Null),
        ("member:nobody", Value::Null),
        ("standings:none.1:all:all:", Value::Null),
        ("entry:race.1:all:all::nobody", Value::Null),
    ] {
        assert_eq!(api.data(text, json!({ "id": id })).await["node"], node, "{id}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_null_and_no_error() {
    let (_deployment, api) = race().await;
    let text = "
        {
            board(slug: \"none\") { id } odd: board(slug: \"No Slug\") { id }
            member(key: \"nobody\") { id }
        }";
    assert_eq!(
        api.data(text, json!({})).await,
        json!({ "board": null, "odd": null, "member": null })
    );
}
