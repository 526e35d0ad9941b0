//! Tests what a grant allows, and its text form.

use proptest::prelude::*;

use super::*;

const ID: &str = "gw1-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn grant(area: &str, rights: &str) -> Grant {
    Grant::of_words(&[ID, area, rights]).expect("a grant")
}

fn wish<'a>(export: &'a str, path: &'a str, right: Right) -> Wish<'a> {
    Wish {
        place: Some((export, path.as_bytes())),
        right,
    }
}

fn may(grant: &Grant, wish: Wish<'_>) -> bool {
    grant.allows(&grant.subject, wish, NOW)
}

#[test]
fn a_path_is_compared_by_its_components() {
    let grant = grant("data:/run4", "read");
    for (path, allowed) in [
        ("run4", true),
        ("run4/", true),
        ("/run4", true),
        ("//run4//a/./b", true),
        ("run4/..", false),
        ("run4/../run4", false),
        ("run4/../run5", false),
        ("run42", false),
        ("run", false),
        ("", false),
        ("a/run4", false),
        ("RUN4", false),
        ("run4\0", false),
        (".run4", false),
    ] {
        assert_eq!(
            may(&grant, wish("data", path, Right::Read)),
            allowed,
            "{path:?}"
        );
        assert!(!may(&grant, wish("data2", path, Right::Read)), "{path:?}");
    }
}

#[test]
fn each_right_implies_its_documented_rights_and_no_other() {
    use Right::{Delete, List, Read, Write};
    for (rights, allowed) in [
        ("read", &[Read, List][..]),
        ("write", &[Write, Delete]),
        ("list", &[List]),
        ("delete", &[Delete]),
        ("read,write", &[Read, Write, List, Delete]),
        ("none", &[]),
    ] {
        for right in Right::ALL {
            let grant = grant("data", rights);
            assert_eq!(
                may(&grant, wish("data", "x", right)),
                allowed.contains(&right),
                "{rights} {right:?}"
            );
        }
    }
}

#[test]
fn an_expired_grant_is_none_and_others_add_up() {
    let mut old = grant("*", "read,write");
    old.expires = Some(NOW);
    let one = grant("data:/a", "write");
    let all = [old, one];
    let who = all[0].subject.clone();
    let may = |place, right, now| allows(&all, &who, wish("data", place, right), now);
    assert!(may("b", Right::Read, Timestamp(NOW.0 - 1)));
    assert!(!may("b", Right::Read, NOW));
    assert!(may("a/b", Right::Write, NOW));
    assert!(!may("a/b", Right::Read, NOW));
    let nobody = Subject::user("otto");
    let wish = wish("data", "a", Right::Write);
    assert!(!allows(&all, &nobody, wish, NOW));
    let memory = Wish {
        place: None,
        right: Right::Write,
    };
    assert!(allows(&all, &who, memory, NOW));
}

#[test]
fn lines_that_say_nothing_known_are_refused() {
    for (line, what) in [
        ("", "0 words"),
        ("me data read", "neither an identity"),
        ("user: data read", "name of a user"),
        (&format!("{ID} data execute"), "no right"),
        (&format!("{ID} a/b read"), "cannot name an export"),
        (&format!("{ID} data:run4 read"), "begins with a slash"),
        (&format!("{ID} data:/a/../b read"), "contains .."),
        (&format!("{ID} data:/%2 read"), "percent sign"),
        (&format!("{ID} data:/%FF read"), "percent sign"),
        (&format!("{ID} data:/%0A read"), "control character"),
        (&format!("{ID} data read more"), "until=TIME"),
        (&format!("{ID} data read until=soon"), "not a time"),
        (
            &format!("{ID} data read until=2026-01-01T00:00:00Z x"),
            "one word too many",
        ),
    ] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let error = Grant::of_words(&words).expect_err(line).to_string();
        assert!(error.contains(what), "{line:?}: {error}");
    }
    let upper = format!("gw1-{}", ID[4..].to_uppercase());
    assert_eq!(upper.parse::<Subject>(), ID.parse());
}

