//! Owns one end of the line: a TUN device made, addressed and brought up inside a network namespace.
//! Does not forward packets; removes only its own devices.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::thread;

use anyhow::{Context as _, bail, ensure};
use godwit_sys::tun::{Offload, Tun};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The place and the addresses of an end: `NETNS:ADDRESS/PREFIX[,ADDRESS/PREFIX]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// A name as in `ip netns list`, or a path such as `/proc/4711/ns/net`.
    pub(crate) namespace: String,
    addresses: Vec<String>,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not NETNS:ADDRESS/PREFIX, such as left:10.9.0.1/24");
        // The first colon ends the name: those of an IPv6 address come later.
        let (namespace, addresses) = text.split_once(':').ok_or_else(wrong)?;
        let addresses: Vec<String> = addresses.split(',').map(str::to_owned).collect();
        // `ip -batch` splits a line into words, so only an address may get into it.
        let valid = |address: &String| {
            let parts = address.split_once('/');
            parts.is_some_and(|(host, prefix)| {
                host.parse::<std::net::IpAddr>().is_ok() && prefix.parse::<u8>().is_ok()
            })
        };
        if namespace.is_empty() || !addresses.iter().all(valid) {
            return Err(wrong());
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            addresses,
        })
    }
}

impl Place {
    fn path(&self) -> PathBuf {
        if self.namespace.contains('/') {
            PathBuf::from(&self.namespace)
        } else {
            PathBuf::from("/run/netns").join(&self.namespace)
        }
    }
}

/// Settings of the device, the same at both ends.
#[derive(Clone, Debug)]
pub(crate) struct DeviceConfig {
    pub(crate) name: String,
    pub(crate) mtu: u32,
    pub(crate) offload: Offload,
}

/// Makes the device at `place` and brings it up.
pub(crate) fn open(place: &Place, device: &DeviceConfig) -> anyhow::Result<Tun> {
    // Only a separate thread may change its namespace: the rest of the program stays in the first one.
    thread::scope(|scope| {
        scope
            .spawn(|| open_inside(place, device))
            .join()
            .expect("the thread reports its errors and does not panic")
    })
    .with_context(|| format!("cannot set up the end in `{}`", place.namespace))
}

fn open_inside(place: &Place, device: &DeviceConfig) -> anyhow::Result<Tun> {
    let path = place.path();
    let namespace = File::open(&path).with_context(|| {
        format!(
            "no network namespace at {} (`ip netns add` makes one, or use --make)",
            path.display()
        )
    })?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .context("cannot enter the network namespace: this takes root (CAP_SYS_ADMIN)")?;
    let tun = Tun::create(&device.name, device.offload).with_context(|| {
        format!(
            "cannot create the TUN device {}: this takes access to /dev/net/tun and CAP_NET_ADMIN",
            device.name
        )
    })?;
    // A child starts in the namespace of the thread that starts it.
    run_ip_batch(&batch(place, device))?;
    Ok(tun)
}

fn batch(place: &Place, device: &DeviceConfig) -> String {
    let DeviceConfig { name, mtu, .. } = device;
    let mut batch = String::new();
    for address in &place.addresses {
        // Duplicate detection would keep an IPv6 address unusable for its first second.
        let options = if address.contains(':') { " nodad" } else { "" };
        batch += &format!("address add {address} dev {name}{options}\n");
    }
    batch += &format!("link set dev {name} mtu {mtu} txqueuelen {DEVICE_QUEUE_PACKETS} up\n");
    batch
}

fn run_ip_batch(batch: &str) -> anyhow::Result<()> {
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run `ip` (Debian package iproute2)")?;
    let mut stdin = child.stdin.take().context("`ip` has no input")?;
    // Closed pipe: `ip` has ended early, and its own message says why.
    let written = stdin.write_all(batch.as_bytes());
    drop(stdin);
    let output = child.wait_with_output()?;
    ensure!(
        output.status.success(),
        "`ip` failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    written.context("`ip` did not read its input")
}

/// Namespaces made here, removed when dropped.
#[derive(Debug, Default)]
pub(crate) struct MadeNamespaces {
    names: Vec<String>,
}

impl MadeNamespaces {
    /// Makes a namespace with its loopback device up.
    pub(crate) fn make(&mut self, name: &str) -> anyhow::Result<()> {
        if name.contains('/') {
            bail!("--make takes names of namespaces, not paths: `{name}`");
        }
        run_ip_batch(&format!("netns add {name}\n"))
            .with_context(|| format!("cannot make the network namespace `{name}`"))?;
        self.names.push(name.to_owned());
        let status = Command::new("ip")
            .args(["-n", name, "link", "set", "lo", "up"])
            .status()
            .context("cannot run `ip`")?;
        ensure!(
            status.success(),
            "cannot bring up the loopback device of `{name}`"
        );
        Ok(())
    }
}

impl Drop for MadeNamespaces {
    fn drop(&mut self) {
        for name in &self.names {
            // Nothing can be done about a failure: `ip` reports it on standard error.
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

/// Room before the emulator so that a late round costs no packets that the model would have kept: 12 MB of packets
/// of 1500 bytes, 64 ms at 1.5 Gbit/s.
const DEVICE_QUEUE_PACKETS: u32 = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_namespace_and_addresses() {
        let place: Place = "left:10.9.0.1/24,fd00:9::1/64".parse().expect("valid");
        assert_eq!(place.path(), PathBuf::from("/run/netns/left"));
        assert_eq!(place.addresses, ["10.9.0.1/24", "fd00:9::1/64"]);
        let place: Place = "/proc/1/ns/net:10.9.0.1/24".parse().expect("valid");
        assert_eq!(place.path(), PathBuf::from("/proc/1/ns/net"));
    }

    #[test]
    fn nothing_but_addresses_reaches_ip() {
        for text in [
            "left",
            ":10.9.0.1/24",
            "left:10.9.0.1",
            "left:10.9.0.1/24 dev lo",
            "left:",
            "left:x\n/24",
        ] {
            assert!(text.parse::<Place>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn ipv6_addresses_are_usable_at_once() {
        let place: Place = "left:10.9.0.1/24,fd00:9::1/64".parse().expect("valid");
        let device = DeviceConfig {
            name: "wan0".to_owned(),
            mtu: 1400,
            offload: Offload::Off,
        };
        let lines = batch(&place, &device);
        assert!(lines.contains("10.9.0.1/24 dev wan0\n"), "{lines}");
        assert!(lines.contains("fd00:9::1/64 dev wan0 nodad\n"), "{lines}");
        assert!(lines.contains("mtu 1400"), "{lines}");
    }
}
