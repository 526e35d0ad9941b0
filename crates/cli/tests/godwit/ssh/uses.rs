//! Owns the tests of ordinary uses by ssh: push, pull, names, jump hosts, with root and without rights.
//! Breaks nothing.

use std::fs;
use std::process::Command;

use super::super::judge::assert_identical as same;
use super::super::process::{Process, wait_until};
use super::super::rig::is_root;
use super::far::{DAEMON, Far, Where, random};

fn fill(far: &Far, name: &str) {
    let random = random(3_000_000, 7);
    far.write(&format!("{name}/large"), &random);
    for number in 0..50 {
        far.write(
            &format!("{name}/d {number}/'small\" {number}"),
            &random[number..number * 7],
        );
    }
    fs::create_dir(far.path(name).join("empty")).expect("made");
    std::os::unix::fs::symlink("large", far.path(name).join("link")).expect("made");
}

/// There and back, and once more for nothing.
fn there_and_back(far: &Far, host: &str) {
    fill(far, "tree");
    far.cp(&["tree", &format!("{host}:")]).complete();
    same(&far.path("tree"), &far.home().join("tree"));
    let again = far.cp(&["tree", &format!("{host}:")]);
    assert_eq!(again.complete().number("bytes"), 0, "{}", again.said());
    far.cp(&[&format!("{host}:tree/"), "back"]).complete();
    same(&far.path("tree"), &far.path("back"));
    let agents = wait_until(|| far.processes("agent").is_empty().then_some(()));
    assert!(agents.is_some(), "an agent outlives its transfer");
}

#[test]
fn a_tree_goes_there_and_back() {
    there_and_back(&Far::new(), "far");
}

#[test]
fn a_user_without_rights_is_served_with_that_users_rights() {
    if !is_root() {
        // Then every test here is of that kind.
        return there_and_back(&Far::new(), "far");
    }
    let far = Far::at(Where {
        nobody: true,
        ..Where::default()
    });
    fill(&far, "tree");
    far.cp(&["tree", "far:"]).complete();
    // All but the owner, which is the user without rights there.
    let output = Command::new("rsync")
        .args([
            "-aHi",
            "--no-owner",
            "--no-group",
            "--checksum",
            "--delete",
            "--dry-run",
        ])
        .args([far.path("tree/"), far.home().join("tree/")])
        .output()
        .expect("rsync runs");
    assert!(
        output.status.success() && output.stdout.is_empty(),
        "{output:?}"
    );
    far.cp(&["far:tree/", "back"]).complete();
    same(&far.path("tree"), &far.path("back"));
    far.write("secret", "x");
    let refused = far.cp(&[
        "secret",
        &format!("far:{}/denied", far.path("bin").display()),
    ]);
    assert_eq!(refused.code, Some(3), "{}", refused.said());
    refused.says("denied");
}

#[test]
fn an_sshd_and_a_client_without_rights_are_enough() {
    if !is_root() {
        // Then every test here is of that kind.
        return there_and_back(&Far::new(), "far");
    }
    let far = Far::at(Where {
        without_root: true,
        ..Where::default()
    });
    fill(&far, "tree");
    far.hand_over("tree", DAEMON);
    far.cp(&["-a", "tree", "far:"]).complete();
    same(&far.path("tree"), &far.home().join("tree"));
    let again = far.cp(&["tree", "far:"]);
    assert_eq!(again.complete().number("bytes"), 0, "{}", again.said());
    far.cp(&["far:tree/", "back"]).complete();
    same(&far.path("tree"), &far.path("back"));
    far.cp(&["--via-ssh", "far:tree/", "again"]).complete();
    same(&far.path("tree"), &far.path("again"));
}

#[test]
fn over_ipv6_and_through_a_jump_host() {
    let mut far = Far::at(Where {
        v6: true,
        ..Where::default()
    });
    far.add("inner", Where::default(), " ProxyJump far");
    fill(&far, "tree");
    far.cp(&["tree", "inner:by/jump"])
        .expect(1, "failed")
        .says("this directory must exist");
    far.cp(&["tree", "inner:jumped"]).complete();
    same(&far.path("tree"), &far.home().join("jumped"));
    // An address in brackets instead of a name that the configuration knows.
    let config = fs::read_to_string(far.path("etc/ssh_config")).expect("ours");
    let first = config.split("Host inner").next().expect("two sections");
    fs::write(
        far.path("etc/ssh_config"),
        first.replace("Host far", "Host ::1"),
    )
    .expect("ours");
    far.cp(&["tree", "[::1]:six"]).complete();
    same(&far.path("tree"), &far.home().join("six"));
}

