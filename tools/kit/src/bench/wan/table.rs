//! Owns the table of rows: long links, channels, the flows that share them, and the bars. Runs nothing.

use super::super::case::LineSpec;
use super::super::process::Side;
use super::row::{Cut, Flow, Judge, Net, Row, Turn, What, Who};

/// Duration of 4 GiB at 1 Gbit/s.
pub(crate) const SECONDS_DEFAULT: f64 = 34.4;
/// Bytes per second of 1 Gbit/s, including all headers.
const BYTES_PER_SECOND: f64 = 125e6;
const SMALL_BYTES: u64 = 64 << 10;
/// The kernel's default buffers, and buffers that are large enough for all of our links: sending, receiving.
const BUFFERS_DEFAULT: [u64; 2] = [4 << 20, 32 << 20];
const BUFFERS_LARGE: [u64; 2] = [256 << 20, 256 << 20];
/// Rate of the limited disk: 300 Mbit/s.
const DISK_BYTES_PER_SECOND: u64 = 37_500_000;

/// Rows that also run as a pull: a large file, losses, small buffers. In a pull the tuner uses the kernel data that the other end reports.
const PULLED: [&str; 3] = ["rtt-100-one", "loss-0.1-cubic", "buffers"];

/// All rows, with runs of about `seconds`.
pub(crate) fn rows(seconds: f64) -> Vec<Row> {
    let table = Table { seconds };
    let mut rows = table.distances();
    rows.extend(table.losses());
    rows.push(table.fast());
    rows.push(table.buffers());
    rows.extend(table.channels());
    rows.push(table.disk());
    rows.push(table.joins());
    rows.push(table.background());
    let pulled = |row: &&Row| PULLED.contains(&&*row.name);
    let pulls: Vec<Row> = rows
        .iter()
        .filter(pulled)
        .cloned()
        .map(Row::pulled)
        .collect();
    rows.extend(pulls);
    rows
}

struct Table {
    seconds: f64,
}

impl Table {
    /// RTT of 10 to 200 ms without loss: one large file, and many small files.
    fn distances(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for rtt_ms in [10, 50, 100, 200] {
            let bytes = whole(self.seconds * BYTES_PER_SECOND);
            let small = What::Files {
                files: (bytes / SMALL_BYTES).max(1),
                bytes: SMALL_BYTES,
            };
            for (name, what) in [("one", What::Files { files: 1, bytes }), ("small", small)] {
                let said = match what {
                    What::Files { files, .. } if files > 1 => format!("{files} × 64 KiB"),
                    _ => format!("1 × {}", super::super::case::size(bytes)),
                };
                rows.push(Row {
                    name: format!("rtt-{rtt_ms}-{name}"),
                    title: format!("{said}, {rtt_ms} ms, 1 Gbit/s"),
                    net: Net::Line(line(rtt_ms, "1Gbit")),
                    turns: self.beside(&[1, 4, 16], None, what, self.seconds * 10.0),
                    judge: Judge::Beside {
                        half_min: 0.95,
                        after: f64::max(3.0, 40.0 * f64::from(rtt_ms) / 1000.0),
                        after_min: Some(0.9),
                    },
                });
            }
        }
        rows
    }

    /// 50 ms with loss, and two congestion controls.
    fn losses(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (name, loss) in [("0.01", "0.01%"), ("0.1", "0.1%"), ("1", "1%")] {
            for congestion in ["cubic", "bbr"] {
                rows.push(Row {
                    name: format!("loss-{name}-{congestion}"),
                    title: format!("50 ms, 1 Gbit/s, {loss} lost, {congestion}"),
                    net: Net::Line(LineSpec {
                        loss: Some(loss),
                        // Packets must be lost individually.
                        offload: false,
                        ..line(50, "1Gbit")
                    }),
                    turns: self.beside(
                        &[1, 4, 16, 64],
                        Some(congestion),
                        What::Endless,
                        self.seconds,
                    ),
                    judge: Judge::Beside {
                        half_min: 0.9,
                        after: 3.0,
                        after_min: None,
                    },
                });
            }
        }
        rows
    }

    fn fast(&self) -> Row {
        Row {
            name: "fast".to_owned(),
            title: "150 ms, 5 Gbit/s".to_owned(),
            net: Net::Line(line(150, "5Gbit")),
            turns: self.beside(&[1, 4, 16, 64], None, What::Endless, self.seconds),
            judge: Judge::Beside {
                half_min: 0.9,
                after: 6.0,
                after_min: None,
            },
        }
    }

