//! Routes each command to the server that has its partition, and follows redirections.
//!
//! A server answers `MOVED` for a partition that it does not have, and `ASK` for a key that has
//! already left while the partition's slot moves. Neither command was executed, so it can be sent
//! to the named server, even if it writes.

use std::sync::Arc;

use futures::future::join_all;
use redis::{Arg, Cmd, FromRedisValue, Pipeline, RedisError, RedisResult, ServerError, Value};

use super::cluster::Map;
use super::node::{Lane, Link, Node};
use super::run::Teller;
use crate::error::{Error, Result};
use crate::id::PartitionNo;
use crate::store::{Failed, Store, classify, has_code};

/// The most redirections of a command before it fails.
const SENT_ON_MAX: usize = 5;

/// In the place of a run id: the script asks the server for it.
const ASK: &str = "?";

/// The answers to a pipeline, in its order.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pub(crate) values: Vec<Value>,
    runs: Vec<Arc<str>>,
    /// The index of the run that answered each command; empty if the first run answered all.
    by: Vec<usize>,
}

/// The destination of a command.
#[derive(Debug, Clone)]
enum Place {
    /// The server that has its partition, according to the map.
    Mapped,
    /// The server that another one named.
    Moved(Arc<Node>),
    /// The server that receives the partition's keys one by one; each command needs `ASKING` before
    /// it.
    Asked(Arc<Node>),
}

/// The commands of a pipeline that go to one server.
struct Part {
    map: Arc<Map>,
    node: Arc<Node>,
    link: Link,
    is_asked: bool,
    /// Their indices; `None` for all commands.
    commands: Option<Vec<usize>>,
}

impl Answers {
    /// The run of the server that answered a command.
    pub(crate) fn run_id(&self, command: usize) -> &Arc<str> {
        &self.runs[self.by.get(command).copied().unwrap_or(0)]
    }

    fn put(&mut self, count: usize, part: &Part, values: Vec<Value>) {
        self.runs.push(part.link.run_id.clone());
        let Some(commands) = &part.commands else {
            self.values = values;
            return;
        };
        self.values.resize(count, Value::Nil);
        self.by.resize(count, 0);
        for (&command, value) in commands.iter().zip(values) {
            self.values[command] = value;
            self.by[command] = self.runs.len() - 1;
        }
    }
}

impl Store {
    /// Sends a pipeline of reads of one partition; also returns the run id of the server that
    /// answered. As [`Self::read_many`].
    pub(crate) async fn read<T: FromRedisValue>(&self, pipe: &Pipeline) -> Result<(T, Arc<str>)> {
        let answers = self.read_many(pipe).await?;
        let run_id = answers.run_id(0).clone();
        let value = crate::store::decode(Some(Value::Array(answers.values)))?;
        Ok((value, run_id))
    }

    /// Sends a pipeline of reads to all servers concerned at once; a transaction goes to one server
    /// as a whole. Sends it once more after a lost connection or lost scripts.
    pub(crate) async fn read_many(&self, pipe: &Pipeline) -> Result<Answers> {
        let (mut answers, mut is_second) = (Answers::default(), false);
        let mut parts = self.parts(pipe, None, self.lane).await?;
        for _ in 0..=SENT_ON_MAX {
            let sent = join_all(parts.iter_mut().map(|part| self.send_reads(part, pipe))).await;
            let (mut again, mut lost) = (vec![], false);
            for (part, sent) in parts.iter().zip(sent) {
                let error = match sent {
                    Ok(values) => {
                        answers.put(pipe.len(), part, values);
                        continue;
                    }
                    Err(error) => error,
                };
                if error.is_io_error() || has_code(&error, &["NOSCRIPT"]) {
                    lost = true;
                    if is_second {
                        return Err(classify(&error));
                    }
                    let commands = part.commands(pipe).into_iter();
                    again.extend(commands.map(|command| (command, Place::Mapped)));
                } else {
                    again.extend(Box::pin(self.sent_on(part, pipe, &error)).await?);
                }
            }
            if again.is_empty() {
                return Ok(answers);
            }
            is_second |= lost;
            parts = self.parts(pipe, Some(again), self.lane).await?;
        }
        Err(sent_around())
    }

