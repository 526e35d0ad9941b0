//! Owns the tests of ends that see one file system under different device numbers, as two machines do: two mounts by FUSE.
//! Paths to one mount are tested in `binds`; a file system of several machines in `cluster::distributed`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use super::mounts::Mount;
use super::rig::{Rig, is_root};
use super::sync::state;

/// A tree, and two views of it. The node exports the second one as `far`, and its depth as `deep`.
struct World {
    _mounts: [Mount; 2],
    rig: Rig,
}

impl World {
    /// None where nothing can be mounted.
    fn new() -> Option<Self> {
        let mut rig = Rig::new();
        for name in ["top/f", "top/a/g", "top/a/deep/h", "other/j"] {
            rig.write(&format!("disk/{name}"), name);
        }
        rig.make_dirs("disk/free");
        let mount = |name: &str| Mount::of(&rig.path("disk"), &rig.path(name));
        let mounts = [mount("one")?, mount("two")?];
        let export = |name: &str, at: &str| format!("{name}={}", rig.path(at).display());
        let [far, deep] = [export("far", "two"), export("deep", "two/top/a/deep")];
        rig.start(&["--export", &far, "--export", &deep]);
        Some(Self {
            _mounts: mounts,
            rig,
        })
    }

    /// The entries with their attributes, without ctimes, because a beacon changes nothing else.
    fn state(&self) -> Vec<String> {
        let lines = state(&self.rig.path("disk")).into_iter();
        let without_last = |line: String| line.rsplit_once(' ').map(|(most, _)| most.to_owned());
        lines.filter_map(without_last).collect()
    }

