//! Bans of members and scores in quarantine, through GraphQL.

use serde_json::{Value, json};

use crate::api::{Answer, Api};

pub const BAN_MEMBER: &str = "
    mutation($input: BanMemberInput!) { banMember(input: $input) {
        banned member { key bans { board { slug } shadow reason } }
    } }";

pub const LIFT_BAN: &str = "
    mutation($input: LiftBanInput!) { liftBan(input: $input) {
        lifted done member { key bans { board { slug } } }
    } }";

const QUARANTINE: &str = "
    query($slug: String!, $states: [QuarantineState!], $member: String, $after: String) {
        board(slug: $slug) {
            quarantine(states: $states, member: $member, first: 1000, after: $after) {
                pageInfo { hasNextPage endCursor }
                nodes { number member score at eventId suspicion message state decidedAt }
            }
        }
    }";

const RELEASE: &str = "
    mutation($numbers: [ID!]!) { releaseQuarantined(input: { numbers: $numbers }) {
        released results { number outcome error { code message } }
    } }";

const VOID: &str = "
    mutation($numbers: [ID!]!) { voidQuarantined(input: { numbers: $numbers }) {
        voided results { number outcome error { code message } }
    } }";

/// Bans a member from a board, or from all. The ban must be over at once.
pub async fn ban(api: &Api, member: &str, board: Option<&str>) {
    let input = json!({ "member": member, "board": board, "reason": "a bot" });
    let banned = &api.data(BAN_MEMBER, json!({ "input": input })).await["banMember"];
    assert_eq!(banned["banned"], true, "{banned}");
    let bans = banned["member"]["bans"].as_array().unwrap();
    let of_board = bans.iter().any(|ban| ban["board"]["slug"].as_str() == board);
    assert!(of_board, "{banned}");
}

/// Lifts a ban. The lift must be over at once.
pub async fn lift(api: &Api, member: &str, board: Option<&str>) {
    let input = json!({ "member": member, "board": board });
    let lifted = &api.data(LIFT_BAN, json!({ "input": input })).await["liftBan"];
    assert_eq!((&lifted["lifted"], &lifted["done"]), (&json!(true), &json!(true)), "{lifted}");
}

/// The scores in quarantine on a board in some states, in the order of arrival.
pub async fn quarantine(
    api: &Api,
    board: &str,
    states: &[&str],
    member: Option<&str>,
) -> Vec<Value> {
    let (mut nodes, mut after) = (vec![], Value::Null);
    loop {
        let variables =
            json!({ "slug": board, "states": states, "member": member, "after": after });
        let data = api.data(QUARANTINE, variables).await;
        let page = &data["board"]["quarantine"];
        nodes.extend(page["nodes"].as_array().unwrap().iter().cloned());
        if page["pageInfo"]["hasNextPage"] == false {
            return nodes;
        }
        after = page["pageInfo"]["endCursor"].clone();
    }
}

/// The numbers of scores in quarantine.
pub fn numbers(nodes: &[Value]) -> Vec<Value> {
    nodes.iter().map(|node| node["number"].clone()).collect()
}

/// Releases scores; returns the payload.
pub async fn release(api: &Api, numbers: &[Value]) -> Value {
    api.data(RELEASE, json!({ "numbers": numbers })).await["releaseQuarantined"].take()
}

/// Releases scores, which may fail.
pub async fn try_release(api: &Api, numbers: &[Value]) -> Answer {
    api.ask(Some(api.token()), RELEASE, json!({ "numbers": numbers })).await
}

/// Releases scores through a process that may be killed.
pub async fn release_or_die(api: &Api, numbers: &[Value]) -> bool {
    let variables = json!({ "numbers": numbers });
    api.try_ask(Some(api.token()), RELEASE, variables).await.is_ok()
}

/// Voids scores in quarantine; returns the payload.
pub async fn void_quarantined(api: &Api, numbers: &[Value]) -> Value {
    api.data(VOID, json!({ "numbers": numbers })).await["voidQuarantined"].take()
}

/// The outcomes of a payload, in order.
pub fn outcomes(payload: &Value) -> Vec<&str> {
    let results = payload["results"].as_array().unwrap();
    results.iter().map(|result| result["outcome"].as_str().unwrap()).collect()
}

/// The status and the code of each score of a payload of `submitScores`.
pub fn statuses(payload: &Value) -> Vec<(&str, &str)> {
    let results = payload["results"].as_array().unwrap();
    results
        .iter()
        .map(|result| {
            let code = result["error"]["code"].as_str().unwrap_or_default();
            (result["status"].as_str().unwrap(), code)
        })
        .collect()
}
