//! Which process holds a job, so that others on its machine see at once when it is gone.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

/// The name of this process, and of no other one: where there is /proc, the boot, the namespace of process ids, its id in there, and when it
/// started; elsewhere a random one, of which only a lease can tell.
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

/// Whether the process of that name has certainly ended: it was on this machine, and is not there any more.
pub fn is_gone(holder: &str) -> bool {
    // Where others' processes are hidden, as with /proc's option hidepid, nothing can be said.
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

/// What has process ids of its own: a boot of a machine, and a container on it.
fn machine() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{}/{}", boot.trim(), namespace.to_str()?))
}

/// When a process started, in ticks since the boot; `None` where it has ended, also where nobody has asked for its status yet.
fn started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name comes before, in parentheses, and may hold anything. Then: the state, and 18 fields later the time.
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
        // Another process has its id by now.
        assert!(is_gone(&format!("{machine}/{}/1", std::process::id())));
    }

    #[test]
    fn of_other_machines_nothing_is_known() {
        for holder in ["", "x", "b/pid:[1]/1/1", "0123456789abcdef"] {
            assert!(!is_gone(holder), "{holder}");
        }
    }
}
