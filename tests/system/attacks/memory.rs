//! Memory that clients share: one of them leaves room for others, and no change that was made is
//! said to be refused.

use std::time::Duration;

use entity::sql::begin;
use futures::future::{join, join_all};
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};
use tests::attack::request::Attack;
use tests::attack::socket::{Socket, head};
use tests::attack::{Attacked, UNRATED};

use super::connections::{long_answer, long_board};

/// A time that a client may take nothing, longer than a test.
const PATIENT: [(&str, &str); 3] = [
    ("LAUREL_QUERY_TIMEOUT_MS", "600000"),
    ("LAUREL_WRITE_TIMEOUT_MS", "120000"),
    ("LAUREL_BODY_TIMEOUT_MS", "120000"),
];

/// The connections of the client that takes as much as it can.
const GREEDY: usize = 8;

async fn start(settings: &[(&str, &str)]) -> Attacked {
    Attacked::start_with(&[&UNRATED[..], &PATIENT, settings].concat()).await
}

async fn check_served(server: &Attacked, attack: &Attack) {
    let reply = server.send(attack).await.unwrap();
    assert_eq!(reply.faults(attack.outcome), [""; 0], "{}", reply.shown());
}

#[tokio::test]
async fn a_client_that_reads_no_answer_leaves_memory_for_those_of_others() {
    let server = start(&[]).await;
    let slug = long_board(&server).await;
    let mut sockets = vec![];
    for number in 0..GREEDY {
        let mut socket = Socket::connect_unread(server.api.url(), 2).await.unwrap();
        assert!(socket.ask(long_answer(&slug, number).body()).await);
        socket.wait_for_answer().await;
        sockets.push(socket);
    }
    check_served(&server, &long_answer(&slug, GREEDY)).await;
    drop(sockets);
}

#[tokio::test]
async fn a_client_whose_bodies_never_end_leaves_memory_for_those_of_others() {
    let server = start(&[("LAUREL_BODIES_BYTES", "2097152")]).await;
    let begun = format!("{}{}", head(500_000), "x".repeat(400_000));
    let mut sockets = vec![];
    for _ in 0..GREEDY {
        let mut socket = Socket::connect(server.api.url(), 2).await.unwrap();
        // A server that refuses a body reads no further.
        let _ = tokio::time::timeout(Duration::from_secs(5), socket.send(&begun)).await;
        sockets.push(socket);
    }
    let body = format!("{}{}", json!({ "query": "{ __typename }" }), " ".repeat(300_000));
    check_served(&server, &Attack::raw("a body of 300 KB", body).served()).await;
    drop(sockets);
}

/// A change, and an answer of some 200 KB or more.
fn change(slug: &str, title: &str, lists: usize) -> Attack {
    let lists: String = (0..lists)
        .map(|number| format!("a{number}: top(first: 1000) {{ nodes {{ id }} }} "))
        .collect();
    let query = format!(
        "mutation {{ updateBoard(input: {{ slug: \"{slug}\", title: \"{title}\" }}) {{ board {{ standings {{ {lists} }} }} }} }}"
    );
    Attack::query("a change with a long answer", &query).as_admin()
}

async fn check_unknown(server: &Attacked, slug: &str, attack: &Attack, title: &str) {
    let reply = server.send(attack).await.unwrap();
    assert_eq!(reply.codes(), ["TIMEOUT"], "{}", reply.shown());
    assert_eq!((reply.status.as_u16(), &reply.body()["data"]), (200, &Value::Null));
    let changed = server
        .api
        .data("query($slug: String!) { board(slug: $slug) { title } }", json!({ "slug": slug }));
    assert_eq!(changed.await["board"]["title"], title);
}

#[tokio::test]
async fn a_change_whose_answer_cannot_be_sent_is_not_said_to_be_refused() {
    let longest = start(&[("LAUREL_ANSWER_BYTES_MAX", "65536")]).await;
    let slug = long_board(&longest).await;
    check_unknown(&longest, &slug, &change(&slug, "too long", 1), "too long").await;
    let query = Attack::query(
        "a long answer",
        &format!(
            "{{ board(slug: \"{slug}\") {{ standings {{ top(first: 1000) {{ nodes {{ id }} }} }} }} }}"
        ),
    );
    assert_eq!(longest.send(&query).await.unwrap().codes(), ["LIMIT_EXCEEDED"]);
    // A client has half of the memory alone.
    let crowded = start(&[("LAUREL_ANSWERS_BYTES", "1048576")]).await;
    let slug = long_board(&crowded).await;
    check_unknown(&crowded, &slug, &change(&slug, "no memory", 8), "no memory").await;
}

#[tokio::test]
async fn mutations_that_wait_hold_little_memory() {
    let memory = ("LAUREL_MUTATIONS_BYTES", "16777216");
    let longer = [("LAUREL_BODY_BYTES_MAX", "4194304"), ("LAUREL_VARIABLE_VALUES_MAX", "100000")];
    let server = start(&[&[memory][..], &longer].concat()).await;
    let api = &server.api;
    let db = api.deployment().sql().await;
    api.create_board(json!({ "slug": "b", "metadata": true })).await;
    let other = api.deployment().new_token(&["--scope", "submit"]).await;
    let submit = |numbers: std::ops::Range<usize>| {
        let metadata: serde_json::Map<_, _> =
            (0..30).map(|number| (format!("k{number}"), json!(number))).collect();
        let score = |number: usize| json!({ "member": format!("m{number}"), "score": 1, "metadata": metadata });
        let scores: Vec<_> = numbers.map(score).collect();
        let input = json!({ "board": "b", "ack": "DURABLE", "scores": scores });
        let text = "mutation($input: SubmitScoresInput!) { submitScores(input: $input) { accepted results { error { message } } } }";
        Attack::new("scores with metadata", text, json!({ "input": input }))
    };
    // The database confirms none of them meanwhile.
    let locked = begin(&db).await.unwrap();
    locked.execute_unprepared("UPDATE log_cursor SET seq = seq").await.unwrap();
    let crowd = submit(0..700).as_admin();
    let crowd = (0..20).map(|_| async { server.send(&crowd).await.unwrap() });
    let late = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let small = submit(0..1).with_token(&other);
        let reply = async { server.send(&small).await.unwrap() };
        let (reply, ()) = join(reply, async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            locked.rollback().await.unwrap();
        })
        .await;
        assert_eq!(reply.body()["data"]["submitScores"]["accepted"], 1, "{}", reply.shown());
    };
    let (crowd, ()) = join(join_all(crowd), late).await;
    let (served, refused): (Vec<_>, Vec<_>) =
        crowd.iter().partition(|reply| reply.status.as_u16() == 200);
    assert!(!served.is_empty() && refused.len() > 5, "{} are refused", refused.len());
    for reply in served {
        assert_eq!(reply.body()["data"]["submitScores"]["accepted"], 700, "{}", reply.shown());
    }
    for reply in refused {
        assert_eq!((reply.status.as_u16(), reply.codes()), (503, vec!["UNAVAILABLE".to_owned()]));
    }
    db.close().await.unwrap();
    // No client may ever hold so much.
    let longest = server.send(&submit(0..2000).as_admin()).await.unwrap();
    assert_eq!(longest.codes(), ["LIMIT_EXCEEDED"], "{}", longest.shown());
    assert!(longest.shown().contains("fewer items"), "{}", longest.shown());
}
