//! Tests addresses of IPv6: listening beside IPv4, zones of link-local addresses, and the message on those without brackets.
//! Channels over several addresses are tested in `channels`.

use godwit_testkit::needs_root;

use super::rig::Rig;

/// A daemon and a client in a separate network, where the daemon gets its usual port. `script` ends in starting it.
fn apart(rig: &mut Rig, script: &str) -> bool {
    if !needs_root() {
        // Only a superuser makes such a network.
        return false;
    }
    let script = format!("ip link set lo up && ip addr add fe80::1/64 dev lo nodad; {script}");
    rig.wrap_daemon(["unshare", "--net", "sh", "-c", &script, "sh"]);
    rig.serve(&[]);
    let network = format!("--net=/proc/{}/ns/net", rig.daemon().id());
    rig.wrap_client(["nsenter", &network]);
    let us = rig.client(&["id"]).out;
    let allow = [
        "access",
        "allow",
        us.trim(),
        "--all-exports",
        "--read",
        "--write",
    ];
    assert_eq!(rig.admin(&allow).code, Some(0));
    true
}

#[test]
fn a_node_listens_at_both_families_and_at_a_zone() {
    for script in [
        // Without `--listen`.
        "bin=$1; shift 4; exec \"$bin\" serve \"$@\"",
        "bin=$1; shift 4; exec \"$bin\" serve --listen 0.0.0.0:7272 --listen [::]:7272 \"$@\"",
        "bin=$1; shift 4; exec \"$bin\" serve --listen [::]:7272 --listen 0.0.0.0:7272 \"$@\"",
        // Without other addresses, `[::]` includes IPv4 as well.
        "bin=$1; shift 4; exec \"$bin\" serve --listen [::] \"$@\"",
        // The port of the API is another one, of both families.
        "bin=$1; shift 4; exec \"$bin\" serve --manage 0.0.0.0:7300 --manage [::]:7300 \"$@\"",
        // A machine without IPv6.
        "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; bin=$1; shift 4; exec \"$bin\" serve \"$@\"",
    ] {
        let mut rig = Rig::new();
        if !apart(&mut rig, script) {
            return;
        }
        rig.write("file", "x");
        let mut addresses = vec!["127.0.0.1", "[::1]", "[fe80::1%lo]:7272", "[fe80::1%25lo]"];
        if script.contains("disable_ipv6") {
            addresses.truncate(1);
        }
        for (number, address) in addresses.into_iter().enumerate() {
            rig.trust(address, &rig.identity);
            let to = format!("godwit://{address}/data/{number}");
            rig.cp(&["file", &to]).complete();
            assert!(rig.export.join(number.to_string()).exists(), "{address}");
        }
    }
}

#[test]
fn an_address_without_brackets_is_shown_with_them() {
    let rig = Rig::new();
    rig.write("a:b", "x");
    for (text, hint) in [
        ("2001:db8::7:/data/", "[2001:db8::7]:/data/"),
        ("::1:/x", "[::1]:/x"),
        ("me@fe80::1%lo:x", "me@[fe80::1%lo]:x"),
        ("godwit://::1/data", "[::1]"),
        ("godwit://fe80::1%lo:7272/data", "[fe80::1%lo]:7272"),
    ] {
        let outcome = rig.cp(&["a", text]);
        assert_eq!(outcome.code, Some(2), "{}", outcome.said());
        outcome.says(&format!("an IPv6 address goes in brackets: {hint}"));
    }
    for line in [
        &["serve", "--listen", "::1"][..],
        &["serve", "--manage", "::1"],
        &["serve", "--join", "::1"],
        &["serve", "--address", "::1"],
        &["doctor", "::1"],
        &["trust", "::1", "x"],
    ] {
        let outcome = rig.client(line);
        assert_ne!(outcome.code, Some(0), "{}", outcome.said());
        outcome.says("an IPv6 address goes in brackets: [::1]");
    }
}

#[test]
fn a_site_by_an_address_without_brackets_is_shown_with_them() {
    let mut rig = Rig::new();
    rig.serve(&[]);
    let add = |address: &str| {
        let line = ["site", "add", "siteB", address, "--identity", &rig.identity];
        rig.admin(&line)
    };
    for (text, hint) in [
        ("::1", "[::1]"),
        ("2001:db8::7", "[2001:db8::7]"),
        ("fe80::1%lo", "[fe80::1%lo]"),
    ] {
        let outcome = add(text);
        assert_ne!(outcome.code, Some(0), "{}", outcome.said());
        outcome.says(&format!("an IPv6 address goes in brackets: {hint}"));
        let outcome = add(hint);
        assert_eq!(outcome.code, Some(0), "{}", outcome.said());
    }
}

#[test]
fn a_local_file_with_a_colon_is_shown_as_such() {
    let rig = Rig::new();
    rig.write("a:b", "x");
    rig.write("with space:b", "x");
    let outcome = rig.cp(&["--rsh", "false", "a:b", "to"]);
    assert_ne!(outcome.code, Some(0), "{}", outcome.said());
    outcome.says("for the local file write ./a:b");
    rig.cp(&["with space:b", "to"])
        .says("for a local file with a colon write ./with space:b");
    rig.cp(&["./a:b", "to"]).complete();
}
