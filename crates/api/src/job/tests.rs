//! Tests that descriptions round-trip, and that a setting that does not belong in a description is refused by name.
//! Runs no job.

use std::os::unix::ffi::OsStringExt as _;
use std::time::Duration;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use super::*;

fn copy() -> JobSpec {
    JobSpec {
        version: JOB_VERSION,
        kind: JobKind::Copy,
        sources: vec![Endpoint::Local("a".into())],
        destination: Endpoint::Local("b".into()),
        settings: BTreeMap::new(),
        selection: None,
        member: None,
        items: Vec::new(),
        imposed: Imposed::default(),
    }
}

fn with(name: &str, value: &str) -> JobSpec {
    JobSpec {
        settings: BTreeMap::from([(name.to_owned(), vec![value.into()])]),
        ..copy()
    }
}

#[test]
fn a_description_is_short_and_readable() {
    let spec = JobSpec {
        sources: vec![
            Endpoint::Local("a".into()),
            Endpoint::Local(OsString::from_vec(b"\xff".to_vec()).into()),
        ],
        selection: Some(Selection {
            rules: vec![Rule {
                include: false,
                pattern: "*.tmp".into(),
            }],
            ..Selection::default()
        }),
        ..with("limit", "1Gbit/s")
    };
    assert_eq!(
        spec.to_json(),
        r#"{"version":1,"kind":"copy","sources":["a",{"base64":"/w=="}],"destination":"b","settings":{"limit":["1Gbit/s"]},"selection":{"rules":[{"include":false,"pattern":"*.tmp"}]}}"#
    );
}

