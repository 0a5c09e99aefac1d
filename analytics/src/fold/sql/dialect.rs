//! The words in which engines differ.

use anyhow::{Result, ensure};

use crate::fold::plan::{EVENTS, PERIODS};

/// An engine's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Dialect {
    /// Apache Spark.
    Spark,
    /// Sail: Spark's words without the order of rows and without hints.
    Sail,
    /// DataFusion.
    Datafusion,
}

/// The tables of a plan, in an engine's words.
pub struct Tables {
    pub(super) dialect: Dialect,
    pub(super) events: String,
    pub(super) periods: String,
}

impl Tables {
    /// Those of the plan in a directory.
    ///
    /// # Errors
    /// If a statement cannot name the directory.
    pub fn new(dialect: Dialect, at: &str) -> Result<Self> {
        let at = at.trim_end_matches('/');
        let is_plain = !at.contains(['`', '\n', '*', '[', '{']);
        ensure!(
            is_plain && !at.is_empty(),
            "invalid directory {at:?}: expected one without backtick, star, brackets and line breaks"
        );
        let table = |path: &str, name: &str| match dialect {
            Dialect::Datafusion => name.to_owned(),
            _ => format!("parquet.`{at}/{path}`"),
        };
        Ok(Self { dialect, events: table(EVENTS, "events"), periods: table(PERIODS, "periods") })
    }

    /// The columns `kept` of a table, once for each item of a list that an expression gives.
    pub(super) fn exploded(&self, kept: &str, list: &str, name: &str, table: &str) -> String {
        match self.dialect {
            Dialect::Datafusion => format!("SELECT {kept}, unnest({list}) AS {name} FROM {table}"),
            _ => format!(
                "SELECT {kept}, {name} FROM {table} LATERAL VIEW explode({list}) x AS {name}"
            ),
        }
    }

    /// The whole numbers from 0 to below a count, as a list.
    pub(super) fn numbers(&self, count: u16) -> String {
        let last = count - 1;
        match self.dialect {
            Dialect::Datafusion => format!("generate_series(0, {last})"),
            _ => format!("sequence(0, {last})"),
        }
    }

    /// The quotient of two integers, of which neither is negative.
    pub(super) fn quotient(&self, number: &str, by: i64) -> String {
        match self.dialect {
            Dialect::Datafusion => format!("{number} / {by}"),
            _ => format!("{number} DIV {by}"),
        }
    }

    /// A field of the structure `state`.
    pub(super) fn field(&self, name: &str) -> String {
        match self.dialect {
            Dialect::Datafusion => format!("state['{name}']"),
            _ => format!("state.{name}"),
        }
    }

    /// Tells the engine that a table is small.
    pub(super) fn broadcast(&self, table: &str) -> String {
        match self.dialect {
            Dialect::Spark => format!("/*+ BROADCAST({table}) */ "),
            _ => String::new(),
        }
    }

    /// The end of a statement: rows by partition, in an order.
    pub(super) fn order(&self, columns: &str) -> String {
        match self.dialect {
            Dialect::Spark => format!("\nDISTRIBUTE BY partition SORT BY partition, {columns}"),
            _ => String::new(),
        }
    }
}