#[test]
fn a_hint_grants_what_was_asked_for_and_no_more() {
    for (path, right, options) in [
        ("", Right::Read, "--export data --read"),
        ("/run 4/", Right::Write, "--export data:/run%204 --write"),
        ("a'b", Right::List, r"--export 'data:/a'\''b' --read"),
        ("a/../b", Right::Delete, "--export data --write"),
    ] {
        assert_eq!(wish("data", path, right).options(), options);
    }
    let bytes = Wish {
        place: Some(("data", b"a/\xff/b")),
        right: Right::Read,
    };
    assert_eq!(bytes.options(), "--export data:/a --read");
}

fn component() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("run4".to_owned()),
        Just("run42".to_owned()),
        Just("..".to_owned()),
        Just(".".to_owned()),
        Just(String::new()),
        "[a-z%# é:]{1,4}",
    ]
}

fn path() -> impl Strategy<Value = String> {
    proptest::collection::vec(component(), 0..5).prop_map(|parts| parts.join("/"))
}

#[test]
fn an_area_at_a_site_is_read_as_it_is_written_and_is_no_area_here() {
    for (text, site, area) in [
        ("siteB", "siteB", "*"),
        ("siteB:/", "siteB", "*"),
        ("siteB:/data", "siteB", "data"),
        ("siteB:/data/", "siteB", "data"),
        ("siteB:/data/run%204/x", "siteB", "data:/run%204/x"),
    ] {
        let at: SiteArea = text.parse().expect("an area at a site");
        assert_eq!(
            (at.site.as_str(), at.area.to_string()),
            (site, area.to_owned()),
            "{text}"
        );
        assert_eq!(at.to_string().parse(), Ok(at), "{text}");
    }
    for text in [
        "",
        "here",
        "here:/data",
        "siteB:data",
        "siteB:/data/../x",
        "a b:/data",
        "siteB:/*",
    ] {
        assert!(text.parse::<SiteArea>().is_err(), "{text}");
    }
    let at = Grant {
        subject: Subject::user("otto"),
        site: Some("siteB".to_owned()),
        ..grant("data:/run4", "read")
    };
    let wish = wish("data", "run4", Right::Read);
    assert!(at.allows_at(Some("siteB"), &at.subject, wish, NOW));
    for site in [None, Some("siteC")] {
        assert!(!at.allows_at(site, &at.subject, wish, NOW), "{site:?}");
    }
    assert!(!at.allows(&at.subject, wish, NOW));
    let memory = Wish {
        place: None,
        ..wish
    };
    assert!(!at.allows(&at.subject, memory, NOW));
    let here = grant("data", "read");
    assert!(!here.allows_at(Some("siteB"), &here.subject, wish, NOW));
    // A file of grants cannot contain it: its line is refused, and not read as one for an export.
    let line = at.to_string();
    let words: Vec<&str> = line.split(' ').collect();
    assert!(Grant::of_words(&words).is_err(), "{line}");
}

proptest! {
    /// A covered path starts with the components of the grant's path, and has no `..`.
    #[test]
    fn only_what_lies_below_is_covered(own in path(), asked in path()) {
        let plain = |path: &str| -> Vec<String> {
            let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
            parts.map(str::to_owned).collect()
        };
        let (own_parts, asked_parts) = (plain(&own), plain(&asked));
        let climbs = |parts: &[String]| parts.iter().any(|part| part == "..");
        match Area::below("data", &own) {
            Ok(area) => {
                let lies_below = !climbs(&asked_parts) && asked_parts.starts_with(&own_parts);
                prop_assert_eq!(area.covers("data", asked.as_bytes()), lies_below);
                prop_assert!(!area.covers("date", asked.as_bytes()));
            }
            Err(_) => prop_assert!(climbs(&own_parts)),
        }
    }

    /// The text of a grant reads back as the same grant, with no more words than a line has.
    #[test]
    fn a_line_is_read_as_it_was_written(path in path(), bits in 0_u8..16, expires in proptest::option::of(0_i64..4_000_000_000_000)) {
        prop_assume!(Area::below("data", &path).is_ok());
        let rights = Right::ALL.into_iter().filter(|right| bits & (1 << *right as u8) != 0).collect();
        let grant = Grant {
            subject: ID.parse().expect("an identity"),
            site: None,
            area: Area::below("data", &path).expect("checked"),
            rights,
            expires: expires.map(Timestamp),
            comment: String::new(),
            mandate: None,
        };
        let line = grant.to_string();
        prop_assert!(!line.contains('#'));
        let words: Vec<&str> = line.split_whitespace().collect();
        prop_assert_eq!(Grant::of_words(&words), Ok(grant));
    }

    /// An area covers every path of an area that it contains.
    #[test]
    fn a_contained_area_covers_nothing_more(outer in path(), inner in path(), asked in path()) {
        let (Ok(outer), Ok(inner)) = (Area::below("data", &outer), Area::below("data", &inner)) else {
            return Ok(());
        };
        if outer.contains(&inner) && inner.covers("data", asked.as_bytes()) {
            prop_assert!(outer.covers("data", asked.as_bytes()));
        }
    }
}

