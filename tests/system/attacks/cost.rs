//! Queries that ask for much: each costs about what it is charged for, and none more than a second.

use tests::attack::cost::{bombs, rows};
use tests::attack::{Attacked, boards};

#[tokio::test]
async fn no_query_costs_more_than_a_second() {
    let server = Attacked::start().await;
    boards::build(&server.api).await;
    server.withstands(&[rows(), bombs()].concat()).await;
}
