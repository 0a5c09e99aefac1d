//! Members who are not public: nothing that another client reads names them, and nothing tells of
//! them by their key.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::friends::change_friends;
use tests::api::submission::submit_durably;
use tests::api::subscriber::Subscriber;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::{ADD_FRIEND, SET_VISIBILITY};
use tests::wait::until;

/// The members, by rank; bob and the next three have equal scores and times.
const MEMBERS: [&str; 6] = ["m-ann", "m-bob", "m-friends", "m-hidden", "m-zoe", "m-last"];

/// The clients: a name, the arguments of its token, and the members who are not public that it
/// sees.
const CLIENTS: [(&str, &[&str], &[&str]); 10] = [
    ("none", &[], &[]),
    ("read", &["--scope", "read"], &[]),
    ("submit", &["--scope", "submit"], &[]),
    ("friends", &["--scope", "friends"], &[]),
    ("moderate", &["--scope", "moderate"], &["m-hidden", "m-friends"]),
    ("admin", &["--scope", "admin"], &["m-hidden", "m-friends"]),
    ("friend", &["--scope", "friends", "--member", "m-ann"], &["m-friends"]),
    ("stranger", &["--scope", "read,submit,friends", "--member", "m-bob"], &[]),
    ("hidden", &["--scope", "read", "--member", "m-hidden"], &["m-hidden"]),
    ("friends itself", &["--scope", "read", "--member", "m-friends"], &["m-friends"]),
];

/// All of an entry that could name its member.
const ENTRY: &str = "id cursor rank score metadata scoresCounted change next { id cursor
    member { key } } member { id key name region attributes { value } avatarUrl visibility }";

/// Reads that name no member of those who are not public. Each answer has all members whom the
/// client sees, if it is no refusal.
const LISTS: [&str; 10] = [
    "top(first: 10) { nodes { ENTRY } }",
    "top(first: 10) { nodes { rank score member { key } } }",
    "top(first: 10) { edges { cursor node { id } } pageInfo { startCursor endCursor } }",
    "top(last: 10) { edges { cursor node { ENTRY } } pageInfo { startCursor endCursor } }",
    "top(first: 10, minScore: \"5\") { edges { cursor node { ENTRY } } }",
    "three: entryAt(rank: 3) { ENTRY } four: entryAt(rank: 4) { ENTRY }",
    "neighbors(member: \"m-bob\") { ENTRY }",
    "neighbors(member: \"m-bob\") { rank member { key } }",
    "friends(member: \"m-ann\", includeMissing: true) { totalCount edges { cursor node {
        id position member { key name } entry { ENTRY } } } }",
    "entries(members: [\"m-nobody\", \"m-zoe\"]) { next { ENTRY next { ENTRY } } }",
];

