//! Sharing: standings are read once a change, however many sockets follow them, and not at all
//! while nothing changes.

use std::time::Duration;

use serde_json::json;

use tests::api::Api;
use tests::api::metrics::metrics_of;
use tests::api::submission::submit;
use tests::api::subscriber::Subscriber;
use tests::deployment::{Deployment, Redis, Sql};
use tests::wait::until;

const TOP: &str = "subscription { top(board: \"b\") { nodes { rank score member { key } } } }";

const OTHER_TOP: &str = "subscription { leaders: top(board: \"b\", first: 3) { nodes { score } } }";

const ENTRY: &str =
    "subscription($member: String!) { entry(board: \"b\", member: $member) { rank } }";

const SOCKETS: u8 = 100;

/// The reads of standings and the executions of documents so far, once they rest.
async fn work(api: &Api) -> (f64, f64) {
    let now = async || {
        let metrics = metrics_of(api).await;
        (metrics["laurel_live_reads_total"], metrics["laurel_live_executions_total"])
    };
    let mut last = now().await;
    until("the subscriptions rest", async || {
        tokio::time::sleep(Duration::from_millis(400)).await;
        let before = std::mem::replace(&mut last, now().await);
        (last == before).then_some(())
    })
    .await;
    last
}

#[tokio::test]
async fn many_sockets_cost_one_read_a_change() {
    let api = Api::start(&Deployment::new(Sql::any(), Redis::Private).await).await;
    api.create_board(json!({ "slug": "b", "policy": "BEST" })).await;
    api.create_board(json!({ "slug": "other", "policy": "BEST" })).await;
    let mut sockets = vec![];
    for host in 1..=SOCKETS {
        let mut socket = Subscriber::connect_to(api.url(), None, host).await;
        socket.subscribe("top", TOP, json!({})).await;
        socket.data("top").await;
        sockets.push(socket);
    }
    let before = work(&api).await;
    submit(&api, "b", json!([{ "member": "ann", "score": 5 }])).await;
    for socket in &mut sockets {
        assert_eq!(socket.data("top").await["top"]["nodes"][0]["score"], "5");
    }
    let after = work(&api).await;
    assert_eq!((after.0 - before.0, after.1 - before.1), (1.0, 1.0), "reads and executions");
    let metrics = metrics_of(&api).await;
    assert_eq!(metrics["laurel_sockets{transport=\"websocket\"}"], f64::from(SOCKETS));
    assert_eq!(metrics["laurel_subscriptions"], f64::from(SOCKETS));
    assert_eq!(metrics["laurel_pushes_total"], f64::from(2 * u16::from(SOCKETS)));
    // Another board changes on the same partitions or others, without followers.
    for number in 0..5 {
        let members: Vec<_> =
            (0..50).map(|n| json!({ "member": format!("m{n}"), "score": number })).collect();
        submit(&api, "other", json!(members)).await;
    }
    assert_eq!(work(&api).await, after);
    drop(sockets);
    until("the sockets are gone", async || {
        (metrics_of(&api).await["laurel_subscriptions"] == 0.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn parts_of_the_same_standings_are_read_together_and_executed_where_they_changed() {
    let api = Api::start(&Deployment::new(Sql::any(), Redis::Private).await).await;
    api.create_board(json!({ "slug": "b", "policy": "BEST" })).await;
    let members = ["m0", "m1", "m2", "m3", "m4"];
    let scores: Vec<_> = (0..5).map(|n| json!({ "member": members[n], "score": 10 * n })).collect();
    submit(&api, "b", json!(scores)).await;
    let mut socket = Subscriber::connect(&api, None).await;
    socket.subscribe("top", OTHER_TOP, json!({})).await;
    socket.data("top").await;
    for member in members {
        socket.subscribe(member, ENTRY, json!({ "member": member })).await;
        socket.data(member).await;
    }
    let before = work(&api).await;
    // It overtakes the two last members, and not the three first.
    submit(&api, "b", json!([{ "member": "new", "score": 15 }])).await;
    let mut told = [socket.next().await, socket.next().await].map(|push| push["id"].clone());
    told.sort_by_key(ToString::to_string);
    assert_eq!(told, ["m0", "m1"]);
    let after = work(&api).await;
    assert_eq!((after.0 - before.0, after.1 - before.1), (1.0, 2.0), "reads and executions");
}
