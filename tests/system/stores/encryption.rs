//! TLS to Redis and PostgreSQL, with an authority of the test's own.

use engine::settings::stores::Missing;
use engine::settings::{Settings, SqlSettings};
use ranking::id::PartitionNo;
use sea_orm::{ConnectionTrait, Statement};

use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::certificates::Certificates;
use tests::servers::postgres::Postgres;
use tests::servers::redis_server::RedisServer;

#[tokio::test]
async fn redis_is_reached_by_tls_if_its_authority_is_known() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
    let (certificates, others) = (Certificates::create(), Certificates::create());
    let dir = tempfile::tempdir().unwrap();
    let (_server, port) = RedisServer::start_encrypted(dir.path(), &certificates);
    let settings = |authority: Option<&Certificates>| Settings {
        redis_url: Some(format!("rediss://127.0.0.1:{port}")),
        redis_ca: authority.map(Certificates::authority),
        ..deployment.settings()
    };
    let known = settings(Some(&certificates));
    let db = known.connect_sql(Missing::Create).await.unwrap();
    let stores = known.open(db).await.unwrap();
    assert!(!stores.store.run_id(PartitionNo(0)).await.unwrap().is_empty());
    assert!(!stores.store.for_reads().run_id(PartitionNo(0)).await.unwrap().is_empty());
    stores.close().await;
    for unknown in [settings(None), settings(Some(&others))] {
        let db = unknown.connect_sql(Missing::Create).await.unwrap();
        let refused = unknown.open(db).await.unwrap_err();
        assert!(refused.to_string().contains("Redis"), "{refused}");
    }
}

#[tokio::test]
async fn postgresql_is_reached_by_tls_if_its_authority_is_known() {
    let (certificates, others) = (Certificates::create(), Certificates::create());
    let server = Postgres::start(Some(&certificates));
    let dir = tempfile::tempdir().unwrap();
    let settings = |authority: &Certificates| {
        let file = authority.authority();
        let url = format!(
            "{}?sslmode=verify-full&sslrootcert={}",
            server.url("postgres"),
            file.display()
        );
        SqlSettings::new(dir.path().join("data"), Some(url))
    };
    let db = settings(&certificates).create().await.unwrap();
    let encrypted = "SELECT COUNT(*) FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl";
    let statement = Statement::from_string(db.get_database_backend(), encrypted);
    let rows = db.query_all_raw(statement).await.unwrap();
    assert_eq!(rows[0].try_get_by_index::<i64>(0).unwrap(), 1);
    db.close().await.unwrap();
    let refused = settings(&others).create().await.unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");
}
