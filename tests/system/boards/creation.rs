//! Boards that are created and listed, and those that are refused.

use serde_json::{Value, json};

use tests::api::refusal::check;
use tests::boards::race::race;
use tests::documents::CREATE_BOARD;

#[tokio::test]
async fn a_board_has_the_rules_it_was_created_with() {
    let (_deployment, api) = race().await;
    let text = "
        { board(slug: \"race\") {
            id slug title direction policy tieBreak tieBreakResolutionMs decimals minScore maxScore
            timeZone resetHour weekStart shards segmentBy visibility selfSubmit
            windows { name kind current { label start end sealed } }
        } }";
    let board = api.data(text, json!({})).await["board"].take();
    let mut expected = json!({
        "id": "board:race.1", "slug": "race", "title": "race", "direction": "HIGH_FIRST",
        "policy": "SUM", "tieBreak": "EARLIEST", "decimals": 2, "minScore": "0.00",
        "maxScore": "9999999.99", "timeZone": "UTC", "resetHour": 0, "weekStart": "MONDAY", "shards": 2, "segmentBy": [],
        "visibility": "PUBLIC", "selfSubmit": false,
        "windows": [{
            "name": "all", "kind": "ALL_TIME",
            "current": { "label": "all", "start": null, "end": null, "sealed": false },
        }],
    });
    let resolution = board["tieBreakResolutionMs"].as_i64().unwrap();
    assert!([1, 10, 100, 1000].contains(&resolution), "{resolution}");
    expected["tieBreakResolutionMs"] = resolution.into();
    let daily = board["windows"][1].clone();
    assert_eq!((&daily["name"], &daily["kind"]), (&json!("daily"), &json!("DAILY")));
    assert_eq!(
        daily["current"]["start"],
        format!("{}T00:00:00.000Z", daily["current"]["label"].as_str().unwrap())
    );
    expected["windows"].as_array_mut().unwrap().push(daily);
    assert_eq!(board, expected);
}

#[tokio::test]
async fn boards_are_listed_by_slug_and_private_ones_to_token_holders() {
    let (_deployment, api) = race().await;
    for slug in ["zeta", "alpha"] {
        api.create_board(json!({ "slug": slug, "visibility": "PRIVATE" })).await;
    }
    let text = "
        query($first: Int, $after: String) {
            boards(first: $first, after: $after) {
                totalCount nodes { slug } pageInfo { hasNextPage endCursor }
            }
            board(slug: \"zeta\") { slug }
        }";
    let seen = api.data(text, json!({ "first": 2 })).await;
    assert_eq!(seen["boards"]["nodes"], json!([{ "slug": "alpha" }, { "slug": "race" }]));
    assert_eq!(
        (&seen["boards"]["totalCount"], &seen["boards"]["pageInfo"]["hasNextPage"]),
        (&json!(3), &json!(true))
    );
    let cursor = &seen["boards"]["pageInfo"]["endCursor"];
    let rest = api.data(text, json!({ "first": 2, "after": cursor })).await;
    assert_eq!(rest["boards"]["nodes"], json!([{ "slug": "zeta" }]));
    let public = api.ask(None, text, json!({})).await.body["data"].take();
    assert_eq!(
        (&public["boards"]["nodes"], &public["board"]),
        (&json!([{ "slug": "race" }]), &Value::Null)
    );
}

#[tokio::test]
async fn a_board_that_cannot_be_is_refused() {
    let (_deployment, api) = race().await;
    let refused = async |change: Value, code: &str, says: &str| {
        let mut input = json!({ "slug": "other" });
        input.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        check(&api, CREATE_BOARD, json!({ "input": input }), code, says).await;
    };
    refused(json!({ "slug": "race" }), "ALREADY_EXISTS", "race").await;
    for (change, says) in [
        (json!({ "slug": "No Slug" }), "slug"),
        (json!({ "slug": "" }), "slug"),
        (json!({ "title": "" }), "title"),
        (json!({ "decimals": 10, "maxScore": "1" }), "0 to 9"),
        (json!({ "decimals": 200 }), "0 to 9"),
        (json!({ "decimals": -1 }), "0 to 9"),
        (json!({ "minScore": "5", "maxScore": "5" }), "less than"),
        (json!({ "maxScore": "9007199254740992" }), "maxScore"),
        (
            json!({ "minScore": "-1", "maxScore": "9007199254740991", "tieBreak": "MEMBER" }),
            "53 bits",
        ),
        (json!({ "maxScore": "1.5" }), "maxScore"),
        (json!({ "maxScore": "9007199254740991" }), "tie-break"),
        (json!({ "tieBreakResolutionMs": 7 }), "1000"),
        (json!({ "tieBreakResolutionMs": -1 }), "tieBreakResolutionMs"),
        (json!({ "tieBreak": "MEMBER", "tieBreakResolutionMs": 1000 }), "MEMBER"),
        (json!({ "tieBreak": "MEMBER", "policy": "LATEST" }), "EARLIEST or LATEST"),
        (json!({ "timeZone": "Mars/Olympus" }), "IANA"),
        (json!({ "resetHour": 24 }), "expected 0 to 23"),
        (json!({ "resetHour": -1 }), "expected 0 to 23"),
        (json!({ "weekStart": "MOON" }), "Weekday"),
        (json!({ "shards": 3 }), "power of two"),
        (json!({ "shards": 32 }), "16"),
        (json!({ "shards": 0 }), ""),
        (json!({ "segmentBy": ["Country"] }), "expected a name of 1 to 32 characters"),
        (json!({ "windows": [{ "name": "fortnightly" }] }), "expected all, hourly, daily, weekly"),
        (
            json!({ "windows": [{ "name": "decay:7d" }], "policy": "BEST" }),
            "policy SUM and direction HIGH_FIRST",
        ),
        (json!({ "windows": [{ "name": "daily" }, { "name": "daily" }] }), "twice"),
        (json!({ "maxScore": 1.5 }), "string"),
        (json!({ "maxScore": 1_234_567_890_123_456_i64 }), "15 digits"),
        (json!({ "direction": "SIDEWAYS" }), ""),
    ] {
        refused(change, "BAD_USER_INPUT", says).await;
    }
}
