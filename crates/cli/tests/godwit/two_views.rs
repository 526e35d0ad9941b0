//! Owns the tests of ends that see one file system under different device numbers, as two machines do: two mounts by FUSE.
//! Paths to one mount are tested in `binds`; a file system of several machines in `cluster::distributed`.

use std::time::{Duration, Instant};

use super::mounts::Mount;
use super::rig::Rig;
use super::sync::state;

/// A tree, and two views of it. The node has the second one as the export `far`, and what is deep in it as `deep`.
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

    /// The entries with their attributes, but without the times of changes of attributes: a beacon leaves no other trace.
    fn state(&self) -> Vec<String> {
        let lines = state(&self.rig.path("disk")).into_iter();
        let without_last = |line: String| line.rsplit_once(' ').map(|(most, _)| most.to_owned());
        lines.filter_map(without_last).collect()
    }

    /// A node cleans up once it sees that its client is gone.
    #[track_caller]
    fn becomes(&self, before: &[String], line: &[String]) {
        let until = Instant::now() + Duration::from_secs(20);
        while self.state() != before {
            assert!(Instant::now() < until, "{line:?}: {:#?}", self.state());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn far(&self, export: &str) -> String {
        format!("godwit://{}/{export}", self.rig.address())
    }

    /// The sources and destinations of a line, by two views: of one process, of a push and of a pull; then with the disk itself
    /// as one of the views, of which its kernel alone knows.
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

/// What must not be done: a command, sources, a destination, and what is said.
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

/// What may be done.
const MAY: [(&[&str], &[&str], &str); 6] = [
    (&DELETE, &["top/a"], "top/b"),
    (&DELETE, &["top/a"], "free"),
    // Nothing is to be done any more.
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
        for line in world.lines(command, from, to) {
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
fn what_lies_apart_by_two_views_is_brought() {
    let Some(world) = World::new() else {
        return;
    };
    let rig = &world.rig;
    for (command, from, to) in MAY {
        for line in world.lines(command, from, to) {
            rig.client(&line).complete();
        }
        let done = world.state();
        for line in world.lines(command, from, to) {
            rig.client(&line).complete();
            assert_eq!(world.state(), done, "{line:?}");
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

/// A destination that says nothing of the directories around it is met where the source is scanned.
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
