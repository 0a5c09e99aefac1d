//! Reports of members by players: bounded, replaced, resolved, and told to moderators alone.

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::merge;
use tests::api::audit::{acts, report, reports, try_report, value};
use tests::api::friends::{start_with_members, upsert};
use tests::api::submission::submit_durably;
use tests::deployment::Sql;

const RESOLVE: &str = "
    mutation($id: ID!, $resolution: ReportResolution!) {
        resolveReport(input: { id: $id, resolution: $resolution }) {
            resolved report { id state resolvedAt }
        }
    }";

async fn resolve(api: &Api, report: &Value, resolution: &str) -> Value {
    let variables = json!({ "id": report["id"], "resolution": resolution });
    api.data(RESOLVE, variables).await["resolveReport"].take()
}

/// The reporter, the text and the state of reports.
fn shown(reports: &[Value]) -> Vec<(&str, &str, &str)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned().leak() as &str;
    reports
        .iter()
        .map(|of| (text(&of["reporter"]["key"]), text(&of["text"]), text(&of["state"])))
        .collect()
}

#[tokio::test]
async fn a_report_is_replaced_until_it_is_resolved() {
    for sql in Sql::all() {
        let (_deployment, api) = start_with_members(sql, &["ann", "bob", "cy", "dan"]).await;
        api.create_board(json!({ "slug": "b" })).await;
        report(&api, ("ann", "cy"), "first").await;
        report(&api, ("bob", "cy"), "other").await;
        report(&api, ("ann", "cy"), "second").await;
        let open = reports(&api, &["OPEN"], Some("cy")).await;
        assert_eq!(shown(&open), [("ann", "second", "OPEN"), ("bob", "other", "OPEN")]);
        assert_eq!(reports(&api, &["OPEN"], Some("ann")).await, [Value::Null; 0]);
        let resolved = resolve(&api, &open[0], "UPHELD").await;
        assert_eq!(
            (&resolved["resolved"], &resolved["report"]["state"]),
            (&json!(true), &json!("UPHELD"))
        );
        assert!(resolved["report"]["resolvedAt"].is_string());
        assert_eq!(resolve(&api, &open[0], "UPHELD").await["resolved"], false);
        let newest = acts(&api, json!({ "act": "resolveReport", "member": "cy" })).await;
        assert_eq!((newest.len(), &newest[1]["board"]), (2, &json!("b")));
        assert_eq!(value(&newest[1], "before")["state"], "OPEN");
        assert_eq!(value(&newest[1], "after")["state"], "UPHELD");
        assert_eq!(resolve(&api, &open[0], "DISMISSED").await["resolved"], true);
        assert_eq!(reports(&api, &["OPEN"], None).await.len(), 1);
        report(&api, ("ann", "cy"), "third").await;
        let open = reports(&api, &["OPEN"], None).await;
        assert_eq!(shown(&open), [("ann", "third", "OPEN"), ("bob", "other", "OPEN")]);
        // A merge moves reports of the source and those by it.
        report(&api, ("cy", "dan"), "back").await;
        report(&api, ("dan", "cy"), "mutual").await;
        report(&api, ("ann", "dan"), "stays").await;
        submit_durably(&api, "b", json!([{ "member": "cy", "score": 1 }])).await;
        merge(&api, "cy", "dan").await;
        let open = reports(&api, &["OPEN"], None).await;
        assert_eq!(shown(&open), [("bob", "other", "OPEN"), ("ann", "stays", "OPEN")]);
        assert!(open.iter().all(|of| of["member"]["key"] == "dan"), "{open:?}");
        api.delete_board("b").await;
        let left = "SELECT CAST(COUNT(*) AS BIGINT) FROM member_report";
        assert_eq!(api.deployment().number(left).await, 0);
    }
}

