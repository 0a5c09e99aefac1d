//! Changes of boards and members, quarantine, and what an erasure leaves of events that wait.

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::merge;
use tests::api::moderation::{ban, lift, numbers, quarantine, release, void_quarantined};
use tests::api::submission::{submit, submit_durably};
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::{ERASE_MEMBER, SET_VISIBILITY};
use tests::jobs::erasure::traces;
use tests::receiver::{Manner, Receiver, SETTINGS, change};

async fn start(sql: Sql) -> Api {
    let deployment = Deployment::new(sql, Redis::Own).await;
    Api::start_with_settings(&deployment, &SETTINGS).await
}

/// The values of two fields of each event.
fn pairs<'d>(data: &'d [Value], first: &str, second: &str) -> Vec<(&'d str, &'d Value)> {
    data.iter().map(|data| (data[first].as_str().unwrap(), &data[second])).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_boards_and_members_are_told_in_their_order() {
    let api = start(Sql::any()).await;
    let receiver = Receiver::start(Manner::FailsHalf).await;
    receiver.subscribe(&api, &["BOARD", "MEMBER"], None).await;
    api.create_board(json!({ "slug": "b" })).await;
    let of_other = Receiver::start(Manner::Takes).await;
    api.create_board(json!({ "slug": "other" })).await;
    of_other.subscribe(&api, &["BOARD", "MEMBER"], Some("other")).await;
    api.update_board(json!({ "slug": "b", "title": "B" })).await;
    for member in ["ann", "bob"] {
        submit_durably(&api, "b", json!([{ "member": member, "score": 1 }])).await;
    }
    ban(&api, "ann", Some("b")).await;
    lift(&api, "ann", Some("b")).await;
    let variables = json!({ "member": "ann", "visibility": "FRIENDS" });
    api.data(SET_VISIBILITY, variables).await;
    merge(&api, "bob", "ann").await;
    api.delete_board("b").await;
    api.update_board(json!({ "slug": "other", "title": "Other" })).await;
    receiver.wait_for(9).await;
    let boards = receiver.data("laurel.board.v1");
    let expected = [
        ("CREATED", json!("b")),
        ("CREATED", json!("other")),
        ("CHANGED", json!("b")),
        ("DELETED", json!("b")),
        ("CHANGED", json!("other")),
    ];
    let expected: Vec<(&str, &Value)> =
        expected.iter().map(|(change, slug)| (*change, slug)).collect();
    assert_eq!(pairs(&boards, "change", "board"), expected);
    let members = receiver.data("laurel.member.v1");
    let (ann, bob) = (json!("ann"), json!("bob"));
    let expected = [("BANNED", &ann), ("BAN_LIFTED", &ann), ("VISIBILITY", &ann), ("MERGED", &bob)];
    assert_eq!(pairs(&members, "change", "member"), expected);
    assert_eq!((&members[0]["board"], &members[0]["reason"]), (&json!("b"), &json!("a bot")));
    assert_eq!(members[3]["into"], "ann");
    let taken = of_other.wait_for(1).await;
    assert_eq!(taken[0].1["data"]["title"], "Other", "it is told of its board alone");
    assert_eq!(of_other.taken().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scores_in_quarantine_are_told_when_they_come_and_when_they_are_decided() {
    let api = start(Sql::any()).await;
    api.create_board(json!({ "slug": "b", "fairPlay": { "deltaMax": 10 } })).await;
    let receiver = Receiver::start(Manner::Takes).await;
    receiver.subscribe(&api, &["QUARANTINE"], None).await;
    submit_durably(&api, "b", json!([{ "member": "ann", "score": 1 }])).await;
    for score in [100, 200] {
        let told = submit(&api, "b", json!([{ "member": "ann", "score": score }])).await;
        assert_eq!(told["results"][0]["status"], "QUARANTINED");
    }
    let held = numbers(&quarantine(&api, "b", &["HELD"], None).await);
    release(&api, &held[..1]).await;
    void_quarantined(&api, &held[1..]).await;
    receiver.wait_for(4).await;
    let data = receiver.data("laurel.quarantine.v1");
    let [first, second] = [json!("100"), json!("200")];
    let expected = [
        ("QUARANTINED", &first),
        ("QUARANTINED", &second),
        ("RELEASED", &first),
        ("VOIDED", &second),
    ];
    assert_eq!(pairs(&data, "change", "score"), expected);
}

async fn check_erasure(sql: Sql) {
    let api = start(sql).await;
    api.create_board(json!({ "slug": "b", "fairPlay": { "deltaMax": 10 } })).await;
    let receiver = Receiver::start(Manner::Takes).await;
    let kinds = ["SCORE", "MEMBER", "QUARANTINE"];
    let id = receiver.subscribe(&api, &kinds, None).await;
    change(&api, "pauseWebhook", &id).await;
    for (member, score) in [("secret-ann", 1), ("secret-ann", 100), ("bob", 1)] {
        submit_durably(&api, "b", json!([{ "member": member, "score": score }])).await;
    }
    ban(&api, "secret-ann", None).await;
    ban(&api, "bob", None).await;
    lift(&api, "bob", None).await;
    lift(&api, "secret-ann", None).await;
    let erased = api.data(ERASE_MEMBER, json!({ "member": "secret-ann" })).await;
    let receipt = &erased["eraseMember"]["receipt"];
    assert_eq!(erased["eraseMember"]["erased"], true);
    assert_eq!(traces(api.deployment(), "secret-ann").await, [""; 0]);
    change(&api, "resumeWebhook", &id).await;
    receiver.wait_for(6).await;
    let taken = receiver.taken();
    assert!(taken.iter().all(|(_, body)| !body.to_string().contains("secret-ann")), "{taken:?}");
    let members = receiver.data("laurel.member.v1");
    let told = members.last().unwrap();
    assert_eq!(told["change"], "ERASED");
    assert_eq!((&told["hash"], &told["salt"]), (&receipt["hash"], &receipt["salt"]));
    let of_bob = pairs(&members[..2], "change", "member");
    assert_eq!(of_bob, [("BANNED", &json!("bob")), ("BAN_LIFTED", &json!("bob"))]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_waits_names_an_erased_member_on_sqlite() {
    check_erasure(Sql::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_waits_names_an_erased_member_on_postgres() {
    check_erasure(Sql::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_waits_names_an_erased_member_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_erasure(sql).await;
    }
}
