//! Owns Godwit as a contender: two homes that know each other, a daemon for each run, and the measured `godwit cp`. Uses
//! only the command line of Godwit.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};

use super::super::case::{Case, Class};
use super::super::data::Load;
use super::super::place::Place;
use super::super::process::{Process, Side, conduct};
use super::{Contender, Job, Outcome, Programs, command};

/// The real binary, with its default settings.
pub(crate) struct Godwit {
    program: PathBuf,
    client_home: PathBuf,
    daemon_home: PathBuf,
    daemon_identity: String,
    place: Rc<Place>,
}

impl Godwit {
    /// Makes two homes in `scratch` that know each other.
    ///
    /// # Errors
    /// The program is missing or fails.
    pub(crate) fn prepare(
        programs: &Programs,
        place: &Rc<Place>,
        scratch: &Path,
    ) -> anyhow::Result<Self> {
        let home = |name| -> anyhow::Result<PathBuf> {
            let home = scratch.join(name);
            fs::create_dir_all(&home).with_context(|| format!("cannot make {home:?}"))?;
            Ok(home)
        };
        let mut godwit = Self {
            program: programs.godwit.clone(),
            client_home: home("client")?,
            daemon_home: home("daemon")?,
            daemon_identity: String::new(),
            place: Rc::clone(place),
        };
        godwit.daemon_identity = godwit.say(godwit.daemon().arg("id"))?;
        let client_identity = godwit.say(godwit.client().arg("id"))?;
        // The file is written without a command: the command's name differs between versions, and the file does not.
        let grants = godwit.daemon_home.join("grants");
        fs::write(&grants, format!("{client_identity} * read,write\n"))
            .with_context(|| format!("cannot write {grants:?}"))?;
        Ok(godwit)
    }

    /// The program with the client's home.
    pub(crate) fn client(&self) -> Command {
        let mut command = command(&self.program);
        command.env("GODWIT_HOME", &self.client_home);
        command
    }

    fn daemon(&self) -> Command {
        let mut command = command(&self.program);
        command.env("GODWIT_HOME", &self.daemon_home);
        command
    }

    /// Starts the daemon at that end, with an export of `directory`, and returns the address and port at which it
    /// listens.
    ///
    /// # Errors
    /// The daemon does not listen.
    pub(crate) fn serve(
        &self,
        side: Side,
        host: &str,
        directory: &Path,
        any: bool,
    ) -> anyhow::Result<(Process, String)> {
        let mut export = OsString::from("data=");
        export.push(directory);
        let mut serve = self.daemon();
        serve
            .args(["serve", "--listen", &format!("{host}:0"), "--export"])
            .arg(export);
        if any {
            serve.args(["--encryption", "any"]);
        }
        let serve = self.place.at(side, serve);
        let daemon = Process::start("godwit serve", side, serve, true)?;
        let said = daemon.line_after("listening on ")?;
        let address = said.split_whitespace().next().context("no address")?;
        Ok((daemon, address.to_owned()))
    }

    /// Makes the client trust the daemon at that address.
    ///
    /// # Errors
    /// The program fails.
    pub(crate) fn trust(&self, address: &str) -> anyhow::Result<()> {
        self.say(
            self.client()
                .args(["trust", address, &self.daemon_identity]),
        )?;
        Ok(())
    }

    /// Runs a short command and returns its output.
    fn say(&self, command: &mut Command) -> anyhow::Result<String> {
        let output = command
            .output()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "{command:?} failed: {}",
            error.trim()
        );
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }
}

impl Contender for Godwit {
    fn commands(&self, case: &Case) -> String {
        let (any, none) = match case.class {
            Class::Plain => (" --encryption any", " --encryption none"),
            Class::Encrypted => ("", ""),
        };
        let what = match (case.load, case.again) {
            (Load::Memory { .. }, _) => "cp --json{none} mem:BYTES godwit://ADDR:PORT/null:",
            (_, true) => "sync --json{none} SRC godwit://ADDR:PORT/data/SRC",
            (_, false) => "cp --json{none} SRC godwit://ADDR:PORT/data/",
        };
        let what = what.replace("{none}", none);
        format!("godwit serve{any} --listen ADDR:0 --export data=DIR; godwit {what}")
    }

    fn run(&mut self, job: &Job<'_>) -> anyhow::Result<Outcome> {
        let host = self.place.address(Side::Destination);
        let is_plain = job.case.class == Class::Plain;
        let (daemon, address) = self.serve(Side::Destination, host, job.into, is_plain)?;
        self.trust(&address)?;

        let mut copy = self.client();
        copy.args([if job.case.again { "sync" } else { "cp" }, "--json"]);
        if is_plain {
            copy.args(["--encryption", "none"]);
        }
        match (job.load, job.source) {
            (Load::Memory { bytes }, _) => {
                copy.arg(format!("mem:{bytes}"))
                    .arg(format!("godwit://{address}/null:"));
            }
            (_, Some(source)) if job.case.again => {
                let name = source.file_name().and_then(std::ffi::OsStr::to_str);
                let name = name.context("a name that is no text")?;
                copy.arg(source)
                    .arg(format!("godwit://{address}/data/{name}"));
            }
            (_, Some(source)) => {
                copy.arg(source).arg(format!("godwit://{address}/data/"));
            }
            (_, None) => bail!("no source"),
        }
        let copy = self.place.at(Side::Source, copy);
        let started = Instant::now();
        let mut foreground = [Process::start("godwit cp", Side::Source, copy, true)?];
        let mut background = [daemon];
        let interrupted = || job.world.is_interrupted();
        let (time, source, destination) = conduct(
            started,
            &mut foreground,
            &mut background,
            job.limit,
            &interrupted,
        )?;
        let report = foreground[0]
            .last_line_with("\"event\":\"summary\"")
            .and_then(|line| serde_json::from_str::<serde_json::Value>(&line).ok());
        Ok(Outcome {
            seconds: time.as_secs_f64(),
            source,
            destination,
            report,
        })
    }
}