    /// A node cleans up once it sees that its client is gone.
    #[track_caller]
    fn becomes(&self, before: &[String], line: &[String]) {
        let until = Instant::now() + Duration::from_secs(120);
        while self.state() != before {
            assert!(
                Instant::now() < until,
                "{line:?}: {before:#?}, now {:#?}",
                self.state()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The state once the node has cleaned up: it gives a directory back the time that the directory had before the beacon.
    fn settled(&self) -> Vec<String> {
        let mut last = self.state();
        loop {
            std::thread::sleep(Duration::from_millis(500));
            let now = self.state();
            if now == last {
                return now;
            }
            last = now;
        }
    }

    fn far(&self, export: &str) -> String {
        format!("godwit://{}/{export}", self.rig.address())
    }

    /// The sources and destinations of a line, by two views: within one process, in a push and in a pull. The disk itself is
    /// then one of the views, which only its kernel knows.
    fn lines(&self, command: &[&str], from: &[&str], to: &str) -> [Vec<String>; 6] {
        let own = |view: &str, place: &str| {
            let place = self.rig.path(format!("{view}/{place}"));
            place.display().to_string()
        };
        let far = |place: &str| self.far(&format!("far/{place}"));
        let line = |from: Vec<String>, to: String| {
            let words = command.iter().map(|word| (*word).to_owned());
            let words = words.chain(["--json".to_owned()]);
            words.chain(from).chain([to]).collect()
        };
        let here = |view: &str| from.iter().map(|place| own(view, place)).collect();
        let there: Vec<String> = from.iter().map(|place| far(place)).collect();
        [
            line(here("one"), own("two", to)),
            line(here("one"), far(to)),
            line(there.clone(), own("one", to)),
            line(here("disk"), own("two", to)),
            line(here("disk"), far(to)),
            line(there, own("disk", to)),
        ]
    }
}

const INSIDE: &str = "inside the destination";
const ITSELF: &str = "into itself";
const DELETE: [&str; 2] = ["sync", "--delete"];

/// Forbidden transfers: a command, sources, a destination, and the message.
const NEVER: [(&[&str], &[&str], &str, &str); 10] = [
    (&DELETE, &["top/a"], "top", INSIDE),
    (&DELETE, &["top/a/deep"], "top", INSIDE),
    (&DELETE, &["top"], "top", ITSELF),
    (&DELETE, &["top"], "top/a", ITSELF),
    (&["sync"], &["top"], "top/a/new", ITSELF),
    (&["cp"], &["top"], "top/a/x", ITSELF),
    (&["cp"], &["top"], "top/a/deep", ITSELF),
    (&["cp"], &["top/a"], "top", ITSELF),
    (&["cp"], &["other", "top/a"], "top", ITSELF),
    (&["cp"], &["top/f"], "top/f", ITSELF),
];

/// Allowed transfers.
const MAY: [(&[&str], &[&str], &str); 6] = [
    (&DELETE, &["top/a"], "top/b"),
    (&DELETE, &["top/a"], "free"),
    // The second run has nothing to do.
    (&DELETE, &["top/a"], "free"),
    (&["cp"], &["top/f"], "top/g"),
    (&["cp"], &["top/a/deep"], "top"),
    (&["cp"], &["top/f", "other"], "top/b/"),
];

#[test]
fn a_directory_of_two_views_is_one_directory() {
    let Some(world) = World::new() else {
        return;
    };
    let rig = &world.rig;
    let before = world.state();
    for (command, from, to, words) in NEVER {
        let lines = world.lines(command, from, to).into_iter();
        // A dry run prints the same as the run.
        let lines = lines.flat_map(|line| [[line.clone(), vec!["-n".to_owned()]].concat(), line]);
        for line in lines {
            rig.client(&line).expect(1, "failed").says(words);
            world.becomes(&before, &line);
            for home in [&rig.client_home(), &rig.daemon_home] {
                let journals = Rig::journals(home);
                assert!(journals.is_empty(), "{line:?}: {journals:?}");
            }
        }
    }
}

#[test]
fn places_that_are_separate_in_two_views_are_copied() {
    let Some(world) = World::new() else {
        return;
    };
    let rig = &world.rig;
    for (command, from, to) in MAY {
        let before = world.state();
        for mut line in world.lines(command, from, to) {
            line.push("-n".to_owned());
            rig.client(&line).complete();
            world.becomes(&before, &line);
        }
        for line in world.lines(command, from, to) {
            rig.client(&line).complete();
        }
        let done = world.settled();
        for line in world.lines(command, from, to) {
            rig.client(&line).complete();
            world.becomes(&done, &line);
        }
    }
    for (to, from) in [
        ("top/b/g", "top/a/g"),
        ("free/deep/h", "top/a/deep/h"),
        ("top/g", "top/f"),
    ] {
        assert_eq!(rig.read(&format!("disk/{to}")), from.as_bytes(), "{to}");
    }
}

/// A destination that does not report its parent directories is found by the scan of the source.
#[test]
fn a_destination_in_the_source_is_met_by_the_scan() {
    let Some(world) = World::new() else {
        return;
    };
    let rig = &world.rig;
    let top = rig.path("one/top").display().to_string();
    let deep = world.far("deep");
    for command in [&DELETE[..], &["cp"]] {
        let line = [command, &["--json", &top, &deep]].concat();
        rig.client(&line).expect(1, "failed").says(ITSELF);
        assert_eq!(rig.read("disk/top/a/deep/h"), b"top/a/deep/h");
    }
}

/// The export of a node is a part of the destination, which the other end sees by another mount.
#[test]
fn a_destination_above_the_export_of_the_source_is_met() {
    let Some(world) = World::new() else {
        return;
    };
    let rig = &world.rig;
    let before = world.state();
    for (from, to) in [("deep", "top"), ("deep", "top/a"), ("deep", "other/../top")] {
        let far = world.far(from);
        for view in ["one", "disk"] {
            let to = rig.path(format!("{view}/{to}")).display().to_string();
            for dry in [&["-n"][..], &[]] {
                let line = [&DELETE[..], &["--json", &far, &to], dry].concat();
                let line: Vec<String> = line.into_iter().map(str::to_owned).collect();
                rig.client(&line).expect(1, "failed").says(INSIDE);
                world.becomes(&before, &line);
            }
        }
    }
    // Beside it there is room.
    let to = rig.path("one/top/a/beside").display().to_string();
    let far = world.far("deep");
    let line = [&DELETE[..], &["--json", &far, &to]].concat();
    rig.client(&line).complete();
    assert_eq!(rig.read("disk/top/a/beside/h"), b"top/a/deep/h");
}

/// The second of two exports is checked like the first one.
#[test]
fn each_of_two_exports_is_looked_at_above() {
    let Some(world) = World::new() else {
        return;
    };
    let rig = &world.rig;
    let before = world.state();
    let sources = ["far/free", "deep"].map(|place| world.far(place));
    let to = rig.path("one/top/a").display().to_string();
    let line = ["cp", "--json", &sources[0], &sources[1], &to];
    let line: Vec<String> = line.into_iter().map(str::to_owned).collect();
    rig.client(&line).expect(1, "failed").says(ITSELF);
    world.becomes(&before, &line);
}

/// Both exports are the node's, and each is of another mount.
#[test]
fn a_job_to_an_export_above_that_of_its_source_is_refused() {
    let mut rig = Rig::new();
    for name in ["top/f", "top/a/g", "top/a/deep/h"] {
        rig.write(&format!("disk/{name}"), name);
    }
    let mount = |name: &str| Mount::of(&rig.path("disk"), &rig.path(name));
    let Some(_mounts) = mount("one").zip(mount("two")) else {
        return;
    };
    let export = |name: &str, at: &str| format!("{name}={}", rig.path(at).display());
    let exports = [export("inner", "one/top/a"), export("outer", "two/top")];
    rig.serve(&["--export", &exports[0], "--export", &exports[1]]);
    let before = state(&rig.path("disk/top/a"));
    for (from, words) in [("here:/inner", INSIDE), ("here:/inner/deep", INSIDE)] {
        for dry in [&["--setting", "dry-run=true"][..], &[]] {
            let line = ["job", "submit", from, "here:/outer/", "--sync", "--wait"];
            let line = [&line[..], &["--setting", "delete=true"], dry].concat();
            let outcome = rig.admin(&line);
            assert_ne!(outcome.code, Some(0), "{line:?} {outcome:?}");
            outcome.says(words);
            assert_eq!(state(&rig.path("disk/top/a")), before, "{line:?}");
        }
    }
}

/// The user may not write into the destination, but into a directory in it, which is the source.
#[test]
fn a_destination_that_takes_no_mark_is_known_by_what_it_looks_like() {
    if !is_root() {
        return;
    }
    let mut rig = Rig::for_user(true);
    // Elsewhere, for all below the rig's directory belongs to its user.
    let place = tempfile::tempdir().expect("a directory");
    let at = |name: &str| place.path().join(name);
    for name in ["top/a/g", "apart/g"] {
        let path = at("disk").join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, name).expect("written");
    }
    for (name, mode) in [("", 0o755), ("disk/top/a", 0o777), ("disk/top/a/g", 0o666)] {
        fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).expect("set");
    }
    let mount = |name: &str| Mount::for_all(&at("disk"), &at(name));
    let Some(_mounts) = mount("one").zip(mount("two")) else {
        return;
    };
    let export = format!("far={}", at("two").display());
    rig.start(&["--export", &export]);
    let far = |place: &str| format!("godwit://{}/far/{place}", rig.address());
    let own = |name: &str| at(name).display().to_string();
    for (from, to) in [
        (own("one/top/a"), own("two/top")),
        (own("one/top/a"), far("top")),
        (far("top/a"), own("one/top")),
    ] {
        for dry in [&["-n"][..], &[]] {
            let line = [&DELETE[..], &["--json", &from, &to], dry].concat();
            let outcome = rig.client(&line);
            outcome.expect(1, "failed").says(INSIDE);
            let source = fs::read(at("disk/top/a/g")).expect("there");
            assert_eq!(source, b"top/a/g", "{line:?}");
        }
    }
    // These places are separate, but no check can prove it.
    let doubt = "cannot prove that the source is a different directory";
    for (from, to) in [
        (own("one/apart"), own("two/top")),
        (own("one/apart"), far("top")),
        (far("apart"), own("one/top")),
    ] {
        let line = [&DELETE[..], &["--json", &from, &to, "-n"]].concat();
        rig.client(&line).says(doubt);
        let line = ["sync", "--json", &from, &to, "-n"];
        let outcome = rig.client(&line);
        assert!(!format!("{outcome:?}").contains(doubt), "{outcome:?}");
    }
}