/// Reads by the key of a member, which is `KEY` here: for a client that does not see it, the answer
/// is that for a key without a member.
const BY_KEY: [&str; 14] = [
    "{ member(key: \"KEY\") { id name } }",
    "{ members(keys: [\"KEY\"]) { id name } }",
    "{ node(id: \"member:KEY\") { id } }",
    "{ node(id: \"entry:open.1:all:all::KEY\") { id } }",
    "{ searchMembers(prefix: \"KEY\") { totalCount nodes { key } } }",
    "{ board(slug: \"open\") { standings { entry(member: \"KEY\") { ENTRY } } } }",
    "{ board(slug: \"open\") { standings { entries(members: [\"KEY\"]) { ENTRY } } } }",
    "{ board(slug: \"open\") { standings { neighbors(member: \"KEY\") { rank } } } }",
    "{ board(slug: \"open\") { standings { neighbors(member: \"KEY\", fill: true) { rank } } } }",
    "{ board(slug: \"open\") { standings(of: { window: \"daily\" }) {
        attempts(member: \"KEY\") { used } } } }",
    "{ board(slug: \"club\") { entrants { includes(member: \"KEY\") } } }",
    "{ member(key: \"KEY\") { boards { nodes { slug } } entry(board: \"open\") { rank }
        entries(boards: [\"open\"]) { rank } } }",
    "{ member(key: \"KEY\") { events(board: \"open\") { totalCount } friends { totalCount } } }",
    "subscription { entry(board: \"open\", member: \"KEY\") { ENTRY } }",
];

async fn start(sql: Sql) -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(sql, Redis::Private).await;
    // Where all the rest of members is open to everyone.
    let api = Api::start_with_settings(&deployment, &[("LAUREL_MEMBERS", "public")]).await;
    let windows = json!([{ "name": "daily", "attemptsMax": 9 }]);
    api.create_board(
        json!({ "slug": "open", "policy": "BEST", "metadata": true, "windows": windows }),
    )
    .await;
    api.create_board(json!({ "slug": "club", "joining": true })).await;
    let at = "2026-01-01T00:00:00Z";
    let scores = MEMBERS.map(|member| {
        let score = match member {
            "m-ann" => 9,
            "m-last" => 1,
            _ => 5,
        };
        let at = (score == 5).then_some(at);
        json!({ "member": member, "score": score, "at": at, "metadata": { "of": member } })
    });
    submit_durably(&api, "open", json!(scores)).await;
    submit_durably(
        &api,
        "open",
        json!(
            ["m-ann", "m-hidden", "m-friends"]
                .map(|member| { json!({ "member": member, "score": 1 }) })
        ),
    )
    .await;
    for member in ["m-hidden", "m-friends"] {
        let join = format!(
            "mutation {{ joinBoard(input: {{ board: \"club\", member: \"{member}\" }}) {{ joined }} }}"
        );
        api.data(&join, json!({})).await;
        change_friends(&api, ADD_FRIEND, ("m-ann", member)).await;
    }
    let members = MEMBERS.map(|key| {
        let visibility = match key {
            "m-hidden" => Some("HIDDEN"),
            "m-friends" => Some("FRIENDS"),
            _ => None,
        };
        let name = format!("Name of {key}");
        let attributes = [json!({ "name": "clan", "value": format!("clan {key}") })];
        json!({ "key": key, "name": name, "region": format!("region {key}"),
            "attributes": attributes, "visibility": visibility })
    });
    api.upsert_members(json!(members)).await;
    (deployment, api)
}

/// The answer to a document as text, with the content of page cursors.
async fn read(api: &Api, token: Option<&str>, text: &str) -> (String, Value) {
    let text = text.replace("ENTRY", ENTRY);
    let body = match text.starts_with("subscription") {
        false => api.ask(token, &text, json!({})).await.body,
        true => {
            let mut socket = Subscriber::connect(api, token).await;
            socket.subscribe("1", &text, json!({})).await;
            socket.next().await["payload"].take()
        }
    };
    let mut all = body.to_string();
    for word in body
        .to_string()
        .split(|letter: char| !(letter.is_ascii_alphanumeric() || "-_".contains(letter)))
    {
        if let Ok(bytes) = URL_SAFE_NO_PAD.decode(word) {
            all.push_str(&String::from_utf8_lossy(&bytes));
        }
    }
    (all, body)
}

async fn hides(sql: Sql) {
    let (deployment, api) = start(sql).await;
    let ranks = "{ board(slug: \"open\") { standings { top { nodes { rank score } } } } }";
    let (expected, _) = read(&api, Some(api.token()), ranks).await;
    for (client, arguments, sees) in CLIENTS {
        let token = match arguments.is_empty() {
            true => None,
            false => Some(deployment.new_token(arguments).await),
        };
        let token = token.as_deref();
        assert_eq!(read(&api, token, ranks).await.0, expected, "{client}");
        for text in LISTS {
            let document = format!("{{ board(slug: \"open\") {{ standings {{ {text} }} }} }}");
            let (all, body) = read(&api, token, &document).await;
            assert_eq!(body.get("errors"), None, "{client} {document}: {body}");
            for key in ["m-hidden", "m-friends"] {
                assert_eq!(all.contains(key), sees.contains(&key), "{client} {text}: {body}");
            }
        }
        let found = "{ searchMembers(prefix: \"m-\") { totalCount nodes { key } } }";
        let body = read(&api, token, found).await.1;
        let count = MEMBERS.len() - 2 + sees.len();
        assert_eq!(body["data"]["searchMembers"]["totalCount"], count, "{client}: {body}");
        assert_eq!(body["data"]["searchMembers"]["nodes"].as_array().unwrap().len(), count);
        for text in BY_KEY {
            let nobody = read(&api, token, &text.replace("KEY", "m-nobody")).await.1;
            for key in ["m-hidden", "m-friends"] {
                let body = read(&api, token, &text.replace("KEY", key)).await.1;
                let (body, nobody) = (body.to_string(), nobody.to_string());
                let as_nobody = body.replace(key, "m-nobody") == nobody;
                assert_eq!(as_nobody, !sees.contains(&key), "{client} {text} {key}: {body}");
            }
        }
    }
    follow_an_anonymous_entry(&api).await;
    // An event is found by those who see its member.
    let events = "{ member(key: \"m-hidden\") { events(board: \"open\") { nodes { id } } } }";
    let body = api.data(events, json!({})).await;
    let id = body["member"]["events"]["nodes"][0]["id"].as_str().unwrap().to_owned();
    let node = format!("{{ node(id: \"{id}\") {{ id }} }}");
    assert_eq!(read(&api, None, &node).await.1["data"]["node"], Value::Null);
    assert_eq!(api.data(&node, json!({})).await["node"]["id"], id);
}

/// An anonymous entry has an id and a cursor that last, and a cursor that a client wrote tells
/// nothing.
async fn follow_an_anonymous_entry(api: &Api) {
    const PAGE: &str = "query($after: String, $before: String, $last: Int) {
        board(slug: \"open\") { standings {
            top(first: 10, after: $after, before: $before, last: $last) { edges {
                cursor node { id rank }
            } } } } }";
    let page = async |variables: Value| {
        let body = api.ask(None, PAGE, variables).await.body;
        let edges = body["data"]["board"]["standings"]["top"]["edges"].as_array();
        edges.unwrap_or_else(|| panic!("{body}")).clone()
    };
    let ranks = |edges: &[Value]| -> Vec<i64> {
        edges.iter().map(|edge| edge["node"]["rank"].as_i64().unwrap()).collect()
    };
    let all = page(json!({})).await;
    let anonymous =
        all.iter().filter(|edge| edge["node"]["id"].as_str().unwrap().contains("ymous"));
    assert_eq!(anonymous.count(), 2, "{all:?}");
    for (index, edge) in all.iter().enumerate() {
        let after = page(json!({ "after": edge["cursor"] })).await;
        assert_eq!(after, all[index + 1..]);
        let before = page(json!({ "before": edge["cursor"], "last": 10 })).await;
        assert_eq!(before, all[..index]);
        let node = format!(
            "{{ node(id: {}) {{ id ... on Entry {{ rank member {{ key }} }} }} }}",
            edge["node"]["id"]
        );
        let found = api.ask(None, &node, json!({})).await.body["data"]["node"].take();
        assert_eq!(found["rank"], edge["node"]["rank"], "{found}");
        assert_eq!(found["id"], edge["node"]["id"], "{found}");
    }
    // The place of bob, with other members in its place.
    let bob = URL_SAFE_NO_PAD.decode(all[1]["cursor"].as_str().unwrap()).unwrap();
    let bob = String::from_utf8(bob).unwrap();
    for guess in ["m-friends", "m-g", "m-hidden", "m-i", "a", "z"] {
        let cursor = URL_SAFE_NO_PAD.encode(bob.replace("m-bob", guess));
        assert_eq!(ranks(&page(json!({ "after": cursor })).await), [2, 3, 4, 5, 6], "{guess}");
        let before = page(json!({ "before": cursor, "last": 10 })).await;
        assert_eq!(ranks(&before), [1, 2, 3, 4, 5], "{guess}");
    }
}

