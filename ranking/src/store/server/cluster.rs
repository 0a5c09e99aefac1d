//! The servers and their partitions. A single server is a cluster of one.
//!
//! All keys of a partition have its number as their hash tag, so a partition lies in one slot, and
//! each slot with one master. The map of masters is read once, and again when a server answers that
//! another one has the slot, or does not answer. The map may be old: the servers themselves refuse
//! commands for slots that they do not have.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use redis::{ConnectionAddr, Pipeline, Value};

use super::address::Address;
use super::node::{Greeting, Lane, Link, Node};
use super::proxy::Needs;
use super::run::{RunName, Teller};
use crate::error::{Error, Result};
use crate::id::PartitionNo;
use crate::shard::Partitions;
use crate::store::key::KeySpace;
use crate::store::{classify, decode};

/// The servers of one Redis, by one address or several.
#[derive(Debug)]
pub(crate) struct Cluster {
    address: Address,
    greeting: Greeting,
    /// Asks for the state of the cluster, for the slots and their servers, then for the slot of
    /// each partition.
    question: Pipeline,
    /// The servers that the URL names.
    seeds: Vec<Arc<Node>>,
    /// Every server seen so far, by its address.
    met: Mutex<HashMap<String, Arc<Node>>>,
    map: RwLock<Arc<Map>>,
    /// Held while a caller asks for a new map.
    asking: tokio::sync::Mutex<()>,
    /// The calls of [`Self::look_beside`].
    looks_beside: AtomicUsize,
}

/// The server of each partition, as far as it is known.
#[derive(Debug)]
pub(crate) struct Map {
    /// The servers that have slots, each once. Never empty, except in the initial map of a cluster,
    /// which is doubted.
    pub(crate) nodes: Vec<Arc<Node>>,
    /// The index in `nodes` of each partition's server; `None` if no server has it.
    places: Vec<Option<usize>>,
    /// True once a server contradicted the map or failed.
    is_doubted: AtomicBool,
}

impl Map {
    fn new(nodes: Vec<Arc<Node>>, places: Vec<Option<usize>>) -> Self {
        Self { nodes, places, is_doubted: AtomicBool::new(false) }
    }

    /// The server that has a partition; any server for a partition that none has, as that server
    /// says so itself.
    pub(crate) fn node(&self, partition: Option<PartitionNo>) -> &Arc<Node> {
        let place = partition.and_then(|partition| *self.places.get(usize::from(partition.0))?);
        &self.nodes[place.unwrap_or(0)]
    }

    /// The partitions, by the servers that have them.
    pub(crate) fn by_server(&self) -> Vec<Vec<PartitionNo>> {
        let mut groups = vec![vec![]; self.nodes.len()];
        for (partition, place) in (0..).map(PartitionNo).zip(&self.places) {
            groups[place.unwrap_or(0)].push(partition);
        }
        groups.retain(|group| !group.is_empty());
        groups
    }
}

impl Cluster {
    pub(crate) fn new(
        address: &Address,
        keys: &KeySpace,
        partitions: Partitions,
        greeting: impl FnOnce(bool) -> Greeting,
    ) -> Result<Self> {
        let (seeds, is_cluster) = address.servers()?;
        let mut question = redis::pipe();
        question.cmd("CLUSTER").arg("INFO");
        question.cmd("CLUSTER").arg("SLOTS");
        for partition in partitions.each() {
            let command = question.cmd("CLUSTER").arg("KEYSLOT");
            command.arg(keys.head(partition));
        }
        let map = if is_cluster {
            Map::new(vec![], vec![])
        } else {
            let count = usize::from(partitions.count());
            Map::new(seeds.clone(), vec![Some(0); count])
        };
        map.is_doubted.store(is_cluster, Ordering::Relaxed);
        let met = seeds.iter().map(|node| (node.address.clone(), node.clone()));
        Ok(Self {
            address: address.clone(),
            met: Mutex::new(met.collect()),
            greeting: greeting(is_cluster),
            question,
            seeds,
            map: RwLock::new(Arc::new(map)),
            asking: tokio::sync::Mutex::default(),
            looks_beside: AtomicUsize::new(0),
        })
    }

    /// True for a Redis Cluster, false for a single server.
    pub(crate) fn is_cluster(&self) -> bool {
        self.greeting.is_cluster
    }

    /// The operator's name for the present run.
    pub(crate) fn run_name(&self) -> Option<&RunName> {
        self.greeting.run_name.as_ref()
    }

    /// Checks what Laurel needs of a proxy; see [`Store::check_proxy`].
    pub(crate) async fn check_proxy(&self, needs: &Needs) -> Result<Teller> {
        match &self.seeds[..] {
            [node] if !self.is_cluster() => node.check_proxy(&self.greeting, needs).await,
            _ => Ok(Teller::Info),
        }
    }

