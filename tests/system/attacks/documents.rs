//! Documents that cost before they are executed: fragments, variables, heaps and nests.

use tests::attack::documents::{
    bodies, distinct, fragments, fragments_under_arguments, heaps, numbers, variables,
};
use tests::attack::request::Attack;
use tests::attack::{Attacked, UNRATED, boards};
use tests::model::schema::Schema;

#[tokio::test]
async fn documents_that_multiply_are_refused_for_little() {
    let server = Attacked::start().await;
    boards::create(&server.api).await;
    let all = [fragments(), variables(), heaps(), bodies(), numbers()].concat();
    server.withstands(&all).await;
}

#[tokio::test]
async fn fragments_below_every_argument_are_refused_for_little() {
    let server = Attacked::start().await;
    boards::create(&server.api).await;
    let schema = Schema::of(&server.api).await;
    server.withstands_many(&fragments_under_arguments(&schema), |_, _| vec![]).await;
}

#[tokio::test]
async fn a_stranger_costs_little_where_reads_need_a_token() {
    let settings = [&UNRATED[..], &[("LAUREL_PUBLIC_READS", "false")]].concat();
    let server = Attacked::start_with(&settings).await;
    server.withstands(&[fragments(), variables()].concat()).await;
}

#[tokio::test]
async fn many_bodies_of_many_values_at_once_hold_little() {
    let server = Attacked::start().await;
    let body = |number: usize| {
        let lists = vec!["[]"; 165_000].join(",");
        let name = if number.is_multiple_of(2) { "variables" } else { "extensions" };
        let body = format!("{{\"query\":\"{{a}}\",\"{name}\":{{\"v\":[{lists}]}}}}");
        Attack::raw("one of many bodies", body).as_admin()
    };
    let many: Vec<_> = (0..24).map(body).collect();
    server.withstands_many(&many, |_, _| vec![]).await;
}

#[tokio::test]
async fn documents_are_kept_by_their_bytes() {
    let server = Attacked::start().await;
    let many: Vec<_> = (0..600).map(distinct).collect();
    server.withstands_many(&many, |_, _| vec![]).await;
}
