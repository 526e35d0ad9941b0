//! Owns the observations of a running turn from outside: the sender's connections and round trips, the bytes of each device, and the
//! memory of processes. Works in the same way for all programs. Starts no programs except `ss`.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use super::super::process::{Process, Side, kernel};
use super::series::Series;

/// Observations of one program, over time.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub(super) struct Seen {
    /// Number of connections.
    pub(super) streams: Vec<(f64, f64)>,
    /// The mean of the connections' smoothed round trips, in milliseconds.
    pub(super) rtt_ms: Vec<(f64, f64)>,
    /// Resident memory of the end with the larger one, in MiB.
    pub(super) memory_mib: Vec<(f64, f64)>,
}

/// Connections at one time, by their ports at either end: their round trips in milliseconds.
pub(super) type Connections = BTreeMap<(Side, u16), Vec<f64>>;

/// Reads the list of connections from `ss`, which is prepared to run at the sending end.
pub(super) fn connections(mut ss: Command) -> Connections {
    ss.args(["-tinHO", "state", "established"]);
    // A failed observation only leaves a gap in a picture.
    let output = ss.output().map(|output| output.stdout).unwrap_or_default();
    parse(&String::from_utf8_lossy(&output))
}

fn parse(text: &str) -> Connections {
    let mut connections = Connections::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let ends = [Side::Source, Side::Destination].into_iter();
        // The local address precedes the peer's address, and both follow the queue lengths.
        let ports: Vec<(Side, u16)> = ends
            .zip(words.by_ref().skip(2))
            .filter_map(|(end, address)| Some((end, address.rsplit_once(':')?.1.parse().ok()?)))
            .collect();
        let rtt = words.find_map(|word| word.strip_prefix("rtt:")?.split('/').next()?.parse().ok());
        if let Some(rtt) = rtt {
            for port in ports {
                connections.entry(port).or_default().push(rtt);
            }
        }
    }
    connections
}

impl Seen {
    /// Adds one observation.
    #[expect(clippy::cast_precision_loss, reason = "figures for a picture")]
    pub(super) fn add(&mut self, seconds: f64, rtts: &[f64], ends: &[&Process]) {
        let count = rtts.len() as f64;
        self.streams.push((seconds, count));
        if count > 0.0 {
            self.rtt_ms
                .push((seconds, rtts.iter().sum::<f64>() / count));
        }
        let memory = ends.iter().filter_map(|end| kernel::rss(end.id())).max();
        self.memory_mib
            .extend(memory.map(|bytes| (seconds, bytes as f64 / f64::from(1 << 20))));
    }
}

/// Adds the bytes that each device with this name prefix has sent, in the namespace of process `pid`.
pub(super) fn devices(pid: u32, prefix: &str, seconds: f64, sent: &mut BTreeMap<String, Series>) {
    let table = fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap_or_default();
    for (name, bytes) in parse_devices(&table) {
        if name.starts_with(prefix) {
            sent.entry(name.to_owned()).or_default().add(seconds, bytes);
        }
    }
}

fn parse_devices(table: &str) -> impl Iterator<Item = (&str, f64)> {
    table.lines().filter_map(|line| {
        let (name, counters) = line.split_once(':')?;
        // Eight counters of received data precede those of sent data.
        let sent = counters.split_whitespace().nth(8)?.parse().ok()?;
        Some((name.trim(), sent))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_distinguished_by_the_port_of_the_server_at_either_end() {
        let text = "0 0 10.77.0.1:41000 10.77.0.2:5201 bbr wscale:9,9 rto:300 rtt:50.1/0.2 mss:1448\n\
                    0 9 10.77.0.1:41002 10.77.0.2:5201 bbr rtt:60.1/0.2 x\n\
                    0 0 [fd00::1]:3 [fd00::2]:7 cubic rtt:1/0.5\nnonsense\n";
        let connections = parse(text);
        let of = |side, port| connections.get(&(side, port)).cloned();
        assert_eq!(of(Side::Destination, 5201), Some(vec![50.1, 60.1]));
        assert_eq!(of(Side::Destination, 7), Some(vec![1.0]));
        assert_eq!(of(Side::Source, 41002), Some(vec![60.1]));
        assert_eq!(of(Side::Source, 5201), None);
        assert_eq!(connections.len(), 5);
    }

    #[test]
    fn devices_tell_what_they_sent() {
        let table = "Inter-|   Receive |  Transmit\n face |bytes packets|bytes\n    \
                     lo: 1 2 3 4 5 6 7 8 9 10\ncable0: 11 2 3 4 5 6 7 8 77 10 11\n";
        let devices: Vec<_> = parse_devices(table).collect();
        assert_eq!(devices, [("lo", 9.0), ("cable0", 77.0)]);
    }

    #[test]
    fn the_real_ss_is_understood() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listen");
        let address = listener.local_addr().expect("its address");
        let _connection = std::net::TcpStream::connect(address).expect("dial");
        let seen = connections(Command::new("ss"));
        for end in [Side::Source, Side::Destination] {
            assert_eq!(seen.get(&(end, address.port())).map(Vec::len), Some(1));
        }
    }
}
