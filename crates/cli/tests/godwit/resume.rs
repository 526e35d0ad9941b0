//! Tests the effects of an interruption: names, the journal, the clients that may resume, and those that are given up.
//! Chooses no moments and counts no costs (`kill`).

use std::fs;
use std::path::Path;
use std::process::Command;

use godwit_api::failure::FailureCode;
use rustix::process::Signal;

use super::case::{Case, Direction, MIB};
use super::data::{Seeded, make_tree, write_file};
use super::judge::{assert_finals_whole, assert_identical, assert_tidy, files_below, is_temporary};
use super::process::wait_until;
use super::rig::Rig;

#[test]
fn an_unfinished_transfer_keeps_its_first_mapping_of_names() {
    let case = Case::new(Direction::Push, |root| make_tree(root, 16, &mut Seeded(1)));
    let before = case.written_before();
    let mut client = case.run(0, &["--limit", "8MB"]);
    case.watch(&mut client, before, 2 * MIB);
    client.signal(Signal::KILL);
    client.wait();
    assert!(case.destination().is_dir(), "the first run has made it");
    case.run(1, &[]).wait().complete();
    assert_identical(&case.source, &case.destination());
    // Now it is finished, and the same command means "into".
    case.run(2, &[]).wait().complete();
    assert_identical(&case.source, &case.destination().join("run42"));
}

#[test]
fn a_copy_on_one_machine_is_resumed_too() {
    let rig = Rig::new();
    let (source, destination) = (rig.path("run42"), rig.path("new"));
    let total = make_tree(&source, 24, &mut Seeded(9));
    rig.make_dirs("away/deep");
    let here = rig.path("away");
    let mut killed = rig.begin_cp(&here, &["--limit", "12MB", "../run42", "../new"]);
    wait_until(|| (killed.written()? > 9 * MIB).then_some(())).expect("it writes");
    killed.signal(Signal::KILL);
    killed.wait();
    assert_finals_whole(&source, &destination);
    let vouched = Rig::recovered(&rig.client_home()).map_or(0, |known| known.vouched_bytes);
    let end = rig
        .begin_cp(
            &rig.path("away/deep"),
            &["--streams", "3", "../../run42", "../../new"],
        )
        .wait();
    end.complete().says("\"resumed\":true");
    assert!(
        end.number("bytes") <= total - vouched,
        "{vouched}: {}",
        end.said()
    );
    assert_identical(&source, &destination);
    assert_tidy(&destination, &rig.client_home());
}

#[test]
fn control_c_stops_cleanly_and_the_same_command_resumes() {
    for way in [Direction::Push, Direction::Pull] {
        let case = Case::new(way, |root| make_tree(root, 24, &mut Seeded(2)));
        let before = case.written_before();
        let mut client = case.run(0, &["--limit", "12MB"]);
        case.watch(&mut client, before, 9 * MIB);
        // Two signals that mean one interrupt, as from a program that signals itself and its group.
        client.signal(Signal::INT);
        client.signal(Signal::INT);
        let end = client.wait();
        end.expect(5, "interrupted")
            .expect_code(FailureCode::Cancelled);
        assert_finals_whole(&case.source, &case.destination());
        if way == Direction::Push {
            // The daemon suspends once it has noticed; the same command would wait for that too.
            wait_until(|| {
                case.rig
                    .daemon()
                    .said()
                    .contains("interrupted")
                    .then_some(())
            })
            .expect("the daemon notices");
        }
        let vouched = case.vouched();
        assert!(vouched > 0, "{way:?}: nothing was kept");
        let end = case.run(1, &[]).wait();
        case.check_end(&end, vouched);
        end.says("\"resumed\":true");
        assert_eq!(end.number("resent_bytes"), 0, "{way:?}: {}", end.said());
    }
}

/// A run that is interrupted when some of a large file has arrived.
fn interrupted(case: &Case, number: u64) {
    let before = case.written_before();
    let mut client = case.run(number, &["--limit", "12MB"]);
    case.watch(&mut client, before, 9 * MIB);
    client.signal(Signal::INT);
    client.wait().expect(5, "interrupted");
    if case.way == Direction::Push {
        let noticed = || {
            let said = case.rig.daemon().said();
            (said.matches("interrupted").count() > usize::try_from(number).ok()?).then_some(())
        };
        wait_until(noticed).expect("the daemon notices");
    }
}

