//! A cluster that has lost a majority for good: one survivor becomes the cluster, and the others join it again.
//! See the tests of `state` for the files of the state.

use rustix::process::Signal;

use super::*;

#[test]
fn after_the_loss_of_a_majority_one_survivor_is_made_the_cluster() {
    let mut site = Site::of(3);
    let added = site.nodes[1].admin(&[
        "site",
        "add",
        "kept",
        "192.0.2.1",
        "--identity",
        &site.nodes[0].identity,
    ]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let until = Instant::now() + DEADLINE;
    while !site.nodes[2].admin(&["site", "list"]).out.contains("kept") {
        assert!(Instant::now() < until, "a voter gets what was changed");
        std::thread::sleep(Duration::from_millis(50));
    }
    site.nodes[0].kill_daemon();
    site.nodes[1].kill_daemon();
    let until = Instant::now() + DEADLINE;
    loop {
        let outcome = site.nodes[2].admin(&["cluster", "status"]);
        if outcome.code == Some(1) && outcome.complaint.contains("cluster recover") {
            break;
        }
        assert!(Instant::now() < until, "{outcome:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
    // Reads still work, and a change reports the remedy.
    let sites = site.nodes[2].admin(&["site", "list"]);
    assert!(sites.out.contains("kept"), "{sites:?}");
    let change = site.nodes[2].admin(&["site", "remove", "kept"]);
    assert_eq!(change.code, Some(1), "{change:?}");
    assert!(
        change.complaint.contains("voters can be reached"),
        "{change:?}"
    );
    let running = site.nodes[2].admin(&["cluster", "recover", "--yes"]);
    assert_eq!(running.code, Some(1), "not while it runs: {running:?}");
    site.nodes[2].kill_daemon();
    let unsure = site.nodes[2].admin(&["cluster", "recover"]);
    assert_eq!(unsure.code, Some(2), "{unsure:?}");
    let recovered = site.nodes[2].admin(&["cluster", "recover", "--yes"]);
    assert_eq!(recovered.code, Some(0), "{recovered:?}");
    site.nodes[2].serve(&[]);
    site.wait_at(&[2], "it is alone", |view| {
        nodes(view).len() == 1 && up(view) == ["dtn3"]
    });
    let sites = site.nodes[2].admin(&["site", "list"]);
    assert!(sites.out.contains("kept"), "{sites:?}");
    let change = site.nodes[2].admin(&["site", "remove", "kept"]);
    assert_eq!(change.code, Some(0), "{change:?}");
    // The old nodes are a majority of the old cluster. They find the survivor, and end.
    for number in [0, 1] {
        site.nodes[number].serve(&[]);
    }
    for number in [0, 1] {
        // The signal changes nothing: the node is ending already.
        let ended = site.nodes[number].stop_daemon(Signal::CONT);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(
            ended.complaint.contains("has continued without this node"),
            "{ended:?}"
        );
        assert!(
            ended.complaint.contains("dtn3 became the only one"),
            "{ended:?}"
        );
    }
    let left = site.nodes[1].admin(&["cluster", "leave", "--yes"]);
    assert_eq!(left.code, Some(0), "{left:?}");
    let mut back = site.nodes.remove(1);
    join_by(
        &mut back,
        &site.nodes[1],
        &invite(&site.nodes[1]),
        "dtn2",
        &[],
    );
    site.nodes.insert(1, back);
    site.wait_at(&[1, 2], "two nodes", |view| up(view).len() == 2);
}
