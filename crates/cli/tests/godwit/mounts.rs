//! A mount of one directory at another place by FUSE, which stops answering when its program is stopped.
//! Most tests that use it are elsewhere; the tests of exports that must be mounts are here.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use godwit_api::failure::FailureCode;
use godwit_testkit::{needs_fuse, needs_root};
use rustix::process::{Pid, Signal, kill_process};

use super::process::wait_until;
use super::rig::Rig;
use super::sites::{submit, wait_for};

/// Options that keep inode numbers and all times the same at each mount.
const OPTIONS: &str = "use_ino,inodecalc=passthrough,category.create=ff,minfreespace=0";

/// A mount. It is removed when dropped, even while it hangs.
pub(crate) struct Mount {
    place: PathBuf,
    program: Child,
}

impl Mount {
    /// Mounts `directory` at `place`, which it makes; None where this user may not mount.
    pub(crate) fn of(directory: &Path, place: &Path) -> Option<Self> {
        Self::with(directory, place, &[])
    }

    /// The same for a program with these environment variables.
    pub(crate) fn with(
        directory: &Path,
        place: &Path,
        surroundings: &[(&str, &PathBuf)],
    ) -> Option<Self> {
        let mut command = Command::new("mergerfs");
        command.args(["-f", "-o", OPTIONS]);
        command.args([directory, place]);
        command.envs(surroundings.iter().copied());
        Self::by(&mut command, place)
    }

    /// The same mount, visible to other users.
    pub(crate) fn for_all(directory: &Path, place: &Path) -> Option<Self> {
        let mut command = Command::new("mergerfs");
        command.args(["-f", "-o", OPTIONS, "-o", "allow_other"]);
        command.args([directory, place]);
        Self::by(&mut command, place)
    }

    /// A mount that this program makes at `place` and serves until the program ends; None if the program ends before the mount exists.
    pub(crate) fn by(command: &mut Command, place: &Path) -> Option<Self> {
        fs::create_dir_all(place).expect("made");
        let device = || fs::metadata(place).expect("there").dev();
        let before = device();
        let program = command.stdin(Stdio::null()).spawn();
        let mut program = program.expect("the program is there: scripts/setup.sh installs it");
        let until = Instant::now() + Duration::from_secs(60);
        while device() == before {
            if program.try_wait().expect("a child").is_some() {
                assert!(!needs_fuse() || !needs_root(), "{command:?} has ended");
                return None;
            }
            assert!(Instant::now() < until, "{command:?} does not mount");
            std::thread::sleep(Duration::from_millis(20));
        }
        let place = place.to_owned();
        Some(Self { place, program })
    }

    pub(crate) fn place(&self) -> &Path {
        &self.place
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.program)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("a process");
    }
}

/// Stops a program, and waits until none of its threads runs, because a running one may still answer.
pub(crate) fn stop(program: Pid) {
    kill_process(program, Signal::STOP).expect("a process");
    let tasks = format!("/proc/{}/task", program.as_raw_nonzero());
    let is_stopped = |stat: &str| {
        let state = stat.rsplit_once(") ");
        state.is_some_and(|(_, state)| state.starts_with('T'))
    };
    let are_stopped = || {
        let mut tasks = fs::read_dir(&tasks).expect("a process");
        tasks.all(|task| {
            let stat = task.map(|task| fs::read_to_string(task.path().join("stat")));
            stat.is_ok_and(|stat| stat.is_ok_and(|stat| is_stopped(&stat)))
        })
    };
    wait_until(|| are_stopped().then_some(())).expect("it stops");
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
        let _ = Command::new("umount").arg("-l").arg(&self.place).output();
    }
}

