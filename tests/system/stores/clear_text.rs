//! Clear text to other machines, which is refused, and passwords, which no message shows.

use std::sync::Arc;
use std::thread;

use tests::deployment::{Deployment, Redis, Sql};

/// The message of a command that refuses the value of a setting.
fn refused(deployment: &Arc<Deployment>, command: &[&str], setting: &str, url: &str) -> String {
    let mut command = deployment.api(command);
    let output = command.env(setting, url).env("LAUREL_LOG", "trace").output().unwrap();
    assert!(!output.status.success(), "{setting}={url}");
    let (out, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{out}{error}")
}

#[tokio::test]
async fn clear_text_to_another_machine_is_refused_and_says_what_to_do() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
    let sql = ["token", "list"];
    for url in ["postgres://u:secret@db.example/x", "postgres://u:secret@10.0.0.5/x?sslmode=prefer"]
    {
        let refused = refused(&deployment, &sql, "LAUREL_DATABASE_URL", url);
        assert!(refused.contains("sslmode=verify-full"), "{refused}");
        assert!(refused.contains("LAUREL_ALLOW_CLEARTEXT"), "{refused}");
        assert!(!refused.contains("secret"), "{refused}");
    }
    for url in ["redis://:secret@redis.example", "redis://:secret@127.0.0.1,10.0.0.6?cluster=true"]
    {
        let refused = refused(&deployment, &["demo"], "LAUREL_REDIS_URL", url);
        assert!(refused.contains("rediss://"), "{refused}");
        assert!(refused.contains("LAUREL_ALLOW_CLEARTEXT"), "{refused}");
        assert!(!refused.contains("secret"), "{refused}");
    }
}

#[tokio::test]
async fn a_password_is_not_printed_even_if_its_url_cannot_be_parsed() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
    let (sql, redis) = ("LAUREL_DATABASE_URL", "LAUREL_REDIS_URL");
    let mut urls = vec![(sql, "postgres://u:secret@127.0.0.1:1/x".to_owned())];
    for sign in ["/", "#", "?", "@", "%", " ", "\\"] {
        let password = format!("pa{sign}secret");
        for host in ["127.0.0.1:port", "127.0.0.2"] {
            urls.push((sql, format!("postgres://u:{password}@{host}/x")));
        }
        urls.push((sql, format!("postgres://127.0.0.1:1/x?user=u&password={password}@secret")));
        urls.push((redis, format!("redis://u:{password}@127.0.0.1:1")));
    }
    // No server is there; the log of every step towards it is. Each takes seconds to give it up.
    thread::scope(|scope| {
        for (setting, url) in &urls {
            let command = if *setting == sql { &["token", "list"][..] } else { &["demo"] };
            let deployment = &deployment;
            scope.spawn(move || {
                let said = refused(deployment, command, setting, url);
                assert!(!said.contains("secret"), "{url}: {said}");
            });
        }
    });
}
