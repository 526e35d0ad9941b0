//! Tests the answers about grants, and the identity under which a peer counts.

use super::*;

fn identity(letter: &str) -> IdentityId {
    let text = format!("gw1-{}a", letter.repeat(51));
    text.parse().expect("an identity")
}

/// Rules of a site that contains the asker m as a node.
struct WithOwn(Arc<Vec<Grant>>);

impl StateRules for WithOwn {
    fn grants(&self) -> Result<Arc<Vec<Grant>>, String> {
        Ok(Arc::clone(&self.0))
    }

    fn own_job(&self, _: &str, mandate: &Mandate) -> Result<Option<bool>, String> {
        Ok((mandate.asker == identity("m").to_string()).then_some(true))
    }
}

#[test]
fn a_stranger_hears_nothing_of_the_file_of_grants() {
    let home = tempfile::tempdir().expect("a directory");
    std::fs::write(home.path().join("grants"), "somebody data read\n").expect("written");
    let rules = WithOwn(Arc::default());
    let grantor = Grantor {
        home: home.path(),
        rules: &rules,
    };
    let stranger = Who::itself(identity("q"));
    let no = grantor.granted(&stranger).expect_err("unreadable");
    assert_eq!(no.code, ErrorCode::INTERNAL);
    for secret in ["somebody", &home.path().display().to_string()] {
        assert!(!no.message.contains(secret), "{}", no.message);
    }
    assert!(no.message.contains("godwit access list"), "{}", no.message);
    assert!(no.is_of_stranger());
}

#[test]
fn identities_that_an_asker_let_in_count_as_the_asker() {
    let grant = |who: &str, asker: Option<&str>| Grant {
        subject: Subject::Identity(identity(who).to_string()),
        site: None,
        area: Area::asked("data", b""),
        rights: "read".parse().expect("rights"),
        expires: None,
        comment: String::new(),
        mandate: asker.map(|asker| Mandate {
            asker: identity(asker).to_string(),
            job: "j".to_owned(),
        }),
    };
    let all = Arc::new(vec![
        grant("q", None),
        grant("b", Some("q")),
        grant("c", Some("q")),
        grant("c", Some("a")),
        grant("d", Some("q")),
        grant("d", None),
        grant("f", Some("q")),
        grant("f", Some("m")),
    ]);
    let rules = WithOwn(all);
    let home = std::env::temp_dir().join("godwit-no-such-home");
    let grantor = Grantor {
        home: &home,
        rules: &rules,
    };
    for (peer, givers) in [("q", "q"), ("b", "q"), ("c", "aq"), ("d", "d"), ("e", "e")] {
        let mut found: Vec<String> = grantor
            .givers(identity(peer))
            .iter()
            .map(ToString::to_string)
            .collect();
        found.sort();
        let givers = givers.chars().map(|giver| identity(&giver.to_string()));
        let givers: Vec<String> = givers.map(|giver| giver.to_string()).collect();
        assert_eq!(found, givers, "{peer}");
    }
}

/// Rules of a node that may have heard nothing from its cluster for long.
struct Lone {
    rules: Arc<Vec<Grant>>,
    is_outdated: bool,
}

impl StateRules for Lone {
    fn grants(&self) -> Result<Arc<Vec<Grant>>, String> {
        Ok(Arc::clone(&self.rules))
    }

    fn own_job(&self, _: &str, _: &Mandate) -> Result<Option<bool>, String> {
        Ok(None)
    }

    fn is_outdated(&self) -> bool {
        self.is_outdated
    }
}

#[test]
fn rules_that_may_have_been_revoked_long_ago_admit_no_request_and_the_file_of_grants_does() {
    let home = tempfile::tempdir().expect("a directory");
    let line = format!("{} data read\n", identity("f"));
    std::fs::write(home.path().join("grants"), line).expect("written");
    let rule = Grant {
        subject: Subject::Identity(identity("q").to_string()),
        site: None,
        area: Area::asked("data", b""),
        rights: "read".parse().expect("rights"),
        expires: None,
        comment: String::new(),
        mandate: None,
    };
    let rules = Arc::new(vec![rule]);
    for is_outdated in [false, true] {
        let lone = Lone {
            rules: Arc::clone(&rules),
            is_outdated,
        };
        let grantor = Grantor {
            home: home.path(),
            rules: &lone,
        };
        let may = |peer: &str| {
            let granted = grantor.granted(&Who::itself(identity(peer)));
            let granted = granted.unwrap_or_else(|no| panic!("{}", no.message));
            granted.known(None)?;
            granted.allowed(Some(("data", b"x")), Right::Read)
        };
        assert!(may("f").is_ok(), "by the file");
        assert_eq!(may("q").is_ok(), !is_outdated);
        let strange = may("s").expect_err("a stranger");
        assert_eq!(strange.retryable, is_outdated);
        assert!(strange.is_of_stranger());
        if let Err(no) = may("q") {
            assert!(no.retryable);
            assert_eq!(no.message, strange.message, "it reveals no rule");
        }
        // A transfer that runs keeps its rights.
        let all = grantor.all().unwrap_or_else(|no| panic!("{}", no.message));
        let running = grantor.granted_of(&all, &Who::itself(identity("q")));
        let running = running.unwrap_or_else(|no| panic!("{}", no.message));
        assert!(running.allowed(Some(("data", b"x")), Right::Read).is_ok());
    }
}
