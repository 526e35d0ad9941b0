//! Owns another machine for tests: an sshd with its own keys, configuration and address, and a home that it leads to.
//! Does not know the tests. Dropping it removes everything, processes by their id.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use super::super::data::Seeded;
use super::super::netns::Netns;
use super::super::process::{Outcome, Process};
use super::super::rig::{NOBODY, is_root};

/// Where Debian and most others have it; not in the path of ordinary users.
const SSHD: &str = "/usr/sbin/sshd";

/// Runs sshd where it finds the directory and the accounts that it wants, without a trace outside.
const WRAPPER: &str = "mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd && mount --bind \"$0\" /etc/passwd && exec \"$@\"";

/// The user `daemon`, which every system has. Unlike the user 65534, it is an ordinary account to an sshd without access to passwords.
pub(crate) const DAEMON: u32 = 1;

/// Runs the rest of the line as that user.
const AS_DAEMON: [&str; 5] = ["setpriv", "--reuid=1", "--regid=1", "--clear-groups", "--"];

/// A machine that ssh reaches as `far`, with the places of its files.
pub(crate) struct Far {
    directory: TempDir,
    /// The client runs without root.
    without_root: bool,
    sshd: Vec<Sshd>,
}

struct Sshd {
    child: Child,
    /// Held open after the first line without a reader; the pipe has room for all further output of a test.
    _log: BufReader<ChildStderr>,
}

/// The place and the user of the sshd.
#[derive(Clone, Copy, Default)]
pub(crate) struct Where<'a> {
    /// Inside this namespace, at this address.
    pub(crate) inside: Option<(&'a Netns, &'a str)>,
    /// As the user with the id 65534; for root only.
    pub(crate) nobody: bool,
    /// As the user daemon, and also the sshd itself and the client, with all their files; for root only.
    pub(crate) without_root: bool,
    /// On the IPv6 address of loopback.
    pub(crate) v6: bool,
}

impl Far {
    pub(crate) fn new() -> Self {
        Self::at(Where::default())
    }

