//! Owns the kernel's data about other processes: their descendants, memory, time and sockets.
//! Changes nothing about them.

use std::fs;

/// Whether a socket listens at `port` in the namespace of process `pid`.
pub(super) fn listens(pid: u32, port: u16) -> bool {
    let found = |name| {
        let table = fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
        listens_in(&table, port)
    };
    found("tcp") || found("tcp6")
}

fn listens_in(table: &str, port: u16) -> bool {
    let port = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().is_some_and(|local| local.ends_with(&port));
        // The state 0A means a listening socket.
        local && fields.nth(1) == Some("0A")
    })
}

/// A process and all its descendants, as far as the kernel knows.
pub(super) fn family(pid: u32) -> Vec<u32> {
    let mut members = vec![pid];
    let mut next = 0;
    while let Some(&parent) = members.get(next) {
        next += 1;
        let listed = format!("/proc/{parent}/task/{parent}/children");
        let children = fs::read_to_string(listed).unwrap_or_default();
        members.extend(
            children
                .split_whitespace()
                .filter_map(|child| child.parse::<u32>().ok()),
        );
    }
    members
}

pub(super) fn peak_rss(pid: u32) -> Option<u64> {
    memory(pid, "VmHWM:")
}

/// Resident memory of a process, in bytes.
pub(crate) fn rss(pid: u32) -> Option<u64> {
    memory(pid, "VmRSS:")
}

fn memory(pid: u32, what: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(what))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// User and system time of a process, including the children that it has waited for.
pub(crate) fn cpu_ticks(pid: u32) -> Option<u64> {
    parse_cpu_ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_cpu_ticks(stat: &str) -> Option<u64> {
    // The name, in parentheses, may have any characters; the fields after it begin with number 3.
    let fields = &stat[stat.rfind(')')? + 1..];
    let times: Vec<u64> = fields
        .split_whitespace()
        .skip(11)
        .take(4)
        .map_while(|field| field.parse().ok())
        .collect();
    (times.len() == 4).then(|| times.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_stand_behind_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 5 6";
        assert_eq!(parse_cpu_ticks(stat), Some(100));
        assert_eq!(parse_cpu_ticks("7 (a) S 1 2"), None);
        assert_eq!(parse_cpu_ticks(""), None);
    }

    #[test]
    fn listeners_are_seen_and_connections_are_not_taken_for_them() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listen");
        let port = listener.local_addr().expect("its address").port();
        assert!(listens(std::process::id(), port));
        let table =
            "  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 01 0\n";
        assert!(!listens_in(table, 8080));
        assert!(listens_in(&table.replace(" 01 ", " 0A "), 8080));
    }

    #[test]
    fn our_own_memory_is_known() {
        assert!(peak_rss(std::process::id()).is_some_and(|bytes| bytes > 1 << 16));
    }
}
