//! A node under a service manager: it reports that it is ready, alive, and stopping; and it ends when its state has ended.
//! The package as a whole is tested in `scripts/test-package.py`.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use godwit_sys::shutdown::Shutdown;
use rustix::process::Signal;
use tempfile::TempDir;

use super::power::Disk;
use super::process::wait_until;
use super::rig::Rig;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_node_reports_to_its_service_manager_that_it_is_ready_lives_and_stops() {
    let mut rig = Rig::new();
    let path = rig.path("notify");
    let socket = UnixDatagram::bind(&path).expect("bound");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    let next = || {
        let mut bytes = [0; 4096];
        let count = socket.recv(&mut bytes).expect("a message in time");
        String::from_utf8_lossy(&bytes[..count]).trim().to_owned()
    };
    rig.wrap_daemon([
        "env",
        &format!("NOTIFY_SOCKET={}", path.display()),
        "WATCHDOG_USEC=300000",
    ]);
    rig.serve(&[]);
    assert_eq!(next(), "READY=1");
    for _ in 0..3 {
        assert_eq!(next(), "WATCHDOG=1");
    }
    rig.end_daemon(Signal::TERM);
    let stopped = wait_until(|| (next() == "STOPPING=1").then_some(()));
    assert!(stopped.is_some());
}

#[test]
fn a_node_whose_state_cannot_be_kept_ends_and_says_why() {
    let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary directory");
    // A user who may not mount a disk cannot break one.
    let Some(mut disk) = Disk::new(directory.path()) else {
        return;
    };
    let home = directory.path().join("disk/daemon");
    let mut rig = Rig::with(TempDir::new().expect("made"), None, Some(&home));
    rig.serve(&[]);
    disk.cut_power(Shutdown::LogFlush);
    // The node notices when something has to be kept.
    let identity = rig.identity.clone();
    let add = [
        "site",
        "add",
        "siteB",
        "dtn2.example.org",
        "--identity",
        &identity,
    ];
    let refused = rig.admin(&add);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    // The signal changes nothing: the node is ending already.
    let ended = rig.stop_daemon(Signal::CONT);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.complaint.contains("the state of the node ended"),
        "{ended:?}"
    );
    disk.come_back();
    rig.serve(&[]);
    let added = rig.admin(&["user", "add", "alice", "--role", "viewer"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    rig.end_daemon(Signal::TERM);
}
