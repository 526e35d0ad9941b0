//! Owns an sshd for one benchmark: its own keys, configuration and port, for the user who runs it.
//! Touches nothing of the system's sshd and nothing in anybody's home.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::super::process::{Process, Side};
use super::super::world::World;
use super::command;

/// Where Debian and most others have it; not in the path of ordinary users.
const PROGRAM: &str = "/usr/sbin/sshd";
/// Must exist when sshd runs as root; packages leave it to their service.
const PRIVILEGE_SEPARATION: &str = "/run/sshd";

/// Everything to start the daemon and to come in.
pub(super) struct Sshd {
    directory: PathBuf,
    port: u16,
    user: String,
}

impl Sshd {
    /// The fastest of OpenSSH on processors with AES instructions.
    pub(super) const CIPHER: &'static str = "aes128-gcm@openssh.com";

    /// Makes keys and configuration.
    pub(super) fn prepare(world: &World) -> anyhow::Result<Self> {
        ensure!(Path::new(PROGRAM).is_file(), "{PROGRAM} is not installed");
        let directory = world.scratch("sshd")?;
        // A port that was free a moment ago; sshd cannot choose one itself.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        for key in ["host", "user"] {
            let path = directory.join(key);
            if path.exists() {
                fs::remove_file(&path)?;
            }
            let mut keygen = command("ssh-keygen");
            keygen
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(&path);
            ensure!(
                keygen.status().context("cannot run ssh-keygen")?.success(),
                "no key made"
            );
        }
        fs::copy(directory.join("user.pub"), directory.join("authorized"))?;
        let host = fs::read_to_string(directory.join("host.pub"))?;
        fs::write(
            directory.join("known"),
            format!("[127.0.0.1]:{port} {host}"),
        )?;
        let at = directory
            .to_str()
            .context("the directory has no simple name")?;
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {at}/host\n\
             AuthorizedKeysFile {at}/authorized\nStrictModes no\nUsePAM no\nPidFile none\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             PermitRootLogin prohibit-password\nUseDNS no\nPrintMotd no\nPrintLastLog no\n"
        );
        fs::write(directory.join("config"), config)?;
        let user = user_name().context("who am I?")?;
        Ok(Self {
            directory,
            port,
            user,
        })
    }

    /// Starts the daemon and waits until it listens.
    pub(super) fn start(&self) -> anyhow::Result<Process> {
        let config = self.directory.join("config");
        let is_root = rustix::process::geteuid().is_root();
        let mut sshd = if is_root && !Path::new(PRIVILEGE_SEPARATION).exists() {
            // In a mount namespace of its own, so that nothing is left outside.
            let mut unshare = command("unshare");
            let script = format!(
                "mount -t tmpfs tmpfs /run && mkdir -m 755 {PRIVILEGE_SEPARATION} && exec \"$@\""
            );
            unshare.args(["-m", "--", "sh", "-c", &script, "sh", PROGRAM]);
            unshare
        } else {
            command(PROGRAM)
        };
        sshd.args(["-D", "-e", "-f"]).arg(config);
        let sshd = Process::start("sshd", Side::Destination, sshd, true)?;
        sshd.line_after("Server listening on ")?;
        Ok(sshd)
    }

    /// An ssh that comes in without questions; the far command is still to be added.
    pub(super) fn client(&self) -> Command {
        let known = self.directory.join("known");
        let mut ssh = command("ssh");
        ssh.args(["-F", "none", "-T", "-c", Self::CIPHER, "-i"])
            .arg(self.directory.join("user"));
        ssh.arg("-o")
            .arg(format!("UserKnownHostsFile={}", known.display()));
        for option in [
            "StrictHostKeyChecking=yes",
            "BatchMode=yes",
            "IdentitiesOnly=yes",
        ] {
            ssh.args(["-o", option]);
        }
        ssh.args(["-o", "GlobalKnownHostsFile=none", "-o", "Compression=no"]);
        ssh.arg("-p")
            .arg(self.port.to_string())
            .arg(format!("{}@127.0.0.1", self.user));
        ssh
    }
}

fn user_name() -> Option<String> {
    let output = command("id").arg("-un").output().ok()?;
    let name = String::from_utf8(output.stdout).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}
