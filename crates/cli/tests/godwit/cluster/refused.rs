//! Refused requests to a node that cannot write its state: they delay no other user.
//! See the tests of the API for what is refused.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::super::process::wait_until;
use super::super::rest::Caller;
use super::super::rig::Rig;
use super::Site;

/// Turns for authentication that the requests of one place share.
const TURNS: usize = 4;

#[test]
fn refused_requests_hold_no_turn_while_their_lines_wait_for_the_state() {
    let mut site = Site::of(3);
    let mut others = site.nodes.split_off(1);
    let rig = &site.nodes[0];
    let vera = Caller::user(rig, "vera", "viewer");
    let admin = Caller::admin(rig);
    // The state takes no change without a majority.
    others.iter_mut().for_each(Rig::kill_daemon);
    let answered = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 * TURNS {
            scope.spawn(|| {
                vera.get("audit").expect(403);
                answered.fetch_add(1, Ordering::SeqCst);
            });
        }
        let lines = || rig.daemon().said().matches("refused: request").count();
        wait_until(|| (lines() >= TURNS).then_some(())).expect("their lines wait");
        admin.get("jobs").expect(200);
        assert_eq!(answered.load(Ordering::SeqCst), 0);
    });
}
