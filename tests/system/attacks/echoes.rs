//! Input that comes back: no answer is long because its question was.

use tests::attack::echoes::{is_repeated, oddities, repeated, texts};
use tests::attack::request::{Attack, Reply};
use tests::attack::{Attacked, UNRATED, boards};
use tests::model::schema::Schema;

/// Lets texts of 1 MB reach the resolvers and the errors that they make.
const WALLS_DOWN: [(&str, &str); 2] =
    [("LAUREL_BODY_BYTES_MAX", "4194304"), ("LAUREL_STRING_BYTES_MAX", "1048576")];

fn not_repeated(_: &Attack, reply: &Reply) -> Vec<String> {
    match is_repeated(&reply.bytes) {
        true => vec![format!("the answer repeats a long text: {}", reply.shown())],
        false => vec![],
    }
}

#[tokio::test]
async fn what_is_repeated_is_repeated_shortly() {
    let server = Attacked::start().await;
    boards::create(&server.api).await;
    server.withstands(&repeated()).await;
}

#[tokio::test]
async fn no_argument_of_the_schema_takes_or_repeats_a_long_text() {
    let server = Attacked::start().await;
    boards::create(&server.api).await;
    let schema = Schema::of(&server.api).await;
    for length in [1_000_000, 400_000, 2000] {
        server.withstands_many(&texts(&schema, length), not_repeated).await;
    }
    server.withstands_many(&oddities(&schema), not_repeated).await;
}

#[tokio::test]
async fn no_argument_repeats_a_megabyte_that_a_setting_lets_pass() {
    let server = Attacked::start_with(&[&UNRATED[..], &WALLS_DOWN].concat()).await;
    boards::create(&server.api).await;
    let schema = Schema::of(&server.api).await;
    server.withstands_many(&texts(&schema, 1_000_000), not_repeated).await;
}
