//! The connections over which commands come to Redis.

use std::collections::BTreeSet;

use futures::StreamExt;

use crate::deployment::Deployment;

/// Said to Redis after all else.
const END: &str = "the-end";

/// The addresses of the clients that sent commands of some names, by themselves or by a script,
/// while something was done. Redis runs for the test alone, and is reached by TCP.
pub async fn senders(
    deployment: &Deployment,
    names: &[&str],
    act: impl Future<Output = ()>,
) -> BTreeSet<String> {
    let client = redis::Client::open(deployment.redis_url()).unwrap();
    let mut monitor = client.get_async_monitor().await.unwrap();
    act.await;
    let _: String = deployment.ask_redis(&["ECHO", END]).await;
    let mut told = monitor.on_message::<String>();
    let (mut senders, mut script_of) = (BTreeSet::new(), String::new());
    // 1700000000.000001 [0 127.0.0.1:4711] "EVALSHA" "…", and [0 lua] for what a script sends.
    while let Some(line) = told.next().await.filter(|line| !line.contains(END)) {
        let Some((from, command)) = line.split_once("] ") else { continue };
        let from = from.rsplit(' ').next().unwrap();
        if from != "lua" {
            script_of = from.to_owned();
        }
        let name = command.split('"').nth(1).unwrap_or_default().to_lowercase();
        if names.contains(&name.as_str()) {
            senders.insert(script_of.clone());
        }
    }
    senders
}
