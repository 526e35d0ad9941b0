//! Owns a running peer: its definition, with the values of this case, at the two ends of a place. Does not depend on
//! the names of peers.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context as _, ensure};

use super::super::case::Case;
use super::super::data::{Arrival, Load};
use super::super::peers::{Definition, Words, fill};
use super::super::place::Place;
use super::super::process::{Process, Side};
use super::certificate::Certificate;
use super::sshd::{Sshd, user_name};
use super::{Contender, Job, Outcome, free_port, outcome, shell};
use crate::pipe;

/// A peer in one case.
pub(super) struct Peer {
    definition: &'static Definition,
    place: Rc<Place>,
    scratch: PathBuf,
    sshd: Option<Sshd>,
}

impl Peer {
    pub(super) fn prepare(
        definition: &'static Definition,
        case: &Case,
        place: &Rc<Place>,
        scratch: &Path,
    ) -> anyhow::Result<Self> {
        for program in &definition.programs {
            super::require(program)?;
        }
        line_for(definition, case.load)?;
        let destination = place.address(Side::Destination);
        let sshd = definition
            .ssh
            .then(|| Sshd::prepare(scratch, destination))
            .transpose()?;
        Ok(Self {
            definition,
            place: Rc::clone(place),
            scratch: scratch.to_owned(),
            sshd,
        })
    }

    fn server_side(&self) -> Side {
        let server = self.definition.server.as_ref();
        server.map_or(Side::Destination, |server| server.side)
    }

    /// The values of all words in one run.
    fn words(&self, job: &Job<'_>, port: u16) -> anyhow::Result<Words> {
        let mut words = Words::default();
        let text = |path: &Path| -> anyhow::Result<String> {
            let text = path.to_str().context("a path that is no text")?;
            // Definitions are shell lines without quotes.
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+@".contains(&byte);
            ensure!(
                text.bytes().all(plain),
                "peers need a simpler path than {text:?}"
            );
            Ok(text.to_owned())
        };
        if let Some(source) = job.source {
            let (parent, name) = super::files(job)?;
            words.set("source", text(source)?);
            words.set("parent", text(parent)?);
            words.set("name", text(name.as_ref())?);
        }
        words.set("into", text(job.into)?);
        words.set("scratch", text(&self.scratch)?);
        words.set("bytes", job.set.bytes.to_string());
        if let Load::Files { files, bytes, .. } = job.load {
            words.set("files", files.to_string());
            words.set("file_bytes", bytes.to_string());
        }
        let side = self.server_side();
        words.set("host", self.place.address(side));
        words.set("host_name", self.place.name(side));
        words.set("hosts", self.place.addresses(side));
        words.set("port", port.to_string());
        words.set("port2", free_port()?.to_string());
        words.set("cores", std::thread::available_parallelism()?.to_string());
        words.set("streams", pipe::STREAMS_DEFAULT.to_string());
        words.set("user", user_name().context("who am I?")?);
        if let Some(sshd) = &self.sshd {
            sshd.say(&mut words);
        }
        if self.definition.certificate {
            let names = [self.place.address(side), self.place.name(side)];
            let certificate = Certificate::make(&self.scratch, &names)?;
            for (word, path) in certificate.paths() {
                words.set(word, text(path)?);
            }
        }
        Ok(words)
    }

    /// Writes the files, runs the preparation, and starts the server at a free port.
    fn begin(&self, job: &Job<'_>) -> anyhow::Result<(Words, Option<Process>)> {
        let port = free_port()?;
        let words = self.words(job, port)?;
        for (name, text) in &self.definition.files {
            fs::write(self.scratch.join(name), fill(text, &words)?)?;
        }
        for line in &self.definition.before {
            let output = shell(&fill(line, &words)?)
                .output()
                .context("cannot run a shell")?;
            let error = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{line}: {}", error.trim());
        }
        let server = self.start_server(&words, port)?;
        Ok((words, server))
    }

    fn start_server(&self, words: &Words, port: u16) -> anyhow::Result<Option<Process>> {
        let Some(server) = &self.definition.server else {
            return Ok(None);
        };
        let command = self
            .place
            .at(server.side, shell(&fill(&server.run, words)?));
        let process = Process::start(&self.definition.title, server.side, command, true)?;
        match &server.ready {
            Some(text) => {
                process.line_after(text)?;
            }
            None => process.wait_until_it_listens(port)?,
        }
        Ok(Some(process))
    }
}

/// The line that moves this kind of load.
fn line_for(definition: &'static Definition, load: Load) -> anyhow::Result<&'static str> {
    let said = "its definition does not say how it moves such a load";
    definition.moves(load).context(said)
}

impl Contender for Peer {
    fn commands(&self, case: &Case) -> String {
        let server = self.definition.server.iter().map(|server| &*server.run);
        let transfer = line_for(self.definition, case.load).ok();
        let lines: Vec<&str> = server.chain(transfer).map(str::trim).collect();
        lines.join("; ")
    }

    fn arrival(&self) -> Arrival {
        self.definition.arrives
    }

    fn run(&mut self, job: &Job<'_>) -> anyhow::Result<Outcome> {
        let mut background = Vec::new();
        if let Some(sshd) = &self.sshd {
            background.push(sshd.start(&self.place)?);
        }
        // Another program may use the port before the server starts: then the server gets another port.
        let (words, server) = self.begin(job).or_else(|_| self.begin(job))?;
        let mut foreground = Vec::new();
        let ends = self
            .definition
            .server
            .as_ref()
            .is_some_and(|server| server.ends);
        let waiting = if ends {
            &mut foreground
        } else {
            &mut background
        };
        waiting.extend(server);

        let side = self.definition.transfer.side;
        let line = fill(line_for(self.definition, job.load)?, &words)?;
        let transfer = self.place.at(side, shell(&line));
        let started = Instant::now();
        let title = &self.definition.title;
        foreground.push(Process::start(title, side, transfer, true)?);
        outcome(job, started, foreground, background)
    }
}
