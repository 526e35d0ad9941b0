//! Owns the test of docs/several-sites.md, docs/flow.md and docs/buffer.md: their commands run, in order, at a node with a buffer that knows three sites.
//! Looks at exit codes and the ends of jobs. Other tests look at the data.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use super::rig::Rig;
use super::sites::{DEADLINE, allow, fill, know, wait_for};

/// The pages, and the least number of commands in each.
const PAGES: [(&str, usize); 3] = [("several-sites.md", 7), ("flow.md", 3), ("buffer.md", 5)];

/// Sites of the pages, and the sites that play them.
const PLAYED: [(&str, &str); 3] = [
    ("telescope:", "siteB:"),
    ("centre:", "siteC:"),
    ("partners:", "siteD:"),
];

/// The job of the pages.
const JOB: &str = "2zq";

/// The commands in the code blocks of a page, each as the words behind the name of the program, with the places of the test.
fn commands(name: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = fs::read_to_string(path.join(name)).expect("the page");
    let lines = page
        .lines()
        .filter_map(|line| line.strip_prefix("    godwit "));
    let line = |line: &str| {
        let line = line.split(" #").next().unwrap_or_default();
        line.split_whitespace().map(place).collect()
    };
    lines.map(line).collect()
}

/// A word without quotation marks. Each path of a site is below its export.
fn place(word: &str) -> String {
    let mut word = word.trim_matches('\'').to_owned();
    for (site, by) in PLAYED {
        word = word.replace(site, by);
    }
    word.replace(":/", ":/data/")
        .replace(":/data/data/", ":/data/")
}

/// A node with a buffer and data that has not changed for an hour, and three sites that it may read from and write to.
fn world() -> (Rig, [Rig; 3]) {
    let mut here = Rig::new();
    let flash = here.path("flash").to_str().expect("text").to_owned();
    here.serve(&["--buffer-path", &flash, "--buffer-bytes", "48MiB"]);
    let sites = ["siteB", "siteC", "siteD"].map(|name| {
        let mut site = Rig::new();
        site.serve(&[]);
        allow(&site, &here.identity, &["--read", "--write"]);
        know(&here, name, &site);
        site.write(&format!("export/raw/of-{name}"), name);
        for directory in ["archive", "in"] {
            site.make_dirs(&format!("export/{directory}"));
        }
        site
    });
    fill(&here, 3, 20_000);
    here.write("export/raw/early", "early");
    for directory in ["archive", "merged"] {
        here.make_dirs(&format!("export/{directory}"));
    }
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    for n in 0..3 {
        let path = here.export.join(format!("run42/d{n}/f{n}"));
        let file = File::options().write(true).open(path).expect("opened");
        file.set_modified(hour_ago).expect("a time");
    }
    (here, sites)
}

/// Runs a command; its output. All nodes know flows a moment after their start.
#[track_caller]
fn done(here: &Rig, words: &[String]) -> String {
    let until = Instant::now() + DEADLINE;
    loop {
        let outcome = here.admin(words);
        if outcome.code == Some(0) {
            return outcome.out;
        }
        let is_early = outcome.complaint.contains("cluster is at level");
        assert!(is_early && Instant::now() < until, "{words:?}: {outcome:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn the_commands_of_the_pages_on_distribution_do_what_they_say() {
    let (here, _sites) = world();
    let mut job = String::new();
    for (page, at_least) in PAGES {
        let commands = commands(page);
        assert!(commands.len() >= at_least, "{page}: {commands:?}");
        for mut words in commands {
            for word in words.iter_mut().filter(|word| word.as_str() == JOB) {
                word.clone_from(&job);
            }
            let begin: Vec<&str> = words.iter().take(2).map(String::as_str).collect();
            if begin == ["flow", "add"] {
                // The pages use one name for flows between different places.
                here.admin(&["flow", "remove", words[2].as_str()]);
            }
            let out = done(&here, &words);
            if begin == ["job", "submit"] || begin == ["buffer", "warm"] {
                out.trim().clone_into(&mut job);
                let ended = wait_for(&here, &job, |job| !job["ended"].is_null());
                assert_eq!(ended["state"], "complete", "{words:?}: {ended}");
            }
        }
    }
    let top = here.admin(&["top", "--once"]).out;
    assert!(top.contains("night") && top.contains("buffer: "), "{top}");
}
