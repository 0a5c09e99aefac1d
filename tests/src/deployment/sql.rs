//! The kinds of databases.

use std::fmt::Display;
use std::path::Path;

use crate::extent;
use crate::servers::{mariadb, postgres};

/// The kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sql {
    Sqlite,
    Postgres,
    Mariadb,
}

impl Sql {
    /// The databases that a test of all of them runs on: the one that `LAUREL_TEST_SQL` names, or
    /// else SQLite and PostgreSQL, and MariaDB if LAUREL_TEST_ALL is 1.
    pub fn all() -> Vec<Self> {
        match Self::named() {
            Some(named) => vec![named],
            None => [Self::Sqlite, Self::Postgres].into_iter().chain(Self::mariadb()).collect(),
        }
    }

    /// The database of a test for which any will do: SQLite, or the one that `LAUREL_TEST_SQL`
    /// names.
    pub fn any() -> Self {
        Self::named().unwrap_or(Self::Sqlite)
    }

    fn named() -> Option<Self> {
        match std::env::var("LAUREL_TEST_SQL").as_deref() {
            Err(_) => None,
            Ok("sqlite") => Some(Self::Sqlite),
            Ok("postgres") => Some(Self::Postgres),
            Ok("mariadb") => Some(Self::Mariadb),
            Ok(other) => panic!("LAUREL_TEST_SQL={other}: expected sqlite, postgres or mariadb"),
        }
    }

    /// As [`Self::all`], with what goes with SQLite, and with servers.
    pub fn all_with<T: Copy>([file, server]: [T; 2]) -> Vec<(Self, T)> {
        let with = |sql: Self| (sql, if sql == Self::Sqlite { file } else { server });
        Self::all().into_iter().map(with).collect()
    }

    /// MariaDB, if LAUREL_TEST_ALL is 1 or `LAUREL_TEST_SQL` names it; says otherwise that its test
    /// does not run.
    pub fn mariadb() -> Option<Self> {
        let runs = extent::is_all() || Self::named() == Some(Self::Mariadb);
        if !runs {
            println!("not on MariaDB: LAUREL_TEST_ALL=1 runs it");
        }
        runs.then_some(Self::Mariadb)
    }

    /// A table `n` of the numbers `i` from 1 on, for a FROM.
    pub fn numbers(self, count: impl Display) -> String {
        let select = match self {
            Self::Sqlite => format!(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) SELECT i FROM n"
            ),
            Self::Postgres => format!("SELECT generate_series(1, {count}) AS i"),
            Self::Mariadb => format!("SELECT CAST(seq AS SIGNED) AS i FROM seq_1_to_{count}"),
        };
        format!("({select}) AS n")
    }

    /// The URL of an empty database. A file of SQLite lies in the directory.
    pub async fn new_database(self, dir: &Path) -> String {
        match self {
            Self::Sqlite => format!("sqlite://{}?mode=rwc", dir.join("test.sqlite").display()),
            Self::Postgres => postgres::new_database().await,
            Self::Mariadb => mariadb::new_database().await,
        }
    }
}