#[test]
fn of_what_the_source_has_no_more_nothing_is_left_though_entries_fail() {
    for way in [Direction::Push, Direction::Pull] {
        let case = Case::new(way, |root| {
            write_file(&root.join("first"), 24 * MIB, &mut Seeded(1));
            let made = Command::new("mkfifo").arg(root.join("fifo")).status();
            assert!(made.is_ok_and(|made| made.success()), "made");
            24 * MIB
        });
        let temporaries = || {
            let mut found = files_below(&case.destination());
            found.retain(|path| is_temporary(path));
            found.len()
        };
        let known = || {
            Rig::recovered(&case.receiver_home())
                .expect("a journal")
                .partial
        };
        interrupted(&case, 0);
        fs::rename(case.source.join("first"), case.source.join("second")).expect("ours");
        interrupted(&case, 1);
        assert_eq!((temporaries(), known().len()), (2, 2), "{way:?}");
        fs::remove_file(case.source.join("second")).expect("ours");
        fs::write(case.source.join("third"), "third").expect("written");
        case.run(2, &[]).wait().expect(3, "partial");
        assert_eq!((temporaries(), known().len()), (0, 0), "{way:?}");
        fs::remove_file(case.source.join("fifo")).expect("ours");
        case.run(3, &[]).wait().complete();
        assert_identical(&case.source, &case.destination());
        assert_tidy(&case.destination(), &case.receiver_home());
    }
}

#[test]
fn a_daemon_that_comes_back_is_found_again_and_one_that_does_not_is_given_up() {
    for way in [Direction::Push, Direction::Pull] {
        let mut case = Case::new(way, |root| make_tree(root, 24, &mut Seeded(3)));
        let before = case.written_before();
        let mut client = case.run(0, &["--limit", "20MB", "--retry-for", "2s"]);
        case.watch(&mut client, before, 6 * MIB);
        case.rig.kill_daemon();
        client
            .wait()
            .expect(5, "interrupted")
            .expect_code(FailureCode::ConnectionLost)
            .says("without a connection");
        case.rig.start(&[]);

        let before = case.written_before();
        let mut client = case.run(1, &["--limit", "20MB", "--retry-for", "60s"]);
        case.watch(&mut client, before, 3 * MIB);
        case.rig.kill_daemon();
        case.rig.start(&[]);
        let end = client.wait();
        case.check_end(&end, 0);
    }
}

#[test]
fn a_damaged_journal_is_reported_and_costs_only_what_it_knew() {
    let damages: [fn(&mut Vec<u8>); 4] = [
        |bytes| bytes[..40].fill(b'x'),
        |bytes| bytes.truncate(bytes.len() - 5),
        |bytes| {
            let middle = bytes.len() * 2 / 3;
            bytes[middle] ^= 0x10;
        },
        |bytes| bytes.truncate(10),
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        let way = if number.is_multiple_of(2) {
            Direction::Push
        } else {
            Direction::Pull
        };
        let mut case = Case::new(way, |root| make_tree(root, 24, &mut Seeded(4)));
        let before = case.written_before();
        let mut client = case.run(0, &["--limit", "12MB", "--retry-for", "1s"]);
        case.watch(&mut client, before, 9 * MIB);
        if way == Direction::Push {
            case.rig.kill_daemon();
        } else {
            client.signal(Signal::KILL);
        }
        client.wait();
        let journals = Rig::journals(&case.receiver_home());
        let mut bytes = fs::read(&journals[0]).expect("read");
        damage(&mut bytes);
        fs::write(&journals[0], &bytes).expect("written");
        if way == Direction::Push {
            case.rig.start(&[]);
        }
        // In some cases the header is gone, and with it the mapping. The destination is then taken as it is now.
        let header_gone = number == 0 || number == 3;
        let end = case.run(1, &[]).wait();
        end.complete();
        let destination = if header_gone {
            case.destination().join("run42")
        } else {
            case.destination()
        };
        assert_identical(&case.source, &destination);
        let name = journals[0].display().to_string();
        let said = if way == Direction::Push {
            // A peer does not learn where the home of a node is.
            end.says("the journal of an earlier run of this transfer");
            assert!(!end.said().contains(&name), "{}", end.said());
            case.rig.daemon().wait_for(&name)
        } else {
            end.said()
        };
        assert!(said.contains(&format!("journal {name}: ")), "{said}");
        assert_eq!(
            said.contains("starts from the beginning"),
            header_gone,
            "{number}"
        );
    }
}

#[test]
fn one_transfer_at_a_time_writes_to_a_destination() {
    let case = Case::new(Direction::Push, |root| make_tree(root, 24, &mut Seeded(5)));
    let other = case.rig.path("other");
    make_tree(&other, 4, &mut Seeded(6));
    let before = case.written_before();
    let mut first = case.run(0, &["--limit", "1MB"]);
    case.watch(&mut first, before, MIB);
    let here = case.rig.path("away");
    let other = other.to_str().expect("text");
    let busy = |source: &str, destination: &str| {
        let end = case
            .rig
            .begin_cp(&here, &[source, &case.rig.url(destination)])
            .wait();
        end.expect(1, "failed")
            .expect_code(FailureCode::BusyDestination)
            .says("new");
        end.said()
    };
    let below = busy(other, "new/d0/below");
    let same_place = busy(other, "new");
    // The second client is not taken for one that lost its connection.
    let twice = busy("../run42", "new");
    for said in [&below, &same_place, &twice] {
        assert!(
            said.contains("another transfer") || said.contains("already") || said.contains("runs"),
            "{said}"
        );
    }
    case.rig
        .begin_cp(&here, &[other, &case.rig.url("beside")])
        .wait()
        .complete();
    assert_identical(Path::new(other), &case.rig.export.join("beside"));
    assert!(
        !first.has_ended(),
        "all of that was to be at one time: {}",
        first.said()
    );
    first.signal(Signal::KILL);
    first.wait();
    let end = case.run(1, &[]).wait();
    case.check_end(&end, 0);
}

