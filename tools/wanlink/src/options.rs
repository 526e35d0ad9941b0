//! Owns the command line: its options, their defaults and their combined meaning.
//! Opens nothing.

use std::ffi::OsString;
use std::time::Duration;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use godwit_sys::tun::{DEVICE_NAME_BYTES_MAX, Offload};

use crate::endpoint::{DeviceConfig, Place};
use crate::line::{LineConfig, Loss, Rate};
use crate::units;

/// The user's request, resolved.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) places: [Place; 2],
    pub(crate) device: DeviceConfig,
    /// From left to right, from right to left.
    pub(crate) lines: [LineConfig; 2],
    pub(crate) make: bool,
    pub(crate) ready_fd: Option<u32>,
    pub(crate) stats: bool,
    pub(crate) ignore_stdin: bool,
}

impl Options {
    /// Reads the arguments, of which the first is the program's name.
    pub(crate) fn parse(
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, clap::Error> {
        let mut command = command();
        let matches = command.try_get_matches_from_mut(arguments)?;
        Self::resolve(&matches)
            .map_err(|message| command.error(clap::error::ErrorKind::ValueValidation, message))
    }

    fn resolve(matches: &ArgMatches) -> Result<Self, String> {
        let [left, right] = ["left", "right"].map(|side| {
            matches
                .get_one::<Place>(side)
                .cloned()
                .ok_or_else(|| format!("--{side} is missing"))
        });
        let offload = if one::<String>(matches, "offload")? == "on" {
            Offload::On
        } else {
            Offload::Off
        };
        let lines = [line(matches, 0)?, line(matches, 1)?];
        if lines
            .iter()
            .any(|line| line.held_bytes_max() > HELD_BYTES_LIMIT)
        {
            return Err(
                "rate, delay and queue together would hold more than 4 GiB of packets".to_owned(),
            );
        }
        Ok(Self {
            places: [left?, right?],
            device: DeviceConfig {
                name: one(matches, "device")?,
                mtu: one(matches, "mtu")?,
                offload,
            },
            lines,
            make: matches.get_flag("make"),
            ready_fd: matches.get_one("ready-fd").copied(),
            stats: matches.get_flag("stats"),
            ignore_stdin: matches.get_flag("ignore-stdin"),
        })
    }
}

fn line(matches: &ArgMatches, direction: usize) -> Result<LineConfig, String> {
    let round_trip: Duration = one(matches, "rtt")?;
    let rate = one::<Pair<Option<Rate>>>(matches, "rate")?.0[direction];
    let queue = matches
        .get_one::<Pair<u64>>("queue")
        .map(|pair| pair.0[direction]);
    let seed: u64 = one(matches, "seed")?;
    let direction_index = if direction == 0 { 0 } else { u64::MAX / 3 };
    Ok(LineConfig {
        rate,
        delay: round_trip / 2,
        loss: one::<Pair<Loss>>(matches, "loss")?.0[direction],
        queue_bytes: queue.unwrap_or_else(|| queue_default(rate, round_trip)),
        // Far apart, so that neighbouring seeds do not share sequences between directions.
        seed: seed ^ direction_index,
    })
}

/// The queue that one TCP connection needs to keep the bottleneck busy: bandwidth × round trip.
fn queue_default(rate: Option<Rate>, round_trip: Duration) -> u64 {
    rate.map_or(0, |rate| rate.bytes_in(round_trip))
        .max(QUEUE_BYTES_MIN)
}

fn one<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Result<T, String> {
    matches
        .get_one::<T>(name)
        .cloned()
        .ok_or_else(|| format!("--{name} is missing"))
}

/// One value for both directions, or `LEFT-TO-RIGHT,RIGHT-TO-LEFT`.
#[derive(Clone, Debug)]
struct Pair<T>([T; 2]);

fn pair<T: Clone + Send + Sync + 'static>(parse: fn(&str) -> Result<T, String>) -> ValueParser {
    ValueParser::new(move |text: &str| -> Result<Pair<T>, String> {
        let (first, second) = text.split_once(',').unwrap_or((text, text));
        Ok(Pair([parse(first)?, parse(second)?]))
    })
}

fn device_name(text: &str) -> Result<String, String> {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if text.is_empty() || text.len() > DEVICE_NAME_BYTES_MAX || !text.bytes().all(valid) {
        return Err("a device name is 1 to 15 letters, digits, `-` or `_`".to_owned());
    }
    Ok(text.to_owned())
}