#[test]
fn another_version_is_refused_before_its_fields() {
    let refused = |json: &str| JobSpec::from_json(json.as_bytes()).expect_err("refused");
    assert_eq!(
        refused(r#"{"version":2,"kind":"dance","whatever":1}"#),
        JobError::Version(2)
    );
    for odd in [
        "",
        "{}",
        r#"{"version":1}"#,
        r#"{"version":1,"kind":"dance","sources":[],"destination":"b"}"#,
        r#"{"version":1,"kind":"copy","sources":[],"destination":"b","more":1}"#,
        r#"{"version":1,"kind":"copy","sources":[{"base64":"?"}],"destination":"b"}"#,
        r#"{"version":1,"kind":"copy","sources":[],"destination":"b","selection":{"ruled":1}}"#,
    ] {
        assert!(matches!(refused(odd), JobError::Form(_)), "{odd}");
    }
}

#[test]
fn settings_are_those_of_the_table() {
    let settings = with("limit", "8Mbit/s").copy_settings().expect("valid");
    assert_eq!(
        settings.limit_bytes_per_second.map(u64::from),
        Some(1_000_000)
    );
    let refused = |name, value| with(name, value).copy_settings().expect_err("refused");
    assert!(refused("limit", "much").to_string().contains("--limit"));
    assert!(refused("no-such", "1").to_string().contains("--no-such"));
    assert!(refused("delete", "true").to_string().contains("godwit cp"));
    for name in ["json", "log-file", "pin"] {
        let refusal = refused(name, "true");
        assert!(
            matches!(&refusal, JobError::NotOfAJob { name: reported, .. } if reported == name),
            "{refusal}"
        );
    }
    assert!(refused("exclude", "*").to_string().contains("selection"));
    let sync = JobSpec {
        kind: JobKind::Sync,
        ..with("delete", "true")
    };
    let comparison = sync.copy_settings().expect("valid").comparison;
    assert!(comparison.delete && comparison.counterpart);
    let verify = JobSpec {
        kind: JobKind::Verify,
        ..with("extra", "true")
    };
    assert!(verify.verify_settings().expect("valid").extra);
}

#[test]
fn a_value_of_the_node_replaces_the_typed_one_and_is_not_written() {
    let typed = with("limit", "8Mbit/s");
    let time = Duration::from_secs(7);
    let imposed = Imposed {
        limit: Some(0),
        retry_for: Some(time),
        stall_deadline: Some(time),
        manifest: Some("/m".into()),
        checksum: true,
        durable: true,
    };
    let spec = JobSpec {
        imposed,
        ..typed.clone()
    };
    let settings = spec.copy_settings().expect("valid");
    assert_eq!(settings.limit_bytes_per_second, None);
    assert_eq!((settings.retry_for, settings.stall_deadline), (time, time));
    assert_eq!(settings.reports.manifest, Some("/m".into()));
    assert_eq!(settings.comparison.judge, crate::settings::Judge::Checksum);
    assert_eq!(spec.to_json(), typed.to_json());
    let verify = JobSpec {
        kind: JobKind::Verify,
        settings: BTreeMap::new(),
        ..spec
    };
    let settings = verify.verify_settings().expect("valid");
    assert_eq!((settings.retry_for, settings.stall_deadline), (time, time));
}

#[test]
fn settings_of_a_command_become_those_of_a_job() {
    let given = [
        ("json", "true"),
        ("exclude", "*"),
        ("channel", "eth0"),
        ("channel", "eth1"),
    ]
    .map(|(name, text)| (name, OsString::from(text)));
    let settings = JobSpec::settings_of(&given);
    let channels = vec!["eth0".into(), "eth1".into()];
    assert_eq!(settings, BTreeMap::from([("channel".to_owned(), channels)]));
}

fn text() -> impl Strategy<Value = Text> {
    vec(any::<u8>(), 0..12).prop_map(Text)
}

/// Every endpoint that a user can type, and a local path that means one only with `./` before it.
fn endpoint() -> impl Strategy<Value = Endpoint> {
    let typed = prop_oneof![
        "[a-z/:.@-]{1,12}",
        "godwit://[a-z]{1,5}(:[1-9][0-9]{1,3})?/[a-z]{1,5}(/[a-z%. ]{0,8})?",
        Just("mem:3GiB".to_owned()),
        Just("null:".to_owned()),
    ];
    let typed = typed.prop_map(|text| text.parse().unwrap_or_else(|_| Endpoint::Local("x".into())));
    let local = vec(1..=u8::MAX, 1..12).prop_map(|bytes| {
        let path = [b"./", bytes.as_slice()].concat();
        Endpoint::Local(OsString::from_vec(path).into())
    });
    prop_oneof![typed, local]
}

#[test]
fn a_local_path_that_reads_as_another_endpoint_is_written_with_a_prefix() {
    for path in ["a:b", "-", "null:", "godwit://h/data"] {
        let text = Endpoint::Local(path.into()).to_text();
        assert_eq!(text, [b"./", path.as_bytes()].concat());
        let read = Endpoint::parse(&Text(text).to_os());
        assert_eq!(read, Ok(Endpoint::Local(format!("./{path}").into())));
    }
}

fn selection() -> impl Strategy<Value = Selection> {
    let rule = (any::<bool>(), text()).prop_map(|(include, pattern)| Rule { include, pattern });
    let when = (any::<i64>(), any::<u32>()).prop_map(|(seconds, nanoseconds)| When {
        seconds,
        nanoseconds,
    });
    let list = prop_oneof![Just(ListForm::Lines), Just(ListForm::Zeros)];
    (
        vec(rule, 0..4),
        any::<(Option<u64>, Option<u64>, [bool; 2])>(),
        option::of(when.clone()),
        option::of(when),
        option::of(list),
    )
        .prop_map(
            |(rules, (bytes_min, bytes_max, [recursive, one_file_system]), newer, older, list)| {
                Selection {
                    rules,
                    bytes_min,
                    bytes_max,
                    newer,
                    older,
                    list,
                    recursive,
                    one_file_system,
                }
            },
        )
}

proptest! {
    #[test]
    fn a_description_comes_back_as_it_was(
        kind in prop_oneof![Just(JobKind::Copy), Just(JobKind::Sync), Just(JobKind::Verify)],
        sources in vec(endpoint(), 0..4),
        destination in endpoint(),
        settings in btree_map("[a-z-]{0,8}", vec(text(), 0..3), 0..4),
        selection in option::of(selection()),
    ) {
        let spec = JobSpec { version: JOB_VERSION, kind, sources, destination, settings, selection, ..copy() };
        prop_assert_eq!(JobSpec::from_json(spec.to_json().as_bytes()), Ok(spec));
    }

    #[test]
    fn no_bytes_panic(bytes in vec(any::<u8>(), 0..64)) {
        let _ = JobSpec::from_json(&bytes);
    }
}
