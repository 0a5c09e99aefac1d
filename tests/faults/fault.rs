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

/// Every fault, in the order of the table.
pub(crate) fn all() -> Vec<Fault> {
    [
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
    .concat()
}
