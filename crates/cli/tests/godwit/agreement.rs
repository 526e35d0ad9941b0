//! Tests that the advice of a transfer and the findings of `godwit doctor` do not contradict each other on the same path.
//! Checks neither alone: `doctor` and `named` do.

use serde_json::Value;

use super::doctor::Found;
use super::netns::{Netns, RIGHT, WanLink, WanOptions, with_network};
use super::rig::Rig;

/// The kernel setting that both would name for small buffers.
const MEND: &str = "net.ipv4.tcp_wmem";

/// The bottleneck of a transfer from memory, and the finding of doctor for the same direction.
fn said(rig: &Rig, bytes: &str) -> (Value, Value) {
    let null = format!("godwit://{}/null:", rig.address());
    // With a fixed number of streams, because the tuner would add streams instead of giving advice.
    let summary = rig.cp(&["--streams", "4", bytes, &null]);
    let summary = summary.complete().summary();
    let found = Found::of(&rig.client(&["doctor", "--json", &rig.url("")]));
    found.is_fine();
    (summary, found.object["sending"].clone())
}

fn names_the_mend(text: &Value) -> bool {
    text.as_str().is_some_and(|text| text.contains(MEND))
}

#[test]
fn a_transfer_and_doctor_name_the_same_buffers_or_none() {
    with_network(
        "godwit::agreement::a_transfer_and_doctor_name_the_same_buffers_or_none",
        || {
            let (left, right) = (Netns::new(), Netns::new());
            let options = WanOptions {
                rtt: "100ms",
                ..WanOptions::default()
            };
            let _link = WanLink::between(&left, &right, &options);
            let mut rig = Rig::new();
            rig.wrap_client(left.wrapper());
            rig.wrap_daemon(right.wrapper());
            rig.listen(&format!("{RIGHT}:0"));
            // Set before the daemon starts, which reads them then.
            for side in [&left, &right] {
                side.set("net/ipv4/tcp_rmem", "4096 4194304 67108864");
            }
            left.set("net/ipv4/tcp_wmem", "4096 16384 16384");
            rig.start(&[]);
            let (summary, sending) = said(&rig, "mem:2MiB");
            assert_eq!(summary["bottleneck"], "network", "{summary}");
            let advice = &summary["bottleneck_evidence"]["advice"];
            assert!(names_the_mend(advice), "{summary}");
            assert_eq!(sending["name"], "buffers", "{sending}");
            assert!(names_the_mend(&sending["mend"]), "{sending}");

            left.set("net/ipv4/tcp_wmem", "4096 4194304 67108864");
            let (summary, sending) = said(&rig, "mem:64MiB");
            let advice = &summary["bottleneck_evidence"]["advice"];
            assert!(!names_the_mend(advice), "{summary}");
            assert!(!names_the_mend(&sending["mend"]), "{sending}");
        },
    );
}
