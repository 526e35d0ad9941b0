//! Tests claims by the answers that peers get: which peers learn of a claim, and which marks stay. Tests no leases (`claims`).

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use godwit_api::grant::Mandate;
use godwit_api::grant::lasting::Look;
use godwit_api::job::Text;
use godwit_net::Identity;
use godwit_run::Process;

use super::*;
use crate::allow::Who;
use crate::begin::tests::{daemon, export};
use crate::claims::ClaimTable;

/// A node with the export `data`.
struct World {
    directory: tempfile::TempDir,
    here: Here,
    claims: Arc<ClaimTable>,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        for name in ["data", "home/journals"] {
            std::fs::create_dir_all(path(name)).expect("made");
        }
        let claims = Arc::new(ClaimTable::default());
        let exports = vec![export(&path("data"))];
        let here = Here::new(exports, path("home"), Process::default().syncs);
        Self {
            here: here.claiming(Arc::clone(&claims)),
            directory,
            claims,
        }
    }

    fn ask(&self, letter: &str, at: &str, question: &Question) -> Result<Answer, Refusal> {
        ask(&self.here, &peer(letter, None), at, question)
    }

    /// Ends all leases, and removes the marks that are to be removed.
    fn end_leases(&self) {
        look(&self.claims, 2);
        self.here.remove_marks();
    }

    fn marks(&self) -> usize {
        marks_in(&self.directory.path().join("data"))
    }
}

/// A peer that names this job of the site `c`.
fn peer(letter: &str, job: Option<&str>) -> Who {
    let identity = |of: &str| format!("gw1-{}a", of.repeat(51));
    Who {
        peer: identity(letter).parse().expect("an identity"),
        mandate: job.map(|job| Mandate {
            asker: identity("c"),
            job: job.to_owned(),
        }),
    }
}

/// The question of a peer that may write at this path and below it.
fn ask(here: &Here, who: &Who, at: &str, question: &Question) -> Result<Answer, Refusal> {
    let holder = Holder {
        by: By::Peer(who.clone()),
        may_hold: &|_: &By, _: &Text| Look::Holds,
    };
    let at = RelPath::parse(at.as_bytes()).expect("a path");
    let may = |_: &str, path: &RelPath, _: Right| match path.starts_with(&at) {
        true => Ok(()),
        false => {
            let message = format!("you may not write to data/{path}");
            Err(Refusal::new(code::NOT_GRANTED, message))
        }
    };
    let answered = here.claim(question, &holder, &may, &|_| false);
    answered.expect("a question about a claim")
}

/// Checks the claims as the keeper would check them this many hours later.
fn look(claims: &ClaimTable, hours: u64) {
    let at = Instant::now() + Duration::from_secs(hours * 3600);
    claims.look(at, &|_: &By, _: &Text| Look::Holds);
}

fn marks_in(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).expect("there");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    names
        .filter(|name| TempName::is_temp(name.as_encoded_bytes()))
        .count()
}

fn id(number: u16) -> ClaimId {
    let mut id = [0; 16];
    id[..2].copy_from_slice(&number.to_le_bytes());
    ClaimId(id)
}

fn claim(number: u16, epoch: u64, path: &str) -> ClaimPlace {
    ClaimPlace {
        claim: id(number),
        epoch,
        path: Text::from(path),
        members: Vec::new(),
        lease_ms: 60_000,
        fence: Vec::new(),
        copies: false,
        mark: Mark::Untouched,
    }
}

#[test]
fn the_id_of_a_claim_does_not_show_its_path() {
    let world = World::new();
    let secret = claim(1, 1, "data/private/merger");
    world
        .ask("a", "private", &Question::Claim(secret))
        .expect("set");
    // The second claim is of a job of another node.
    let secret = claim(2, 1, "data/private/guest");
    let holder = peer("a", Some("7"));
    ask(&world.here, &holder, "private", &Question::Claim(secret)).expect("set");
    let asked = |number: u16, job: Option<&str>| {
        let renew = RenewClaim {
            claim: id(number),
            epoch: 1,
            lease_ms: 60_000,
        };
        let release = ReleaseClaim {
            claim: id(number),
            epoch: 1,
            path: None,
        };
        let questions = [Question::Renew(renew), Question::Release(release)];
        questions.map(|question| {
            let answered = ask(&world.here, &peer("q", job), "open", &question);
            answered.map_err(|no| no.message.replace(&id(number).to_string(), "id"))
        })
    };
    // A claim of others is answered like one that was never set.
    assert_eq!(asked(1, None), asked(3, None));
    // Any peer may name the job.
    assert_eq!(asked(2, Some("7")), asked(3, None));
    let stolen = Question::Claim(claim(1, 9, "data/open/x"));
    let no = world.ask("q", "open", &stolen).expect_err("held by a");
    assert_eq!(no.code, code::NO_SUCH_CLAIM);
    assert!(!no.message.contains("private"), "{no}");
    // Its holder hears which right is missing.
    let renew = Question::Renew(RenewClaim {
        claim: id(1),
        epoch: 1,
        lease_ms: 60_000,
    });
    let no = world.ask("a", "open", &renew).expect_err("no right");
    assert!(no.message.contains("private/merger"), "{no}");
    world.ask("a", "private", &renew).expect("it still holds");
}

fn marked(number: u16, epoch: u64, path: &str) -> Question {
    Question::Claim(ClaimPlace {
        mark: Mark::Make,
        ..claim(number, epoch, path)
    })
}