#[test]
fn paths_mean_what_the_user_there_would_mean() {
    let far = Far::new();
    far.write("file", "content");
    far.write("home/it's a \"dir\" $HOME; `x`/inside", "quoted");
    far.write("a:b", "colon");
    let there = |name: &str| fs::read(far.home().join(name)).unwrap_or_default();
    far.cp(&["file", "far:"]).complete();
    assert_eq!(there("file"), b"content");
    far.cp(&["file", "far:~/renamed \\ $x"]).complete();
    assert_eq!(there("renamed \\ $x"), b"content");
    far.cp(&["file", "./a:b", "far:new dir/"]).complete();
    assert_eq!(
        (there("new dir/file"), there("new dir/a:b")),
        (b"content".to_vec(), b"colon".to_vec())
    );
    far.cp(&["far:it's a \"dir\" $HOME; `x`", "far:file", "got/"])
        .complete();
    let got = far.path("got");
    assert_eq!(
        fs::read(got.join("it's a \"dir\" $HOME; `x`/inside")).expect("there"),
        b"quoted"
    );
    assert_eq!(fs::read(got.join("file")).expect("there"), b"content");
    let absolute = format!("far:{}", far.home().join("file").display());
    far.cp(&[absolute.as_str(), "absolute"]).complete();
    assert_eq!(fs::read(far.path("absolute")).expect("there"), b"content");
    far.cp(&["mem:1MiB", "far:memory"]).complete();
    assert_eq!(there("memory").len(), 1 << 20);
    far.cp(&["far:file", "null:"]).complete();
    let missing = far.cp(&["far:nothing", "."]);
    missing
        .expect(1, "failed")
        .says("nothing")
        .says("No such file or directory");
    far.cp(&["far:*.txt", "."])
        .expect(1, "failed")
        .says("patterns in names are not expanded");
    far.cp(&["far:~bob/x", "."])
        .expect(1, "failed")
        .says("only ~/");
    far.cp(&["file", "far:file/inside"])
        .expect(1, "failed")
        .says("this is not a directory");
}

#[test]
fn everything_can_go_through_ssh_alone() {
    let far = Far::new();
    fill(&far, "tree");
    far.cp(&["--via-ssh", "--streams", "3", "tree", "far:"])
        .complete();
    same(&far.path("tree"), &far.home().join("tree"));
    far.cp(&["--via-ssh", "far:tree/", "back"]).complete();
    same(&far.path("tree"), &far.path("back"));
    let left = wait_until(|| far.processes("agent").is_empty().then_some(()));
    assert!(left.is_some(), "a relay outlives its transfer");
}

#[test]
fn a_copy_is_verified_through_ssh() {
    let far = Far::new();
    fill(&far, "tree");
    let manifest = ["--manifest", "list", "tree", "far:"];
    far.cp(&manifest).complete();
    let verify = |copy: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_godwit"))
            .args(["verify", "list", copy])
            .current_dir(far.path(""))
            .env("GODWIT_HOME", far.path("client"))
            .env("GODWIT_RSH", far.rsh())
            .output()
            .expect("it runs");
        (output.status.code(), format!("{output:?}"))
    };
    let (code, said) = verify("far:tree");
    assert_eq!(code, Some(0), "{said}");
    fs::write(far.home().join("tree/large"), "changed").expect("ours");
    let (code, said) = verify("far:tree");
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("large"), "{said}");
    let (code, said) = verify("far:nothing");
    assert_eq!(code, Some(1), "{said}");
    let left = wait_until(|| far.processes("agent").is_empty().then_some(()));
    assert!(left.is_some(), "an agent is left");
}

#[test]
fn a_tree_there_is_made_equal_to_one_here_and_the_other_way_round() {
    let far = Far::new();
    fill(&far, "tree");
    let sync = |line: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_godwit"));
        command
            .args(["sync", "--json", "--delete"])
            .args(line)
            .current_dir(far.path(""))
            .env("GODWIT_HOME", far.path("client"))
            .env("GODWIT_RSH", far.rsh());
        Process::start(&mut command).wait()
    };
    sync(&["tree", "far:copy"]).complete();
    same(&far.path("tree"), &far.home().join("copy"));
    fs::write(far.home().join("copy/d 3/extra"), "not wanted").expect("ours");
    fs::write(far.home().join("copy/large"), "changed").expect("ours");
    let reported = sync(&["--dry-run", "tree", "far:copy"]);
    assert_eq!(
        reported.complete().number("deleted"),
        1,
        "{}",
        reported.said()
    );
    assert!(
        far.home().join("copy/d 3/extra").exists(),
        "{}",
        reported.said()
    );
    let done = sync(&["tree", "far:copy"]);
    assert_eq!(done.complete().number("deleted"), 1, "{}", done.said());
    same(&far.path("tree"), &far.home().join("copy"));
    far.write("back/extra", "not wanted");
    let done = sync(&["far:copy", "back"]);
    assert_eq!(done.complete().number("deleted"), 1, "{}", done.said());
    same(&far.path("tree"), &far.path("back"));
}
