//! Owns two namespaces with several separate paths between them, and a daemon and its client in them.
//! Does not know the tests.

use std::process::Command;

use super::super::data::Seeded;
use super::super::netns::Netns;
use super::super::process::wait_until;
use super::super::rig::Rig;

/// Two machines. Path N joins `cN` of both: 10.11.N.1 and fd00:11:N::1 with 10.11.N.2 and fd00:11:N::2. A bridge on a third machine
/// lies between each pair.
pub(crate) struct Paths {
    pub(crate) near: Netns,
    pub(crate) far: Netns,
    middle: Netns,
}

impl Paths {
    pub(crate) fn new(count: u32) -> Self {
        let paths = Self {
            near: Netns::new(),
            far: Netns::new(),
            middle: Netns::new(),
        };
        for number in 0..count {
            paths.add(number);
        }
        for number in 0..count {
            paths.await_up(number);
        }
        paths
    }

    fn add(&self, number: u32) {
        let (end, bridge) = (format!("c{number}"), format!("b{number}"));
        self.ip(&self.middle, &["link", "add", &bridge, "type", "bridge"]);
        self.ip(&self.middle, &["link", "set", &bridge, "up"]);
        for (namespace, side, host) in [(&self.near, "n", 1), (&self.far, "f", 2)] {
            let port = format!("{side}{number}");
            let words = ["link", "add", &port, "type", "veth", "peer", "name", &end];
            self.ip(
                &self.middle,
                &[&words[..], &["netns", namespace.name()]].concat(),
            );
            self.ip(
                &self.middle,
                &["link", "set", &port, "master", &bridge, "up"],
            );
            let v4 = format!("10.11.{number}.{host}/24");
            let v6 = format!("fd00:11:{number}::{host}/64");
            self.ip(namespace, &["addr", "add", &v4, "dev", &end]);
            self.ip(namespace, &["addr", "add", &v6, "dev", &end, "nodad"]);
            self.ip(namespace, &["link", "set", &end, "up"]);
        }
    }

    /// Waits for an interface that was set up. A kernel thread marks it as running, and may be late.
    fn await_up(&self, number: u32) {
        for namespace in [&self.near, &self.far] {
            let (name, end) = (namespace.name(), format!("c{number}"));
            let up = wait_until(|| {
                let reported = run("ip", &["-n", name, "-o", "link", "show", &end]);
                reported.contains(" state UP ").then_some(())
            });
            assert!(up.is_some(), "{end} of {name} does not come up");
        }
    }

    /// Drops all packets from now on; neither end gets a notice.
    pub(crate) fn cut(&self, number: u32) {
        self.ip(
            &self.middle,
            &["link", "set", &format!("b{number}"), "down"],
        );
    }

    /// Undoes [`Self::cut`].
    pub(crate) fn mend(&self, number: u32) {
        self.ip(&self.middle, &["link", "set", &format!("b{number}"), "up"]);
    }

    /// Takes the carrier from the near end, and waits until the kernel has marked its interface.
    pub(crate) fn unplug_near(&self, number: u32) {
        let port = format!("n{number}");
        self.ip(&self.middle, &["link", "set", &port, "down"]);
        let (name, end) = (self.near.name(), format!("c{number}"));
        let is_down = wait_until(|| {
            let reported = run("ip", &["-n", name, "-o", "link", "show", &end]);
            (!reported.contains(" state UP ")).then_some(())
        });
        assert!(is_down.is_some(), "{end} of {name} keeps its carrier");
    }

    /// Undoes [`Self::unplug_near`].
    pub(crate) fn plug_near(&self, number: u32) {
        let port = format!("n{number}");
        self.ip(&self.middle, &["link", "set", &port, "up"]);
    }

    /// Limits the rate of the path to the far end, in bits a second, as `tc` writes them.
    pub(crate) fn slow_down(&self, number: u32, rate: &str) {
        let (namespace, port) = (self.middle.name(), format!("f{number}"));
        let line = ["-n", namespace, "qdisc", "add", "dev", &port, "root"];
        let bucket = ["tbf", "rate", rate, "burst", "64kb", "latency", "50ms"];
        run("tc", &[&line[..], &bucket].concat());
    }

    pub(crate) fn drop_v4(&self, number: u32) {
        self.drop_addresses(number, "-4");
    }

    pub(crate) fn drop_v6(&self, number: u32) {
        self.drop_addresses(number, "-6");
    }

    fn drop_addresses(&self, number: u32, family: &str) {
        for namespace in [&self.near, &self.far] {
            let end = format!("c{number}");
            self.ip(namespace, &[family, "addr", "flush", "dev", &end]);
        }
    }

    /// Runs `ip` in a namespace.
    #[track_caller]
    pub(crate) fn ip(&self, namespace: &Netns, words: &[&str]) {
        run("ip", &[&["-n", namespace.name()], words].concat());
    }
}

/// The standard output of a program.
#[track_caller]
fn run(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output();
    let output = output.unwrap_or_else(|error| panic!("{program} (iproute2): {error}"));
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A daemon at the far end, a client at the near one.
pub(crate) struct World {
    pub(crate) rig: Rig,
    port: String,
}

impl World {
    pub(crate) fn new(paths: &Paths, listen: &str, serve: &[&str]) -> Self {
        Self::of(Rig::new(), paths, listen, serve)
    }

    pub(crate) fn of(mut rig: Rig, paths: &Paths, listen: &str, serve: &[&str]) -> Self {
        rig.wrap_client(paths.near.wrapper());
        rig.wrap_daemon(paths.far.wrapper());
        rig.listen(listen);
        rig.start(serve);
        let (_, port) = rig.address().rsplit_once(':').expect("a port");
        Self {
            port: port.to_owned(),
            rig,
        }
    }

    /// The export in a URL with this address of the daemon, which the client trusts from now on.
    pub(crate) fn url(&self, address: &str, path: &str) -> String {
        let address = format!("{address}:{}", self.port);
        self.rig.trust(&address, &self.rig.identity);
        Rig::url_by(&address, path)
    }
}

/// Bytes of which no 4 KiB are found twice.
pub(crate) fn content(bytes: usize) -> Vec<u8> {
    let mut seeded = Seeded(7);
    let mut block = vec![0; 1 << 20];
    for word in block.chunks_mut(8) {
        word.copy_from_slice(&seeded.draw().to_le_bytes());
    }
    let mut content = Vec::with_capacity(bytes + block.len());
    while content.len() < bytes {
        for page in block.chunks_mut(4096) {
            page[..8].copy_from_slice(&seeded.draw().to_le_bytes());
        }
        content.extend_from_slice(&block);
    }
    content.truncate(bytes);
    content
}