/// The marks lie above the only place where the peer may write, because that place does not exist.
#[test]
fn the_marks_of_one_identity_are_bounded_and_do_not_stay_for_ever() {
    let world = World::new();
    let set = |question: &Question| world.ask("a", "a/b/c", question).map(drop);
    for number in 0..300 {
        let question = marked(number, 1, &format!("data/a/b/c/{number}"));
        assert_eq!(set(&question), Ok(()));
        world.end_leases();
    }
    assert_eq!(world.marks(), 256);
    // The latest claims have their marks, so their controllers can take them again.
    let expect = |number: u16| {
        let wish = claim(number, 2, &format!("data/a/b/c/{number}"));
        set(&Question::Claim(ClaimPlace {
            mark: Mark::Expect,
            ..wish
        }))
    };
    assert_eq!(expect(299), Ok(()));
    let no = expect(0).expect_err("its mark is gone");
    assert_eq!(no.code, code::OTHER_PLACE);
    let release = Question::Release(ReleaseClaim {
        claim: id(299),
        epoch: 2,
        path: None,
    });
    assert_eq!(set(&release), Ok(()));
    assert_eq!(world.marks(), 255);
    world.end_leases();
    world.here.remove_marks();
    let kept = world.marks();
    look(&world.claims, 60 * 24);
    world.here.remove_marks();
    assert_eq!(world.marks(), kept, "their jobs may be paused for weeks");
    assert!(kept >= 254, "{kept}");
    look(&world.claims, 91 * 24);
    world.here.remove_marks();
    assert_eq!(world.marks(), 0);
}

#[test]
fn a_claim_that_is_set_again_keeps_its_first_mark() {
    let world = World::new();
    let data = world.directory.path().join("data");
    let set = |epoch| world.ask("a", "a", &marked(1, epoch, "data/a/copy"));
    std::fs::create_dir(data.join("a")).expect("made");
    assert_eq!(set(1), Ok(Answer::Done {}));
    assert_eq!(marks_in(&data.join("a")), 1);
    // The first attempt has made the destination, which is nearer than its mark.
    std::fs::create_dir(data.join("a/copy")).expect("made");
    assert_eq!(set(2), Ok(Answer::Done {}));
    assert_eq!(marks_in(&data.join("a")), 1);
    assert_eq!(marks_in(&data.join("a/copy")), 0);
}

#[test]
fn a_claim_that_moves_takes_its_mark_with_it() {
    let world = World::new();
    let set = |epoch, path: &str| {
        let set = world.ask("a", "a", &marked(1, epoch, path));
        set.expect("set");
        world.here.remove_marks();
        world.marks()
    };
    for epoch in 1..20 {
        assert_eq!(set(epoch, &format!("data/a/{epoch}")), 1);
    }
    // It is set again at its place before the earlier mark is removed.
    for (epoch, path) in [(20, "data/a/x"), (21, "data/a/y"), (22, "data/a/x")] {
        let set = world.ask("a", "a", &marked(1, epoch, path));
        set.expect("set");
    }
    world.here.remove_marks();
    assert_eq!(world.marks(), 1);
    let expected = Question::Claim(ClaimPlace {
        mark: Mark::Expect,
        ..claim(1, 23, "data/a/x")
    });
    world.ask("a", "a", &expected).expect("the mark is there");
}

/// A file system may hang while a mark is removed. A new mark of the claim would be removed as well.
#[test]
fn a_claim_is_not_set_while_its_mark_is_being_removed() {
    let world = World::new();
    let set = |epoch, path: &str| world.ask("a", "a", &marked(1, epoch, path)).map(drop);
    assert_eq!(set(1, "data/a/x"), Ok(()));
    assert_eq!(set(2, "data/a/y"), Ok(()));
    let removed = Cell::new(0);
    world.claims.remove_remains(&|_, asked| {
        assert_eq!(*asked, Text::from("data/a/x"));
        let no = set(3, "data/a/x").expect_err("its mark is being removed");
        assert_eq!(no.code, code::BUSY);
        assert!(no.retryable);
        removed.set(removed.get() + 1);
    });
    assert_eq!(removed.get(), 1);
    assert_eq!(set(3, "data/a/x"), Ok(()));
    let removal = world.claims.removal(id(1), &Text::from("data/a/z"));
    let no = set(4, "data/a/z").expect_err("its mark is being removed");
    assert_eq!(no.code, code::BUSY);
    drop(removal);
    assert_eq!(set(4, "data/a/z"), Ok(()));
}

#[test]
fn the_keeper_removes_the_marks() {
    let home = tempfile::tempdir().expect("a directory");
    let identity = Identity::load_or_create(home.path()).expect("a key");
    let mut daemon = daemon(home.path(), &identity);
    let export = home.path().join("export");
    let shared = &daemon.shared;
    let who = peer("a", None);
    ask(&shared.here, &who, "a", &marked(1, 1, "data/a/b")).expect("set");
    assert_eq!(marks_in(&export), 1);
    for hours in [2, 91 * 24] {
        look(&shared.config.claims, hours);
    }
    let until = Instant::now() + Duration::from_secs(60);
    while marks_in(&export) > 0 {
        assert!(Instant::now() < until, "the mark stays");
        std::thread::sleep(Duration::from_millis(20));
    }
    daemon.stop();
}