#[tokio::test]
async fn nothing_names_a_member_to_a_client_that_does_not_see_it() {
    for sql in Sql::all() {
        hides(sql).await;
    }
}

/// The keys of the first two members, as anyone sees them.
async fn keys(api: &Api) -> [Value; 2] {
    let text = "{ board(slug: \"b\") { standings { top { nodes { member { key } } } } } }";
    let mut body = api.ask(None, text, json!({})).await.body;
    [0, 1].map(|index| {
        body["data"]["board"]["standings"]["top"]["nodes"][index]["member"]["key"].take()
    })
}

#[tokio::test]
async fn a_member_hides_at_once_here_and_soon_elsewhere() {
    const TOP: &str = "subscription { top(board: \"b\") { nodes { member { key } } } }";
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let other = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    let scores = json!([{ "member": "ann", "score": 2 }, { "member": "bob", "score": 1 }]);
    submit_durably(&api, "b", scores).await;
    let own = deployment.new_token(&["--scope", "friends", "--member", "ann"]).await;
    let strangers = deployment.new_token(&["--scope", "friends", "--member", "bob"]).await;
    let mut sockets = vec![];
    for (api, token) in [(&api, None), (&other, None), (&other, Some(&*strangers))] {
        let mut socket = Subscriber::connect(api, token).await;
        socket.subscribe("1", TOP, json!({})).await;
        assert_eq!(socket.data("1").await["top"]["nodes"][0]["member"]["key"], "ann");
        sockets.push(socket);
    }
    for visibility in ["HIDDEN", "PUBLIC", "FRIENDS"] {
        let variables = json!({ "member": "ann", "visibility": visibility });
        let refused = api.ask(Some(&strangers), SET_VISIBILITY, variables.clone()).await;
        assert_eq!(refused.codes(), ["FORBIDDEN"]);
        let set = api.ask(Some(&own), SET_VISIBILITY, variables).await.body;
        let member = &set["data"]["setVisibility"]["member"];
        assert_eq!(member["visibility"], visibility, "{set}");
        let shown = if visibility == "PUBLIC" { json!("ann") } else { Value::Null };
        assert_eq!(keys(&api).await, [shown.clone(), json!("bob")]);
        until("another process knows", async || (keys(&other).await[0] == shown).then_some(()))
            .await;
        for socket in &mut sockets {
            let member = socket.data("1").await["top"]["nodes"][0]["member"].take();
            let expected = if shown.is_null() { Value::Null } else { json!({ "key": "ann" }) };
            assert_eq!(member, expected);
        }
    }
    // It still sees itself, by the document of those who do not.
    let mut socket = Subscriber::connect(&other, Some(&own)).await;
    socket.subscribe("1", TOP, json!({})).await;
    assert_eq!(socket.data("1").await["top"]["nodes"][0]["member"]["key"], "ann");
    // A process that starts knows all.
    let third = Api::start(&deployment).await;
    assert_eq!(keys(&third).await, [Value::Null, json!("bob")]);
}

