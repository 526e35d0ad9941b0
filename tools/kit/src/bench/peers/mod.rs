//! Owns the definition of a peer: a file of data that says how it is installed, started and used to move files.
//! Runs none of them; `tools/kit/README.md` describes the file format.

mod install;
mod words;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::case::Class;
use super::contender::is_there;
use super::data::{Arrival, Load};
use super::process::Side;

pub(crate) use install::{Tool, install};
pub(crate) use words::{Words, fill};

/// Whether it is to be beaten, or shows a limit of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    Peer,
    Limit,
}

/// One peer or limit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Definition {
    /// On the command line and in JSON: lower-case letters, digits, hyphens.
    pub(crate) name: String,
    /// In tables.
    pub(crate) title: String,
    pub(crate) class: Class,
    #[serde(default = "peer")]
    pub(crate) role: Role,
    /// Packages of Debian that have the programs; none where the user brings them.
    #[serde(default)]
    pub(crate) packages: Vec<String>,
    /// The programs that must be in `PATH`.
    pub(crate) programs: Vec<String>,
    /// Prints its version on the first line that is not empty.
    pub(crate) version: String,
    /// The metadata that arrives beside names and contents, and other remarks for the reader.
    pub(crate) note: String,
    /// Whether it takes digests of contents at both ends and compares them; the checks of encryption do not count.
    #[serde(default)]
    pub(crate) digests: bool,
    /// The reason why it may take too long to wait for, if it is known.
    pub(crate) slow: Option<String>,
    /// Whether it needs an sshd at the destination.
    #[serde(default)]
    pub(crate) ssh: bool,
    /// Whether it needs a certificate for the server's address.
    #[serde(default)]
    pub(crate) certificate: bool,
    /// Files to write into its directory before it is started: name and text.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
    /// Shell lines before each run, outside the clock.
    #[serde(default)]
    pub(crate) before: Vec<String>,
    /// How to check the destination.
    #[serde(default = "contents")]
    pub(crate) arrives: Arrival,
    pub(crate) server: Option<Server>,
    pub(crate) transfer: Transfer,
}

/// The server that waits for the transfer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Server {
    /// A shell line that stays until it is stopped.
    pub(crate) run: String,
    #[serde(default = "destination")]
    pub(crate) side: Side,
    /// Text that it prints when it is ready; else it is ready when it listens at `{port}`.
    pub(crate) ready: Option<String>,
    /// Whether it ends with the transfer without a signal: then the clock runs until it has.
    #[serde(default)]
    pub(crate) ends: bool,
}

/// Shell lines that move the load of the case; a load without its line is not for this peer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Transfer {
    #[serde(default = "source")]
    pub(crate) side: Side,
    /// One file.
    pub(crate) file: Option<String>,
    /// A directory with all that is below it.
    pub(crate) tree: Option<String>,
    /// Bytes that were never in a file.
    pub(crate) memory: Option<String>,
}

fn peer() -> Role {
    Role::Peer
}

fn contents() -> Arrival {
    Arrival::Contents
}

fn source() -> Side {
    Side::Source
}

fn destination() -> Side {
    Side::Destination
}

/// The definitions that the kit brings.
const BUILT_IN: [&str; 23] = [
    include_str!("rsync-daemon.toml"),
    include_str!("rsync-ssh.toml"),
    include_str!("rclone-sftp.toml"),
    include_str!("rclone-webdav.toml"),
    include_str!("rclone-webdavs.toml"),
    include_str!("rclone-http.toml"),
    include_str!("rclone-https.toml"),
    include_str!("gridftp.toml"),
    include_str!("gridftp-private.toml"),
    include_str!("xrdcp.toml"),
    include_str!("xrdcp-tls.toml"),
    include_str!("tar-socat.toml"),
    include_str!("tar-ssh.toml"),
    include_str!("lftp-http.toml"),
    include_str!("lftp-https.toml"),
    include_str!("lftp-sftp.toml"),
    include_str!("aria2-http.toml"),
    include_str!("aria2-https.toml"),
    include_str!("scp.toml"),
    include_str!("cp.toml"),
    include_str!("iperf3.toml"),
    include_str!("fio-write.toml"),
    include_str!("fio-read.toml"),
];

