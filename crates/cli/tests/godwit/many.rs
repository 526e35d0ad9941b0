//! Tests that a transfer of many files shows how many it has found so far, and their rate, on a terminal of any width.
//! Does not measure the rate.

use rustix::process::Signal;

use super::outage::wait_for_event;
use super::process::wait_until;
use super::rig::Rig;
use super::terminal::Terminal;

/// More files than may be unanswered or unsent at one time (`engine::limits`), so the scan must wait.
const FILES: u64 = 80_000;

/// So slow that the scan is still running when the test looks.
const SLOWLY: [&str; 2] = ["--limit", "100KB"];

fn make(rig: &Rig, place: &str) {
    for directory in 0..FILES / 1_000 {
        let below = rig.path(format!("{place}/{directory}"));
        std::fs::create_dir_all(&below).expect("made");
        for file in 0..1_000 {
            std::fs::write(below.join(file.to_string()), [7; 100]).expect("written");
        }
    }
    rig.own();
}

#[test]
fn while_it_scans_it_says_so_with_the_files_found_so_far() {
    let mut rig = Rig::new();
    rig.start(&[]);
    make(&rig, "export/many");
    for line in [
        ["export/many/.".to_owned(), rig.url("pushed")],
        [rig.url("many/."), "pulled".to_owned()],
        ["export/many/.".to_owned(), "copied".to_owned()],
    ] {
        let words = line.each_ref().map(String::as_str);
        let mut client = rig.begin_cp(&rig.path(""), &[&SLOWLY[..], &words].concat());
        let (_, event) = wait_for_event(&client, 0, |event| {
            event["event"] == "progress"
                && event["files_total"].as_u64() > Some(10_000)
                && event["files_per_second"].as_f64() > Some(0.0)
        });
        assert_eq!(event["scanning"], true, "{line:?}: {event}");
        assert!(event["bytes_total"].is_null(), "{line:?}: {event}");
        assert!(event["files_total"].as_u64() < Some(FILES), "{event}");
        client.signal(Signal::INT);
        client.wait().expect(5, "interrupted");
        let outcome = rig.cp(&words);
        let (files, skipped) = (outcome.number("files"), outcome.number("skipped"));
        assert_eq!(files + skipped, FILES, "{line:?}: {}", outcome.said());
        let events = outcome.complete().events();
        let last = events
            .iter()
            .rfind(|event| event["event"] == "progress")
            .expect("progress is told");
        assert_eq!(last["scanning"], false, "{line:?}: {last}");
        assert_eq!(last["files_total"], FILES, "{line:?}: {last}");
        assert_eq!(last["files"], files, "{line:?}: {last}");
    }
}

#[test]
fn both_lines_fit_the_terminal() {
    let mut rig = Rig::new();
    rig.start(&[]);
    make(&rig, "many");
    for columns in [80, 60, 30] {
        let mut command = rig.client_command();
        let url = rig.url(&format!("to{columns}"));
        command.args(["cp", SLOWLY[0], SLOWLY[1], "many", &url]);
        command.current_dir(rig.path(""));
        let terminal = Terminal::start(&mut command, columns);
        let drawn = wait_until(|| {
            let screen = terminal.screen();
            let [.., first, second, name] = &screen[..] else {
                return None;
            };
            let is_name = name.split('/').all(|part| part.parse::<u64>().is_ok());
            let rate = columns < 60 || second.contains("files/s");
            // The first line is drawn before anything is known.
            let reported = first.contains(" kB") && second.starts_with("scanning, ");
            (reported && rate && is_name).then(|| second.clone())
        });
        // A line that is too long for a row would wrap into the next one.
        let second = drawn.unwrap_or_else(|| panic!("{columns}: {:#?}", terminal.screen()));
        // The cut is between words, and every number has its unit.
        if let Some(whole) = second.strip_suffix(" …") {
            let last = whole.rsplit(' ').next().unwrap_or_default();
            let words = "scanning files so far files/s streams limited by --limit sent of kB/s";
            let words: Vec<&str> = words.split(' ').collect();
            assert!(words.contains(&last), "{columns}: {second}");
        } else {
            assert!(second.ends_with("streams"), "{columns}: {second}");
        }
    }
}
