//! The display of boards: the texts and tags by which people know and find them.

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::submit;
use tests::deployment::{Deployment, Redis, Sql};
use tests::wait::until;

const FIELDS: &str = "title description iconUrl tags scoreFormat { style currency suffix }";

async fn change(api: &Api, mutation: &str, input: Value) -> Value {
    let type_name = format!("{}{}Input", mutation[..1].to_uppercase(), &mutation[1..]);
    let text = format!(
        "mutation($input: {type_name}!) {{ {mutation}(input: $input) {{ board {{ {FIELDS} }} }} }}"
    );
    let mut answer = api.ask(Some(api.token()), &text, json!({ "input": input })).await;
    match answer.codes()[..] {
        [] => answer.body["data"][mutation]["board"].take(),
        [code] => {
            json!({ "code": code, "at": answer.body["errors"][0]["extensions"]["argument"] })
        }
        _ => panic!("{:?}", answer.body),
    }
}

/// The slugs of the boards that a search finds.
async fn found(api: &Api, token: Option<&str>, arguments: &str) -> Vec<String> {
    let text = format!("{{ boards{arguments} {{ totalCount nodes {{ slug }} }} }}");
    let answer = api.ask(token, &text, json!({})).await;
    assert_eq!(answer.codes(), [""; 0], "{arguments}: {:?}", answer.body);
    let boards = &answer.body["data"]["boards"];
    let nodes = boards["nodes"].as_array().unwrap();
    let slugs = nodes.iter().map(|node| node["slug"].as_str().unwrap().to_owned());
    let slugs: Vec<String> = slugs.collect();
    assert_eq!(boards["totalCount"], slugs.len(), "{arguments}");
    slugs
}

async fn check_display(sql: Sql) {
    let deployment = Deployment::new(sql, Redis::Private).await;
    let api = Api::start(&deployment).await;
    let first = change(
        &api,
        "createBoard",
        json!({
            "slug": "sprint", "title": "Élan 100%", "description": "Run.\nAs fast as you can.",
            "iconUrl": "https://game.example/icons/run.png?size=2", "tags": ["run", "run", "free_1"],
            "scoreFormat": { "style": "MILLISECONDS" },
        }),
    )
    .await;
    let told = json!({
        "title": "Élan 100%", "description": "Run.\nAs fast as you can.",
        "iconUrl": "https://game.example/icons/run.png?size=2", "tags": ["run", "free_1"],
        "scoreFormat": { "style": "MILLISECONDS", "currency": null, "suffix": null },
    });
    assert_eq!(first, told);
    let plain = json!({ "style": "PLAIN", "currency": null, "suffix": null });
    let bare = change(&api, "createBoard", json!({ "slug": "walk_run" })).await;
    let expected = json!({
        "title": "walk_run", "description": null, "iconUrl": null, "tags": [], "scoreFormat": plain,
    });
    assert_eq!(bare, expected);
    let hidden = json!({ "slug": "secret", "visibility": "PRIVATE", "tags": ["run"] });
    change(&api, "createBoard", hidden).await;

    let token = Some(api.token());
    for (arguments, expected) in [
        ("(query: \"RUN\")", vec!["secret", "sprint", "walk_run"]),
        ("(query: \"éLA\")", vec!["sprint"]),
        ("(query: \"0%\")", vec!["sprint"]),
        ("(query: \"%\")", vec!["sprint"]),
        ("(query: \"_\")", vec!["sprint", "walk_run"]),
        ("(query: \"!\")", vec![]),
        ("(tags: [\"run\"])", vec!["secret", "sprint"]),
        ("(tags: [\"run\", \"free_1\"])", vec!["sprint"]),
        ("(tags: [\"ru\"])", vec![]),
        ("(tags: [\"free-1\"])", vec![]),
        ("(query: \"sprint\", tags: [\"run\"])", vec!["sprint"]),
        ("(query: \"sprint\", last: 5)", vec!["sprint"]),
    ] {
        assert_eq!(found(&api, token, arguments).await, expected, "{arguments}");
    }
    assert_eq!(found(&api, None, "(tags: [\"run\"])").await, ["sprint"]);

    // A change of one thing leaves the others, and a search finds what is new alone.
    let told = change(&api, "updateBoard", json!({ "slug": "sprint", "title": "Dash" })).await;
    assert_eq!((&told["title"], &told["tags"]), (&json!("Dash"), &json!(["run", "free_1"])));
    assert_eq!(found(&api, token, "(query: \"élan\")").await, [""; 0]);
    assert_eq!(found(&api, token, "(query: \"dash\", tags: [\"run\"])").await, ["sprint"]);
    let cleared = json!({
        "slug": "sprint", "description": null, "iconUrl": null, "tags": [], "scoreFormat": null,
    });
    let told = change(&api, "updateBoard", cleared).await;
    let expected = json!({
        "title": "Dash", "description": null, "iconUrl": null, "tags": [], "scoreFormat": plain,
    });
    assert_eq!(told, expected);
    assert_eq!(found(&api, token, "(tags: [\"run\"])").await, ["secret"]);
}