    /// Sends a command that writes to one partition, with a last argument: the run id of the server
    /// at the other end of the connection. Sends it again only if the server certainly did not run
    /// it.
    pub(crate) async fn write_once<T: FromRedisValue>(
        &self,
        command: Cmd,
    ) -> std::result::Result<T, Failed> {
        let mut pipe = redis::pipe();
        pipe.add_command(command);
        let mut places = None;
        let mut forgot = false;
        for _ in 0..=SENT_ON_MAX {
            let parts = self.parts(&pipe, places.take(), Lane::Work).await;
            let mut part = parts.map_err(Failed::Refused)?.swap_remove(0);
            let mut told = pipe.clone();
            told.arg(match part.link.teller {
                Teller::Script => ASK,
                Teller::Info | Teller::Operator => &*part.link.run_id,
            });
            let error = match self.send(&mut part, &told).await {
                Ok(mut values) => {
                    return crate::store::decode(values.pop()).map_err(Failed::Lost);
                }
                Err(error) => error,
            };
            if has_code(&error, &["NOSCRIPT"]) && !std::mem::replace(&mut forgot, true) {
                continue;
            }
            // A server answers with an error before the first write of its script.
            if error.clone().into_server_errors().is_none() {
                return Err(Failed::Lost(classify(&error)));
            }
            let again = Box::pin(self.sent_on(&part, &told, &error)).await;
            places = Some(again.map_err(Failed::Refused)?);
        }
        Err(Failed::Refused(sent_around()))
    }

    /// Groups commands by their servers; by default all commands of the pipeline, by the map.
    async fn parts(
        &self,
        pipe: &Pipeline,
        places: Option<Vec<(usize, Place)>>,
        lane: Lane,
    ) -> Result<Vec<Part>> {
        let map = self.inner.cluster.map().await?;
        if let (None, [node]) = (&places, &map.nodes[..]) {
            return Ok(vec![self.part(&map, node.clone(), lane, false, None).await?]);
        }
        let count = if is_one(pipe) { 1 } else { pipe.len() };
        let mapped = |command| (command, Place::Mapped);
        let places = places.unwrap_or_else(|| (0..count).map(mapped).collect());
        let commands: Vec<&Cmd> = pipe.cmd_iter().collect();
        let mut groups: Vec<(Arc<Node>, bool, Vec<usize>)> = vec![];
        for (command, place) in places {
            let (node, is_asked) = match place {
                Place::Mapped => {
                    let mut keyed = commands[command..].iter();
                    let partition = keyed.find_map(|command| self.partition_of(command));
                    (map.node(partition).clone(), false)
                }
                Place::Moved(node) => (node, false),
                Place::Asked(node) => (node, true),
            };
            let mut same = groups.iter_mut().filter(|group| group.1 == is_asked);
            match same.find(|group| Arc::ptr_eq(&group.0, &node)) {
                Some((_, _, commands)) => commands.push(command),
                None => groups.push((node, is_asked, vec![command])),
            }
        }
        let mut parts = vec![];
        for (node, is_asked, commands) in groups {
            let commands = (commands.len() < count).then_some(commands);
            parts.push(self.part(&map, node, lane, is_asked, commands).await?);
        }
        Ok(parts)
    }

    async fn part(
        &self,
        map: &Arc<Map>,
        node: Arc<Node>,
        lane: Lane,
        is_asked: bool,
        commands: Option<Vec<usize>>,
    ) -> Result<Part> {
        let link = self.inner.cluster.link(map, &node, lane).await?;
        let map = map.clone();
        Ok(Part { map, node, link, is_asked, commands })
    }

    /// The partition of the first key in a command.
    fn partition_of(&self, command: &Cmd) -> Option<PartitionNo> {
        command.args_iter().find_map(|arg| match arg {
            Arg::Simple(bytes) => self.keys().partition_of(std::str::from_utf8(bytes).ok()?),
            _ => None,
        })
    }

    /// As [`Self::send`]. Where a proxy may lead the connection to another run, a script behind the
    /// reads checks that it has not: runs follow one another, so no read went to another one.
    async fn send_reads(&self, part: &mut Part, pipe: &Pipeline) -> RedisResult<Vec<Value>> {
        if part.link.teller != Teller::Script {
            return self.send(part, pipe).await;
        }
        let partition = pipe.cmd_iter().find_map(|command| self.partition_of(command));
        let mut checked = part.pipe(pipe);
        let check = checked.cmd("EVALSHA").arg(self.inner.scripts.same_run.get_hash()).arg(1);
        check.arg(self.keys().head(partition.unwrap_or(PartitionNo(0)))).arg(&*part.link.run_id);
        let answer = match pipe.is_transaction() {
            true => part.link.query::<Vec<Value>>(&checked).await,
            false => part.link.query_in_turn(&checked).await,
        };
        let mut values = self.answered(part, answer).await?;
        values.pop();
        unwrapped(pipe, values)
    }

    async fn send(&self, part: &mut Part, pipe: &Pipeline) -> RedisResult<Vec<Value>> {
        let answer: RedisResult<Vec<Value>> = if part.is_asked || pipe.is_transaction() {
            part.link.query(&part.pipe(pipe)).await
        } else if part.commands.is_none() {
            part.link.query_in_turn(pipe).await
        } else {
            part.link.query_in_turn(&part.pipe(pipe)).await
        };
        unwrapped(pipe, self.answered(part, answer).await?)
    }

