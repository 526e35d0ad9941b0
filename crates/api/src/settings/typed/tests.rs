//! Tests precedence and typed settings.
//! No process environment is read or changed.

use super::*;
use crate::settings::{ConfigFile, Preserve, Scope, Typed, resolve};
use std::path::Path;

fn values(
    scope: Scope,
    typed: &[(&'static str, &str)],
    environment: &[(&str, &str)],
    file: &str,
) -> Result<Values, SettingError> {
    let mut flags = Typed::new();
    for (name, text) in typed {
        flags.entry(name).or_default().push(text.into());
    }
    let environment = |name: &str| {
        environment
            .iter()
            .find(|(variable, _)| *variable == name)
            .map(|(_, text)| text.into())
    };
    let file = ConfigFile::parse(Path::new("/h/config.toml"), file).expect("valid TOML");
    resolve(scope, &flags, &environment, &file)
}

fn serve(
    typed: &[(&'static str, &str)],
    environment: &[(&str, &str)],
) -> Result<ServeSettings, String> {
    let values = values(Scope::Serve, typed, environment, "").map_err(|error| error.to_string())?;
    ServeSettings::from_values(&values).map_err(|errors| errors.to_string())
}

#[test]
fn flag_before_environment_before_file_before_default() {
    let file = "streams = 4\n";
    let environment = [("GODWIT_STREAMS", "8")];
    let streams = |typed, environment, file| {
        values(Scope::Cp, typed, environment, file)
            .and_then(|values| CpSettings::from_values(&values))
            .map(|settings| (settings.streams.least, settings.streams.most))
    };
    assert_eq!(
        streams(&[("streams", "16")], &environment, file),
        Ok((16, 16))
    );
    assert_eq!(streams(&[], &environment, file), Ok((8, 8)));
    assert_eq!(streams(&[], &[("GODWIT_STREAMS", "")], file), Ok((4, 4)));
    assert_eq!(streams(&[], &[], ""), Ok((1, 128)));
}

#[test]
fn a_mistake_names_where_it_was_made() {
    let message = |typed, environment| {
        values(Scope::Cp, typed, environment, "")
            .map_err(|error| error.to_string())
            .expect_err("wrong")
    };
    assert_eq!(
        message(&[("streams", "0")], &[]),
        "--streams: `0` is out of range: N or N..N from 1 to 128, `auto`"
    );
    assert_eq!(
        message(&[], &[("GODWIT_CIPHER", "des")]),
        "GODWIT_CIPHER: `des` is not one of auto, aes-256-gcm, aes-128-gcm, chacha20-poly1305"
    );
}

#[test]
fn the_defaults_of_cp() {
    let cp = values(Scope::Cp, &[], &[], "").and_then(|values| CpSettings::from_values(&values));
    let cp = cp.expect("defaults");
    assert_eq!(
        cp,
        CpSettings {
            limit_bytes_per_second: None,
            channels: Vec::new(),
            sharing: SharingSettings::default(),
            streams: Bounds {
                least: 1,
                most: 128
            },
            nodes: 1000,
            threads: 0,
            pin: OsString::new(),
            readers: Bounds { least: 0, most: 16 },
            writers: Bounds { least: 0, most: 16 },
            encryption: Encryption::Tls,
            order: Order::Source,
            cipher: Cipher::Auto,
            digest: DigestKind::Crc64Nvme,
            retry_for: Duration::from_secs(300),
            no_sync: false,
            direct: false,
            verify: false,
            force: false,
            preserve: Preserve::default(),
            comparison: ComparisonSettings::default(),
            verbose: false,
            json: false,
            block_bytes: 512 << 10,
            memory_bytes: 64 << 20,
            handshake_deadline: Duration::from_secs(10),
            keep_in_buffer: Duration::ZERO,
            reports: ReportSettings::default(),
            stall_deadline: Duration::from_secs(120),
            rsh: "ssh".into(),
            remote_command: "godwit".into(),
            install_remote: false,
            data_ports: None,
            via_ssh: false,
            given: Vec::new(),
            selection: SelectionSettings::default(),
        }
    );
    let typed = [
        ("limit", "1Gbit/s"),
        ("encryption", "none"),
        ("cipher", "chacha20-poly1305"),
        ("digest", "blake3"),
        ("verify", "true"),
    ];
    let cp = values(Scope::Cp, &typed, &[], "").and_then(|values| CpSettings::from_values(&values));
    let cp = cp.expect("valid");
    assert_eq!(cp.limit_bytes_per_second, NonZeroU64::new(125_000_000));
    assert_eq!(cp.encryption, Encryption::None);
    assert_eq!(cp.cipher, Cipher::Chacha20Poly1305);
    assert_eq!(cp.digest, DigestKind::Blake3);
    assert!(cp.verify);
}

#[test]
fn an_archive_is_everything_but_what_is_switched_off() {
    let preserve = |typed: &[(&'static str, &str)], environment: &[(&str, &str)]| {
        let values = values(Scope::Cp, typed, environment, "").expect("valid");
        CpSettings::from_values(&values).unwrap().preserve
    };
    let all = Preserve {
        owner: true,
        group: true,
        xattrs: true,
        acls: true,
        specials: true,
        numeric_ids: false,
        strict: false,
    };
    assert_eq!(preserve(&[("archive", "true")], &[]), all);
    let but_one = Preserve { acls: false, ..all };
    let typed = [("archive", "true"), ("acls", "false")];
    assert_eq!(preserve(&typed, &[]), but_one);
    assert_eq!(
        preserve(&[], &[("GODWIT_ARCHIVE", "1"), ("GODWIT_ACLS", "no")]),
        but_one
    );
    let two = Preserve {
        xattrs: true,
        strict: true,
        ..Preserve::default()
    };
    assert_eq!(
        preserve(&[("xattrs", "true"), ("strict", "true")], &[]),
        two
    );
}

#[test]
fn only_sync_deletes_and_no_limit_is_none() {
    let sync = |typed: &[(&'static str, &str)]| {
        let values = values(Scope::Sync, typed, &[], "").expect("valid");
        CpSettings::from_sync_values(&values).unwrap().comparison
    };
    let plain = sync(&[]);
    assert!(plain.counterpart && !plain.delete && !plain.contradicts);
    assert_eq!((plain.judge, plain.max_delete), (Judge::SizeAndTime, None));
    let full = sync(&[
        ("delete", "true"),
        ("max-delete", "7"),
        ("checksum", "true"),
        ("dry-run", "true"),
    ]);
    assert!(full.delete && full.dry_run);
    assert_eq!((full.judge, full.max_delete), (Judge::Checksum, Some(7)));
    assert_eq!(sync(&[("size-only", "true")]).judge, Judge::Size);
    assert!(sync(&[("size-only", "true"), ("checksum", "true")]).contradicts);
}

#[test]
fn gen_has_a_seed() {
    let values = values(Scope::Gen, &[("seed", "18446744073709551615")], &[], "").expect("valid");
    assert_eq!(
        GenSettings::from_values(&values),
        GenSettings { seed: u64::MAX }
    );
}

#[test]
fn listening_and_exporting() {
    let settings = serve(
        &[
            ("listen", "127.0.0.1:0"),
            ("listen", "[::1]"),
            ("export", "data=/data"),
            (
                "export",
                "in=/a,b=c,owner,devices,require-mount,security-xattrs,set-id",
            ),
        ],
        &[],
    )
    .expect("valid");
    let listen: Vec<String> = settings.listen.iter().map(ToString::to_string).collect();
    assert_eq!(listen, ["127.0.0.1:0", "[::1]:7272"]);
    let export = |name: &str, path: &str, both: bool| Export {
        name: name.into(),
        path: path.into(),
        set_id: both,
        owner: both,
        security_xattrs: both,
        devices: both,
        require_mount: both,
    };
    assert_eq!(
        settings.exports,
        [export("data", "/data", false), export("in", "/a,b=c", true)]
    );
    let settings = serve(&[], &[("GODWIT_EXPORT", "a=/a;b=/b")]).expect("valid");
    assert_eq!(settings.exports.len(), 2);
    let listen: Vec<_> = settings.listen.iter().map(ToString::to_string).collect();
    assert_eq!(listen, ["0.0.0.0:7272", "[::]:7272"]);
}

#[test]
fn exports_and_addresses_that_make_no_sense() {
    let cases = [
        ("export", "data", "--export: `data`: write NAME=PATH"),
        ("export", "data=", "--export: `data=`: the path is missing"),
        (
            "export",
            "data=,owner",
            "--export: `data=,owner`: the path is missing",
        ),
        (
            "listen",
            "here:x",
            "--listen: `here:x`: `x` is no port: write a number up to 65535",
        ),
    ];
    for (name, text, message) in cases {
        assert_eq!(serve(&[(name, text)], &[]), Err(message.to_owned()));
    }
    assert!(
        serve(&[("export", "a/b=/x")], &[])
            .expect_err("name")
            .contains("cannot name an export")
    );
    assert_eq!(
        serve(&[("export", "a=/x"), ("export", "a=/y")], &[]),
        Err("--export: `a`: two exports have this name".to_owned())
    );
    assert_eq!(
        serve(&[], &[("GODWIT_LISTEN", ";")]),
        Err("GODWIT_LISTEN: ``: name an address to listen on".to_owned())
    );
}
