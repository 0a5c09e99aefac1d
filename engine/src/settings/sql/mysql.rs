//! The settings of MariaDB or MySQL that Laurel cannot make for its own sessions.

use std::collections::BTreeMap;

use entity::error::Result;
use entity::sql::dialect::statement;
use ranking::Error;
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend};

/// The least `max_allowed_packet`, in bytes.
const PACKET_BYTES_MIN: u64 = 16 << 20;

/// The first versions with all that Laurel's statements need.
const MARIADB_MIN: [u32; 3] = [10, 6, 0];
const MYSQL_MIN: [u32; 3] = [8, 0, 17];

/// The variables that are looked at.
const VARIABLES: &str = "SHOW VARIABLES WHERE Variable_name IN \
    ('version', 'max_allowed_packet', 'log_bin', 'binlog_format')";

/// Checks a server, where it is one of these.
///
/// # Errors
/// `Invalid` with the setting that does not fit, and one that does.
pub(super) async fn check(db: &DatabaseConnection) -> Result<()> {
    if db.get_database_backend() != DbBackend::MySql {
        return Ok(());
    }
    let rows = db.query_all_raw(statement(DbBackend::MySql, VARIABLES, [])).await?;
    let variables: BTreeMap<String, String> = rows
        .iter()
        .map(|row| Ok((row.try_get_by_index(0)?, row.try_get_by_index(1)?)))
        .collect::<std::result::Result<_, sea_orm::DbErr>>()?;
    match fault(&variables) {
        Some(fault) => Err(Error::Invalid(fault).into()),
        None => Ok(()),
    }
}

/// The first variable that does not fit, in words. One that a server does not have, or that cannot
/// be read, is passed over.
fn fault(variables: &BTreeMap<String, String>) -> Option<String> {
    let variable = |name: &str| variables.get(name).map(String::as_str);
    let version = variable("version").unwrap_or_default();
    let least = if version.contains("MariaDB") { MARIADB_MIN } else { MYSQL_MIN };
    if numbers(version).is_some_and(|numbers| numbers < least) {
        return Some(format!(
            "the database server has version {version}: expected MariaDB 10.6 or MySQL 8.0.17, or a later one"
        ));
    }
    let packet = variable("max_allowed_packet").and_then(|bytes| bytes.parse::<u64>().ok());
    if let Some(bytes) = packet.filter(|bytes| *bytes < PACKET_BYTES_MIN) {
        return Some(format!(
            "the database server has max_allowed_packet = {bytes}: expected {PACKET_BYTES_MIN} at least, by SET GLOBAL max_allowed_packet = {PACKET_BYTES_MIN} and in its configuration"
        ));
    }
    if variable("log_bin") == Some("ON") && variable("binlog_format") == Some("STATEMENT") {
        return Some(
            "the database server has binlog_format = STATEMENT: expected MIXED or ROW, by SET GLOBAL binlog_format = MIXED and in its configuration"
                .to_owned(),
        );
    }
    None
}

/// The three numbers at the beginning of a version.
fn numbers(version: &str) -> Option<[u32; 3]> {
    let digits = version.split(|character: char| !character.is_ascii_digit());
    let numbers: Vec<u32> = digits.take(3).map_while(|digits| digits.parse().ok()).collect();
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault_of(changed: &[(&str, &str)]) -> Option<String> {
        let usual = [
            ("version", "10.11.14-MariaDB-0+deb12u2-log"),
            ("max_allowed_packet", "16777216"),
            ("log_bin", "ON"),
            ("binlog_format", "MIXED"),
        ];
        let all = usual.iter().chain(changed);
        fault(&all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn a_server_that_does_not_fit_is_told_what_does() {
        for fits in [
            [].as_slice(),
            &[("version", "8.0.17")],
            &[("version", "8.4.6-commercial")],
            &[("version", "10.6.0-MariaDB")],
            &[("version", "12.0.2-MariaDB")],
            &[("version", "unknown")],
            &[("log_bin", "OFF"), ("binlog_format", "STATEMENT")],
            &[("max_allowed_packet", "1073741824")],
        ] {
            assert_eq!(fault_of(fits), None, "{fits:?}");
        }
        for (wrong, told) in [
            (("version", "10.5.29-MariaDB"), "expected MariaDB 10.6"),
            (("version", "8.0.16"), "or MySQL 8.0.17"),
            (("version", "5.7.44-log"), "has version 5.7.44-log"),
            (("max_allowed_packet", "16777215"), "expected 16777216 at least"),
            (("binlog_format", "STATEMENT"), "expected MIXED or ROW"),
        ] {
            let fault = fault_of(&[wrong]).unwrap();
            assert!(fault.contains(told), "{wrong:?}: {fault}");
        }
    }
}
