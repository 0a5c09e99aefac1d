//! Mirrors to an S3 store that loses answers, says 503, is slow, or knows other credentials. `make
//! test-lake` installs its server.

use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use super::{play, rows, start};
use tests::deployment::{Deployment, Sql};
use tests::jobs::erasure::erase_at;
use tests::servers::proxy::{Mode, Proxy};
use tests::servers::s3::{Credentials, S3, python};

/// Runs a mirror with other variables, without blocking the tasks beside it.
async fn mirror(
    deployment: &Arc<Deployment>,
    arguments: &[&str],
    variables: &[(&'static str, String)],
) -> (Option<i32>, String) {
    let mut command = deployment.analytics_command(&[&["mirror"], arguments].concat());
    command.envs(variables.iter().cloned());
    let run = tokio::task::spawn_blocking(move || command.output().unwrap());
    let Output { status, stdout, stderr } = run.await.unwrap();
    (status.code(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_event_is_in_the_store_once_whatever_its_answers_do() {
    let Some(python) = python() else {
        println!("not on S3: make test-lake runs it");
        return;
    };
    let server = S3::start(&python, Credentials::Any).await;
    let proxy = Proxy::before(server.port).await;
    let (deployment, api) = start(Sql::any()).await;
    let variables = S3::variables(proxy.port());
    let to = ["--to", "s3://lake/of/laurel"];
    for mode in [
        Mode::Pass,
        Mode::LostReplies(3),
        Mode::ResetReplies(4),
        Mode::Unavailable(3),
        Mode::Unavailable(2),
        Mode::Delay(Duration::from_millis(100)),
    ] {
        play(&deployment, &api, &["ann", "bob", "cid"]).await;
        proxy.set(mode);
        let (code, said) = mirror(&deployment, &to, &variables).await;
        assert_eq!(code, Some(0), "{mode:?}: {said}");
        proxy.set(Mode::Pass);
        let check = [&["--check"], &to[..]].concat();
        let (code, said) = mirror(&deployment, &check, &variables).await;
        let events = format!("with {} events", rows(&deployment).await);
        assert!(code == Some(0) && said.contains(&events), "{mode:?}: {said}");
    }
    // A store that stands still for longer than a request may take.
    play(&deployment, &api, &["dan"]).await;
    proxy.set(Mode::Frozen);
    let patient = [&variables[..], &[("LAUREL_MIRROR_TIMEOUT_SECONDS", "1".to_owned())]].concat();
    let ((code, said), ()) = tokio::join!(mirror(&deployment, &to, &patient), async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        proxy.set(Mode::Pass);
    });
    assert_eq!(code, Some(0), "frozen: {said}");
    // Erased members leave the store.
    let output = erase_at(&deployment, "ann", &variables).await;
    assert!(output.status.success(), "{output:?}");
    let check = [&["--check"], &to[..]].concat();
    let (code, said) = mirror(&deployment, &check, &variables).await;
    assert_eq!(code, Some(0), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_does_not_let_in_is_named_at_once_without_a_secret() {
    let Some(python) = python() else {
        println!("not on S3: make test-lake runs it");
        return;
    };
    let (deployment, api) = start(Sql::any()).await;
    play(&deployment, &api, &["ann"]).await;
    let began = std::time::Instant::now();
    let to = |place: &'static str| ["--to", place];
    let server = S3::start(&python, Credentials::Any).await;
    let variables = S3::variables(server.port);
    let (code, said) = mirror(&deployment, &to("s3://nowhere/x"), &variables).await;
    assert!(code == Some(1) && said.contains("expected a bucket that exists"), "{said}");
    let strict = S3::start(&python, Credentials::None).await;
    let variables = S3::variables(strict.port);
    let (code, said) = mirror(&deployment, &to("s3://lake/x"), &variables).await;
    assert!(code == Some(1) && said.contains("expected credentials"), "{said}");
    assert!(!said.contains("another-secret"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}
