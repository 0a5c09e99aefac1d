//! A Redis that restarts at its maxmemory: it is read as before, and refuses writes.

use std::time::Duration;

use engine::deployment::Deployment as Stores;
use engine::read::reader::Reader;
use engine::settings::stores::Missing;
use engine::settings::{Settings, SqlSettings};
use ranking::id::{MemberId, PartitionNo};
use ranking::standings_id::StandingsId;
use ranking::store::read::Standings;
use ranking::submission::Verdict;
use ranking::window::Period;

use tests::boards::in_process::{point, submit_at, summing_board};
use tests::clock::now_ms;
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::redis_server::RedisServer;

const ALL: PartitionNo = PartitionNo(0);

async fn open(deployment: &Deployment, server: &RedisServer) -> Stores {
    let settings = Settings {
        sql: SqlSettings::new(deployment.path("data").into(), None),
        redis_url: Some(server.url().to_owned()),
        partitions: Some(1),
        ..deployment.settings()
    };
    let db = settings.connect_sql(Missing::Create).await.unwrap();
    settings.open(db).await.unwrap()
}

async fn configure(server: &RedisServer, name: &str, value: &str) {
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut command = redis::cmd("CONFIG");
    let () = command.arg("SET").arg(name).arg(value).query_async(&mut connection).await.unwrap();
}

#[tokio::test]
async fn a_redis_that_restarts_at_its_maxmemory_is_read_as_before() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let dir = deployment.new_file("redis");
    std::fs::create_dir(&dir).unwrap();
    let server = RedisServer::start(&dir);
    configure(&server, "appendfsync", "always").await;
    let stores = open(&deployment, &server).await;
    stores.partition(ALL).recover().await.unwrap();
    let board = summing_board(&stores, "b", &["daily"]).await;
    let score = |member: &str| vec![point(&board, member, None)];
    submit_at(&stores, score("ann"), now_ms()).await.unwrap();
    stores.partition(ALL).settle().await.unwrap();
    // A commit that only Redis has.
    submit_at(&stores, score("ann"), now_ms()).await.unwrap();
    stores.close().await;
    drop(server);

    let server = RedisServer::start_with(&dir, &["--port", "0", "--maxmemory", "1"]);
    let stores = open(&deployment, &server).await;
    let reader = Reader::new(&stores, Duration::from_secs(5));
    let id = StandingsId::all_time(&board, String::new());
    let standings = Standings::new(&stores.store, &board, id, Period::all());
    let members = [MemberId::new("ann").unwrap()];
    let found = reader.find(&standings, &members).await.unwrap();
    let (entry, position) = found[0].clone().unwrap();
    let score_of = board.rules.state(standings.id.window, &standings.period, entry.key).score;
    assert_eq!((score_of, position), (2, 0));
    let refused = submit_at(&stores, score("ann"), now_ms()).await.unwrap_err();
    assert!(refused.to_string().contains("out of memory"), "{refused}");

    configure(&server, "maxmemory", "0").await;
    let verdicts = submit_at(&stores, score("ann"), now_ms()).await.unwrap();
    assert!(matches!(verdicts[..], [Verdict::Accepted { .. }]), "{verdicts:?}");
    stores.close().await;
}
