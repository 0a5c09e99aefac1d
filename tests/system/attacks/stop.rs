//! Work stops: at the time limit of a query, when its client has gone, and with the server.

use std::time::{Duration, Instant};

use serde_json::json;
use tests::attack::cost::{long, long_mutation};
use tests::attack::{Attacked, UNRATED, boards};
use tests::wait::until;

/// Limits at which a query may keep a server busy for minutes.
const UNPRICED: [(&str, &str); 3] = [
    ("LAUREL_COST_MAX", "100000000"),
    ("LAUREL_COST_UNDER_WAY_MAX", "400000000"),
    ("LAUREL_OBJECTS_MAX", "1000000"),
];

/// The longest time in which a server with requests under way ends.
const STOP_MAX: Duration = Duration::from_secs(10);

/// A server with a board among whose equals a position is costly to find.
async fn busy(query_timeout_ms: &str) -> Attacked {
    let settings = [&UNRATED[..], &UNPRICED, &[("LAUREL_QUERY_TIMEOUT_MS", query_timeout_ms)]];
    let server = Attacked::start_with(&settings.concat()).await;
    boards::create(&server.api).await;
    boards::fill(server.api.deployment(), "tie").await;
    server
}

#[tokio::test]
async fn a_query_past_its_time_uses_no_processor() {
    let server = busy("500").await;
    let began = Instant::now();
    let reply = server.send(&long(0)).await.unwrap();
    println!("{} after {:?}: {}", reply.status, began.elapsed(), reply.shown());
    assert_ne!(reply.codes(), ["LIMIT_EXCEEDED"]);
    assert!(began.elapsed() < STOP_MAX, "it was answered after {:?}", began.elapsed());
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.check_idle("a second after the time limit").await;
}

#[tokio::test]
async fn a_query_without_a_client_uses_no_processor() {
    let server = busy("60000").await;
    let hung_up = tokio::time::timeout(Duration::from_millis(50), server.send(&long(0))).await;
    println!("answered in time: {}", hung_up.is_ok());
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.check_idle("a second after the client has gone").await;
}

#[tokio::test]
async fn a_mutation_without_a_client_makes_its_change_and_reads_no_more() {
    let server = busy("500").await;
    let attack = long_mutation();
    let hung_up = tokio::time::timeout(Duration::from_millis(300), server.send(&attack)).await;
    println!("answered in time: {}", hung_up.is_ok());
    tokio::time::sleep(Duration::from_secs(2)).await;
    server.check_idle("two seconds after the client has gone").await;
    let title = server.api.data("{ board(slug: \"tie\") { title } }", json!({})).await;
    assert_eq!(title["board"]["title"], "changed");
}

#[tokio::test]
async fn a_server_stops_in_ten_seconds_while_it_is_attacked() {
    let server = busy("60000").await;
    let deployment = server.api.deployment().clone();
    let attack = |number| {
        let (client, url) = (server.client.clone(), server.api.url().to_owned());
        tokio::spawn(async move { long(number).send(&client, &url, "").await.is_ok() })
    };
    let attacks: Vec<_> = (0..8).map(attack).collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let began = Instant::now();
    server.api.stop().await;
    assert!(began.elapsed() < STOP_MAX, "it stopped after {:?}", began.elapsed());
    for attack in attacks {
        println!("answered: {}", attack.await.unwrap());
    }
    until("the private Redis has stopped, too", async || {
        deployment.try_redis().await.is_err().then_some(())
    })
    .await;
}