#[tokio::test]
async fn a_reporter_and_a_member_have_so_many_reports() {
    let (_deployment, api) = start_with_members(Sql::any(), &["cheat"]).await;
    api.create_board(json!({ "slug": "b" })).await;
    let keys: Vec<String> = (0..103).map(|number| format!("m{number}")).collect();
    upsert(&api, &keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for key in &keys[..102] {
        report(&api, (key, "cheat"), "x").await;
    }
    let kept = reports(&api, &["OPEN"], Some("cheat")).await;
    let further: Vec<&Value> = kept.iter().take(2).map(|of| &of["further"]).collect();
    assert_eq!((kept.len(), further), (100, vec![&json!(2), &json!(0)]));
    // One that is resolved makes room, and a report that is kept can be replaced.
    report(&api, (&keys[5], "cheat"), "again").await;
    resolve(&api, &kept[7], "DISMISSED").await;
    report(&api, (&keys[102], "cheat"), "y").await;
    let all = reports(&api, &["OPEN", "DISMISSED"], Some("cheat")).await;
    assert_eq!((all.len(), shown(&all)[5].1, shown(&all)[99].0), (100, "again", "m102"));
    for key in &keys[1..50] {
        report(&api, ("m0", key), "x").await;
    }
    let input = json!({
        "board": "b", "member": "m51", "reporter": "m0", "reason": "OTHER",
    });
    let answer = try_report(&api, api.token(), input).await;
    assert_eq!(answer.codes(), ["LIMIT_EXCEEDED"], "{}", answer.body);
    assert!(answer.message().contains("50 open reports"), "{}", answer.message());
    report(&api, ("m0", "m7"), "still replaced").await;
}

#[tokio::test]
async fn a_report_is_of_one_member_by_another_who_sees_it() {
    let (deployment, api) = start_with_members(Sql::any(), &["ann", "bob"]).await;
    api.create_board(json!({ "slug": "b" })).await;
    api.create_board(json!({ "slug": "shut", "visibility": "PRIVATE" })).await;
    submit_durably(&api, "shut", json!([{ "member": "spy", "score": 1 }])).await;
    upsert(&api, &["spy's", "bob's"]).await;
    merge(&api, "spy's", "spy").await;
    merge(&api, "bob's", "bob").await;
    let own = deployment.new_token(&["--scope", "submit", "--member", "ann"]).await;
    let service = deployment.new_token(&["--scope", "submit"]).await;
    let moderator = deployment.new_token(&["--scope", "moderate", "--boards", "shut"]).await;
    let input = |member: &str, more: Value| {
        let mut input = json!({ "board": "b", "member": member, "reason": "NAME" });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        input
    };
    let long = "x".repeat(501);
    for (token, input, code, says) in [
        (&own, input("ann", json!({})), "BAD_USER_INPUT", "another one than the reporter"),
        (&own, input("bob", json!({ "reporter": "bob" })), "FORBIDDEN", "for ann only"),
        (&service, input("bob", json!({})), "BAD_USER_INPUT", "the key of the member that reports"),
        (&own, input("bob", json!({ "text": long })), "BAD_USER_INPUT", "1 to 500 characters"),
        (&own, input("bob", json!({ "text": "a\u{202E}b" })), "BAD_USER_INPUT", "direction"),
        (&own, input("none", json!({})), "NOT_FOUND", "there is no member \"none\""),
        (&own, input("spy", json!({})), "NOT_FOUND", "there is no member \"spy\""),
        (&own, input("spy's", json!({})), "NOT_FOUND", "there is no member \"spy's\""),
        (&own, input("bob's", json!({})), "MEMBER_MERGED", "bob"),
        (&own, input("bob", json!({ "board": "shut" })), "NOT_FOUND", "there is no board \"shut\""),
        (&service, input("bob", json!({ "reporter": "none" })), "NOT_FOUND", "\"none\""),
    ] {
        let answer = try_report(&api, token, input.clone()).await;
        assert_eq!(answer.codes(), [code], "{input}: {}", answer.body);
        assert!(answer.message().contains(says), "{input}: {}", answer.message());
    }
    assert_eq!(try_report(&api, &own, input("bob", json!({}))).await.codes(), [""; 0]);
    let told = reports(&api, &["OPEN"], None).await;
    assert_eq!(shown(&told), [("ann", "", "OPEN")]);
    // A moderator of other boards learns nothing of it.
    let variables = json!({ "id": told[0]["id"], "resolution": "UPHELD" });
    let answer = api.ask(Some(&moderator), RESOLVE, variables).await;
    assert_eq!(answer.codes(), ["NOT_FOUND"]);
    let asked = json!({ "id": told[0]["id"] });
    let node = "query($id: ID!) { node(id: $id) { id } }";
    assert_eq!(api.ask(Some(&moderator), node, asked).await.body["data"]["node"], Value::Null);
}
