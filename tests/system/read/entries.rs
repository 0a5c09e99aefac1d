//! Entries: rank, score, time and percentile, by every path.

use serde_json::{Value, json};

use tests::api::submission::submit;
use tests::boards::race::race;

#[tokio::test]
async fn an_entry_has_rank_score_time_and_percentile() {
    let (_deployment, api) = race().await;
    let text = "
        { board(slug: \"race\") { standings {
            id size segment source
            bob: rank(member: \"bob\") {
                id rank competition: rank(method: COMPETITION) score value reachedAt percentile
                member { key } standings { size }
            }
            eve: rank(member: \"eve\") { rank percentile score value }
            nobody: rank(member: \"nobody\") { rank }
            ranks(members: [\"dee\", \"nobody\", \"ann\", \"dee\"]) { rank member { key } }
        } } }";
    let standings = api.data(text, json!({})).await["board"]["standings"].take();
    let expected = json!({
        "id": "standings:race:all:all:", "size": 5, "segment": null, "source": "LIVE",
        "bob": {
            "id": "entry:race:all:all::bob", "rank": 3, "competition": 2, "score": "20.00",
            "value": 20.0, "reachedAt": "2025-09-03T10:02:00.000Z", "percentile": 50.0,
            "member": { "key": "bob" }, "standings": { "size": 5 },
        },
        "eve": { "rank": 5, "percentile": 0.0, "score": "5.50", "value": 5.5 },
        "nobody": null,
        "ranks": [
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
        { board(slug: \"race\") { standings { ranks(members: [\"cy\", \"bob\"]) {
            rank competition: rank(method: COMPETITION)
        } } } }";
    let ranks = api.data(text, json!({})).await["board"]["standings"]["ranks"].take();
    assert_eq!(ranks, json!([{ "rank": 2, "competition": 2 }, { "rank": 3, "competition": 2 }]));
}

#[tokio::test]
async fn a_lone_entry_has_percentile_100() {
    let (_deployment, api) = race().await;
    submit(&api, "race", json!([{ "member": "ann", "score": 1 }])).await;
    let text = "
        { board(slug: \"race\") { standings(window: \"daily\") {
            size rank(member: \"ann\") { rank percentile score }
        } } }";
    let standings = api.data(text, json!({})).await["board"]["standings"].take();
    assert_eq!(
        standings,
        json!({ "size": 1, "rank": { "rank": 1, "percentile": 100.0, "score": "1.00" } })
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
    let text = "
        query($id: ID!) { node(id: $id) {
            __typename id ... on Entry { rank } ... on Standings { size }
        } }";
    for (id, node) in [
        ("board:race", json!({ "__typename": "Board", "id": "board:race" })),
        ("member:ann", json!({ "__typename": "Member", "id": "member:ann" })),
        (
            "standings:race:daily:2025-09-03:",
            json!({ "__typename": "Standings", "id": "standings:race:daily:2025-09-03:", "size": 5 }),
        ),
        (
            "entry:race:all:all::cy",
            json!({ "__typename": "Entry", "id": "entry:race:all:all::cy", "rank": 2 }),
        ),
        ("board:none", Value::Null),
        ("member:nobody", Value::Null),
        ("standings:none:all:all:", Value::Null),
        ("entry:race:all:all::nobody", Value::Null),
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