#[test]
fn an_export_that_has_to_be_a_mount_is_refused_while_it_is_none() {
    let mut rig = Rig::new();
    rig.write("disk/set/g", b"from the mount");
    rig.make_dirs("place");
    let place = rig.path("place");
    rig.start(&[
        "--export",
        &format!("strict={},require-mount", place.display()),
    ]);
    rig.write("f", b"content");
    let from = rig.path("f");
    let to = format!("godwit://{}/strict/f", rig.address());
    let copy = || rig.cp(&[from.as_os_str(), to.as_ref()]);
    let refused = copy();
    assert_eq!(refused.code, Some(1), "{refused:?}");
    refused
        .says("must be a mount")
        .expect_code(FailureCode::ExportAway);
    let lies_at = place.display().to_string();
    assert!(!format!("{refused:?}").contains(&lies_at), "{refused:?}");
    assert_eq!(fs::read_dir(&place).expect("read").count(), 0);
    // A job waits for the mount at either end.
    rig.write("export/set/f", b"content");
    let jobs = [
        ("here:/data/set", "here:/strict/copy"),
        ("here:/strict/set", "here:/data/back"),
    ]
    .map(|(from, to)| submit(&rig, from, to, &[]));
    let away = FailureCode::ExportAway.as_str();
    // The fourth attempt is followed by a wait of 40 s.
    let waiting = jobs.each_ref().map(|id| {
        let job = wait_for(&rig, id, |job| {
            job["attempts"].as_u64() >= Some(4) && !job["next_attempt"].is_null()
        });
        assert_eq!(job["reason"]["code"], away, "{job}");
        assert_eq!(job["state"], "queued", "{job}");
        assert!(!job["reason"].to_string().contains(&lies_at), "{job}");
        job
    });
    let Some(_mount) = Mount::of(&rig.path("disk"), &place) else {
        return;
    };
    copy().complete();
    assert_eq!(rig.read("disk/f"), b"content");
    for (id, waiting) in jobs.iter().zip(&waiting) {
        let job = wait_for(&rig, id, |job| !job["ended"].is_null());
        assert_eq!(job["state"], "complete", "{job}");
        let (ended, next) = (job["ended"].as_str(), waiting["next_attempt"].as_str());
        assert!(ended < next, "it ended at {ended:?}, before {next:?}");
    }
    assert_eq!(rig.read("disk/copy/f"), b"content");
    assert_eq!(rig.read("export/back/g"), b"from the mount");
}

#[test]
fn an_opening_that_a_hung_mount_holds_up_is_interrupted() {
    let mut rig = Rig::new();
    rig.make_dirs("disk");
    rig.write("f", b"content");
    let place = rig.path("place");
    let Some(mount) = Mount::of(&rig.path("disk"), &place) else {
        return;
    };
    rig.start(&["--export", &format!("hung={}", place.display())]);
    let (from, manifest) = (rig.path("f"), rig.path("manifest"));
    let (from, manifest) = (
        from.to_str().expect("text"),
        manifest.to_str().expect("text"),
    );
    let line = ["--manifest", manifest, from, &rig.url("f")];
    rig.cp(&line).complete();
    mount.signal(Signal::STOP);
    let place = format!("godwit://{}/hung", rig.address());
    let to = format!("godwit://{}/hung/f", rig.address());
    for line in [["cp", from, &to], ["verify", manifest, &place]] {
        let command = line[0];
        let mut client = rig.begin(&line);
        let opens = wait_until(|| {
            let tasks = fs::read_dir(format!("/proc/{}/task", client.id())).ok()?;
            let names =
                tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
            names
                .into_iter()
                .any(|name| name.trim() == "gw-open")
                .then_some(())
        });
        assert!(opens.is_some(), "{command}: {}", client.said());
        let at = Instant::now();
        client.signal(Signal::INT);
        let ended = client.wait();
        assert_eq!(ended.code, Some(5), "{command}: {ended:?}");
        // An answer is waited for twice as long.
        assert!(at.elapsed() < Duration::from_secs(30), "{command}");
    }
    mount.signal(Signal::CONT);
    rig.cp(&[from, &to]).complete();
}