    /// Drops the connection, and doubts the map, if an answer calls for it.
    async fn answered<T>(&self, part: &Part, answer: RedisResult<T>) -> RedisResult<T> {
        if let Err(error) = &answer {
            let is_lost = error.is_io_error() || error.is_unrecoverable_error();
            let is_doubtful = is_lost || has_code(error, &["CLUSTERDOWN"]);
            if is_doubtful && self.lane != Lane::Probe {
                self.inner.cluster.doubt(&part.map);
            }
            if is_lost || has_code(error, &["NOSCRIPT"]) {
                part.node.unlink(&part.link).await;
            }
        }
        answer
    }

    /// The new destinations of a part's commands, after its server named others for some of them.
    /// Fails if the server refused a command.
    async fn sent_on(
        &self,
        part: &Part,
        pipe: &Pipeline,
        error: &RedisError,
    ) -> Result<Vec<(usize, Place)>> {
        let errors = error.clone().into_server_errors();
        let errors = errors.as_deref().unwrap_or_default();
        let mut named = vec![];
        for (answer, error) in errors {
            named.extend(self.named_by(part, error)?.map(|place| (*answer, place)));
        }
        if named.iter().any(|(_, place)| matches!(place, Place::Moved(_))) {
            // The server that answered MOVED has a newer map than others may have.
            let cluster = &self.inner.cluster;
            cluster.ask_again(&part.map, Some(&part.node)).await?;
        }
        if is_one(pipe) {
            return match named.into_iter().next() {
                Some((_, place)) => Ok(vec![(0, place)]),
                None => Err(classify(error)),
            };
        }
        if named.len() < errors.len() || errors.is_empty() {
            return Err(classify(error));
        }
        // With ASKING before it, each command has two answers.
        let answers = if part.is_asked { 2 } else { 1 };
        let stay = || match part.is_asked {
            true => Place::Asked(part.node.clone()),
            false => Place::Mapped,
        };
        let commands = part.commands(pipe).into_iter().enumerate();
        let places = commands.map(|(index, command)| {
            let is_of = |(answer, _): &&(usize, Place)| answer / answers == index;
            let place = named.iter().find(is_of).map(|(_, place)| place.clone());
            (command, place.unwrap_or_else(stay))
        });
        Ok(places.collect())
    }

    fn named_by(&self, part: &Part, error: &ServerError) -> Result<Option<Place>> {
        let place = match error.code() {
            "MOVED" => Place::Moved,
            "ASK" => Place::Asked,
            _ => return Ok(None),
        };
        let address = error.details().and_then(|text| text.split_whitespace().nth(1));
        let cluster = &self.inner.cluster;
        let node = cluster.named(&part.node, address.unwrap_or_default())?;
        Ok(Some(place(node)))
    }
}

impl Part {
    /// The commands in it.
    fn commands(&self, pipe: &Pipeline) -> Vec<usize> {
        let all = || (0..pipe.len()).collect();
        self.commands.clone().unwrap_or_else(all)
    }

    /// The part as a pipeline, with `ASKING` before each command if its server was named by `ASK`.
    /// A transaction has `MULTI` and `EXEC` as commands, so that their errors are passed on: Redis
    /// redirects its commands, and Valkey 9 its `EXEC`.
    fn pipe(&self, pipe: &Pipeline) -> Pipeline {
        let commands: Vec<&Cmd> = pipe.cmd_iter().collect();
        let mut part = redis::pipe();
        let asking = |part: &mut Pipeline| {
            if self.is_asked {
                part.cmd("ASKING").ignore();
            }
        };
        if pipe.is_transaction() {
            asking(&mut part);
            part.cmd("MULTI").ignore();
            for command in commands {
                part.add_command(command.clone()).ignore();
            }
            part.cmd("EXEC");
            return part;
        }
        for command in self.commands(pipe) {
            asking(&mut part);
            part.add_command(commands[command].clone());
        }
        part
    }
}

/// The answers to the commands of a pipeline; those of a transaction are in its last one.
fn unwrapped(pipe: &Pipeline, mut values: Vec<Value>) -> RedisResult<Vec<Value>> {
    match pipe.is_transaction() {
        true => Ok(redis::from_redis_value(values.pop().unwrap_or(Value::Nil))?),
        false => Ok(values),
    }
}

/// True if the pipeline goes to one server as a whole.
fn is_one(pipe: &Pipeline) -> bool {
    pipe.is_transaction() || pipe.len() == 1
}

fn sent_around() -> Error {
    Error::Unavailable(
        "the servers of the cluster redirect a command to each other; try again".into(),
    )
}
