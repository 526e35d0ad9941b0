//! Owns the definition of a peer: a data file with the commands that install and start it and move files. Runs no peers;
//! `tools/kit/README.md` describes the file format.

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

/// Whether Godwit must be faster than the program, or the program shows a limit of the machine.
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
    /// The name on the command line and in JSON: lower-case letters, digits, hyphens.
    pub(crate) name: String,
    /// The name in tables.
    pub(crate) title: String,
    pub(crate) class: Class,
    #[serde(default = "peer")]
    pub(crate) role: Role,
    /// Debian packages that have the programs; none if the user installs them.
    #[serde(default)]
    pub(crate) packages: Vec<String>,
    /// The programs that must be in `PATH`.
    pub(crate) programs: Vec<String>,
    /// Command whose first output line that is not empty has the version.
    pub(crate) version: String,
    /// The transferred metadata besides names and contents, and other remarks for the reader.
    pub(crate) note: String,
    /// Whether the program computes digests of contents at both ends and compares them; the checks of encryption do not count.
    #[serde(default)]
    pub(crate) digests: bool,
    /// The reason why its runs may take too long, if known.
    pub(crate) slow: Option<String>,
    /// Whether the program needs an sshd at the destination.
    #[serde(default)]
    pub(crate) ssh: bool,
    /// Whether the program needs a certificate for the server's address.
    #[serde(default)]
    pub(crate) certificate: bool,
    /// Files to write into its directory before its start: name and text.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
    /// Shell lines before each run, not measured.
    #[serde(default)]
    pub(crate) before: Vec<String>,
    /// How to check the destination.
    #[serde(default = "contents")]
    pub(crate) arrives: Arrival,
    pub(crate) server: Option<Server>,
    pub(crate) transfer: Transfer,
}

/// The server at the other end of the transfer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Server {
    /// A shell line that runs until it is stopped.
    pub(crate) run: String,
    #[serde(default = "destination")]
    pub(crate) side: Side,
    /// Text that the server prints when it is ready; without this text, the server is ready when it listens at `{port}`.
    pub(crate) ready: Option<String>,
    /// Whether the server ends with the transfer, without a signal: then the measurement includes its end.
    #[serde(default)]
    pub(crate) ends: bool,
}

/// Shell lines that move the load of the case; a peer cannot move a load without a line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Transfer {
    #[serde(default = "source")]
    pub(crate) side: Side,
    /// Moves one file.
    pub(crate) file: Option<String>,
    /// Moves a directory with everything below it.
    pub(crate) tree: Option<String>,
    /// Moves bytes that are not in a file.
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

/// The definitions that are part of the kit.
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

/// All definitions: ours, and those of the user. They exist as long as the program, so a case can refer to a contender by reference.
///
/// # Errors
/// A file cannot be read or is not a definition, or two definitions have the same name.
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
    /// Parses a definition.
    ///
    /// # Errors
    /// The text does not follow the format in `tools/kit/README.md`.
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

    /// The line that moves this kind of load, if it exists.
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

    /// The output line with the version.
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
    fn an_invalid_definition_is_refused() {
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
