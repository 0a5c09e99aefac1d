//! The persister on each database, beside multi-row inserts of the rows that it wrote.
//!
//! The persister reads the log from Redis, chains commits and folds all-time rows. The inserts have
//! nothing to compute: they put equal rows into the same tables of another database of the same
//! server.

use std::time::Instant;

use entity::history::{commit, score_event};
use entity::sql::insert_chunked;
use entity::standings::standing;
use entity::{board, member};
use ranking::board::Board;
use ranking::id::MemberId;
use sea_orm::ActiveValue::NotSet;
use sea_orm::{
    ColumnTrait, DatabaseConnection, EntityTrait, IntoActiveModel, ModelTrait, QueryFilter,
    QueryOrder,
};

use crate::figures::Figures;
use crate::stores::Stores;
use crate::{RUNS, Scale};
use engine::settings::SqlSettings;
use tests::deployment::Sql;

/// The events of a run, and those of each of its members.
const EVENTS: usize = 20_000;
const EVENTS_OF_MEMBER: usize = 4;

/// The events of a commit.
const COMMITS_OF: [usize; 2] = [1, 100];

/// The events that a transaction of the inserts has, about as many as one of the persister's.
const EVENTS_AT_ONCE: usize = 5000;

/// The rows of a run.
pub(crate) struct Written {
    members: Vec<member::Model>,
    commits: Vec<commit::Model>,
    events: Vec<score_event::Model>,
    standings: Vec<standing::Model>,
}

/// Measures and adds the figures.
pub(crate) async fn measure(scale: Scale, figures: &mut Figures) {
    for sql in [Sql::Sqlite, Sql::Postgres, Sql::Mariadb] {
        let stores = Stores::open_on(sql, 1).await;
        let other = other_database(sql, &stores).await;
        let board = stores.create_board("b", &[]).await;
        copy_boards(&stores.deployment.db, &other).await;
        // The first run fills what is empty, and does not count.
        for run in 0..=RUNS {
            for of in COMMITS_OF {
                println!("persister on {sql:?}, commits of {of}, run {run}");
                let prefix = format!("r{run}-{of}-");
                let events = submit(&stores, &board, &prefix, scale.of(EVENTS, 1000), of).await;
                let began = Instant::now();
                stores.settle().await;
                let persisted = began.elapsed();
                let written = Written::of_members(&stores.deployment.db, &prefix).await;
                assert_eq!(written.events.len(), events);
                let began = Instant::now();
                written.insert(&other).await;
                let inserted = began.elapsed();
                if run == 0 {
                    continue;
                }
                let what = format!("events in commits of {of} that {sql:?} takes a second");
                for (side, took) in [("multi-row inserts", inserted), ("persister", persisted)] {
                    figures.add(&what, "", side, events as f64 / took.as_secs_f64());
                }
            }
        }
        stores.close().await;
    }
}

/// An empty database with the same tables.
pub(crate) async fn other_database(sql: Sql, stores: &Stores) -> DatabaseConnection {
    let dir = stores.dir().join("other");
    std::fs::create_dir(&dir).unwrap();
    let url = sql.new_database(&dir).await;
    SqlSettings::new(dir, Some(url)).create().await.unwrap()
}

/// Gives an empty database the boards of another one. It numbers them itself, from one on, and so
/// did the other one, in which none was deleted.
pub(crate) async fn copy_boards(from: &DatabaseConnection, to: &DatabaseConnection) {
    for row in board::Entity::find().order_by_asc(board::Column::No).all(from).await.unwrap() {
        let no = row.no;
        let mut row = row.into_active_model();
        row.no = NotSet;
        let copy = board::Entity::insert(row).exec_with_returning(to).await.unwrap();
        assert_eq!(copy.no, no);
    }
}

/// Puts events into the log, and returns how many.
async fn submit(stores: &Stores, board: &Board, prefix: &str, events: usize, of: usize) -> usize {
    let partition = stores.partition_of(board);
    let members = events / EVENTS_OF_MEMBER;
    let numbers: Vec<usize> = (0..members * EVENTS_OF_MEMBER).collect();
    for some in numbers.chunks(of) {
        let score = |number: &usize| {
            let member = MemberId::new(&format!("{prefix}{}", number % members)).unwrap();
            stores.score(board, &member, None)
        };
        stores.submit(partition, some.iter().map(score).collect()).await;
    }
    numbers.len()
}

impl Written {
    /// The rows of the members with this prefix.
    async fn of_members(db: &DatabaseConnection, prefix: &str) -> Self {
        let events = score_event::Column::Member.starts_with(prefix);
        let events = score_event::Entity::find().filter(events).all(db).await.unwrap();
        let seqs = events.iter().map(|event| event.seq);
        let (first, last) = (seqs.clone().min().unwrap(), seqs.max().unwrap());
        let commits = commit::Column::Seq.between(first, last);
        let standings = standing::Column::Member.starts_with(prefix);
        let members = member::Column::Key.starts_with(prefix);
        Self {
            members: member::Entity::find().filter(members).all(db).await.unwrap(),
            commits: commit::Entity::find().filter(commits).all(db).await.unwrap(),
            events,
            standings: standing::Entity::find().filter(standings).all(db).await.unwrap(),
        }
    }

    /// The rows of a board; all commits and members.
    pub(crate) async fn of_board(db: &DatabaseConnection, slug: &str) -> Self {
        let no = board::of_slug(db, slug).await.unwrap().unwrap().no;
        let events = score_event::Entity::find().filter(score_event::Column::BoardNo.eq(no));
        let standings = standing::Entity::find().filter(standing::Column::BoardNo.eq(no));
        Self {
            members: member::Entity::find().all(db).await.unwrap(),
            commits: commit::Entity::find().all(db).await.unwrap(),
            events: events.all(db).await.unwrap(),
            standings: standings.all(db).await.unwrap(),
        }
    }

    /// Inserts them in as many transactions as the persister would.
    pub(crate) async fn insert(self, db: &DatabaseConnection) {
        let parts = self.events.len().div_ceil(EVENTS_AT_ONCE);
        // Rows that others refer to go in first.
        insert_in_parts(db, self.members, 1).await;
        insert_in_parts(db, self.commits, 1).await;
        insert_in_parts(db, self.events, parts).await;
        insert_in_parts(db, self.standings, 1).await;
    }
}

/// Inserts rows of a table in so many transactions.
async fn insert_in_parts<M>(db: &DatabaseConnection, rows: Vec<M>, parts: usize)
where
    M: ModelTrait + IntoActiveModel<<M::Entity as EntityTrait>::ActiveModel>,
    <M::Entity as EntityTrait>::ActiveModel: Send,
{
    let of_part = rows.len().div_ceil(parts).max(1);
    let mut rows = rows.into_iter().map(IntoActiveModel::into_active_model).peekable();
    while rows.peek().is_some() {
        let part = rows.by_ref().take(of_part).collect();
        let transaction = entity::sql::begin(db).await.unwrap();
        insert_chunked::<M::Entity, _>(&transaction, part, None).await.unwrap();
        transaction.commit().await.unwrap();
    }
}
