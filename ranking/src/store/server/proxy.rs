//! A proxy in front of Redis: what Laurel needs of it, checked once when a process starts.
//!
//! A server whose `INFO` passes is asked nothing else. Each need is a question that changes
//! nothing, on a connection of its own, as a proxy may close one at a command that it does not
//! know.

use std::time::Duration;

use redis::{FromRedisValue, Pipeline, RedisError, RedisResult, Value};

use super::node::{Greeting, Node};
use super::run::{Teller, run_id_of};
use crate::error::{Error, Result};
use crate::id::PartitionNo;
use crate::store::{Store, classify, has_code};

/// The longest time of one answer: a proxy may say nothing to a command that it does not know.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// The commands outside of scripts and transactions, in a form that changes nothing where there is
/// no key `{}`.
const COMMANDS: [&str; 26] = [
    "GET {}",
    "SET {} 1 XX",
    "EXISTS {} {}",
    "UNLINK {} {}",
    "TYPE {}",
    "DUMP {}",
    "PEXPIRE {} 1",
    "HGET {} a",
    "HMGET {} a b",
    "HGETALL {}",
    "HLEN {}",
    "HEXISTS {} a",
    "HSCAN {} 0",
    "LINDEX {} 0",
    "XADD {} NOMKSTREAM * a b",
    "XLEN {}",
    "XRANGE {} - +",
    "ZADD {} XX 1 a",
    "ZREM {} a",
    "ZCARD {}",
    "ZSCORE {} a",
    "ZMSCORE {} a b",
    "ZRANGE {} 0 1 WITHSCORES",
    "ZRANGE {} -inf (1 BYSCORE",
    "ZSCAN {} 0",
    "SCAN 0 MATCH {} COUNT 1",
];

/// The questions to a proxy.
pub(crate) struct Needs {
    /// Each by the name of what it needs.
    questions: Vec<(String, Pipeline)>,
    /// Loads a script, and asks by it for the run of each partition's server.
    runs: Pipeline,
}

impl Store {
    /// Checks that what is in front of Redis passes on what Laurel needs; returns who tells the run
    /// of the server. One round trip, and some 30 where `INFO` does not pass.
    ///
    /// # Errors
    /// `Unavailable` if Redis does not answer, or names all that does not pass.
    pub async fn check_proxy(&self) -> Result<Teller> {
        self.inner.cluster.check_proxy(&self.needs()).await
    }

    fn needs(&self) -> Needs {
        let (keys, info) = (self.keys(), &self.inner.scripts.info);
        let key = keys.nowhere(PartitionNo(0));
        let mut questions = vec![];
        for command in COMMANDS {
            let mut question = redis::pipe();
            add(&mut question, command, &key);
            let name = command.split_whitespace().next().unwrap_or_default();
            questions.push((name.to_owned(), question));
        }
        let mut multi = redis::pipe();
        for command in ["MULTI", "EXISTS {} {}", "EXEC"] {
            add(&mut multi, command, &key);
        }
        questions.push(("MULTI".to_owned(), multi));
        let mut load = redis::pipe();
        load.load_script(info);
        questions.push(("SCRIPT LOAD".to_owned(), load));
        let ask = |pipe: &mut Pipeline, partition| {
            let head = [keys.head(partition), keys.nowhere(partition)];
            pipe.cmd("EVALSHA").arg(info.get_hash()).arg(2).arg(&head).arg("server");
        };
        let mut call = redis::pipe();
        ask(&mut call, PartitionNo(0));
        questions.push(("EVALSHA".to_owned(), call));
        let mut runs = redis::pipe();
        runs.load_script(info).ignore();
        self.partitions().each().for_each(|partition| ask(&mut runs, partition));
        Needs { questions, runs }
    }
}

fn add(pipe: &mut Pipeline, command: &str, key: &str) {
    let mut words = command.split_whitespace();
    pipe.cmd(words.next().unwrap_or_default());
    for word in words {
        pipe.arg(if word == "{}" { key } else { word });
    }
}

impl Node {
    /// As [`Store::check_proxy`].
    pub(super) async fn check_proxy(&self, greeting: &Greeting, needs: &Needs) -> Result<Teller> {
        let Err(reason) = self.ask_info(ANSWER_TIMEOUT).await? else {
            return Ok(Teller::Info);
        };
        let mut missing: Vec<&str> = vec![];
        for (name, question) in &needs.questions {
            match self.asked::<Vec<Value>>(question).await {
                Ok(_) => {}
                // Redis answers so itself; a question of its own finds out SCRIPT LOAD.
                Err(error) if has_code(&error, &["NOSCRIPT"]) => {}
                Err(error) if is_for_now(&error) => return Err(self.away(&error)),
                // A proxy answers PING though there is no server behind it.
                Err(error) if name == "GET" => return Err(self.refuses_all(&error)),
                Err(_) if missing.contains(&name.as_str()) => {}
                Err(_) => missing.push(name),
            }
        }
        let infos: Vec<String> = self.asked(&needs.runs).await.unwrap_or_default();
        let runs: Vec<&str> = infos.iter().filter_map(|info| run_id_of(info)).collect();
        if runs.iter().any(|run| *run != runs[0]) {
            return Err(Error::Unavailable(format!(
                "Redis at {} leads to several servers: expected one server behind it, or a Redis Cluster as redis://host:port?cluster=true",
                self.address
            )));
        }
        if runs.is_empty() && greeting.run_name.is_none() {
            missing.insert(0, "INFO");
        }
        match (missing.is_empty(), runs.is_empty()) {
            (false, _) => Err(self.lacks(&missing, &reason)),
            (true, false) => Ok(Teller::Script),
            (true, true) => Ok(Teller::Operator),
        }
    }

    async fn asked<T: FromRedisValue>(&self, question: &Pipeline) -> RedisResult<T> {
        question.query_async(&mut self.open(ANSWER_TIMEOUT).await?).await
    }

    fn refuses_all(&self, error: &RedisError) -> Error {
        Error::Unavailable(format!(
            "Redis at {} answers PING and nothing else ({error}): expected a proxy that reaches its server",
            self.address
        ))
    }

    /// The error of a proxy that keeps commands back.
    fn lacks(&self, missing: &[&str], reason: &str) -> Error {
        let names = missing.join(", ");
        let about_info = match missing.contains(&"INFO") {
            true => {
                "; INFO may pass to scripts alone, or LAUREL_REDIS_RUN_ID may name the run of the server"
            }
            false => "",
        };
        Error::Unavailable(format!(
            "Redis at {} is behind a proxy that does not pass on {names} (to INFO it answers: {reason}): expected the address of the server, or a proxy that passes on all that Laurel needs{about_info}",
            self.address
        ))
    }
}

/// True for what Redis itself says while it cannot answer.
fn is_for_now(error: &RedisError) -> bool {
    let is_of_server = error.clone().into_server_errors().is_some();
    is_of_server && matches!(classify(error), Error::Unavailable(_))
}
