//! Tests of endpoint parsing.
//! Nothing here touches files or the network.

use super::*;
use proptest::prelude::*;

fn parse(text: &str) -> Result<Endpoint, EndpointReason> {
    Endpoint::parse(OsStr::new(text)).map_err(|error| error.reason)
}

fn export(text: &str) -> (String, Vec<u8>, bool) {
    match parse(text) {
        Ok(Endpoint::Remote(Remote {
            place:
                NodePlace::Export {
                    name,
                    path,
                    directory,
                    ..
                },
            ..
        })) => (name, path, directory),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_dot_at_the_end_means_the_contents() {
    for (text, meant) in [
        ("godwit://h/e/a/.", true),
        ("godwit://h/e/.", true),
        ("godwit://h/e/a/./", true),
        ("godwit://h/e/a/./b", false),
        ("godwit://h/e/a/", false),
        ("godwit://h/e/.a", false),
    ] {
        let Ok(Endpoint::Remote(remote)) = parse(text) else {
            panic!("{text}");
        };
        assert!(
            matches!(remote.place, NodePlace::Export { contents, .. } if contents == meant),
            "{text}: {remote:?}"
        );
        assert_eq!(parse(&remote.to_string()), Ok(Endpoint::Remote(remote)));
    }
}

#[test]
fn local_paths_stay_as_typed() {
    for text in [
        "a", "./a:b", "/a:b/c", "a/b:c", "run42/", ".", "../x", "-x", "a%20b", "./mem:1", "memo",
    ] {
        assert_eq!(parse(text), Ok(Endpoint::Local(text.into())), "{text}");
    }
}

#[test]
fn special_endpoints() {
    assert_eq!(parse("null:"), Ok(Endpoint::Null));
    assert_eq!(parse("mem:64GiB"), Ok(Endpoint::Memory { bytes: 64 << 30 }));
    let node = HostPort {
        host: "h".into(),
        port: 7272,
    };
    let remote = |place| {
        Ok(Endpoint::Remote(Remote {
            node: node.clone(),
            place,
        }))
    };
    assert_eq!(parse("godwit://h/null:"), remote(NodePlace::Null));
    assert_eq!(
        parse("godwit://h/mem:1kB"),
        remote(NodePlace::Memory { bytes: 1000 })
    );
    assert!(matches!(
        parse("mem:"),
        Err(EndpointReason::Memory(UnitError::Empty))
    ));
    assert!(matches!(parse("null:x"), Err(EndpointReason::Null(_))));
}

#[test]
fn remote_paths() {
    assert_eq!(
        export("godwit://h/data"),
        ("data".into(), b"".to_vec(), false)
    );
    assert_eq!(
        export("godwit://h/data/"),
        ("data".into(), b"".to_vec(), true)
    );
    assert_eq!(
        export("godwit://h/data/a/b"),
        ("data".into(), b"a/b".to_vec(), false)
    );
    assert_eq!(
        export("godwit://h/data/a/b/"),
        ("data".into(), b"a/b".to_vec(), true)
    );
    assert_eq!(
        export("godwit://h:1/data//a/./b"),
        ("data".into(), b"a/b".to_vec(), false)
    );
    assert_eq!(
        export("godwit://[::1]:9/data/a%20b%FF%25"),
        ("data".into(), b"a b\xff%".to_vec(), false)
    );
}

#[test]
fn an_invalid_endpoint_is_refused_with_its_reason() {
    let cases = [
        ("", EndpointReason::Empty),
        ("godwit://h", EndpointReason::NoExport),
        ("godwit://h/", EndpointReason::NoExport),
        ("godwit://h//x", EndpointReason::NoExport),
        ("godwit:///data", EndpointReason::Host(HostError::NoHost)),
        ("godwit://h:0/data", EndpointReason::PortZero),
        ("godwit://h/data/../x", EndpointReason::Parent),
        ("godwit://h/data/%2e%2E/x", EndpointReason::Parent),
        ("godwit://h/data/a%2Fb", EndpointReason::Byte),
        ("godwit://h/data/a%00", EndpointReason::Byte),
        ("godwit://h/data/100%", EndpointReason::Percent),
        ("godwit://h/data/%+1", EndpointReason::Percent),
        ("godwit://h/da%20ta", ExportNameError("da ta".into()).into()),
        ("http://h/x", EndpointReason::Scheme("http".into())),
        ("u@host://p", EndpointReason::Scheme("u@host".into())),
        (":p", LoginError::NoHost(":p".into()).into()),
    ];
    for (text, reason) in cases {
        assert_eq!(parse(text), Err(reason), "{text}");
    }
}

#[test]
fn another_machine_by_ssh() {
    let ssh = |user: Option<&str>, host: &str, path: &[u8]| {
        Ok(Endpoint::Ssh(SshPlace {
            login: Login {
                user: user.map(str::to_owned),
                host: host.to_owned(),
            },
            path: path.to_vec(),
        }))
    };
    assert_eq!(parse("host:path"), ssh(None, "host", b"path"));
    assert_eq!(parse("u@host:/p/"), ssh(Some("u"), "host", b"/p/"));
    assert_eq!(parse("host:"), ssh(None, "host", b""));
    assert_eq!(parse("[::1]:a b"), ssh(None, "::1", b"a b"));
    assert_eq!(parse("[fe80::1%lo]:a"), ssh(None, "fe80::1%lo", b"a"));
    assert_eq!(parse("memory:1"), ssh(None, "memory", b"1"));
}

#[test]
fn the_message_says_how_to_name_a_local_colon() {
    let message = Endpoint::parse(OsStr::new("a b:c"))
        .map_err(|error| error.to_string())
        .expect_err("no host");
    assert!(
        message.starts_with("a b:c: ") && message.ends_with("with a colon write ./a b:c"),
        "{message}"
    );
}

proptest! {
    #[test]
    fn any_bytes_below_an_export_survive(
        components in proptest::collection::vec(proptest::collection::vec(1_u8..=255, 1..12), 0..5),
        (directory, contents) in prop_oneof![Just((false, false)), Just((true, false)), Just((true, true))],
    ) {
        let components: Vec<Vec<u8>> = components
            .into_iter()
            .map(|c| c.into_iter().map(|b| if b == b'/' { b'x' } else { b }).collect::<Vec<u8>>())
            .filter(|c| c != b"." && c != b"..")
            .collect();
        let place = NodePlace::Export { name: "data".into(), path: components.join(&b'/'), directory, contents };
        let remote = Endpoint::Remote(Remote { node: HostPort { host: "h".into(), port: 1 }, place: place.clone() });
        prop_assert_eq!(parse(&remote.to_string()), Ok(remote));
        let mut wire = place.to_wire();
        if directory {
            wire.extend_from_slice(if contents { b"/." } else { b"/" });
        }
        prop_assert_eq!(NodePlace::from_wire(&wire), Ok(place));
    }

    #[test]
    fn no_bytes_panic_and_no_path_leaves_its_export(text in proptest::collection::vec(any::<u8>(), 0..40)) {
        let text = [b"godwit://h/d/".to_vec(), text].concat();
        if let Ok(Endpoint::Remote(Remote { place: NodePlace::Export { path, .. }, .. })) =
            Endpoint::parse(OsStr::from_bytes(&text))
        {
            prop_assert!(path.split(|b| *b == b'/').all(|c| c != b".." && !c.contains(&0)));
        }
    }
}
