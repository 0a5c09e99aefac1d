//! A fault: its name, the world that it befalls, and what it may cost.

use futures::future::LocalBoxFuture;
use rand::rngs::StdRng;
use tests::trial::world::{Shape, World};

/// Does the fault to a world under load, and ends it: when it is over, every store and every
/// process runs.
pub(crate) type Inject = for<'a> fn(&'a mut World, &'a mut StdRng) -> LocalBoxFuture<'a, ()>;

/// The events that a fault may lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loses {
    /// None that were confirmed.
    Nothing,
    /// Those that only Redis had: confirmed with `ack: APPLIED`, and not in SQL yet.
    WithRedis,
}

/// The scores that a fault may refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refuses {
    /// Any, with `UNAVAILABLE`.
    Any,
    /// None: ranks and submissions go on without SQL.
    Nothing,
}

/// The runs that a fault belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// `make test`, the soak, and the whole suite.
    Short,
    /// The soak and the whole suite.
    Soak,
    /// The whole suite alone.
    Whole,
    /// None, unless the fault is asked for by its whole name.
    Named,
}

/// A row of the table of faults.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    /// The fault in words, for the page on reliability.
    pub(crate) does: &'static str,
    pub(crate) shape: Shape,
    pub(crate) loses: Loses,
    pub(crate) refuses: Refuses,
    pub(crate) part: Part,
    pub(crate) inject: Inject,
}

impl Fault {
    /// A fault of processes on PostgreSQL and one Redis: it loses nothing, and may refuse any
    /// score.
    pub(crate) const fn lossless(
        name: &'static str,
        does: &'static str,
        part: Part,
        inject: Inject,
    ) -> Self {
        let (shape, loses, refuses) = (Shape::POSTGRES, Loses::Nothing, Refuses::Any);
        Self { name, does, shape, loses, refuses, part, inject }
    }

    /// One that refuses nothing either.
    pub(crate) const fn harmless(
        name: &'static str,
        does: &'static str,
        part: Part,
        inject: Inject,
    ) -> Self {
        Self { refuses: Refuses::Nothing, ..Self::lossless(name, does, part, inject) }
    }
}

/// Faults that befall MariaDB as well, and their names there.
const ON_MARIADB: [(&str, &str); 15] = [
    ("killed_process", "killed_process_on_mariadb"),
    ("killed_before_transaction", "killed_before_transaction_on_mariadb"),
    ("killed_in_transaction", "killed_in_transaction_on_mariadb"),
    ("killed_before_trim", "killed_before_trim_on_mariadb"),
    ("lost_transaction_reply", "lost_transaction_reply_on_mariadb"),
    ("absent_postgres", "absent_mariadb"),
    ("killed_postgres", "killed_mariadb"),
    ("stopped_postgres", "stopped_mariadb"),
    ("deadlock", "deadlock_on_mariadb"),
    ("slow_sql", "slow_mariadb"),
    ("frozen_sql", "frozen_mariadb"),
    ("half_open_sql", "half_open_mariadb"),
    ("lost_sql_replies", "lost_mariadb_replies"),
    ("reset_sql", "reset_mariadb"),
    ("cut_sql", "cut_mariadb"),
];

/// Faults on MariaDB, made of those on PostgreSQL.
fn on_mariadb(faults: &[Fault]) -> Vec<Fault> {
    let named = |name| faults.iter().find(|fault| fault.name == name);
    let fault = |(name, name_there)| {
        let fault = *named(name).unwrap_or_else(|| unreachable!("there is a fault {name}"));
        let does = fault.does.replace("PostgreSQL", "MariaDB").replace(" SQL", " MariaDB");
        let does = match does.contains("MariaDB") {
            true => does,
            false => format!("{does}, on MariaDB"),
        };
        let (shape, part) = (Shape::MARIADB, Part::Whole);
        Fault { name: name_there, does: does.leak(), shape, part, ..fault }
    };
    ON_MARIADB.into_iter().map(fault).collect()
}

/// Every fault, in the order of the table.
pub(crate) fn all() -> Vec<Fault> {
    let faults = [
        crate::process::FAULTS,
        crate::moments::FAULTS,
        crate::redis::FAULTS,
        crate::redis_data::FAULTS,
        crate::sql::FAULTS,
        crate::away::FAULTS,
        crate::sql_data::FAULTS,
        crate::network::FAULTS,
        crate::clock::FAULTS,
        crate::cluster::FAULTS,
    ]
    .concat();
    let on_mariadb = on_mariadb(&faults);
    [faults, on_mariadb].concat()
}
