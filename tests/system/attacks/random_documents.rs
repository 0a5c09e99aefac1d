//! Random queries at the limit of what a server lets pass: none is a fault, and none leaves memory
//! behind.

use std::time::{Duration, Instant};

use reqwest::StatusCode;
use tests::attack::request::Attack;
use tests::attack::{Attacked, GROWTH_BYTES_MAX, UNRATED, boards};
use tests::extent;
use tests::model::game::seeded;
use tests::model::random_document::RandomDocuments;
use tests::model::schema::Schema;

/// The time that the test takes unless another one is wanted.
const TIME: Duration = Duration::from_secs(20);

/// The queries that come before the memory of the server counts: its caches fill.
const FIRST: usize = 100;

#[tokio::test]
async fn random_documents_are_no_fault_and_leave_no_memory_behind() {
    // A debug build takes some ten times as long as a release build.
    let patient = [("LAUREL_QUERY_TIMEOUT_MS", "60000")];
    let server = Attacked::start_with(&[&UNRATED[..], &patient].concat()).await;
    boards::build(&server.api).await;
    let schema = Schema::of(&server.api).await;
    let mut documents = RandomDocuments::new(&schema, seeded());
    let deadline = Instant::now() + extent::time().unwrap_or(TIME);
    let (mut sent, mut refused, mut resident) = (0, 0, 0);
    while Instant::now() < deadline {
        if sent == FIRST {
            resident = server.resident_bytes();
        }
        let document = documents.next_document();
        let attack = Attack::query("a random document", &document).answered();
        // Strangers and administrators ask in turns.
        let attack = if sent % 2 == 0 { attack } else { attack.as_admin() };
        let reply = server.send(&attack).await.unwrap();
        let faults = reply.faults(attack.outcome);
        assert!(faults.is_empty(), "{document}\n{faults:?}");
        assert_ne!(reply.status, StatusCode::GATEWAY_TIMEOUT, "{document}");
        let is_refused = reply.codes().iter().any(|code| code == "LIMIT_EXCEEDED");
        documents.learn(is_refused);
        sent += 1;
        refused += usize::from(is_refused);
    }
    println!("{sent} documents, {refused} of them beyond a limit");
    let grown = server.resident_bytes().saturating_sub(resident);
    // Caches may fill up to their sizes, and the allocator keeps some of what was freed.
    let most = 4 * GROWTH_BYTES_MAX;
    assert!(sent <= FIRST || grown <= most, "{} MiB stay", grown >> 20);
    assert!(server.is_alive().await, "the server does not answer any more");
}
