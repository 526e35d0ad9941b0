//! Kills of each site of a job at seeded moments, with pause and cancel in between. After the end no site writes, and nothing remains.
//! See `kills` and `third` for named single cases. `GODWIT_KILLS` sets how many kills each of them has.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use godwit_store::TempName;
use rustix::process::Signal;

use super::super::judge::{
    assert_identical_to_rsync, assert_no_temporaries, files_below, is_temporary, names,
};
use super::super::rig::Rig;
use super::third::{Three, rules};
use super::{DEADLINE, fill, job, submit, two_sites, wait_for};

/// Nodes of two or three sites; the first one is asked.
pub(super) struct Sites {
    pub(super) rigs: Vec<Rig>,
    pub(super) source: usize,
    pub(super) destination: usize,
    pub(super) from: &'static str,
    pub(super) to: &'static str,
    pub(super) seed: u64,
}

impl Sites {
    pub(super) fn third() -> Self {
        let three = Three::new();
        let rigs = vec![three.asked, three.source, three.destination];
        Self::of(rigs, (1, 2), "siteS:/data/run42", "siteD:/data/copy/")
    }

    pub(super) fn push() -> Self {
        let (here, there) = two_sites();
        Self::of(
            vec![here, there],
            (0, 1),
            "here:/data/run42",
            "siteB:/data/copy/",
        )
    }

    pub(super) fn pull() -> Self {
        let (here, there) = two_sites();
        Self::of(
            vec![here, there],
            (1, 0),
            "siteB:/data/run42",
            "here:/data/copy/",
        )
    }

    fn of(rigs: Vec<Rig>, ends: (usize, usize), from: &'static str, to: &'static str) -> Self {
        let (source, destination) = ends;
        let seed = std::env::var("GODWIT_SEED")
            .ok()
            .and_then(|text| text.parse().ok());
        let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
        say(&format!("seed {seed}"));
        // The copy goes into an existing directory, so a second copy would have another name.
        fs::create_dir(rigs[destination].export.join("copy")).expect("made");
        Self {
            rigs,
            source,
            destination,
            from,
            to,
            seed,
        }
    }

