//! Subscriptions of one client hold a bounded memory, and leave some for others.

use serde_json::json;

use tests::api::submission::submit_durably;
use tests::api::subscriber::Subscriber;
use tests::attack::{Attacked, GROWTH_BYTES_MAX, UNRATED, boards};

/// The sockets of the client, and the subscriptions that it asks for on each.
const SOCKETS: usize = 40;
const EACH: usize = 20;

/// The members of the board, and the fields of each in an answer.
const MEMBERS: usize = 300;
const FIELDS: usize = 14;

/// A document of its own for each number, with an answer that is nearly as long as it may be.
fn with_long_answer(number: usize) -> String {
    let ids: String = (0..FIELDS).map(|field| format!("i{number}x{field}:id ")).collect();
    format!("subscription {{ top(board: \"b\", first: {MEMBERS}) {{ nodes {{ {ids} }} }} }}")
}

/// A document of its own for each number, nearly as long as it may be.
fn long(number: usize) -> String {
    let counts: String =
        (0..90).map(|field| format!("count_of_{number}_{field:0>60}: totalCount ")).collect();
    format!("subscription {{ top(board: \"b\", first: 1) {{ {counts} }} }}")
}

async fn check(what: &str, document: fn(usize) -> String) {
    let server = Attacked::start_with(&UNRATED).await;
    server.api.create_board(json!({ "slug": "b" })).await;
    let scores = (0..MEMBERS).map(|n| json!({ "member": boards::key(n), "score": n }));
    submit_durably(&server.api, "b", scores.collect()).await;
    // The memory in which an answer is made is there from here on.
    let mut first = Subscriber::connect(&server.api, None).await;
    first.subscribe("0", &document(SOCKETS * EACH), json!({})).await;
    let answer = first.text().await;
    assert!(answer.contains("\"type\":\"next\""), "{}", &answer[..answer.len().min(500)]);
    let attacking = async {
        let mut sockets = vec![];
        for socket in 0..SOCKETS {
            let mut attacker = Subscriber::connect_with_small_buffer(&server.api).await;
            for number in 0..EACH {
                let document = document(socket * EACH + number);
                attacker.subscribe(&number.to_string(), &document, json!({})).await;
            }
            sockets.push(attacker);
        }
        sockets
    };
    let (sockets, spent) = server.measure(attacking).await;
    println!("{} subscriptions with {what} of {} B: {spent}", SOCKETS * EACH, answer.len());
    assert!(spent.grown_bytes <= GROWTH_BYTES_MAX, "{what}: {spent}");
    // Another client has its share.
    let mut other = Subscriber::connect_to(server.api.url(), None, 2).await;
    other.subscribe("0", &document(0), json!({})).await;
    assert!(other.text().await.contains("\"type\":\"next\""));
    drop(sockets);
}

#[tokio::test]
async fn subscriptions_with_long_answers_hold_a_bounded_memory() {
    check("an answer", with_long_answer).await;
}

#[tokio::test]
async fn subscriptions_with_long_documents_hold_a_bounded_memory() {
    check("an answer to a long document", long).await;
}
