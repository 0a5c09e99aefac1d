//! The judgement: what is wrong with a server, a clock or SQL, each in one sentence.

use entity::history::dead_letter::State;
use ranking::store::server::health::ServerHealth;

use super::{Check, Warning};

/// The largest difference of two clocks that is not told, in milliseconds.
const CLOCKS_DIFFER_MS_MAX: i64 = 1000;

const HOUR_MS: i64 = 3_600_000;

/// How far the clock of a partition may be ahead before it is told, in milliseconds.
const EVENT_IDS_AHEAD_MS_MAX: i64 = HOUR_MS;

/// The warnings about a server.
pub(super) fn judge(server: &ServerHealth) -> Vec<Warning> {
    let at = &server.address;
    let mut warnings = vec![];
    let mut warn = |check, is_grave, text: String| {
        warnings.push(Warning { check, at: at.clone(), is_grave, text });
    };
    // In a cluster, a replica redirects each command to its master.
    if let Some(master) = server.replica_of.as_ref().filter(|_| !server.is_in_cluster) {
        warn(
            Check::Role,
            true,
            format!(
                "Redis at {at} is a replica of {master} and takes no writes: expected a master; name {master} in LAUREL_REDIS_URL, or promote this server by REPLICAOF NO ONE"
            ),
        );
    }
    if let Some(policy) = server.eviction_policy.as_ref().filter(|policy| *policy != "noeviction") {
        warn(
            Check::EvictionPolicy,
            true,
            format!(
                "invalid eviction policy {policy} of Redis at {at}, which drops entries when memory is short: expected noeviction; run CONFIG SET maxmemory-policy noeviction, and set it in the server's configuration"
            ),
        );
    }
    let lost = volatile(server);
    if let Some(why) = lost {
        let replicas = match server.replicas {
            0 => String::new(),
            count => format!(", and one that comes back empty empties its replicas ({count})"),
        };
        warn(
            Check::Persistence,
            false,
            format!(
                "Redis at {at} {why}, so its crash loses scores that SQL does not have yet{replicas}: expected appendonly yes and appendfsync everysec; set them, or LAUREL_REDIS_ALLOW_VOLATILE=true if that may be lost"
            ),
        );
    }
    if server.append_failed {
        warn(
            Check::AppendOnlyFile,
            false,
            format!(
                "Redis at {at} cannot write its append-only file and refuses writes: expected room on its disk; make some, and it goes on by itself"
            ),
        );
    }
    if server.expires_lazily == Some(false) {
        warn(
            Check::Expiry,
            false,
            format!(
                "Redis at {at} stops for as long as it frees expired event ids (lazyfree-lazy-expire no): expected yes; run CONFIG SET lazyfree-lazy-expire yes, and set it in the server's configuration"
            ),
        );
    }
    warnings
}

/// Why a crash of a server loses what it has confirmed; `None` if it does not, or hides it.
fn volatile(server: &ServerHealth) -> Option<&'static str> {
    if server.appends == Some(false) {
        return Some("keeps no append-only file (appendonly no)");
    }
    let fsync = server.append_fsync.as_deref()?;
    (fsync == "no").then_some(
        "leaves it to the system when its append-only file reaches the disk (appendfsync no)",
    )
}

/// Entries that a server evicted; `is_seen` if this process saw it.
pub(super) fn of_eviction(at: &str, is_seen: bool) -> Warning {
    let text = format!(
        "Redis at {at} evicted keys, so its standings may lack entries: expected none; set maxmemory-policy noeviction, then run `laurel diff --repair`, which loads them again from SQL"
    );
    Warning { check: Check::Eviction, at: at.to_owned(), is_grave: is_seen, text }
}

/// A clock that was read between two instants of this process' clock, all in Unix milliseconds.
pub(super) fn of_clock(place: &str, now_ms: i64, begin_ms: i64, end_ms: i64) -> Option<Warning> {
    let (ahead_ms, behind_ms) = (now_ms - end_ms, begin_ms - now_ms);
    let (differ_ms, side) = match ahead_ms > behind_ms {
        true => (ahead_ms, "ahead of"),
        false => (behind_ms, "behind"),
    };
    (differ_ms > CLOCKS_DIFFER_MS_MAX).then(|| Warning {
        check: Check::Clock,
        at: place.to_owned(),
        is_grave: false,
        text: format!(
            "the clock of {place} is {} s {side} that of this process: expected at most {} s; synchronize both, such as by NTP",
            differ_ms / 1000,
            CLOCKS_DIFFER_MS_MAX / 1000
        ),
    })
}

/// The clocks of all partitions, in order. One that is ahead stands until that time has come.
pub(super) fn of_heads(
    clocks: impl Iterator<Item = i64>,
    now_ms: i64,
    window_ms: i64,
) -> Option<Warning> {
    let ahead = clocks.map(|clock_ms| clock_ms - now_ms).enumerate();
    let ahead: Vec<_> = ahead.filter(|(_, ahead_ms)| *ahead_ms > EVENT_IDS_AHEAD_MS_MAX).collect();
    let &(partition, ahead_ms) = ahead.iter().max_by_key(|(_, ahead_ms)| *ahead_ms)?;
    let known_ms = (window_ms - ahead_ms).max(0);
    Some(Warning {
        check: Check::Clock,
        at: format!("partition {partition}"),
        is_grave: false,
        text: format!(
            "the clock of event ids is {} h ahead in {} of the partitions, such as {partition}, as that of Redis once was: expected at most 1 h; it stands until that time has come, and an event that was accepted before the jump and over {} h ago counts twice if its client sends it again; let clients stop such retries, and synchronize the clock of Redis, such as by NTP",
            ahead_ms / HOUR_MS,
            ahead.len(),
            known_ms / HOUR_MS
        ),
    })
}