#[tokio::test]
async fn a_board_is_shown_and_found_by_what_it_tells_on_sqlite() {
    check_display(Sql::Sqlite).await;
}

#[tokio::test]
async fn a_board_is_shown_and_found_by_what_it_tells_on_postgres() {
    check_display(Sql::Postgres).await;
}

#[tokio::test]
async fn a_board_is_shown_and_found_by_what_it_tells_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_display(sql).await;
    }
}

#[tokio::test]
async fn a_display_that_cannot_be_shown_is_refused() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let bad = "BAD_USER_INPUT";
    let many: Vec<String> = (0..11).map(|number| format!("t{number}")).collect();
    let long = format!("https://game.example/{}", "x".repeat(480));
    for (input, code, at) in [
        (json!({ "description": " \n" }), bad, "description"),
        (json!({ "description": "x".repeat(501) }), bad, "description"),
        (json!({ "description": "a\u{202e}b" }), bad, "description"),
        (json!({ "iconUrl": "javascript:alert(1)" }), bad, "iconUrl"),
        (json!({ "iconUrl": "data:image/png;base64,AAAA" }), bad, "iconUrl"),
        (json!({ "iconUrl": "//game.example/a.png" }), bad, "iconUrl"),
        (json!({ "iconUrl": "https://user:secret@game.example/" }), bad, "iconUrl"),
        (json!({ "iconUrl": "https://game.example/\"onload=x" }), bad, "iconUrl"),
        (json!({ "iconUrl": long }), bad, "iconUrl"),
        (json!({ "tags": ["Run"] }), bad, "tags"),
        (json!({ "tags": ["x".repeat(33)] }), bad, "tags"),
        (json!({ "tags": many }), "LIMIT_EXCEEDED", "tags"),
        (json!({ "scoreFormat": { "style": "MONEY" } }), bad, "scoreFormat.currency"),
        (
            json!({ "scoreFormat": { "style": "MONEY", "currency": "eur" } }),
            bad,
            "scoreFormat.currency",
        ),
        (json!({ "scoreFormat": { "currency": "EUR" } }), bad, "scoreFormat.currency"),
        (
            json!({ "scoreFormat": { "style": "SECONDS", "suffix": "s" } }),
            bad,
            "scoreFormat.suffix",
        ),
        (json!({ "scoreFormat": { "suffix": "x".repeat(17) } }), bad, "scoreFormat.suffix"),
    ] {
        let mut input = input;
        input["slug"] = json!("b");
        let refused = change(&api, "createBoard", input.clone()).await;
        assert_eq!(refused, json!({ "code": code, "at": format!("input.{at}") }), "{input}");
    }
    assert_eq!(found(&api, Some(api.token()), "").await, [""; 0]);
}

