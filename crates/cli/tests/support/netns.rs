//! Owns network namespaces for tests, and long paths between them. Dropping a value removes its namespaces.
//! Does not know the tests.
//!
//! ```ignore
//! #[test]
//! fn something_crosses_an_ocean() {
//!     netns::with_network("something_crosses_an_ocean", || {
//!         let (near, far) = (Netns::new(), Netns::new());
//!         let link = WanLink::between(&near, &far, &WanOptions { rtt: "100ms", ..WanOptions::default() });
//!         let mut server = far.command("godwit").args(["serve", "--listen", netns::RIGHT]).spawn().unwrap();
//!         …
//!         let [there, back] = link.finish();
//!     });
//! }
//! ```
//!
//! Namespaces and TUN devices take root. Without root, [`with_network`] runs the test again inside a user namespace. If that is not
//! allowed, it checks the error of `wanlink`.

#![allow(dead_code, reason = "each test program uses its own part")]

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use godwit_testkit::skip;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The addresses of a [`WanLink`]'s ends. All pairs of namespaces use the same addresses, because pairs are separate.
pub(crate) const LEFT: &str = "10.9.0.1";
pub(crate) const RIGHT: &str = "10.9.0.2";
pub(crate) const LEFT_V6: &str = "fd00:9::1";
pub(crate) const RIGHT_V6: &str = "fd00:9::2";

/// Runs `body` where namespaces can be made; see the module's text. `test` is the full name of the calling test, as
/// `cargo test -- --exact` takes it.
pub(crate) fn with_network(test: &str, body: impl FnOnce()) {
    match access() {
        Access::Here => body(),
        Access::InUserNamespace => run_in_user_namespace(test),
        Access::Denied => {
            check_refusal();
            skip("it needs network namespaces and /dev/net/tun");
        }
    }
}

/// A network namespace with its loopback device up.
#[derive(Debug)]
pub(crate) struct Netns {
    name: String,
}

impl Netns {
    /// Makes a namespace with a unique name.
    pub(crate) fn new() -> Self {
        Self::try_new().expect("with_network has checked that namespaces can be made")
    }

    fn try_new() -> Result<Self, String> {
        let namespace = Self {
            name: unique_name(),
        };
        ip(&["netns", "add", &namespace.name])?;
        ip(&["-n", &namespace.name, "link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// The name, for `ip -n NAME …`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Writes a value into a file below `/proc/sys` of this namespace.
    pub(crate) fn set(&self, name: &str, value: &str) {
        let script = format!("echo '{value}' > /proc/sys/{name}");
        let status = self.command("sh").args(["-c", &script]).status();
        assert!(status.expect("sh runs").success(), "{name} = {value}");
    }

    /// A command that runs inside. Its process id is that of the program: `nsenter` replaces itself.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let [enter, rest @ ..] = self.wrapper();
        let mut command = Command::new(enter);
        command.args(rest).arg(program);
        command
    }

    /// The words before a command that make it run inside.
    pub(crate) fn wrapper(&self) -> [String; 3] {
        let namespace = format!("--net={}", self.path().display());
        ["nsenter".to_owned(), namespace, "--".to_owned()]
    }

    /// Runs `body` inside, on a new thread. Sockets made there stay there.
    pub(crate) fn enter<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        let file = File::open(self.path()).expect("the namespace has a name");
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("who made the namespace may enter it");
                body()
            });
            inside
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        // The namespace may not exist, and the test has a verdict already.
        let _ = ip(&["netns", "del", &self.name]);
    }
}

/// Properties of the path, in the words of `wanlink --help`. Two values with a comma are for left to right, right to left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WanOptions<'a> {
    pub(crate) rtt: &'a str,
    pub(crate) rate: &'a str,
    pub(crate) loss: &'a str,
    /// None: bandwidth × round trip.
    pub(crate) queue: Option<&'a str>,
    pub(crate) seed: u64,
    pub(crate) offload: bool,
}

impl Default for WanOptions<'_> {
    fn default() -> Self {
        Self {
            rtt: "50ms",
            rate: "unlimited",
            loss: "0%",
            queue: None,
            seed: 7,
            offload: true,
        }
    }
}

/// A running `wanlink`. Dropping it cuts the line.
#[derive(Debug)]
pub(crate) struct WanLink {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl WanLink {
    /// Connects `left` ([`LEFT`], [`LEFT_V6`]) and `right` ([`RIGHT`], [`RIGHT_V6`]), and returns when packets cross.
    pub(crate) fn between(left: &Netns, right: &Netns, options: &WanOptions<'_>) -> Self {
        let mut command = Command::new(wanlink_binary());
        command
            .arg("--left")
            .arg(format!("{}:{LEFT}/24,{LEFT_V6}/64", left.name))
            .arg("--right")
            .arg(format!("{}:{RIGHT}/24,{RIGHT_V6}/64", right.name))
            .args(["--rtt", options.rtt, "--rate", options.rate])
            .args(["--loss", options.loss, "--seed", &options.seed.to_string()])
            .args(["--offload", if options.offload { "on" } else { "off" }]);
        if let Some(queue) = options.queue {
            command.args(["--queue", queue]);
        }
        // The input of the child closes when this process ends, however that happens, and then the child ends, too.
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("wanlink was built");
        let stdout = child.stdout.take().expect("it was piped");
        let mut link = Self {
            child,
            output: BufReader::new(stdout),
        };
        let mut line = String::new();
        link.output
            .read_line(&mut line)
            .expect("wanlink speaks UTF-8");
        assert_eq!(line, "ready\n", "wanlink says above why not");
        link
    }

