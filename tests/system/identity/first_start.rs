//! First starts of processes on empty stores, alone and together.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use engine::settings::stores::Missing;
use engine::settings::{Settings, SqlSettings};
use entity::board;
use futures::future::join_all;
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::{Value, json};

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};

#[tokio::test]
async fn a_first_start_writes_an_admin_token_once() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::spawn(&deployment, &[], String::new()).await;
    api.wait_until_ready().await;
    let printed = api.printed();
    // Its output is no terminal, and may go to a journal that others read.
    assert!(!printed.contains("laurel_"), "{printed}");
    let file = printed.lines().find_map(|line| line.split_once("admin token, in a file: "));
    let file = file.unwrap().1.to_owned();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let token = fs::read_to_string(&file).unwrap().trim_end().to_owned();
    let viewer = api.ask(Some(&token), "{ viewer { scopes member { key } } }", json!({})).await;
    assert_eq!(
        viewer.body["data"]["viewer"],
        json!({ "scopes": ["READ", "SUBMIT", "FRIENDS", "MODERATE", "ADMIN"], "member": null })
    );
    drop(api);
    let api = Api::spawn(&deployment, &[], token).await;
    let printed = api.printed();
    assert!(!printed.contains("admin token"), "{printed}");
    // The command that it names is there, even where no path of the user has the program.
    let named = printed.lines().find_map(|line| line.split_once("for an access token: "));
    let program = named.unwrap().1.strip_suffix(" token create --scope admin").unwrap();
    assert!(Path::new(program).is_file(), "{program}");
    api.wait_until_ready().await;
    assert_eq!(api.data("{ viewer { scopes } }", json!({})).await["viewer"]["scopes"][4], "ADMIN");
    assert_eq!(
        api.ask(None, "{ viewer { scopes } }", json!({})).await.body["data"]["viewer"],
        Value::Null
    );
}

#[tokio::test]
async fn a_start_at_a_taken_address_says_how_to_take_another() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let address = api.url().strip_prefix("http://").unwrap();
    let second = deployment.api(&["serve"]).env("LAUREL_LISTEN", address).output().unwrap();
    let told = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success() && told.contains("set LAUREL_LISTEN=127.0.0.1:"), "{told}");
}

#[tokio::test]
async fn processes_that_start_at_once_on_nothing_all_serve() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let start = async || Api::spawn(&deployment, &[], String::new()).await;
    let apis: [Api; 3] = futures::join!(start(), start(), start()).into();
    for api in &apis {
        api.wait_until_ready().await;
        let answer = api.ask(None, "{ boards { totalCount } }", json!({})).await;
        assert_eq!(answer.body, json!({ "data": { "boards": { "totalCount": 0 } } }));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn processes_that_find_a_database_being_made_wait_for_it() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    for _ in 0..25 {
        let settings = Settings {
            sql: SqlSettings::new(deployment.new_file("data"), None),
            ..deployment.settings()
        };
        check_opened_at_once(&settings).await;
    }
    for sql in [Some(Sql::Postgres), Sql::mariadb()].into_iter().flatten() {
        for _ in 0..5 {
            let deployment = Deployment::new(sql, Redis::Own).await;
            check_opened_at_once(&deployment.settings()).await;
        }
    }
}

async fn check_opened_at_once(settings: &Settings) {
    let opening = (0..16).map(|_| {
        let settings = settings.clone();
        tokio::spawn(async move { settings.connect_sql(Missing::Create).await.unwrap() })
    });
    for opened in join_all(opening).await {
        let db = opened.unwrap();
        assert_eq!(board::Entity::find().count(&db).await.unwrap(), 0);
        db.close().await.unwrap();
    }
}
