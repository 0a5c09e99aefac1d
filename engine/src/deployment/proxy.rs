//! A proxy in front of Redis, and a Redis that does not tell its run: the look at the start.

use entity::error::Result;
use entity::history::log_cursor;
use ranking::store::Store;
use ranking::store::server::run::Teller;
use sea_orm::DatabaseConnection;

/// Checks what stands between this process and Redis, and the operator's name for the run of Redis
/// if that counts.
///
/// # Errors
/// `Unavailable` if Redis does not answer, if a proxy keeps back what is needed, or for a name that
/// another run has followed.
pub(crate) async fn check(store: &Store, db: &DatabaseConnection) -> Result<()> {
    let teller = store.check_proxy().await?;
    let servers = store.addresses().join(", ");
    match (teller, store.run_name()) {
        (Teller::Operator, Some(name)) => {
            let cursors = log_cursor::all(db).await?;
            if let Some(cursor) = cursors.iter().find(|cursor| cursor.is_retired(name)) {
                return Err(former_name(name, &cursor.run_id).into());
            }
            tracing::warn!(
                "Redis at {servers} does not tell its run, so LAUREL_REDIS_RUN_ID names it ({name}): give it a new name whenever Redis restarts or fails over; nor does it tell its role, eviction policy and append-only file: expected a master, noeviction, appendonly yes"
            );
        }
        (Teller::Script, _) => tracing::info!(
            "Redis at {servers} is behind a proxy that keeps INFO back: scripts ask for its run with each request"
        ),
        _ => {}
    }
    if teller != Teller::Operator && store.run_name().is_some() {
        tracing::warn!(
            "LAUREL_REDIS_RUN_ID is ignored: Redis at {servers} tells its run; remove the setting"
        );
    }
    Ok(())
}

/// The error of a name for the run of Redis that was given up for another one.
pub(crate) fn former_name(name: &str, present: &str) -> ranking::Error {
    ranking::Error::Unavailable(format!(
        "invalid LAUREL_REDIS_RUN_ID {name}: Redis had this name in an earlier run, and {present} is the last one; expected the present name, or one that no run had before"
    ))
}
