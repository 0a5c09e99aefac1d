//! The examples of users of Redis and roles of PostgreSQL: each program has the rights that it
//! needs, and no more.

use sea_orm::{ConnectionTrait, Database, DatabaseConnection};
use serde_json::json;

use tests::api::Api;
use tests::api::amendment::remove;
use tests::api::friends::change_friends;
use tests::api::submission::{submit, submit_durably};
use tests::deployment::{Deployment, Sql};
use tests::documents::{ADD_FRIEND, DELETE_BOARD};
use tests::servers::redis_node::RedisNode;
use tests::wait::until;

const ROLES: &str = include_str!("../../../operations/postgresql-roles.sql");
const GRANTS: &str = include_str!("../../../operations/postgresql-grants.sql");
const USERS: &str = include_str!("../../../operations/redis.acl");

const SIZE: &str = "query($board: String!) { board(slug: $board) { standings { size } } }";

/// The URL of a database as of one of its roles.
fn url_of(database_url: &str, role: &str) -> String {
    let (_, place) = database_url.split_once('@').expect("it names a role");
    format!("postgres://{role}@{place}")
}

async fn connect(database_url: &str, role: &str) -> DatabaseConnection {
    Database::connect(url_of(database_url, role)).await.unwrap()
}

/// A Redis with the users of the example; the test itself is `default`.
fn redis(dir: &std::path::Path) -> RedisNode {
    let files = dir.join("redis");
    std::fs::create_dir(&files).unwrap();
    let users = dir.join("users.acl");
    let open = USERS.replace("user default off", "user default on nopass ~* &* +@all");
    std::fs::write(&users, open).unwrap();
    let mut node = RedisNode::start(&files, vec![]);
    node.kill();
    node.launch_with(&["--aclfile", users.to_str().unwrap()]);
    node
}

#[tokio::test]
async fn each_program_needs_no_more_rights_than_the_examples_give() {
    let dir = tempfile::tempdir().unwrap();
    let database_url = Sql::Postgres.new_database(dir.path()).await;
    let root = Database::connect(&database_url).await.unwrap();
    root.execute_unprepared(ROLES).await.unwrap();
    let redis = redis(dir.path());
    let redis_url = |user: &str, password: &str| {
        format!("redis://{user}:{password}@127.0.0.1:{}", redis.port())
    };
    let server_redis = redis_url("laurel", "SERVER-PASSWORD");
    let deployment =
        Deployment::elsewhere(dir, url_of(&database_url, "laurel_server"), server_redis);

    let mut first = deployment.api(&["serve"]);
    let refused = tokio::task::spawn_blocking(move || first.output().unwrap()).await.unwrap();
    assert!(!refused.status.success(), "the server has no right to make tables");
    let mut migrate = deployment.api(&["migrate", "up"]);
    migrate.env("LAUREL_DATABASE_URL", url_of(&database_url, "laurel_owner"));
    assert!(migrate.status().unwrap().success());
    let owner = connect(&database_url, "laurel_owner").await;
    owner.execute_unprepared(GRANTS).await.unwrap();

    let api = Api::start(&deployment).await;
    let windows = json!([{ "name": "daily" }, { "name": "7d" }]);
    api.create_board(json!({ "slug": "b", "windows": windows, "shards": 2 })).await;
    let scores: Vec<_> = (0..50)
        .map(|no| json!({ "member": format!("m{no}"), "score": no, "eventId": format!("e{no}") }))
        .collect();
    assert_eq!(submit_durably(&api, "b", json!(scores)).await["accepted"], 50);
    change_friends(&api, ADD_FRIEND, ("m1", "m2")).await;
    remove(&api, "b", "m3").await;
    let () = redis.ask(&["FLUSHALL"]);
    until("Redis is recovered", async || {
        let data = api.data(SIZE, json!({ "board": "b" })).await;
        (data["board"]["standings"]["size"] == 49).then_some(())
    })
    .await;
    submit(&api, "b", json!([{ "member": "m3", "score": 1 }])).await;

    let loader_redis = redis_url("loader", "LOADER-PASSWORD");
    for job in [
        &["diff", "--full"][..],
        &["rebuild", "--board", "b"],
        &["rebuild", "--board", "b", "--shards", "4"],
        &["roll"],
        &["seal"],
        &["restore"],
    ] {
        let mut command = deployment.analytics_command(job);
        command.env("LAUREL_DATABASE_URL", url_of(&database_url, "laurel_loader"));
        command.env("LAUREL_REDIS_URL", &loader_redis);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{job:?}: {said}");
    }
    api.data(DELETE_BOARD, json!({ "slug": "b" })).await;
    let denied: Vec<redis::Value> = redis.ask(&["ACL", "LOG"]);
    assert!(denied.is_empty(), "{denied:?}");

    let loader = connect(&database_url, "laurel_loader").await;
    for refused in [
        "SELECT hash FROM access_token",
        "DELETE FROM audit_log",
        "SELECT reporter FROM member_report",
        "SELECT secret FROM webhook",
    ] {
        loader.execute_unprepared(refused).await.unwrap_err();
    }
    let acts =
        "SELECT act FROM audit_log WHERE outcome = 'DONE' AND act LIKE 'laurel re%' ORDER BY no";
    let acts: Vec<String> = deployment.column(acts).await;
    assert_eq!(acts, ["laurel rebuild", "laurel rebuild", "laurel restore"]);
    let reader = connect(&database_url, "laurel_reader").await;
    reader.execute_unprepared("SELECT count(*) FROM score_event").await.unwrap();
    for refused in [
        "SELECT hash FROM access_token",
        "SELECT act FROM audit_log",
        "UPDATE standing SET score = 1",
        "CREATE TABLE mine (a INT)",
    ] {
        reader.execute_unprepared(refused).await.unwrap_err();
    }
    let client = redis::Client::open(redis_url("reader", "READER-PASSWORD")).unwrap();
    let mut reader = client.get_multiplexed_async_connection().await.unwrap();
    for refused in [&["ZADD", "laurel:x", "1", "a"][..], &["GET", "laurel:x"], &["FLUSHALL"]] {
        let mut command = redis::cmd(refused[0]);
        command.arg(&refused[1..]);
        let error = command.query_async::<redis::Value>(&mut reader).await.unwrap_err();
        assert_eq!(error.code(), Some("NOPERM"), "{refused:?}");
    }
    let other = redis::cmd("ZCARD").arg("other:x").query_async::<u64>(&mut reader).await;
    assert_eq!(other.unwrap_err().code(), Some("NOPERM"));
    let found = redis::cmd("ZCARD").arg("laurel:x").query_async::<u64>(&mut reader).await;
    assert_eq!(found.unwrap(), 0);
}