    pub(super) fn draw(&mut self, below: u64) -> u64 {
        // The numbers of Knuth's MMIX.
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    pub(super) fn rest(&mut self, below: u64) {
        let millis = self.draw(below);
        std::thread::sleep(Duration::from_millis(millis));
    }

    /// Kills one of the nodes for a moment.
    fn kill(&mut self) {
        let which = usize::try_from(self.draw(self.rigs.len() as u64)).expect("small");
        say(&format!("kill {which}"));
        self.rigs[which].kill_daemon();
        self.rest(400);
        self.rigs[which].serve(&[]);
    }

    pub(super) fn copy(&self) -> PathBuf {
        self.rigs[self.destination].export.join("copy")
    }

    /// The copy is complete and quiet: a user's edits stay, nothing came twice, and no temporary file remains.
    #[track_caller]
    pub(super) fn assert_arrived_once(&self, id: &str) {
        // A user works with the arrived data.
        let edited = self.copy().join("run42/d0/f0");
        let content = fs::read(&edited).expect("it arrived");
        fs::write(&edited, "edited").expect("written");
        self.assert_quiet(id);
        assert_eq!(fs::read(&edited).expect("there"), b"edited");
        fs::write(&edited, content).expect("written");
        let source = self.rigs[self.source].export.join("run42");
        assert_identical_to_rsync("-rlpH", &source, &self.copy().join("run42"));
        assert_eq!(names(&self.copy()), ["run42"], "it arrived once");
        assert_no_temporaries(&self.rigs[self.destination].export);
        for rig in &self.rigs {
            let list = rig.admin(&["job", "list", "--all", "--json"]).out;
            assert!(list.lines().count() < 2, "one job at each site: {list}");
        }
    }

    /// Waits until no site has a right for a job, or a job that has not ended. From then on nothing changes.
    #[track_caller]
    pub(super) fn assert_quiet(&self, id: &str) {
        let until = Instant::now() + DEADLINE;
        loop {
            let left: usize = self.rigs.iter().map(rules).sum();
            let unended: usize = self.rigs.iter().map(unended).sum();
            if left + unended == 0 {
                break;
            }
            let now = job(&self.rigs[0], id);
            assert!(
                Instant::now() < until,
                "{left} rights and {unended} jobs stay: {now:?}"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        let before = state_of(&self.copy());
        std::thread::sleep(Duration::from_millis(1_500));
        let after = state_of(&self.copy());
        let named = |state: &[(PathBuf, Vec<u8>)]| {
            state
                .iter()
                .map(|(file, content)| (file.clone(), content.len()))
                .collect::<Vec<_>>()
        };
        let (was, is) = (named(&before), named(&after));
        assert!(after == before, "something writes: {was:?}, then {is:?}");
    }
}

/// The parameters that repeat a failed run.
#[expect(
    clippy::print_stdout,
    reason = "the test harness shows it where a test fails"
)]
pub(super) fn say(text: &str) {
    println!("{text}");
}

/// Jobs of a node that have not ended.
fn unended(rig: &Rig) -> usize {
    let list = rig.admin(&["job", "list", "--all", "--json"]).out;
    let jobs = list.lines().map(serde_json::from_str::<serde_json::Value>);
    let jobs = jobs.map(|job| job.expect("a document"));
    jobs.filter(|job| job["ended"].is_null()).count()
}

/// Whether this is the mark of a claim on one of the paths that a job claims. The mark is removed when its site is reached
/// again, or by `clean`.
fn is_mark(file: &Path) -> bool {
    let of = |path: &[u8]| TempName::of_member(0, path, b"mark").to_string();
    // The first half of a name belongs to the claim.
    let purposes = [of(b"copy"), of(b"copy/run42")].map(|name| name[24..].to_owned());
    let name = file.to_string_lossy();
    is_temporary(file) && purposes.iter().any(|purpose| name.ends_with(purpose))
}

/// Names and contents below a directory, without the marks of claims.
pub(super) fn state_of(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = files_below(directory);
    files.retain(|file| !is_mark(file));
    files.sort();
    let read = |file: PathBuf| {
        // A file may go away between the two calls.
        let content = fs::read(directory.join(&file)).unwrap_or_default();
        (file, content)
    };
    files.into_iter().map(read).collect()
}

/// The whole course of one job.
fn ends_once(mut sites: Sites, divide: &str) {
    let kills: u64 = std::env::var("GODWIT_KILLS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(3);
    fill(&sites.rigs[sites.source], 30, 100_000);
    // Slow enough to last for all kills.
    let limit = format!("{}KB/s", 3_000 / (3 * kills + 4) + 1);
    let line = ["--divide", divide, "--limit", &limit];
    let id = submit(&sites.rigs[0], sites.from, sites.to, &line);
    let change = |sites: &Sites, verb: &str| sites.rigs[0].admin(&["job", verb, &id]);
    for _ in 0..kills {
        sites.rest(700);
        if sites.draw(3) == 0 {
            change(&sites, "pause");
            sites.kill();
            change(&sites, "resume");
        } else {
            sites.kill();
        }
    }
    // The other site may be away when the user cancels the job.
    let away = 1 + usize::try_from(sites.draw(sites.rigs.len() as u64 - 1)).expect("small");
    sites.rigs[away].end_daemon(Signal::KILL);
    change(&sites, "cancel");
    sites.rest(300);
    sites.rigs[away].serve(&[]);
    sites.assert_quiet(&id);
    let given_up = job(&sites.rigs[0], &id).expect("it is there");
    if given_up["state"] != "complete" {
        assert_eq!(given_up["state"], "cancelled", "{given_up}");
        let outcome = change(&sites, "retry");
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        sites.rest(500);
        sites.kill();
        // A job that is through takes no other limit.
        sites.rigs[0].admin(&["job", "limit", &id, "none"]);
    }
    let ended = wait_for(&sites.rigs[0], &id, |job| !job["ended"].is_null());
    let log = sites.rigs[0].admin(&["job", "log", &id]).out;
    assert_eq!(ended["state"], "complete", "{ended}\n{log}");
    sites.assert_arrived_once(&id);
}

#[test]
fn a_job_of_a_third_site_ends_once() {
    ends_once(Sites::third(), "never");
}

#[test]
fn a_divided_job_of_a_third_site_ends_once() {
    ends_once(Sites::third(), "always");
}

#[test]
fn a_push_ends_once() {
    ends_once(Sites::push(), "never");
}

#[test]
fn a_divided_push_ends_once() {
    ends_once(Sites::push(), "always");
}

#[test]
fn a_pull_ends_once() {
    ends_once(Sites::pull(), "never");
}

#[test]
fn a_divided_pull_ends_once() {
    ends_once(Sites::pull(), "always");
}