    /// Closes the path, and returns its counters from left to right, and from right to left.
    pub(crate) fn finish(mut self) -> [WanCounters; 2] {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.output
            .read_to_string(&mut text)
            .expect("wanlink speaks UTF-8");
        let status = self.child.wait().expect("it is our child");
        assert!(status.success(), "wanlink ended with {status}");
        ["left-to-right", "right-to-left"].map(|name| WanCounters::parse(&text, name))
    }
}

impl Drop for WanLink {
    fn drop(&mut self) {
        // Harmless after `finish`: the child is known to have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The counters of one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WanCounters(BTreeMap<String, u64>);

impl WanCounters {
    /// One counter by its name in the output of `wanlink`, such as `lost`.
    pub(crate) fn of(&self, name: &str) -> u64 {
        *self
            .0
            .get(name)
            .unwrap_or_else(|| panic!("wanlink does not count `{name}`"))
    }

    fn parse(text: &str, direction: &str) -> Self {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(direction))
            .unwrap_or_else(|| panic!("wanlink counted nothing {direction}: {text}"));
        let counters = line.split_whitespace().map(|word| {
            let (name, count) = word.split_once('=').expect("name=count");
            (name.to_owned(), count.parse().expect("a count"))
        });
        Self(counters.collect())
    }
}

/// The `wanlink` that belongs to this test program.
///
/// Cargo passes the binary's path only to tests of its package. For others it is built on first use, with the same profile
/// into the same target directory, next to the `deps` that hold the test program.
pub(crate) fn wanlink_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(own) = option_env!("CARGO_BIN_EXE_wanlink") {
            return PathBuf::from(own);
        }
        // The variable is set for a test inside a user namespace, after the build of the binary.
        if let Some(built) = std::env::var_os(BINARY_VARIABLE) {
            return PathBuf::from(built);
        }
        built("wanlink")
    })
}

/// A program of another package of this workspace, built with the profile of the tests where it is not up to date.
pub(crate) fn built(package: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test program has a path");
    let profile = test
        .ancestors()
        .nth(2)
        .expect("target/PROFILE/deps/PROGRAM");
    let target = profile.parent().expect("target/PROFILE");
    let profile_name = match profile.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => panic!("no profile in {}", test.display()),
    };
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--package", package])
        .args(["--profile", profile_name, "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .status()
        .expect("cargo runs the tests, so it can be run");
    assert!(status.success(), "building {package}: {status}");
    profile.join(package)
}

enum Access {
    Here,
    InUserNamespace,
    Denied,
}

fn access() -> Access {
    let tun = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun");
    if tun.is_err() {
        return Access::Denied;
    }
    if Netns::try_new().is_ok() {
        return Access::Here;
    }
    assert!(
        std::env::var_os(BINARY_VARIABLE).is_none(),
        "no namespaces inside the user namespace"
    );
    let allowed = user_namespace("ip netns add probe").output();
    if allowed.is_ok_and(|output| output.status.success()) {
        Access::InUserNamespace
    } else {
        Access::Denied
    }
}

/// A command that runs `script` as root of a user namespace with its own `/run`, where `ip` keeps its names.
fn user_namespace(script: &str) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--net", "--mount", "sh", "-ec"])
        .arg(format!("mount -t tmpfs none /run\n{script}"))
        .stdin(Stdio::null());
    command
}

fn run_in_user_namespace(test: &str) {
    let program = std::env::current_exe().expect("the test program has a path");
    let output = user_namespace("exec \"$0\" --exact \"$1\" --nocapture")
        .arg(program)
        .arg(test)
        .env(BINARY_VARIABLE, wanlink_binary())
        .output()
        .expect("unshare ran just before");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{test} in a user namespace: {text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Without the rights `wanlink` fails at once, names the missing right, and leaves nothing.
fn check_refusal() {
    let [left, right] = [unique_name(), unique_name()];
    let output = Command::new(wanlink_binary())
        .args(["--make", "--left", &format!("{left}:{LEFT}/24")])
        .args(["--right", &format!("{right}:{RIGHT}/24")])
        .stdin(Stdio::null())
        .output()
        .expect("wanlink was built");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("cannot make the network namespace") || message.contains("/dev/net/tun"),
        "{message}"
    );
    assert!(!Path::new("/run/netns").join(left).exists());
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("ip (Debian package iproute2): {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Unique on this machine while this process lives; the kernel's limit for file names is far.
fn unique_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // Process ids in a user namespace are those of the machine, so the name is unique there, too.
    format!("godwit-{}-{count}", std::process::id())
}

const BINARY_VARIABLE: &str = "GODWIT_TEST_WANLINK";