/// All definitions: ours, and those of the user. They live as long as the program, so that a case can refer to a contender by a reference.
///
/// # Errors
/// When a file cannot be read or is no definition, or two have one name.
pub(crate) fn load(files: &[PathBuf]) -> anyhow::Result<Vec<&'static Definition>> {
    let mut all: Vec<&'static Definition> = Vec::new();
    let ours = BUILT_IN.iter().map(|text| Ok((*text).to_owned()));
    let theirs = files
        .iter()
        .map(|file| std::fs::read_to_string(file).with_context(|| format!("cannot read {file:?}")));
    for text in ours.chain(theirs) {
        let definition = Definition::parse(&text?)?;
        ensure!(
            all.iter().all(|other| other.name != definition.name),
            "two peers are called {}",
            definition.name
        );
        all.push(Box::leak(Box::new(definition)));
    }
    Ok(all)
}

impl Definition {
    /// Reads a definition.
    ///
    /// # Errors
    /// When the text does not follow the format in `tools/kit/README.md`.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let definition: Self = toml::from_str(text).context("no definition of a peer")?;
        let name = &definition.name;
        let simple = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        ensure!(
            !name.is_empty() && name.bytes().all(simple),
            "{name:?} has other characters than a-z, 0-9 and '-'"
        );
        let lines = definition.lines();
        ensure!(
            definition.transfer.commands().next().is_some(),
            "{name} moves neither a file nor a tree nor memory"
        );
        for line in lines {
            words::check(line).with_context(|| format!("in the definition of {name}"))?;
        }
        for file in definition.files.keys() {
            ensure!(
                !file.contains('/') && !file.starts_with('.'),
                "{name}: {file:?} is no plain name"
            );
        }
        Ok(definition)
    }

    fn lines(&self) -> impl Iterator<Item = &str> {
        let server = self.server.iter().map(|server| server.run.as_str());
        self.files
            .values()
            .chain(&self.before)
            .map(String::as_str)
            .chain(server)
            .chain(self.transfer.commands())
    }

    /// The line that moves this sort of load, if there is one.
    pub(crate) fn moves(&self, load: Load) -> Option<&str> {
        let transfer = &self.transfer;
        let line = match load {
            Load::Memory { .. } => &transfer.memory,
            Load::Files { files: 1, .. } | Load::Sparse { .. } => &transfer.file,
            _ => &transfer.tree,
        };
        line.as_deref()
    }

    /// Whether all its programs are installed.
    pub(crate) fn is_there(&self) -> bool {
        self.programs.iter().all(|program| is_there(program))
    }

    /// The line of its output with the version.
    pub(crate) fn version_line(&self) -> Option<String> {
        let output = super::contender::shell(&self.version).output().ok()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let line = text.lines().find(|line| !line.trim().is_empty())?;
        Some(line.trim().chars().take(100).collect())
    }
}

impl Transfer {
    fn commands(&self) -> impl Iterator<Item = &str> {
        [&self.file, &self.tree, &self.memory]
            .into_iter()
            .flatten()
            .map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_definitions_are_good_and_complete() {
        let all = load(&[]).expect("all of them");
        assert_eq!(all.len(), BUILT_IN.len());
        for definition in &all {
            assert!(!definition.note.is_empty(), "{}", definition.name);
            assert!(!definition.packages.is_empty(), "{}", definition.name);
        }
        for class in [Class::Plain, Class::Encrypted] {
            let peers = all
                .iter()
                .filter(|peer| peer.class == class && peer.role == Role::Peer);
            assert!(peers.count() >= 6);
        }
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let good = "name = 'a'\ntitle = 'A'\nclass = 'plain'\nprograms = ['a']\nversion = 'a -v'\n\
                    note = 'n'\n[transfer]\nfile = 'a {source} {into}'\n";
        Definition::parse(good).expect("a definition");
        for (from, to) in [
            ("'a'", "'A b'"),
            ("'plain'", "'secret'"),
            ("{into}", "{intro}"),
            ("file =", "fyle ="),
            ("file = 'a {source} {into}'", ""),
            ("[transfer]", "[files]\n'../x' = ''\n[transfer]"),
        ] {
            let bad = good.replacen(from, to, 1);
            assert!(Definition::parse(&bad).is_err(), "{bad}");
        }
        let file = tempfile::NamedTempFile::new().expect("make a file");
        std::fs::write(file.path(), good.replace("'a'", "'scp'")).expect("write");
        assert!(load(&[file.path().to_owned()]).is_err(), "a second scp");
    }
}