    /// A small `tcp_wmem` compared with a large one.
    fn buffers(&self) -> Row {
        let turn = |title: &str, buffers| Turn {
            buffer_bytes_max: Some(buffers),
            ..self.alone(title, What::Endless, &[])
        };
        Row {
            name: "buffers".to_owned(),
            title: "200 ms, 1 Gbit/s, tcp_wmem of 4 MiB beside 256 MiB".to_owned(),
            net: Net::Line(line(200, "1Gbit")),
            turns: vec![
                turn("godwit, 256 MiB", BUFFERS_LARGE),
                turn("godwit, 4 MiB", BUFFERS_DEFAULT),
            ],
            judge: Judge::Beside {
                half_min: 0.9,
                after: 8.0,
                after_min: None,
            },
        }
    }

    fn channels(&self) -> [Row; 3] {
        let row = |name: &str, title: &str, rates, cables, godwit: Turn, judge| {
            let flows = (0..cables).map(|cable| Flow {
                title: format!("iperf3, cable {cable}"),
                who: Who::Iperf {
                    streams: 1,
                    cable,
                    congestion: None,
                },
                from: 0.0,
                until: self.seconds,
            });
            let all = Turn {
                title: format!("{cables} × iperf3"),
                flows: flows.collect(),
                buffer_bytes_max: None,
                cut: None,
            };
            Row {
                name: name.to_owned(),
                title: title.to_owned(),
                net: Net::Cables(cables, rates),
                turns: vec![all, godwit],
                judge,
            }
        };
        let godwit = || self.alone("godwit", What::Endless, &[]);
        let cut = Turn {
            cut: Some(Cut {
                cable: 2,
                from: self.seconds / 3.0,
                until: self.seconds * 2.0 / 3.0,
            }),
            // The rate of three and two thirds of the four cables.
            ..self.alone(
                "godwit",
                What::Memory {
                    bytes: whole(self.seconds * BYTES_PER_SECOND * 1.8),
                },
                &[],
            )
        };
        [
            row(
                "channels",
                "four channels of 500 Mbit/s",
                "500mbit",
                4,
                godwit(),
                Judge::Together {
                    sum_min: 0.97,
                    uneven_max: Some(0.03),
                },
            ),
            row(
                "channel-cut",
                "four channels of 500 Mbit/s, one away for a third of the time",
                "500mbit",
                4,
                cut,
                Judge::Cut { kept_min: 0.95 },
            ),
            row(
                "unequal",
                "channels of 100, 500 and 900 Mbit/s",
                "100mbit,500mbit,900mbit",
                3,
                godwit(),
                Judge::Together {
                    sum_min: 0.95,
                    uneven_max: None,
                },
            ),
        ]
    }

    fn disk(&self) -> Row {
        let rate = DISK_BYTES_PER_SECOND;
        let what = What::SlowDisk {
            bytes: whole(self.seconds * 37.5e6),
            rate,
        };
        let mut turn = self.alone("godwit", what, &[]);
        turn.flows[0].until = self.seconds * 3.0;
        Row {
            name: "slow-disk".to_owned(),
            title: "50 ms, 1 Gbit/s, to a disk that takes 300 Mbit/s".to_owned(),
            net: Net::Line(line(50, "1Gbit")),
            turns: vec![turn],
            judge: Judge::Disk {
                streams_max: 2.0,
                memory_mib_max: 32.0,
            },
        }
    }

    fn joins(&self) -> Row {
        let at = self.seconds / 3.0;
        let mut both = self.alone("godwit twice", What::Endless, &[]);
        let mut second = both.flows[0].clone();
        "godwit, second".clone_into(&mut second.title);
        second.from = at;
        both.flows.push(second);
        Row {
            name: "joins".to_owned(),
            title: "50 ms, 1 Gbit/s, a second transfer joins".to_owned(),
            net: Net::Line(line(50, "1Gbit")),
            turns: vec![self.iperf(4, None), both],
            judge: Judge::Joins {
                at,
                uneven_max: 0.15,
                sum_min: 0.95,
            },
        }
    }

