//! Rows that only tell what happened go once they are old.

use sea_orm::{ConnectionTrait, Statement};

use tests::api::Api;
use tests::api::metrics::metrics_of;
use tests::clock::{DAY_MS, now_ms};
use tests::deployment::{Deployment, Redis, Sql};
use tests::wait::until;

/// The rows of each kind: more than one statement deletes.
const ROWS: i64 = 2500;

/// Writes rows of each kind: old ones, and some that stay.
async fn write_rows(deployment: &Deployment, sql: Sql, young: i64) {
    let db = deployment.sql().await;
    let execute = async |sql: String| {
        let statement = Statement::from_string(db.get_database_backend(), sql);
        db.execute_raw(statement).await.unwrap();
    };
    let numbers = sql.numbers(ROWS);
    let old = now_ms() - 100 * DAY_MS;
    for at in [old, young] {
        execute(format!(
            "INSERT INTO job (kind, state, progress, started_at_ms, finished_at_ms) SELECT 'SEAL', 'DONE', 1, {at}, {at} FROM {numbers}"
        ))
        .await;
    }
    execute(format!(
        "INSERT INTO job (kind, state, progress, started_at_ms, finished_at_ms) VALUES ('DIFF', 'FAILED', 1, {old}, {old})"
    ))
    .await;
    // Three runs: one clean, one that is neither the last nor clean, and the last.
    for found in [0, ROWS, 1] {
        execute(format!(
            "INSERT INTO integrity_run (started_at_ms, finished_at_ms, checked, found, repaired) VALUES ({old}, {old}, 1, {found}, 0)"
        ))
        .await;
    }
    let run = deployment.number("SELECT id FROM integrity_run WHERE found > 1").await;
    execute(format!(
        "INSERT INTO integrity_finding (run_id, finding_index, board_no, kind, place, member, \"window\", period, segment, repaired) SELECT {run}, i, 1, 'MISSING', 'ENTRY', 'm', 'all', 'all', '', 1 = 0 FROM {numbers}"
    ))
    .await;
    let older = now_ms() - 400 * DAY_MS;
    execute(format!(
        "INSERT INTO \"commit\" (\"partition\", seq, id, parent, accepted_at_ms, clock_ms, events, gone, version, random, leaves) VALUES (0, 1, 'x', 'y', {older}, {older}, 2, 2, 1, '', '')"
    ))
    .await;
    for (index, at) in [(0, older), (1, old)] {
        execute(format!(
            "INSERT INTO dead_letter (\"partition\", seq, event_index, payload, reason, state, created_at_ms) VALUES (0, 1, {index}, 'x', '', 'VOIDED', {at})"
        ))
        .await;
    }
    execute(format!(
        "INSERT INTO audit_log (at_ms, act, actor, outcome) SELECT {older}, 'x', 'y', 'DONE' FROM {numbers}"
    ))
    .await;
    execute(format!(
        "INSERT INTO source_position (board_no, layout_since, \"partition\", source, source_partition, position, moved_at_ms) SELECT 1, 1, 0, 's', i, '7.0', {older} - 86400000 FROM {numbers}"
    ))
    .await;
    execute(format!(
        "INSERT INTO source_position (board_no, layout_since, \"partition\", source, source_partition, position, moved_at_ms) VALUES (1, 1, 0, 't', 0, '7.0', {old})"
    ))
    .await;
    execute(format!(
        "INSERT INTO process (id, holder, host, pid, \"database\", place, started_at_ms, heartbeat_at_ms) VALUES ('x', '', '', 1, '', '', {old}, {old})"
    ))
    .await;
}

#[tokio::test]
async fn old_rows_go_in_small_statements_and_the_last_ones_stay() {
    for sql in Sql::all() {
        let deployment = Deployment::new(sql, Redis::Own).await;
        Api::start(&deployment).await.stop().await;
        let young = now_ms() - 80 * DAY_MS;
        write_rows(&deployment, sql, young).await;
        let api = Api::start(&deployment).await;
        let counts = [
            ("job", ROWS + 1, ROWS),
            ("integrity_run", 2, 1),
            ("integrity_finding", 0, ROWS),
            // They stay, without their content.
            ("dead_letter", 2, 1),
            ("process", 1, 1),
            // The token of this test is of today.
            ("audit_log", 1, ROWS),
            ("source_position", 1, ROWS),
        ];
        for (table, left, deleted) in counts {
            let select = format!("SELECT count(*) FROM {table}");
            until(table, async || (deployment.number(&select).await == left).then_some(())).await;
            until("the metric tells", async || {
                let name = format!("laurel_rows_deleted_total{{table=\"{table}\"}}");
                (metrics_of(&api).await[&name] == deleted as f64).then_some(())
            })
            .await;
        }
        let clean = "SELECT count(*) FROM integrity_run WHERE found = 0";
        assert_eq!(deployment.number(clean).await, 1);
        let young = format!("SELECT count(*) FROM job WHERE finished_at_ms = {young}");
        assert_eq!(deployment.number(&young).await, ROWS);
    }
}
