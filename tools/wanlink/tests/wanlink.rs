//! Owns the comparison of the emulator with measurements by ping, iperf3 and real sockets.
//! Does not test the model: its simulations are beside it.

#[path = "../../../crates/cli/tests/support/netns.rs"]
mod netns;

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::UdpSocket;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use netns::{LEFT, Netns, RIGHT, RIGHT_V6, WanLink, WanOptions, with_network};

#[test]
fn ping_takes_the_round_trip() {
    with_network("ping_takes_the_round_trip", || {
        for (offload, address) in [(false, RIGHT), (true, RIGHT_V6)] {
            let (left, right) = (Netns::new(), Netns::new());
            let options = WanOptions {
                rtt: "30ms",
                offload,
                ..WanOptions::default()
            };
            let link = WanLink::between(&left, &right, &options);
            let report = ping(&left, &["-c", "20", "-i", "0.02", address]);
            let [minimum, average, _] = round_trip_milliseconds(&report);
            // Never early; late only by the emulator's rounds. The least of twenty is free of the machine's other work.
            assert!((30.0..32.0).contains(&minimum), "{report}");
            assert!(average >= 30.0, "{report}");
            let [there, back] = link.finish();
            assert!(
                there.of("delivered") >= 20 && back.of("delivered") >= 20,
                "{there:?} {back:?}"
            );
        }
    });
}

#[test]
fn each_direction_loses_its_share() {
    with_network("each_direction_loses_its_share", || {
        let (left, right) = (Netns::new(), Netns::new());
        let options = WanOptions {
            rtt: "1ms",
            loss: "10%,20%",
            offload: false,
            ..WanOptions::default()
        };
        let link = WanLink::between(&left, &right, &options);
        let report = ping(&left, &["-c", "1000", "-i", "0.002", "-W", "1", RIGHT]);
        let [there, back] = link.finish();
        // Five standard deviations of a binomial: of 1000 packets 10 % are lost, and of the 900 replies 20 %.
        assert!(there.of("lost").abs_diff(100) < 48, "{there:?}");
        assert!(back.of("lost").abs_diff(180) < 60, "{back:?}");
        let answered = received(&report);
        // The kernels send a few packets of their own, to find neighbours and routers.
        let crossed = back.of("delivered");
        assert!(
            answered <= crossed && crossed - answered < 30,
            "{report} {back:?}"
        );
    });
}

#[test]
fn a_full_queue_drops_the_rest_of_a_burst() {
    with_network("a_full_queue_drops_the_rest_of_a_burst", || {
        let (left, right) = (Netns::new(), Netns::new());
        let options = WanOptions {
            rtt: "10ms",
            rate: "1Mbit",
            queue: Some("20kB"),
            offload: false,
            ..WanOptions::default()
        };
        let link = WanLink::between(&left, &right, &options);
        let receiver = right
            .enter(|| UdpSocket::bind((RIGHT, 0)))
            .expect("the address is there");
        receiver
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("it is not zero");
        let to = receiver.local_addr().expect("bound");
        left.enter(|| {
            let sender = UdpSocket::bind((LEFT, 0)).expect("the address is there");
            for number in 0..100_u8 {
                sender
                    .send_to(&[number; 972], to)
                    .expect("the device has room");
            }
        });
        // 20 packets of 1000 bytes fit the queue, less the kernels' packets that look for routers; the first ones stay first.
        let mut buffer = [0; 2000];
        for number in 0..18_u8 {
            let (bytes, _) = receiver.recv_from(&mut buffer).expect("it was accepted");
            assert_eq!((bytes, buffer[0]), (972, number));
        }
        let [there, _] = link.finish();
        // The link needs 8 ms for each packet. So the queue overflows even if a slow machine sends late.
        assert!(there.of("queue_full") > 0, "{there:?}");
        assert!(
            (18_000..=20_000).contains(&there.of("queue_bytes_max")),
            "{there:?}"
        );
    });
}

#[test]
fn tcp_never_exceeds_the_rate() {
    with_network("tcp_never_exceeds_the_rate", || check_rate(false));
}

#[test]
fn tcp_in_large_segments_never_exceeds_the_rate() {
    with_network("tcp_in_large_segments_never_exceeds_the_rate", || {
        check_rate(true)
    });
}