#[tokio::test]
async fn members_who_are_not_public_have_a_limit() {
    for sql in Sql::all() {
        let deployment = Deployment::new(sql, Redis::Private).await;
        let api = Api::start(&deployment).await;
        api.upsert_members(json!([{ "key": "ann", "visibility": "HIDDEN" }, { "key": "bob" }]))
            .await;
        let sql = deployment.sql().await;
        let fill = "UPDATE visibility_head SET members = 1000000";
        sea_orm::ConnectionTrait::execute_unprepared(&sql, fill).await.unwrap();
        let set = async |member: &str, visibility: &str| {
            let variables = json!({ "member": member, "visibility": visibility });
            let answer = api.ask(Some(api.token()), SET_VISIBILITY, variables).await;
            answer.codes().first().map(|code| (*code).to_owned())
        };
        assert_eq!(set("bob", "FRIENDS").await.as_deref(), Some("LIMIT_EXCEEDED"));
        assert_eq!(set("ann", "FRIENDS").await, None);
        assert_eq!(set("ann", "PUBLIC").await, None);
        assert_eq!(set("bob", "HIDDEN").await, None);
        assert_eq!(set("nobody", "HIDDEN").await.as_deref(), Some("NOT_FOUND"));
        assert_eq!(deployment.number("SELECT members FROM visibility_head").await, 1_000_000);
    }
}