    pub(crate) fn at(place: Where<'_>) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut far = Self {
            directory,
            without_root: place.without_root,
            sshd: Vec::new(),
        };
        for name in ["home", "bin", "etc"] {
            fs::create_dir(far.path(name)).expect("made");
        }
        far.put_binary(place.nobody || place.without_root);
        for key in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(far.path("etc").join(key))
                .status();
            assert!(made.expect("ssh-keygen runs").success(), "a key is made");
        }
        fs::copy(far.path("etc/user.pub"), far.path("etc/authorized")).expect("copied");
        far.write_accounts();
        fs::write(far.path("etc/ssh_config"), "").expect("written");
        fs::write(far.path("etc/known"), "").expect("written");
        fs::write(far.path("etc/banner"), "Unauthorized use is forbidden.\n").expect("written");
        if place.without_root {
            far.hand_over("", DAEMON);
        }
        far.add("far", place, "");
        if place.nobody {
            far.hand_over("home", NOBODY);
            fs::set_permissions(far.directory.path(), fs::Permissions::from_mode(0o755))
                .expect("ours");
        }
        far
    }

    /// Gives this path and its contents to this user.
    pub(crate) fn hand_over(&self, name: &str, user: u32) {
        let owner = format!("{user}:{user}");
        let changed = Command::new("chown")
            .args(["-R", &owner])
            .arg(self.path(name))
            .status();
        assert!(changed.expect("chown runs").success(), "we are root");
    }

    /// Another sshd with a name for ssh; `more` are lines of that name's section.
    pub(crate) fn add(&mut self, name: &str, place: Where<'_>, more: &str) {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let [_, _, high, low] = std::process::id().to_be_bytes();
        // A separate address, so that a port that is free now stays free.
        let address = match place {
            Where {
                inside: Some((_, address)),
                ..
            } => address.to_owned(),
            Where { v6: true, .. } => "::1".to_owned(),
            _ => format!("127.{}.{high}.{low}", 1 + count % 250),
        };
        let probe = || {
            TcpListener::bind((address.as_str(), 0))
                .expect("free")
                .local_addr()
                .expect("bound")
                .port()
        };
        let port = place
            .inside
            .map_or_else(probe, |(namespace, _)| namespace.enter(probe));
        let etc = self.path("etc");
        let at = etc.display();
        let home = self.path("home");
        let path = format!("{}:/usr/bin:/bin", self.path("bin").display());
        let config = format!(
            "Port {port}\nListenAddress {address}\nHostKey {at}/host\nAuthorizedKeysFile {at}/authorized\n\
             Banner {at}/banner\nStrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nUseDNS no\nPrintMotd no\n\
             PrintLastLog no\nSubsystem sftp internal-sftp\nMaxSessions 20\nMaxStartups 100\n\
             SetEnv HOME={} GODWIT_HOME={} PATH={path}\n",
            home.display(),
            self.agent_home().display(),
        );
        let file = etc.join(format!("sshd_{name}"));
        fs::write(&file, config).expect("written");
        let host = fs::read_to_string(etc.join("host.pub")).expect("made before");
        let mut known = fs::read_to_string(etc.join("known")).expect("made before");
        writeln!(known, "[{address}]:{port} {}", host.trim()).expect("memory");
        fs::write(etc.join("known"), known).expect("written");
        let user = match place {
            Where { nobody: true, .. } => "nobody".to_owned(),
            Where {
                without_root: true, ..
            } => "daemon".to_owned(),
            _ => user_name(),
        };
        let mut section = fs::read_to_string(etc.join("ssh_config")).expect("made before");
        write!(
            section,
            "Host {name}\n HostName {address}\n Port {port}\n User {user}\n IdentityFile {at}/user\n \
             IdentitiesOnly yes\n UserKnownHostsFile {at}/known\n GlobalKnownHostsFile none\n \
             StrictHostKeyChecking yes\n{more}\n"
        )
        .expect("memory");
        fs::write(etc.join("ssh_config"), section).expect("written");
        self.sshd.push(start(place, &etc, &file));
    }

    /// From now on this world's client reaches the other machine by this name.
    pub(crate) fn know(&self, name: &str, other: &Self) {
        for (file, from, to) in [
            ("etc/ssh_config", "Host far\n", format!("Host {name}\n")),
            ("etc/known", "", String::new()),
        ] {
            let ours = fs::read_to_string(self.path(file)).expect("ours");
            let theirs = fs::read_to_string(other.path(file)).expect("ours");
            let theirs = if from.is_empty() {
                theirs
            } else {
                theirs.replace(from, &to)
            };
            fs::write(self.path(file), ours + &theirs).expect("ours");
        }
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Where a login there begins.
    pub(crate) fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// GODWIT_HOME there.
    pub(crate) fn agent_home(&self) -> PathBuf {
        self.path("home/.godwit")
    }

    /// A file with the directories above it.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("below")).expect("made");
        fs::write(path, content).expect("written");
    }

    /// A program of this name there.
    pub(crate) fn script(&self, name: &str, text: &str) {
        let path = self.path("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
    }

    /// A run of `cp` from the directory of this world.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, inside: Option<&Netns>, line: &[S]) -> Command {
        let mut command = self.client(inside, &["cp", "--json"]);
        command.args(line);
        command
    }

    /// Any command of ours, run in the directory of this world.
    pub(crate) fn client<S: AsRef<OsStr>>(&self, inside: Option<&Netns>, line: &[S]) -> Command {
        let binary = PathBuf::from(env!("CARGO_BIN_EXE_godwit"));
        let mut words: Vec<OsString> = Vec::new();
        if self.without_root {
            words.extend(AS_DAEMON.map(Into::into));
            // Other users may not be able to reach the original.
            words.push(self.path("bin/godwit").into());
        } else {
            words.push(binary.into());
        }
        let mut command = inside.map_or_else(
            || Command::new(&words[0]),
            |inside| inside.command(&words[0]),
        );
        command
            .args(&words[1..])
            .args(line)
            .current_dir(self.directory.path())
            .env("GODWIT_HOME", self.path("client"))
            .env("GODWIT_RSH", self.rsh());
        command
    }

    /// Where the sshd of that name listens: address and port.
    pub(crate) fn listens_on(&self, name: &str) -> (String, String) {
        let config = fs::read_to_string(self.path(format!("etc/sshd_{name}"))).expect("there");
        let value = |key: &str| {
            let line = config.lines().find_map(|line| line.strip_prefix(key));
            line.expect("as we wrote it").trim().to_owned()
        };
        (value("ListenAddress "), value("Port "))
    }

    /// The user that logs in there.
    pub(crate) fn user(&self) -> String {
        user_name()
    }

    /// The ssh that knows this machine.
    pub(crate) fn rsh(&self) -> String {
        format!("ssh -F '{}'", self.path("etc/ssh_config").display())
    }

    pub(crate) fn start<S: AsRef<OsStr>>(&self, line: &[S]) -> Process {
        Process::start(&mut self.command(None, line))
    }

    pub(crate) fn cp<S: AsRef<OsStr>>(&self, line: &[S]) -> Outcome {
        self.start(line).wait()
    }

    /// Runs any command of ours to its end.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, line: &[S]) -> Outcome {
        Process::start(&mut self.client(None, line)).wait()
    }

    /// Ids of the agents that run for this machine, without their parent processes, which have the same words.
    pub(crate) fn agents(&self) -> Vec<i32> {
        let mut ids = self.processes("godwit agent --stdio");
        ids.retain(|id| {
            let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            line.starts_with(b"godwit\0")
        });
        ids
    }

    /// Ids of running programs of ours whose command line has these words and whose environment belongs to this world.
    pub(crate) fn processes(&self, words: &str) -> Vec<i32> {
        let marks = [self.agent_home(), self.path("client")];
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").expect("procfs").flatten() {
            let Some(id) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            let read = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
            let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
            let environment = read("environ");
            let ours = marks.iter().any(|mark| {
                let mark = format!("GODWIT_HOME={}", mark.display());
                environment
                    .split(|byte| *byte == 0)
                    .any(|word| word == mark.as_bytes())
            });
            if ours && line.contains(words) {
                found.push(id);
            }
        }
        found
    }

    fn put_binary(&self, others: bool) {
        let (original, path) = (env!("CARGO_BIN_EXE_godwit"), self.path("bin/godwit"));
        if others {
            // Other users may not be able to reach the original.
            let copied = Command::new("cp").arg(original).arg(&path).status();
            assert!(copied.expect("cp runs").success(), "copied");
        } else {
            symlink(original, path).expect("made");
        }
    }

    /// Every user gets a shell and this home.
    fn write_accounts(&self) {
        let accounts = fs::read_to_string("/etc/passwd").expect("readable");
        let mut changed = String::new();
        for line in accounts.lines() {
            let mut fields: Vec<&str> = line.split(':').collect();
            let home = self.home();
            if let [name, .., at, shell] = fields.as_mut_slice()
                && ["root", "nobody", "daemon"].contains(name)
            {
                *at = home.to_str().expect("text");
                *shell = "/bin/bash";
            }
            writeln!(changed, "{}", fields.join(":")).expect("memory");
        }
        fs::write(self.path("etc/passwd"), changed).expect("written");
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        // The sshd may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(place: Where<'_>, etc: &Path, config: &Path) -> Sshd {
    let mut line: Vec<OsString> = Vec::new();
    if is_root() {
        line.extend(
            [
                "unshare",
                "-m",
                "--propagation=slave",
                "--",
                "sh",
                "-c",
                WRAPPER,
            ]
            .map(Into::into),
        );
        line.push(etc.join("passwd").into());
    }
    if place.without_root {
        line.extend(AS_DAEMON.map(Into::into));
    }
    line.extend([SSHD, "-D", "-e", "-f"].map(Into::into));
    line.push(config.into());
    let mut command = match place.inside {
        Some((namespace, _)) => namespace.command(&line[0]),
        None => Command::new(&line[0]),
    };
    let mut child = command
        .args(&line[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sshd (Debian package openssh-server) is installed");
    let mut log = BufReader::new(child.stderr.take().expect("piped"));
    let mut said = String::new();
    while !said.contains("Server listening on ") {
        let bytes = log.read_line(&mut said).expect("text");
        assert!(bytes > 0, "sshd does not listen: {said}");
    }
    Sshd { child, _log: log }
}

/// Bytes that do not repeat.
pub(crate) fn random(bytes: usize, seed: u64) -> Vec<u8> {
    let mut seeded = Seeded(seed);
    let words = std::iter::repeat_with(|| seeded.draw().to_le_bytes());
    words.take(bytes / 8).flatten().collect()
}

fn user_name() -> String {
    let output = Command::new("id").arg("-un").output().expect("id runs");
    String::from_utf8(output.stdout)
        .expect("text")
        .trim()
        .to_owned()
}