/// Events that SQL refused, by their state.
pub(super) fn of_dead_letters(counts: &[(State, i64)]) -> Option<Warning> {
    let of = |state: State| -> i64 {
        counts.iter().filter(|(of, _)| *of == state).map(|(_, count)| *count).sum()
    };
    let (pending, voided) = (of(State::Pending), of(State::Voided));
    (pending + voided > 0).then(|| Warning {
        check: Check::DeadLetters,
        at: "SQL".to_owned(),
        is_grave: false,
        text: format!(
            "SQL refused {} events in the last 24 hours, of which {pending} still count in Redis: expected none; read the column reason of the table dead_letter, and let their clients send them again once the cause is gone",
            pending + voided
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> ServerHealth {
        ServerHealth {
            address: "a:1".to_owned(),
            appends: Some(true),
            append_fsync: Some("everysec".to_owned()),
            eviction_policy: Some("noeviction".to_owned()),
            expires_lazily: Some(true),
            tells_config: true,
            ..ServerHealth::default()
        }
    }

    fn checks(server: &ServerHealth) -> Vec<Check> {
        judge(server).into_iter().map(|warning| warning.check).collect()
    }

    #[test]
    fn a_sound_server_and_one_that_hides_everything_are_not_warned_of() {
        assert!(checks(&sound()).is_empty());
        assert!(checks(&ServerHealth::default()).is_empty());
    }

    #[test]
    fn each_fault_of_a_server_is_one_sentence() {
        let master = || Some("b:2".to_owned());
        let text = |text: &str| Some(text.to_owned());
        let cases = [
            (ServerHealth { replica_of: master(), ..sound() }, Check::Role),
            (
                ServerHealth { eviction_policy: text("allkeys-lru"), ..sound() },
                Check::EvictionPolicy,
            ),
            (ServerHealth { appends: Some(false), ..sound() }, Check::Persistence),
            (ServerHealth { append_fsync: text("no"), ..sound() }, Check::Persistence),
            (ServerHealth { append_failed: true, ..sound() }, Check::AppendOnlyFile),
            (ServerHealth { expires_lazily: Some(false), ..sound() }, Check::Expiry),
        ];
        for (server, check) in cases {
            let warnings = judge(&server);
            assert_eq!(checks(&server), [check]);
            let text = &warnings[0].text;
            assert!(text.contains("a:1") && text.contains("expected"), "{text}");
        }
        let replica = ServerHealth { replica_of: master(), is_in_cluster: true, ..sound() };
        assert!(checks(&replica).is_empty());
        let with_replicas = ServerHealth { appends: Some(false), replicas: 2, ..sound() };
        assert!(judge(&with_replicas)[0].text.contains("empties its replicas (2)"));
    }

    #[test]
    fn a_clock_differs_only_beyond_the_time_that_the_question_took() {
        assert_eq!(of_clock("SQL", 9_500, 10_000, 10_001), None);
        assert_eq!(of_clock("SQL", 14_000, 10_000, 14_000), None);
        let ahead = of_clock("SQL", 13_500, 10_000, 10_500).unwrap();
        assert!(ahead.text.contains("3 s ahead of"), "{ahead}");
        let behind = of_clock("SQL", 5_000, 10_000, 10_500).unwrap();
        assert!(behind.text.contains("5 s behind"), "{behind}");
    }

    #[test]
    fn partitions_whose_clock_is_ahead_are_told_with_the_ids_that_count_no_longer() {
        let (now_ms, window_ms) = (1000 * HOUR_MS, 168 * HOUR_MS);
        let told = |clocks: &[i64]| of_heads(clocks.iter().copied(), now_ms, window_ms);
        assert_eq!(told(&[]), None);
        assert_eq!(told(&[0, now_ms - 1, now_ms + HOUR_MS]), None);
        let day = told(&[now_ms, now_ms + 24 * HOUR_MS, now_ms + 2 * HOUR_MS]).unwrap();
        assert_eq!(day.at, "partition 1");
        for part in ["24 h ahead in 2 of the partitions", "over 144 h ago", "expected"] {
            assert!(day.text.contains(part), "{day}");
        }
        let year = told(&[now_ms + 9000 * HOUR_MS]).unwrap();
        assert!(year.text.contains("9000 h ahead") && year.text.contains("over 0 h"), "{year}");
    }

    #[test]
    fn refused_events_are_counted_by_their_state() {
        assert_eq!(of_dead_letters(&[]), None);
        let told = of_dead_letters(&[(State::Pending, 2), (State::Voided, 3)]).unwrap();
        assert!(told.text.contains("refused 5 events") && told.text.contains("2 still"), "{told}");
    }
}