#[test]
fn an_unfinished_transfer_keeps_its_digest_whatever_is_asked_for() {
    for way in [Direction::Push, Direction::Pull] {
        let case = Case::new(way, |root| make_tree(root, 16, &mut Seeded(5)));
        let before = case.written_before();
        let mut client = case.run(0, &["--limit", "8MB"]);
        case.watch(&mut client, before, 2 * MIB);
        client.signal(Signal::KILL);
        client.wait();
        let vouched = case.vouched();
        let end = case.run(1, &["--digest", "blake3"]).wait();
        end.complete().says("\"resumed\":true");
        case.check_end(&end, vouched);
    }
}

#[test]
fn a_transfer_whose_client_was_killed_delays_no_other() {
    let case = Case::new(Direction::Push, |root| make_tree(root, 16, &mut Seeded(6)));
    let more = case.rig.path("more");
    make_tree(&more, 1, &mut Seeded(7));
    let before = case.written_before();
    let mut client = case.run(0, &["--limit", "8MB"]);
    case.watch(&mut client, before, 2 * MIB);
    client.signal(Signal::KILL);
    client.wait();
    // Another command, into the destination of the killed one.
    let into = format!("{}/", case.rig.url("new"));
    let mut other = case
        .rig
        .begin_cp(&case.rig.path("away"), &["../more", &into]);
    other.wait().complete();
    assert_identical(&more, &case.destination().join("more"));
    fs::remove_dir_all(case.destination().join("more")).expect("it arrived");
    let end = case.run(1, &[]).wait();
    end.complete().says("\"resumed\":true");
    assert_identical(&case.source, &case.destination());
    let memory = &end.summary()["max_rss_bytes"]["destination"];
    assert!(memory.is_u64(), "nobody else used the node: {}", end.said());
}

#[test]
fn a_daemon_that_is_stopped_and_started_again_is_taken_up_again() {
    let mut rig = Rig::new();
    rig.start(&[]);
    for source in ["run42", "export/run42"] {
        rig.write(&format!("{source}/large"), vec![7; 8 << 20]);
    }
    for ends in rig.push_and_pull() {
        fs::create_dir_all(ends.destination.parent().expect("below")).expect("made");
        // Slow, so that the transfer is running when the daemon is stopped.
        let line = ends.line(&["--limit", "4MB", "--block-size", "64KiB"]);
        let mut run = rig.begin_cp(&rig.path(""), &line);
        run.wait_for("\"started\"");
        rig.end_daemon(Signal::TERM);
        rig.start(&[]);
        run.wait().complete();
        assert_identical(&ends.source, &ends.destination);
    }
}

/// A file from a run without `--force` may have changed since, with its time set back.
#[test]
fn force_leaves_out_only_what_a_forced_run_has_sent() {
    let mut rig = Rig::new();
    rig.start(&[]);
    rig.write("run42/a", "content");
    rig.write("run42/b", "more");
    let fifo = rig.path("run42/p");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("it runs").success());
    for to in [rig.url("to"), "to".to_owned()] {
        let there = match to.as_str() {
            "to" => rig.path("to/a"),
            _ => rig.path("export/to/a"),
        };
        let cp = |flags: &[&str]| rig.cp(&[flags, &["run42/.", &to]].concat());
        let spoil = || {
            let file = fs::File::options().write(true).open(&there).expect("there");
            let time = file.metadata().and_then(|meta| meta.modified());
            std::os::unix::fs::FileExt::write_all_at(&file, b"CON", 0).expect("written");
            file.set_modified(time.expect("a time")).expect("set");
        };
        let forced = |sent: u64, skipped: u64| {
            let outcome = cp(&["--force"]);
            outcome.expect(3, "partial");
            assert_eq!(outcome.number("files"), sent, "{outcome:?}");
            assert_eq!(outcome.number("skipped"), skipped, "{outcome:?}");
        };
        cp(&[]).expect(3, "partial");
        spoil();
        forced(2, 0);
        assert_eq!(fs::read(&there).expect("there"), b"content");
        // This transfer resumes where it was.
        forced(0, 2);
        // A run without `--force` lies between them.
        assert_eq!(cp(&[]).expect(3, "partial").number("skipped"), 2);
        spoil();
        forced(2, 0);
        assert_eq!(fs::read(&there).expect("there"), b"content");
    }
}
