//! Owns an sshd for one contender: separate keys, configuration and port, for the user that runs
//! it. Uses neither the system's sshd nor any home directory.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::super::peers::Words;
use super::super::place::Place;
use super::super::process::{Process, Side};
use super::{command, free_port};

/// Path in Debian and most other systems; it is not in the `PATH` of ordinary users.
const PROGRAM: &str = "/usr/sbin/sshd";
/// A directory that must exist when sshd runs as root; packages let their service make it.
const PRIVILEGE_SEPARATION: &str = "/run/sshd";
/// The fastest cipher of OpenSSH on processors with AES instructions.
const CIPHER: &str = "aes128-gcm@openssh.com";

/// The files and options to start the daemon and to log in.
pub(super) struct Sshd {
    directory: PathBuf,
    port: u16,
    user: String,
}

impl Sshd {
    /// Makes keys and configuration for a daemon that listens at `address`.
    pub(super) fn prepare(scratch: &Path, address: &str) -> anyhow::Result<Self> {
        ensure!(Path::new(PROGRAM).is_file(), "{PROGRAM} is not installed");
        let directory = scratch.join("sshd");
        fs::create_dir(&directory).with_context(|| format!("cannot make {directory:?}"))?;
        // A port that was free at this moment; sshd cannot choose one itself.
        let port = free_port()?;
        for key in ["host", "user"] {
            let mut keygen = command("ssh-keygen");
            keygen
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(directory.join(key));
            ensure!(
                keygen.status().context("cannot run ssh-keygen")?.success(),
                "no key made"
            );
        }
        fs::copy(directory.join("user.pub"), directory.join("authorized"))?;
        let host = fs::read_to_string(directory.join("host.pub"))?;
        fs::write(
            directory.join("known"),
            format!("[{address}]:{port} {host}"),
        )?;
        let at = directory
            .to_str()
            .context("the directory has no simple name")?;
        // Some peers open a connection for each of several files at once; sshd must accept all of
        // them.
        let config = format!(
            "Port {port}\nListenAddress {address}\nHostKey {at}/host\n\
             AuthorizedKeysFile {at}/authorized\nStrictModes no\nUsePAM no\nPidFile none\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nMaxStartups 100\n\
             PermitRootLogin prohibit-password\nUseDNS no\nPrintMotd no\nPrintLastLog no\n\
             Subsystem sftp internal-sftp\n"
        );
        fs::write(directory.join("config"), config)?;
        let user = user_name().context("who am I?")?;
        Ok(Self {
            directory,
            port,
            user,
        })
    }

    /// Starts the daemon at the far end and waits until it listens.
    pub(super) fn start(&self, place: &Place) -> anyhow::Result<Process> {
        let config = self.directory.join("config");
        let is_root = rustix::process::geteuid().is_root();
        let mut sshd = if is_root && !Path::new(PRIVILEGE_SEPARATION).exists() {
            // A private mount namespace, so that no mount remains outside.
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
        let sshd = place.at(Side::Destination, sshd);
        let sshd = Process::start("sshd", Side::Destination, sshd, true)?;
        sshd.line_after("Server listening on ")?;
        Ok(sshd)
    }

    /// Adds the options for a login without questions.
    pub(super) fn say(&self, words: &mut Words) {
        let at = self.directory.display();
        let options = format!(
            "-F none -c {CIPHER} -i {at}/user -o UserKnownHostsFile={at}/known \
             -o GlobalKnownHostsFile=none -o StrictHostKeyChecking=yes -o BatchMode=yes \
             -o IdentitiesOnly=yes -o Compression=no"
        );
        words.set("ssh", format!("ssh -T {options} -p {}", self.port));
        words.set("ssh_options", options);
        words.set("ssh_port", self.port.to_string());
        words.set("ssh_key", format!("{at}/user"));
        words.set("ssh_known", format!("{at}/known"));
        words.set("ssh_user", &*self.user);
    }
}

/// The name of the user that runs this program.
pub(super) fn user_name() -> Option<String> {
    let output = command("id").arg("-un").output().ok()?;
    let name = String::from_utf8(output.stdout).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}
