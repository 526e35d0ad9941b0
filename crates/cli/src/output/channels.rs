//! The table of channels for people at the end of a transfer with several.
//! Measures nothing.

use godwit_api::event::Channel;
use godwit_api::units::{human_rate, human_size};

use godwit_api::shown::printable;

/// The table for people, a line for each channel.
pub(super) fn table(channels: &[Channel]) -> String {
    let lines: Vec<String> = channels.iter().map(line).collect();
    lines.join("\n")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates, and a rate is never negative"
)]
fn line(channel: &Channel) -> String {
    let rate = channel.bytes_per_second.unwrap_or_default() as u64;
    let mut line = format!(
        "channel {:<4}{}: {}, {}, round trip {:.1} ms",
        channel.number,
        printable(&channel.name),
        human_size(channel.bytes),
        human_rate(rate),
        channel.round_trip_seconds * 1_000.0
    );
    if channel.cuts > 0 {
        line.push_str(&format!(", {} streams cut off", channel.cuts));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_all_figures_of_a_channel() {
        let channel = Channel {
            number: 1,
            name: "eth1 (10.0.1.1) to 10.0.1.2".to_owned(),
            streams: 2,
            bytes: 3_000_000,
            bytes_per_second: Some(1_500_000.0),
            round_trip_seconds: 0.0123,
            resent_bytes: 0,
            cuts: 3,
        };
        assert_eq!(
            table(&[channel]),
            "channel 1   eth1 (10.0.1.1) to 10.0.1.2: 3.00 MB, 1.50 MB/s, round trip 12.3 ms, 3 streams cut off"
        );
    }
}
