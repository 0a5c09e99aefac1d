//! The acts of operators at a command line, for the audit log.

use std::fmt::Display;
use std::fs;

use entity::audit::{Act, Actor};
use entity::deployment::clock::Clock;
use entity::error::Result;
use sea_orm::DatabaseConnection;

/// The act of a command, such as `laurel token create`, by the machine's user who runs it.
pub fn of_command(command: &str, clock: &Clock) -> Act {
    let actor = Actor { id: format!("user:{}@{}", user(), host()), name: None };
    Act::new(command, actor, clock.now_ms())
}

/// The act of a command, whose row is written before it begins.
#[derive(Debug)]
pub struct Begun {
    db: DatabaseConnection,
    act: Act,
    no: i64,
}

impl Begun {
    /// Writes the row of an act that is about to begin.
    ///
    /// # Errors
    /// If SQL fails; the act must not begin then.
    pub async fn new(db: &DatabaseConnection, act: Act) -> Result<Self> {
        let no = act.write_begun(db).await?;
        Ok(Self { db: db.clone(), act, no })
    }

    /// Completes the row. If SQL fails, it stays as it is, which the log tells.
    pub async fn finish<T, E: Display>(self, done: &std::result::Result<T, E>) {
        let error = done.as_ref().err().map(|error| format!("{error:#}"));
        let done = error.as_deref().map_or(Ok(()), Err);
        if let Err(error) = self.act.finish(&self.db, self.no, done).await {
            tracing::warn!(no = self.no, %error, "the outcome of an act is not in the audit log");
        }
    }
}

/// The name of the machine.
pub(crate) fn host() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match host.trim() {
        "" => "an unknown host".to_owned(),
        host => host.to_owned(),
    }
}

/// The name of the user of this process, or its number where /etc/passwd has no name for it.
fn user() -> String {
    let number = rustix::process::geteuid().as_raw().to_string();
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    named(&users, &number).unwrap_or(number)
}

/// The name that a number has in a list in the form of /etc/passwd.
fn named(users: &str, number: &str) -> Option<String> {
    let name = |line: &str| {
        let mut fields = line.split(':');
        let (name, _, of) = (fields.next()?, fields.next()?, fields.next()?);
        (of == number).then(|| name.to_owned())
    };
    users.lines().find_map(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_the_name_of_its_number() {
        let users = "root:x:0:0:root:/root:/bin/bash\n# none\nann:x:1000:0:0:/:/bin/sh\n";
        assert_eq!(named(users, "0").as_deref(), Some("root"));
        assert_eq!(named(users, "1000").as_deref(), Some("ann"));
        assert_eq!(named(users, "1"), None);
    }
}