    fn background(&self) -> Row {
        let from = self.seconds / 3.0;
        let foreground = Flow {
            title: "iperf3 in front".to_owned(),
            who: Who::Iperf {
                // Enough streams to fill the link: one stream has windows for half of the link, and then no flow would have to reduce its
                // rate.
                streams: 4,
                cable: 0,
                congestion: None,
            },
            from,
            until: self.seconds,
        };
        let turn = |title: &str, flows| Turn {
            title: title.to_owned(),
            flows,
            buffer_bytes_max: None,
            cut: None,
        };
        let behind = self.alone("godwit", What::Endless, &["--priority", "background"]);
        let both = vec![behind.flows[0].clone(), foreground.clone()];
        Row {
            name: "background".to_owned(),
            title: "50 ms, 1 Gbit/s, iperf3 beside --priority background".to_owned(),
            net: Net::Line(line(50, "1Gbit")),
            turns: vec![
                turn("iperf3 alone", vec![foreground]),
                turn("iperf3 beside godwit", both),
            ],
            judge: Judge::Foreground {
                from: from + 2.0,
                kept_min: 0.9,
            },
        }
    }

    /// iperf3 with each number in `streams`, then Godwit.
    fn beside(
        &self,
        streams: &[u32],
        congestion: Option<&'static str>,
        what: What,
        until: f64,
    ) -> Vec<Turn> {
        let iperf = |&streams: &u32| self.iperf(streams, congestion);
        let mut turns: Vec<Turn> = streams.iter().map(iperf).collect();
        let options: &[&'static str] = match congestion {
            Some("cubic") => &["--congestion", "cubic"],
            Some(_) => &["--congestion", "bbr"],
            None => &[],
        };
        let mut godwit = self.alone("godwit", what, options);
        godwit.flows[0].until = until;
        turns.push(godwit);
        turns
    }

    fn iperf(&self, streams: u32, congestion: Option<&'static str>) -> Turn {
        let title = format!("iperf3 -P {streams}");
        Turn {
            flows: vec![Flow {
                title: title.clone(),
                who: Who::Iperf {
                    streams,
                    cable: 0,
                    congestion,
                },
                from: 0.0,
                until: self.seconds,
            }],
            title,
            buffer_bytes_max: None,
            cut: None,
        }
    }

    fn alone(&self, title: &str, what: What, options: &[&'static str]) -> Turn {
        Turn {
            title: title.to_owned(),
            flows: vec![Flow {
                title: title.to_owned(),
                who: Who::Godwit {
                    what,
                    client: Side::Source,
                    options: options.to_vec(),
                },
                from: 0.0,
                until: match what {
                    What::Memory { .. } => self.seconds * 4.0,
                    _ => self.seconds,
                },
            }],
            buffer_bytes_max: None,
            cut: None,
        }
    }
}

fn line(rtt_ms: u32, rate: &'static str) -> LineSpec {
    LineSpec {
        rtt_ms,
        rate: Some(rate),
        ..LineSpec::DIRECT
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes are positive and far below 2^52"
)]
fn whole(bytes: f64) -> u64 {
    (bytes as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_flows_end_after_they_began() {
        let rows = rows(6.0);
        for (index, row) in rows.iter().enumerate() {
            assert!(rows[..index].iter().all(|other| other.name != row.name));
            for flow in row.turns.iter().flat_map(|turn| &turn.flows) {
                assert!(flow.from < flow.until, "{}: {}", row.name, flow.title);
            }
        }
        assert!(rows.len() >= 20);
    }

    #[test]
    fn a_pull_is_its_push_but_for_the_end_that_the_client_is_at() {
        let rows = rows(6.0);
        let row = |name: &str| rows.iter().find(|row| row.name == name).expect("a row");
        for name in PULLED {
            let push = row(name);
            let mut pull = row(&format!("pull-{name}")).clone();
            let mut clients = 0;
            for flow in pull.turns.iter_mut().flat_map(|turn| &mut turn.flows) {
                if let Who::Godwit { client, .. } = &mut flow.who {
                    let at = std::mem::replace(client, Side::Source);
                    assert_eq!(at, Side::Destination, "{name}: {}", flow.title);
                    clients += 1;
                }
            }
            assert!(clients > 0, "{name}");
            pull.name.clone_from(&push.name);
            pull.title.clone_from(&push.title);
            assert_eq!(format!("{pull:?}"), format!("{push:?}"));
        }
        let pulls = rows.iter().filter(|row| row.name.starts_with("pull-"));
        assert_eq!(pulls.count(), PULLED.len());
    }
}