#[tokio::test]
async fn scores_are_shown_in_the_form_of_their_board() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let text = "query($board: String!, $slow: Boolean!) { board(slug: $board) { standings {
        top { nodes { score formattedScore percentile @include(if: $slow) } } } } }";
    for (slug, decimals, format, score, expected) in [
        ("plain", 2, json!({ "suffix": "km" }), "1234.50", "1234.50 km"),
        ("seconds", 2, json!({ "style": "SECONDS" }), "3723.05", "1:02:03.05"),
        ("ms", 0, json!({ "style": "MILLISECONDS" }), "62345", "1:02.345"),
        (
            "money",
            2,
            json!({ "style": "MONEY", "currency": "USD" }),
            "1234567.8",
            "1,234,567.80 USD",
        ),
    ] {
        let input = json!({
            "slug": slug, "decimals": decimals, "scoreFormat": format, "tieBreak": "MEMBER",
        });
        api.create_board(input).await;
        submit(&api, slug, json!([{ "member": "ann", "score": score }])).await;
        // By the list, and one by one.
        for slow in [false, true] {
            let data = api.data(text, json!({ "board": slug, "slow": slow })).await;
            let entry = &data["board"]["standings"]["top"]["nodes"][0];
            assert_eq!(entry["formattedScore"], expected, "{slug}");
        }
    }
}

#[tokio::test]
async fn a_member_has_a_profile_of_the_boards_that_one_may_see() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    for (slug, visibility) in
        [("b", "PUBLIC"), ("a", "PUBLIC"), ("p", "PRIVATE"), ("gone", "PUBLIC")]
    {
        let daily = json!([{ "name": "daily" }]);
        api.create_board(json!({ "slug": slug, "visibility": visibility, "windows": daily })).await;
        submit(&api, slug, json!([{ "member": "ann", "score": 7 }])).await;
    }
    api.create_board(json!({ "slug": "other" })).await;
    submit(&api, "other", json!([{ "member": "bob", "score": 7 }])).await;
    api.delete_board("gone").await;
    let picture = "https://game.example/ann.png";
    let member = json!([{ "key": "ann", "avatarUrl": picture }]);
    let set = "mutation($members: [MemberInput!]!) { upsertMembers(input: { members: $members }) { members { avatarUrl } } }";
    let answer = api.ask(Some(api.token()), set, json!({ "members": member })).await;
    assert_eq!(answer.body["data"]["upsertMembers"]["members"][0]["avatarUrl"], picture);
    let wrong = json!([{ "key": "ann", "avatarUrl": "ftp://game.example/ann.png" }]);
    let answer = api.ask(Some(api.token()), set, json!({ "members": wrong })).await;
    assert_eq!(answer.codes(), ["BAD_USER_INPUT"]);

    let text = "query($after: String) { member(key: \"ann\") { avatarUrl boards(first: 2, after: $after) {
        edges { cursor node { slug } entry { rank } today: entry(of: { window: \"daily\" }) { score } }
        pageInfo { hasNextPage endCursor } } } }";
    let all = async |token: Option<&str>| {
        let (mut slugs, mut after) = (vec![], Value::Null);
        loop {
            let answer = api.ask(token, text, json!({ "after": after })).await;
            let member = &answer.body["data"]["member"];
            assert_eq!(member["avatarUrl"], picture);
            for edge in member["boards"]["edges"].as_array().unwrap() {
                assert_eq!(
                    (&edge["entry"]["rank"], &edge["today"]["score"]),
                    (&json!(1), &json!("7"))
                );
                slugs.push(edge["node"]["slug"].as_str().unwrap().to_owned());
            }
            if member["boards"]["pageInfo"]["hasNextPage"] == false {
                return slugs;
            }
            after = member["boards"]["pageInfo"]["endCursor"].clone();
        }
    };
    until("the boards are in SQL", async || (all(None).await == ["b", "a"]).then_some(())).await;
    assert_eq!(all(Some(api.token())).await, ["b", "a", "p"]);
}
