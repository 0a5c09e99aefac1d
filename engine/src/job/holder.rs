//! The name of the process that holds a job, so that others on its machine see at once when it is
//! gone.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

/// A unique name of this process. With /proc: the boot id, the namespace of process ids, the
/// process id, and its start time. Without: a random name, which only the lease can declare dead.
static OWN: LazyLock<String> = LazyLock::new(|| {
    let pid = std::process::id();
    match (machine(), started(pid)) {
        (Some(machine), Some(started)) => format!("{machine}/{pid}/{started}"),
        _ => entity::random_id(),
    }
});

/// The name of this process.
pub fn own() -> &'static str {
    &OWN
}

/// True if the named process has certainly ended: it was on this machine and is no longer there.
pub fn is_gone(holder: &str) -> bool {
    // If /proc hides the processes of others (option hidepid), nothing can be said.
    if !Path::new("/proc/1/stat").exists() {
        return false;
    }
    let mut parts = holder.rsplitn(3, '/');
    let (Some(then), Some(Ok(pid)), Some(its_machine)) =
        (parts.next(), parts.next().map(str::parse), parts.next())
    else {
        return false;
    };
    machine().as_deref() == Some(its_machine) && started(pid).as_deref() != Some(then)
}

/// The scope of process ids: a boot of a machine, and a container on it.
fn machine() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{}/{}", boot.trim(), namespace.to_str()?))
}

/// The start of a process in ticks since the boot; `None` if it has ended, even if its parent has
/// not yet collected its status.
fn started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name stands in parentheses and may hold anything. After it come the state, and
    // 18 fields later the start time.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let has_ended = matches!(*fields.first()?, "Z" | "X");
    (!has_ended).then(|| fields.get(19).map(|&started| started.to_owned()))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_is_gone_when_it_has_ended_and_not_before() {
        assert!(!is_gone(own()));
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let machine = machine().unwrap();
        let name = format!("{machine}/{}/{}", child.id(), started(child.id()).unwrap());
        assert!(!is_gone(&name));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_gone(&name));
        // A process that has the same id but started at another time.
        assert!(is_gone(&format!("{machine}/{}/1", std::process::id())));
    }

    #[test]
    fn of_other_machines_nothing_is_known() {
        for holder in ["", "x", "b/pid:[1]/1/1", "0123456789abcdef"] {
            assert!(!is_gone(holder), "{holder}");
        }
    }
}
