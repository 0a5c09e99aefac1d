//! TLS to Redis, PostgreSQL and MariaDB, with an authority of the test's own.

use std::path::Path;

use engine::settings::stores::Missing;
use engine::settings::{Settings, SqlSettings};
use ranking::id::PartitionNo;
use sea_orm::{ConnectionTrait, Statement};

use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::certificates::Certificates;
use tests::servers::mariadb::Mariadb;
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

/// Creates the tables by TLS, as a URL with the file of an authority asks for; another authority is
/// refused.
async fn check_sql(
    certificates: &Certificates,
    url_with: impl Fn(&Path) -> String,
    encrypted: &str,
) {
    let dir = tempfile::tempdir().unwrap();
    let settings = |authority: &Certificates| {
        SqlSettings::new(dir.path().join("data"), Some(url_with(&authority.authority())))
    };
    let db = settings(certificates).create().await.unwrap();
    let statement = Statement::from_string(db.get_database_backend(), encrypted);
    let rows = db.query_all_raw(statement).await.unwrap();
    assert_eq!(rows[0].try_get_by_index::<i64>(0).unwrap(), 1);
    db.close().await.unwrap();
    let refused = settings(&Certificates::create()).create().await.unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");
}

#[tokio::test]
async fn postgresql_is_reached_by_tls_if_its_authority_is_known() {
    let certificates = Certificates::create();
    let server = Postgres::start(Some(&certificates));
    let url = |file: &Path| {
        let file = file.display();
        format!("{}?sslmode=verify-full&sslrootcert={file}", server.url("postgres"))
    };
    let encrypted = "SELECT COUNT(*) FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl";
    check_sql(&certificates, url, encrypted).await;
}

#[tokio::test]
async fn mariadb_is_reached_by_tls_if_its_authority_is_known() {
    let certificates = Certificates::create();
    let server = Mariadb::start(Some(&certificates));
    let database = server.new_database().await;
    let url =
        |file: &Path| format!("{database}?ssl-mode=VERIFY_IDENTITY&ssl-ca={}", file.display());
    let encrypted = "SELECT COUNT(*) FROM information_schema.session_status
        WHERE variable_name = 'Ssl_cipher' AND variable_value <> ''";
    check_sql(&certificates, url, encrypted).await;
}