fn check_rate(offload: bool) {
    const RATE: f64 = 50e6;
    let (left, right) = (Netns::new(), Netns::new());
    let options = WanOptions {
        rtt: "10ms",
        rate: "50Mbit",
        queue: Some("256KiB"),
        offload,
        ..WanOptions::default()
    };
    let link = WanLink::between(&left, &right, &options);
    let server = Server::start(&right);
    let output = left
        .command("iperf3")
        .args(["--client", RIGHT, "--time", "2", "--omit", "1", "--json"])
        .output()
        .expect("iperf3 is installed");
    drop(server);
    let report = String::from_utf8_lossy(&output.stdout);
    let rate = received_bits_per_second(&report);
    // How near it comes depends on the machine; that the line itself loses nothing of its rate is tested without a clock.
    // The headers of large segments take no rate: hence the hundredth.
    assert!(rate > 0.0 && rate <= 1.01 * RATE, "{rate} bit/s");
    let [there, _] = link.finish();
    let mean = there.of("offered_bytes") / there.of("offered");
    assert_eq!(
        mean > 1500,
        offload,
        "segments larger than the MTU cross only as asked: {there:?}"
    );
}

/// An `iperf3` server that listens.
struct Server {
    child: Child,
    /// Kept open, so that the server can write. One test's report is far less than a pipe holds.
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start(inside: &Netns) -> Self {
        let mut child = inside
            .command("iperf3")
            .args(["--server", "--one-off", "--forceflush"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("iperf3 is installed");
        let stdout = child.stdout.take().expect("it was piped");
        let mut server = Self {
            child,
            output: BufReader::new(stdout),
        };
        let listens = server
            .output
            .by_ref()
            .lines()
            .any(|line| line.is_ok_and(|line| line.contains("listening")));
        assert!(listens, "iperf3 says that it listens");
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_missing_namespace_is_named() {
    let output = wanlink(&[
        "--left",
        "no-such-namespace:10.9.0.1/24",
        "--right",
        "nor-this:10.9.0.2/24",
    ]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("no network namespace at /run/netns/no-such-namespace"),
        "{message}"
    );
}

#[test]
fn the_end_of_the_input_removes_what_was_made() {
    with_network("the_end_of_the_input_removes_what_was_made", || {
        let [left, right] =
            ["left", "right"].map(|side| format!("wanlink-{}-{side}", std::process::id()));
        let [left_end, right_end] = [
            format!("{left}:10.9.0.1/24"),
            format!("{right}:10.9.0.2/24"),
        ];
        let output = wanlink(&["--make", "--left", &left_end, "--right", &right_end]);
        let report = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{output:?}");
        assert!(
            report.starts_with("ready\nleft-to-right offered="),
            "{report}"
        );
        for name in [left, right] {
            assert!(!std::path::Path::new("/run/netns").join(name).exists());
        }
    });
}

fn wanlink(arguments: &[&str]) -> Output {
    Command::new(netns::wanlink_binary())
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("wanlink was built")
}

fn ping(from: &Netns, arguments: &[&str]) -> String {
    let output = from
        .command("ping")
        .args(["-q", "-n"])
        .args(arguments)
        .output()
        .expect("ping is installed (Debian package iputils-ping)");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// From `rtt min/avg/max/mdev = 30.1/30.2/30.5/0.1 ms`.
fn round_trip_milliseconds(report: &str) -> [f64; 3] {
    let (_, figures) = report
        .split_once("mdev = ")
        .unwrap_or_else(|| panic!("no figures: {report}"));
    let mut figures = figures
        .split('/')
        .map(|figure| figure.parse().expect("a number"));
    [(); 3].map(|()| figures.next().expect("four figures"))
}

/// From `1000 packets transmitted, 720 received, 28% packet loss`.
fn received(report: &str) -> u64 {
    let (before, _) = report
        .split_once(" received")
        .unwrap_or_else(|| panic!("no count: {report}"));
    let (_, count) = before.rsplit_once(' ').expect("a count after a comma");
    count.parse().expect("a count")
}

/// From iperf3's JSON: the rate over the whole test, as the receiver saw it.
fn received_bits_per_second(report: &str) -> f64 {
    let figure = || {
        let (_, end) = report.split_once("\"sum_received\"")?;
        let (_, value) = end.split_once("\"bits_per_second\":")?;
        value.split(',').next()?.trim().parse().ok()
    };
    figure().unwrap_or_else(|| panic!("no rate: {report}"))
}