    /// The servers that the URL names.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.seeds.iter().map(|node| node.address.clone()).collect()
    }

    /// The present map. One round trip if there is none or the last one is doubted; else none.
    pub(crate) async fn map(&self) -> Result<Arc<Map>> {
        let map = self.known();
        if !map.is_doubted.load(Ordering::Relaxed) {
            return Ok(map);
        }
        Box::pin(self.ask_again(&map, None)).await
    }

    /// A connection of a lane to a server. If it cannot be made, the map is doubted, but not for
    /// the probe, which gives up so soon and so often that all others would wait for new maps.
    pub(crate) async fn link(&self, map: &Map, node: &Node, lane: Lane) -> Result<Link> {
        let link = node.link(&self.greeting, lane).await;
        if link.is_err() && lane != Lane::Probe {
            self.doubt(map);
        }
        link
    }

    /// Makes the next caller that needs the map ask for it again. A single server never moves.
    pub(crate) fn doubt(&self, map: &Map) {
        map.is_doubted.store(self.greeting.is_cluster, Ordering::Relaxed);
    }

    /// Asks one server for a newer map, as that of a partition gives no answer and another one may
    /// have taken its place. Each call asks the next server, and its caller alone waits for it.
    pub(crate) async fn look_beside(&self, silent: PartitionNo) -> Result<()> {
        let map = self.known();
        if !self.greeting.is_cluster || map.nodes.is_empty() {
            return Ok(());
        }
        let own = map.node(Some(silent));
        let others = map.nodes.iter().chain(&self.seeds).filter(|node| !Arc::ptr_eq(node, own));
        let others: Vec<&Arc<Node>> = others.collect();
        let turn = self.looks_beside.fetch_add(1, Ordering::Relaxed);
        let Some(node) = others.get(turn % others.len().max(1)) else { return Ok(()) };
        let told = Arc::new(self.ask(node).await?);
        let mut known = self.map.write().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&known, &map) {
            *known = told;
        }
        Ok(())
    }

    /// A newer map than this one; `first` is asked before all others.
    pub(crate) async fn ask_again(
        &self,
        old: &Arc<Map>,
        first: Option<&Arc<Node>>,
    ) -> Result<Arc<Map>> {
        let _asking = self.asking.lock().await;
        let known = self.known();
        if !Arc::ptr_eq(&known, old) {
            return Ok(known);
        }
        let mut nodes: Vec<&Arc<Node>> = known.nodes.iter().chain(&self.seeds).collect();
        // A server that is down may take long to fail: connected ones are asked first.
        nodes.sort_by_key(|node| !node.is_linked());
        let mut last = None;
        for node in first.into_iter().chain(nodes) {
            match self.ask(node).await {
                Ok(map) => {
                    let map = Arc::new(map);
                    *self.map.write().unwrap_or_else(PoisonError::into_inner) = map.clone();
                    return Ok(map);
                }
                Err(error) => last = Some(error),
            }
        }
        let reason = last.map_or_else(String::new, |error| error.to_string());
        Err(Error::Unavailable(format!(
            "no server of the cluster gives a map of the slots: {reason}"
        )))
    }

    /// The server at an address from an answer: `host:port`, or `:port` for the host of the
    /// answering server.
    pub(crate) fn named(&self, by: &Node, address: &str) -> Result<Arc<Node>> {
        let strange = || {
            Error::corrupt(format!(
                "the cluster names a server at {address:?}, which is not host:port"
            ))
        };
        let (host, port) = address.rsplit_once(':').ok_or_else(strange)?;
        let port = port.parse().map_err(|_| strange())?;
        self.at(by, host, port)
    }

    fn at(&self, by: &Node, host: &str, port: u16) -> Result<Arc<Node>> {
        let host = match (host, by.info().addr()) {
            ("" | "?", ConnectionAddr::Tcp(own, _) | ConnectionAddr::TcpTls { host: own, .. }) => {
                own
            }
            (host, _) => host.trim_matches(['[', ']']),
        };
        let host = host.to_owned();
        let addr = match by.info().addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        // A cluster may name servers elsewhere, though the URL's are on this machine.
        self.address.check_protected(&addr)?;
        let info = by.info().clone().set_addr(addr);
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let node = Node::new(info).map_err(|error| classify(&error))?;
        Ok(met.entry(node.address.clone()).or_insert_with(|| Arc::new(node)).clone())
    }

    fn known(&self) -> Arc<Map> {
        self.map.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks a server for the map. One round trip: `CLUSTER INFO`, `CLUSTER SLOTS` and a `CLUSTER
    /// KEYSLOT` for each partition.
    async fn ask(&self, node: &Arc<Node>) -> Result<Map> {
        let mut link = node.link(&self.greeting, Lane::Work).await?;
        let answers = link.query::<Vec<Value>>(&self.question).await;
        if answers.is_err() {
            node.unlink(&link).await;
        }
        let mut answers = answers.map_err(|error| classify(&error))?.into_iter();
        let info: String = decode(answers.next())?;
        // A server cut off from the others says so here, and still claims its old slots.
        if info.contains("cluster_state:fail") {
            let address = &node.address;
            return Err(Error::Unavailable(format!(
                "Redis at {address} says that the cluster is down"
            )));
        }
        let ranges: Vec<Vec<Value>> = decode(answers.next())?;
        let mut nodes: Vec<Arc<Node>> = vec![];
        let mut owners: Vec<(u16, u16, usize)> = vec![];
        for range in ranges {
            let mut range = range.into_iter();
            let (first, last) = (decode(range.next())?, decode(range.next())?);
            let mut master = decode::<Vec<Value>>(range.next())?.into_iter();
            let host: Option<String> = decode(master.next())?;
            let master = self.at(node, host.as_deref().unwrap_or(""), decode(master.next())?)?;
            let place = nodes.iter().position(|node| Arc::ptr_eq(node, &master));
            owners.push((first, last, place.unwrap_or(nodes.len())));
            if place.is_none() {
                nodes.push(master);
            }
        }
        if nodes.is_empty() {
            return Err(Error::Unavailable(format!("Redis at {} knows of no slots", node.address)));
        }
        let mut places = vec![];
        for slot in answers {
            let slot: u16 = decode(Some(slot))?;
            let owner = owners.iter().find(|(first, last, _)| (*first..=*last).contains(&slot));
            places.push(owner.map(|(_, _, place)| *place));
        }
        Ok(Map::new(nodes, places))
    }
}