/// A grant to `subject` below `data/path`, of a job of `asker` if there is one.
fn given(subject: &Subject, path: &str, rights: Rights, asker: Option<&Subject>) -> Grant {
    Grant {
        site: None,
        subject: subject.clone(),
        area: Area::below("data", path).expect("an area"),
        rights,
        expires: None,
        comment: String::new(),
        mandate: asker.map(|asker| Mandate {
            asker: asker.to_string(),
            job: "j1".to_owned(),
        }),
    }
}

#[test]
fn a_job_of_another_node_is_admitted_by_its_own_grants_and_the_rights_of_its_asker_alone() {
    let identity = |sign: &str| -> Subject {
        format!("gw1-{}", sign.repeat(52))
            .parse()
            .expect("an identity")
    };
    let (runner, asker, other) = (identity("a"), identity("b"), identity("c"));
    let own = given(&runner, "", Rights::BOTH, None);
    let of_job = given(&runner, "in", Rights::WRITE, Some(&asker));
    let of_asker = given(&asker, "in", Rights::WRITE, None);
    let request = |asker: Option<&Subject>, job: &str| Requester {
        peer: runner.clone(),
        mandate: asker.map(|asker| Mandate {
            asker: asker.to_string(),
            job: job.to_owned(),
        }),
    };
    let wish = |path: &'static str, right| Wish {
        place: Some(("data", path.as_bytes())),
        right,
    };
    let write = wish("in/f", Right::Write);
    let all = [own.clone(), of_job.clone(), of_asker.clone()];
    let now = Timestamp(0);
    let may = |request: &Requester, grants: &[Grant], rights, wish| {
        request.may(grants, rights, wish, now)
    };
    let job = request(Some(&asker), "j1");
    assert!(may(&job, &all, AskerRights::Granted, write));
    // Neither the runner's own grants, nor the asker's, nor those of the job are enough.
    for missing in 1..3 {
        let mut fewer = all.to_vec();
        fewer.remove(missing);
        assert!(!may(&job, &fewer, AskerRights::Granted, write), "{missing}");
    }
    for wish in [
        wish("in/f", Right::Read),
        wish("else/f", Right::Write),
        Wish {
            place: None,
            right: Right::Write,
        },
    ] {
        assert!(!may(&job, &all, AskerRights::Granted, wish), "{wish:?}");
    }
    for wrong in [request(Some(&asker), "j2"), request(Some(&other), "j1")] {
        assert!(!may(&wrong, &all, AskerRights::Granted, write), "{wrong:?}");
    }
    // The asker belongs to the deciding site: its job has to be alive.
    let without_asker = [own, of_job.clone()];
    assert!(may(&job, &without_asker, AskerRights::OwnJob, write));
    assert!(!may(&job, &without_asker, AskerRights::EndedJob, write));
    // Access for a job opens nothing to the runner itself.
    let itself = request(None, "");
    assert!(!may(
        &itself,
        &[of_job, of_asker],
        AskerRights::Granted,
        write
    ));
}

/// Even if a file system treats two spellings as one name, a grant covers only its own spelling.
#[test]
fn a_grant_is_for_one_spelling() {
    let one = grant("data:/Data", "read");
    assert!(may(&one, wish("data", "Data/x", Right::Read)));
    for other in ["data/x", "DATA/x", "Data\u{301}/x"] {
        assert!(!may(&one, wish("data", other, Right::Read)), "{other}");
    }
}
