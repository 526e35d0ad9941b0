//! Owns the tests of docs/tuning.md: its commands and options run at smaller sizes, and its figures are those of the program.
//! Judges no speed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::rig::Rig;

/// Each text of the page, and its replacement in this test.
const SMALLER: [(&str, &str); 3] = [
    ("10GiB", "3MiB"),
    ("-t 20", "-t 1"),
    ("1000000x8KiB", "4000x100"),
];

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn read(name: &str) -> String {
    fs::read_to_string(docs().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

struct Page {
    text: String,
    commands: Vec<String>,
}

impl Page {
    fn read() -> Self {
        let text = read("tuning.md");
        let lines = text.lines().filter_map(|line| line.strip_prefix("    "));
        let commands = lines.map(str::to_owned).collect();
        Self { text, commands }
    }
}

/// An iperf3 server for one test. The server ends with that test, or when dropped.
struct Iperf(Child);

impl Iperf {
    fn serve(host: &str) -> Self {
        let mut command = Command::new("iperf3");
        command.args(["-s", "-1", "-B", host]).stdout(Stdio::null());
        let server = command.spawn();
        let server = Self(server.expect("run it; scripts/setup.sh installs iperf3"));
        // iperf3 prints nothing when it is ready, and takes any connection for its client.
        let table = || fs::read_to_string("/proc/net/tcp").expect("the kernel tells");
        let [a, b, c, d] = host
            .parse::<std::net::Ipv4Addr>()
            .expect("an address")
            .octets();
        let listens = format!("{d:02X}{c:02X}{b:02X}{a:02X}:1451 00000000:0000 0A");
        let deadline = Instant::now() + Duration::from_secs(60);
        while !table().contains(&listens) {
            assert!(Instant::now() < deadline, "iperf3 does not listen");
            std::thread::yield_now();
        }
        server
    }
}

impl Drop for Iperf {
    fn drop(&mut self) {
        // The server may have ended with its test.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_command_of_the_page_does_what_it_says() {
    let page = Page::read();
    assert!(page.commands.len() >= 18, "{:?}", page.commands);
    let mut rig = Rig::new();
    rig.start(&["--encryption", "any"]);
    for number in 0..20 {
        rig.write(&format!("run42/raw/{number}.h5"), vec![number; 70_000]);
    }
    let (host, _) = rig.address().split_once(':').expect("host and port");
    for command in &page.commands {
        run(&rig, host, command);
    }
    let arrived = |name: &str| fs::read(rig.export.join(name)).expect("it arrived").len();
    assert_eq!(arrived("probe"), 3 << 20);
    assert_eq!(arrived("run42/raw/7.h5"), 70_000);
    assert_eq!(arrived("again/run42/raw/7.h5"), 70_000);
    assert_eq!(rig.read("probe").len(), 3 << 20);
    let small = fs::read_dir(rig.export.join("small")).expect("it arrived");
    assert!(small.count() > 0);
}

fn run(rig: &Rig, host: &str, command: &str) {
    let mut line = command.replace("godwit://dtn2/", &format!("godwit://{}/", rig.address()));
    line = line.replace("dtn2", host);
    for (there, here) in SMALLER {
        line = line.replace(there, here);
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["godwit", ref words @ ..] => {
            let outcome = rig.client(words);
            assert_eq!(outcome.code, Some(0), "{command}: {}", outcome.said());
        }
        ["iperf3", ref words @ ..] => {
            let _server = Iperf::serve(host);
            let output = Command::new("iperf3").args(words).output();
            let output = output.expect("it runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{command}: {said}");
        }
        _ => panic!("{command}: no test knows this command"),
    }
}

#[test]
fn the_fields_of_the_page_are_there() {
    let page = Page::read();
    let mut rig = Rig::new();
    rig.start(&[]);
    let outcome = rig.client(&[
        "cp",
        "--json",
        "mem:600MiB",
        &format!("godwit://{}/null:", rig.address()),
    ]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.said());
    let events: Vec<Value> = outcome
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let of = |kind: &str| events.iter().rfind(|event| event["event"] == kind);
    let watch = page
        .text
        .split("\n## ")
        .find(|part| part.starts_with("Watch"))
        .expect("a part about it");
    let (_, rest) = watch.split_once("`progress`").expect("progress first");
    let (progress, summary) = rest.split_once("`summary`").expect("then the summary");
    let check = |event: &Value, text: &str| {
        let names = text.split('`').skip(1).step_by(2);
        let mut count = 0;
        for name in names {
            assert!(event.get(name).is_some(), "no field {name} in {event}");
            count += 1;
        }
        assert!(count >= 5, "{text}");
    };
    check(of("summary").expect("a summary"), summary);
    // A fast machine may be done before the first of these.
    if let Some(event) = of("progress") {
        check(event, progress);
    }
}

#[test]
fn the_pictures_of_the_page_are_there_and_of_any_colour_scheme() {
    let page = Page::read();
    let pictures: Vec<&str> = page
        .text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter(|name| name.ends_with(".svg"))
        .collect();
    assert_eq!(pictures.len(), 4);
    for name in pictures {
        let picture = read(name);
        assert!(picture.contains("prefers-color-scheme:dark"), "{name}");
        assert!(picture.len() < 20_000, "{name} is large");
    }
}

#[test]
fn the_picture_of_processors_shows_the_rows_of_the_table() {
    let table = read("performance/results/full.tsv");
    let rows = ["memory-plain", "memory-tls", "forty-plain", "forty-tls"];
    let measured = rows.map(|case| {
        let lines = || table.lines().filter(|line| !line.starts_with('#'));
        let heads: Vec<&str> = lines().next().expect("heads").split('\t').collect();
        let row: Vec<&str> = lines()
            .map(|line| line.split('\t').collect::<Vec<_>>())
            .find(|row| row[0] == case && row[2] == "godwit")
            .expect(case);
        ["CPU s/GB source", "CPU s/GB destination"].map(|head| {
            let column = heads.iter().position(|found| *found == head);
            row[column.expect(head)].to_owned()
        })
    });
    let picture = read("how-fast/cpu.svg");
    let shown = picture
        .split('>')
        .filter_map(|text| text.split('<').next())
        .filter(|text| text.parse::<f64>().is_ok());
    let shown: Vec<&str> = shown.collect();
    assert_eq!(shown, measured.as_flattened());
}

#[test]
fn the_options_of_the_page_are_taken() {
    let page = Page::read();
    let part = part(&page.text, "Overrule");
    let options: Vec<&str> = code(part).filter(|code| code.starts_with("--")).collect();
    assert!(options.len() >= 10, "{options:?}");
    let rig = Rig::new();
    for option in options {
        let mut words = vec!["cp"];
        words.extend(option.split_whitespace());
        words.extend(["mem:1MiB", "null:"]);
        let outcome = rig.client(&words);
        assert_eq!(outcome.code, Some(0), "{option}: {}", outcome.said());
    }
}

/// The part of a page below the heading that begins so.
fn part<'a>(text: &'a str, heading: &str) -> &'a str {
    let of = |mark: &str| {
        text.split(mark)
            .find(|part| part.starts_with(heading))
            .map(|part| part.split("\n#").next().unwrap_or_default())
    };
    of("\n### ").or_else(|| of("\n## ")).expect(heading)
}

/// The texts between backquotes.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn the_parameters_of_the_page_are_those_of_the_tuner() {
    let page = Page::read();
    let rows = part(&page.text, "Parameters")
        .lines()
        .filter(|line| line.starts_with("| `"));
    let mut count = 0;
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let name = code(cells[1]).next().expect("a name");
        let (module, constant) = name.split_once("::").expect("module::CONSTANT");
        assert_eq!(figure(cells[2]), in_source(module, constant), "{name}");
        count += 1;
    }
    assert!(count >= 25, "{count} rows");
}

