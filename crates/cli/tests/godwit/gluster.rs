//! Owns a volume of GlusterFS in a temporary directory: two bricks, each served by a process, and mounts of the volume by FUSE.
//! Does not know its users. No glusterd runs and no port is taken: the graphs are written here, and clients connect by unix sockets.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use godwit_testkit::{needs_fuse, needs_root};
use rustix::process::{Pid, Signal, kill_process};

use super::mounts::Mount;

/// Number of bricks, over which names are spread by their hashes.
const BRICKS: usize = 2;
/// How long the program may take for a step.
const DEADLINE: Duration = Duration::from_secs(60);
/// A client that is connected to a brick writes this into its log.
const CONNECTED: &str = "attached to remote volume";

/// A volume; its bricks are gone when dropped. Mounts are dropped before it.
pub(crate) struct Volume {
    directory: PathBuf,
    bricks: Vec<Child>,
}

impl Volume {
    /// Makes and serves a volume below `directory`; None if nothing can be mounted, or without root. Bricks keep attributes that only
    /// root may set.
    pub(crate) fn make(directory: &Path) -> Option<Self> {
        if !needs_root() || !needs_fuse() {
            return None;
        }
        fs::create_dir_all(directory).expect("made");
        let mut volume = Self {
            directory: directory.to_owned(),
            bricks: Vec::new(),
        };
        for brick in 0..BRICKS {
            fs::create_dir_all(volume.path(&format!("brick{brick}"))).expect("made");
            let graph = volume.path(&format!("brick{brick}.vol"));
            fs::write(&graph, volume.brick(brick)).expect("written");
            let mut command = volume.program("glusterfsd", &format!("brick{brick}.log"));
            let pid = volume.path(&format!("brick{brick}.pid"));
            command.arg("-p").arg(pid).arg("-f").arg(graph);
            let served = command.stdin(Stdio::null()).spawn();
            let served = served.expect("glusterfsd is there: scripts/setup.sh installs it");
            volume.bricks.push(served);
        }
        let sockets = (0..BRICKS).map(|brick| volume.socket(brick));
        let sockets: Vec<PathBuf> = sockets.collect();
        until("the bricks are served", || {
            sockets.iter().all(|socket| socket.exists())
        });
        Some(volume)
    }

    /// Mounts the volume at `place`, with further options of the client.
    pub(crate) fn mount(&self, place: &Path, more: &[&str]) -> Mount {
        let name = place.file_name().expect("a name").to_string_lossy();
        let (graph, log) = (self.path(&format!("{name}.vol")), format!("{name}.log"));
        fs::write(&graph, self.client()).expect("written");
        let mut command = self.program("glusterfs", &log);
        command.args(more).arg("-f").arg(graph).arg(place);
        let mount = Mount::by(&mut command, place).expect("root may mount");
        until("the client is connected", || {
            let log = fs::read_to_string(self.path(&log)).unwrap_or_default();
            log.matches(CONNECTED).count() >= BRICKS
        });
        mount
    }

    /// Stops the client of a mount at a moment without a lock. A client stopped within a rename would keep the lock of the directory, and
    /// then no mount could rename there.
    #[track_caller]
    pub(crate) fn stop_without_lock(&self, mount: &Mount) {
        until("the client holds no lock", || {
            mount.signal(Signal::STOP);
            // In the meantime a brick may grant an earlier request of the client.
            let is_free = (0..2).all(|_| !self.has_lock_of(mount));
            if !is_free {
                mount.signal(Signal::CONT);
            }
            is_free
        });
    }

    /// Whether a brick has granted a lock to the client of a mount.
    fn has_lock_of(&self, mount: &Mount) -> bool {
        let client = format!("-PID:{}-", mount.pid().as_raw_nonzero());
        let is_of_client = |line: &str| line.contains("(ACTIVE)") && line.contains(&client);
        let mut dumps = self.bricks.iter().map(state_of);
        dumps.any(|dump| dump.lines().any(is_of_client))
    }

    /// Runs the program in the foreground, so that it is a child of the test.
    fn program(&self, name: &str, log: &str) -> Command {
        let mut command = Command::new(name);
        command.args(["-N", "-l"]).arg(self.path(log));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn socket(&self, brick: usize) -> PathBuf {
        self.path(&format!("brick{brick}.sock"))
    }

    /// The graph of one brick, in the order in which GlusterFS builds it.
    fn brick(&self, brick: usize) -> String {
        let name = format!("brick{brick}");
        let directory = format!("directory {}", self.path(&name).display());
        let allowed = format!("auth.addr.{name}.allow *");
        let served = format!("auth-path {name}");
        let listen = format!(
            "transport.socket.listen-path {}",
            self.socket(brick).display()
        );
        let options = [
            "transport-type socket",
            "transport.address-family unix",
            &listen,
            &allowed,
            &served,
        ];
        [
            layer("posix", "storage/posix", &[&directory], &[]),
            layer("acl", "features/access-control", &[], &["posix"]),
            layer("locks", "features/locks", &[], &["acl"]),
            layer(&name, "performance/io-threads", &[], &["locks"]),
            layer("server", "protocol/server", &options, &[&name]),
        ]
        .concat()
    }

    /// The graph of a client, with the caches that a volume has by default.
    fn client(&self) -> String {
        let mut graph = String::new();
        let names: Vec<String> = (0..BRICKS).map(|brick| format!("client{brick}")).collect();
        for (brick, name) in names.iter().enumerate() {
            let remote = format!("remote-subvolume brick{brick}");
            let connect = format!(
                "transport.socket.connect-path {}",
                self.socket(brick).display()
            );
            let options = [
                "transport-type socket",
                "transport.address-family unix",
                "remote-host localhost",
                &connect,
                &remote,
            ];
            graph += &layer(name, "protocol/client", &options, &[]);
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        graph += &layer("spread", "cluster/distribute", &[], &names);
        let mut below = "spread";
        for cache in ["write-behind", "quick-read", "open-behind", "md-cache"] {
            graph += &layer(cache, &format!("performance/{cache}"), &[], &[below]);
            below = cache;
        }
        graph
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        for brick in &mut self.bricks {
            let _ = brick.kill();
            let _ = brick.wait();
        }
    }
}

fn layer(name: &str, kind: &str, options: &[&str], below: &[&str]) -> String {
    let options: String = options
        .iter()
        .map(|option| format!("  option {option}\n"))
        .collect();
    let below = match below {
        [] => String::new(),
        below => format!("  subvolumes {}\n", below.join(" ")),
    };
    format!("volume {name}\n  type {kind}\n{options}{below}end-volume\n\n")
}

/// The state that a brick writes into a directory of the machine when it receives a signal.
fn state_of(brick: &Child) -> String {
    let directory = Path::new("/var/run/gluster");
    fs::create_dir_all(directory).expect("made");
    let prefix = format!("glusterdump.{}.dump.", brick.id());
    let written = || {
        let names = fs::read_dir(directory).expect("listed");
        let names = names.map(|entry| entry.expect("listed").path());
        let is_ours = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(&prefix);
        names
            .filter(|path| path.file_name().is_some_and(is_ours))
            .collect::<Vec<_>>()
    };
    let remove = || {
        written()
            .iter()
            .for_each(|path| drop(fs::remove_file(path)))
    };
    remove();
    kill_process(Pid::from_child(brick), Signal::USR1).expect("it runs");
    let mut state = String::new();
    until("the brick has written its state", || {
        let text = written().first().map(fs::read_to_string);
        state = text.and_then(Result::ok).unwrap_or_default();
        state.contains("DUMP-END-TIME")
    });
    remove();
    state
}

#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
