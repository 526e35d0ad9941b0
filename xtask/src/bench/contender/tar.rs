//! Owns the two peers made of `tar`: through a bare connection, and through ssh.
//! The sshd of the latter is beside it.

use std::io::PipeWriter;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context as _;

use super::super::case::Class;
use super::super::process::{Process, Side};
use super::super::world::World;
use super::sshd::Sshd;
use super::{Contender, Job, Outcome, command, files, outcome, require};

/// Records of 64 KiB, the capacity of a pipe: with tar's own 10 KiB it is slower.
const BLOCKING: &str = "--blocking-factor=128";

/// `tar c` into `output`.
fn pack(job: &Job<'_>, output: PipeWriter) -> anyhow::Result<Command> {
    let (parent, name) = files(job)?;
    let mut tar = command("tar");
    tar.arg(BLOCKING)
        .arg("-C")
        .arg(parent)
        .args(["-c", "-f", "-"])
        .arg(name)
        .stdout(output);
    Ok(tar)
}

/// `tar c | socat | socat | tar x`.
pub(super) struct TarSocat;

impl TarSocat {
    pub(super) fn prepare() -> anyhow::Result<Self> {
        require("tar").and_then(|()| require("socat"))?;
        Ok(Self)
    }
}

impl Contender for TarSocat {
    fn commands(&self, _class: Class) -> String {
        format!(
            "socat -u -b 524288 TCP-LISTEN:PORT STDOUT | tar {BLOCKING} -xf - -C DIR; \
             tar {BLOCKING} -cf - -C PARENT SRC | socat -u -b 524288 STDIN TCP:ADDR:PORT"
        )
    }

    fn run(&mut self, job: &Job<'_>) -> anyhow::Result<Outcome> {
        let socat = || {
            let mut socat = command("socat");
            socat.args(["-d", "-d", "-u", "-b", "524288"]);
            socat
        };
        let (from_socat, to_tar) = std::io::pipe().context("cannot make a pipe")?;
        let mut unpack = command("tar");
        unpack
            .arg(BLOCKING)
            .args(["-x", "-f", "-", "-C"])
            .arg(job.into)
            .stdin(from_socat);
        let mut listen = socat();
        listen
            .args(["TCP-LISTEN:0,bind=127.0.0.1", "STDOUT"])
            .stdout(to_tar);
        let unpack = Process::start("tar x", Side::Destination, unpack, true)?;
        let listen = Process::start("socat", Side::Destination, listen, false)?;
        let address = listen.line_after("listening on AF=2 ")?;

        let (from_tar, to_socat) = std::io::pipe().context("cannot make a pipe")?;
        let pack = pack(job, to_socat)?;
        let mut dial = socat();
        dial.arg("STDIN")
            .arg(format!("TCP:{address}"))
            .stdin(from_tar);
        let started = Instant::now();
        let pack = Process::start("tar c", Side::Source, pack, false)?;
        let dial = Process::start("socat", Side::Source, dial, true)?;
        outcome(job, started, vec![pack, dial, listen, unpack], Vec::new())
    }
}

/// `tar c | ssh tar x`, with an sshd of our own.
pub(super) struct TarSsh {
    sshd: Sshd,
}

impl TarSsh {
    pub(super) fn prepare(world: &World) -> anyhow::Result<Self> {
        require("tar").and_then(|()| require("ssh"))?;
        Ok(Self {
            sshd: Sshd::prepare(world)?,
        })
    }
}

impl Contender for TarSsh {
    fn commands(&self, _class: Class) -> String {
        format!(
            "tar {BLOCKING} -cf - -C PARENT SRC | ssh -c {} HOST tar {BLOCKING} -xf - -C DIR",
            Sshd::CIPHER
        )
    }

    fn run(&mut self, job: &Job<'_>) -> anyhow::Result<Outcome> {
        let daemon = self.sshd.start()?;
        let (from_tar, to_ssh) = std::io::pipe().context("cannot make a pipe")?;
        let pack = pack(job, to_ssh)?;
        let into = job
            .into
            .to_str()
            .context("the directory has no simple name")?;
        let mut ssh = self.sshd.client();
        // The far shell splits words; our own directories need no quoting beyond this.
        ssh.arg(format!("tar {BLOCKING} -xf - -C '{into}'"))
            .stdin(from_tar)
            .stdout(Stdio::null());
        let started = Instant::now();
        let pack = Process::start("tar c", Side::Source, pack, false)?;
        let ssh = Process::start("ssh", Side::Source, ssh, false)?;
        outcome(job, started, vec![pack, ssh], vec![daemon])
    }
}