/// A figure of the page in seconds, or without a unit.
fn figure(shown: &str) -> f64 {
    let (number, unit) = shown.split_once(' ').unwrap_or((shown, ""));
    let number: f64 = number
        .parse()
        .unwrap_or_else(|_| panic!("{shown}: no figure"));
    match unit {
        "" | "s" => number,
        "ms" => number / 1e3,
        _ => panic!("{shown}: which unit?"),
    }
}

/// The value of a constant of the tuner, durations in seconds.
fn in_source(module: &str, constant: &str) -> f64 {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tuner/src");
    let paths = [format!("{module}.rs"), format!("streams/{module}.rs")];
    let mut paths = paths.iter().map(|path| directory.join(path));
    let path = paths.find(|path| path.is_file()).expect(module);
    let source = fs::read_to_string(path).expect("source of the tuner");
    let (_, rest) = source
        .split_once(&format!("const {constant}: "))
        .unwrap_or_else(|| panic!("no constant {constant} in {module}"));
    let (_, rest) = rest.split_once(" = ").expect("a value");
    let (value, _) = rest.split_once(';').expect("its end");
    let number = |text: &str| -> f64 {
        let text = text.trim_end_matches(')').replace('_', "");
        text.parse()
            .unwrap_or_else(|_| panic!("{constant}: {value}"))
    };
    if let Some(seconds) = value.strip_prefix("Duration::from_secs(") {
        number(seconds)
    } else if let Some(milliseconds) = value.strip_prefix("Duration::from_millis(") {
        number(milliseconds) / 1e3
    } else {
        number(value)
    }
}
