//! Clear text to other machines, which is refused, and passwords, which no message shows.

use std::sync::Arc;

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
    // No server is there; the log of every step towards it is.
    let url = "postgres://u:secret@127.0.0.1:1/x";
    let refused_server = refused(&deployment, &["token", "list"], "LAUREL_DATABASE_URL", url);
    assert!(!refused_server.contains("secret"), "{refused_server}");
    for sign in ["/", "#", "?", "@", "%", " ", "\\"] {
        let password = format!("pa{sign}secret");
        for host in ["127.0.0.1:port", "db.example"] {
            let url = format!("postgres://u:{password}@{host}/x");
            let refused = refused(&deployment, &["token", "list"], "LAUREL_DATABASE_URL", &url);
            assert!(!refused.contains("secret"), "{url}: {refused}");
        }
        let url = format!("postgres://127.0.0.1:1/x?user=u&password={password}@secret");
        let refused_parameter =
            refused(&deployment, &["token", "list"], "LAUREL_DATABASE_URL", &url);
        assert!(!refused_parameter.contains("secret"), "{url}: {refused_parameter}");
        let url = format!("redis://u:{password}@127.0.0.1:1");
        let refused = refused(&deployment, &["demo"], "LAUREL_REDIS_URL", &url);
        assert!(!refused.contains("secret"), "{url}: {refused}");
    }
}