fn command() -> Command {
    let option = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .action(ArgAction::SetTrue)
            .help(help)
    };
    let place = "NETNS:ADDR/PREFIX[,...]";
    Command::new("wanlink")
        .about("Connects two network namespaces by an emulated long line")
        .long_about(ABOUT)
        .arg(
            option(
                "left",
                place,
                "The left end: a namespace and its addresses there",
            )
            .required(true)
            .value_parser(value_parser!(Place)),
        )
        .arg(
            option("right", place, "The right end")
                .required(true)
                .value_parser(value_parser!(Place)),
        )
        .arg(
            option(
                "rtt",
                "TIME",
                "Round trip without queueing; half of it each way",
            )
            .default_value("50ms")
            .value_parser(units::parse_duration),
        )
        .arg(
            option("rate", "RATE[,RATE]", "Bottleneck in bits of IP packets")
                .default_value("unlimited")
                .value_parser(pair(units::parse_rate)),
        )
        .arg(
            option("loss", "SHARE[,SHARE]", "Chance of each packet to vanish")
                .default_value("0%")
                .value_parser(pair(units::parse_loss)),
        )
        .arg(
            option(
                "queue",
                "SIZE[,SIZE]",
                "Drop-tail queue before the bottleneck [default: rate × rtt, at least 128KiB]",
            )
            .value_parser(pair(units::parse_size)),
        )
        .arg(
            option("seed", "N", "Where the sequence of losses starts")
                .default_value("1")
                .value_parser(value_parser!(u64)),
        )
        .arg(
            option(
                "offload",
                "on|off",
                "Let segments of up to 64 KiB cross as one packet",
            )
            .default_value("off")
            .value_parser(["on", "off"]),
        )
        .arg(
            option("mtu", "BYTES", "Largest IP packet of the devices")
                .default_value("1500")
                .value_parser(value_parser!(u32).range(576..=65_535)),
        )
        .arg(
            option(
                "device",
                "NAME",
                "Name of the device, the same in both namespaces",
            )
            .default_value("wan0")
            .value_parser(device_name),
        )
        .arg(
            option(
                "ready-fd",
                "N",
                "Write `ready` to this descriptor instead of standard output",
            )
            .value_parser(value_parser!(u32)),
        )
        .arg(flag(
            "make",
            "Make both namespaces, and remove them at the end",
        ))
        .arg(flag(
            "stats",
            "Print the counters to standard error every second",
        ))
        .arg(flag(
            "ignore-stdin",
            "Go on when standard input closes; end by SIGTERM or SIGINT alone",
        ))
}

const ABOUT: &str = "\
Connects two network namespaces by an emulated long line: delay, a bottleneck behind a drop-tail queue, random loss.
It creates a TUN device in each, prints `ready`, and forwards until standard input closes or SIGTERM or SIGINT comes; then it prints its counters.

A packet is first lost or not by lot, then waits for the bottleneck, then travels half the round trip. The same seed loses the same packets of each direction, counted in the order in which they come. Two values with a comma between them are for left to right and right to left.

With --offload on, TCP segments of up to 64 KiB cross as one packet, as between virtual machines on one host. That costs far less processor time, but each counts as one packet: it is lost as a whole (the share of lost bytes stays, in fewer and larger gaps), it takes the queue as a whole, and the headers of the packets that it stands for take no rate. For studies of loss use --offload off.";
/// Two packets of 64 KiB: one in transmission, one waiting.
const QUEUE_BYTES_MIN: u64 = 128 << 10;
const HELD_BYTES_LIMIT: u64 = 4 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Options, clap::Error> {
        let ends = [
            "wanlink",
            "--left",
            "l:10.9.0.1/24",
            "--right",
            "r:10.9.0.2/24",
        ];
        Options::parse(
            ends.into_iter()
                .chain(words.split_whitespace())
                .map(OsString::from),
        )
    }

    #[test]
    fn the_command_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn the_queue_defaults_to_bandwidth_times_round_trip() {
        let options = parse("--rtt 50ms --rate 1Gbit,100Mbit").expect("valid");
        assert_eq!(options.lines[0].queue_bytes, 6_250_000);
        assert_eq!(options.lines[1].queue_bytes, 625_000);
        assert_eq!(options.lines[0].delay, Duration::from_millis(25));
        let options = parse("--rtt 0").expect("valid");
        assert_eq!(options.lines[0].queue_bytes, QUEUE_BYTES_MIN);
    }

    #[test]
    fn directions_draw_different_lots() {
        let options = parse("--seed 7").expect("valid");
        assert_ne!(options.lines[0].seed, options.lines[1].seed);
    }

    #[test]
    fn impossible_options_are_refused() {
        for words in [
            "--rate 400Gbit --rtt 1s",
            "--loss 200%",
            "--rtt 50",
            "--mtu 100",
            "--device a/b",
            "--offload maybe",
        ] {
            let error = parse(words).expect_err(words);
            assert_eq!(error.exit_code(), 2, "{words}");
        }
    }
}
