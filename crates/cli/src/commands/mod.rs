//! Dispatches to the commands.
//! Each one reads its arguments; only the home directory and the settings are found here.

mod backup;
mod buffer;
mod config;
mod copy;
mod doctor;
mod documents;
mod each;
mod generate;
mod limit;
mod node;
mod peers;
mod verify;

pub(crate) use copy::exit_of;

use crate::args;
use crate::exit::{Exit, Failure};
use crate::home::{self, Home};
use clap::ArgMatches;
pub(crate) use copy::memory_env;
use godwit_api::settings::{ConfigFile, Scope, ServeSettings, Typed, Values, resolve};
use godwit_net::aead::use_library;
use godwit_node::plan;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Runs the typed command.
pub(crate) fn run(matches: &ArgMatches, started: Instant) -> Result<Exit, Failure> {
    if let Some(library) = matches.get_one("tls-library") {
        use_library(*library);
    }
    let Some((name, matches)) = matches.subcommand() else {
        return Err(Failure::usage("name a command: godwit help lists them"));
    };
    // Commands that need no home make none.
    match name {
        // The agent reports its failures to its caller, so it must not fail before.
        "agent" => return crate::agent::run(matches),
        "buffer" => return buffer::run(matches),
        "config" => return config::run(matches),
        "completions" => return documents::completions(matches),
        "backup" => return backup::backup(matches, &node::connect::home_of_node()?),
        "restore" => return backup::restore(matches, &node::connect::home_of_node()?),
        "cluster" => match matches.subcommand() {
            Some(("recover", own)) => {
                return node::cluster::recover(own, &node::connect::home_of_node()?);
            }
            Some(("leave", own)) => {
                return node::cluster::leave(own, &node::connect::home_of_node()?);
            }
            _ => return node::run(name, matches, started),
        },
        "doctor" => return doctor::run(matches),
        "man" => return documents::man(matches),
        "access" | "accounting" | "clean" | "flow" | "job" | "ls" | "mkdir" | "mv" | "node"
        | "rm" | "schedule" | "site" | "token" | "top" | "user" | "webhook" => {
            return node::run(name, matches, started);
        }
        _ => {}
    }
    // These commands use the home alone.
    if let "id" | "trust" | "limit" = name {
        let home = home::find()?;
        let _owner = home::as_owner(&home)?;
        home.make()?;
        return match name {
            "id" => peers::id(&home),
            "trust" => peers::trust(matches, &home),
            _ => limit::run(matches, &home),
        };
    }
    let home = home::open()?;
    match name {
        "cp" => copy::run(matches, &home, started),
        "sync" => copy::run_sync(matches, &home, started),
        "serve" => {
            let values = settings(Scope::Serve, matches, &home)?;
            let settings = ServeSettings::from_values(&values).map_err(plan::failure_of)?;
            let level = matches.get_one("feature-level").copied();
            Ok(godwit_node::run(&values, &settings, &home, level))
        }
        "verify" => verify::run(matches, &home, started),
        "manifest" => verify::manifest(matches, &home),
        "gen" => generate::run(matches, &home),
        other => Err(Failure::usage(format!("{other} is not a command"))),
    }
}

/// The settings of another command than the running one: from environment and file.
fn settings_of(scope: Scope, home: &Home) -> Result<Values, Failure> {
    settings_with(scope, &Typed::new(), home)
}

/// The same, with some settings of the command line.
fn settings_with(scope: Scope, typed: &Typed, home: &Home) -> Result<Values, Failure> {
    let file = config_file(scope, typed, home)?.1;
    Ok(resolve(
        scope,
        typed,
        &|name| std::env::var_os(name),
        &file,
    )?)
}

/// The settings file of a command, and its contents. Only a node may use a file outside the home.
fn config_file(scope: Scope, typed: &Typed, home: &Home) -> Result<(PathBuf, ConfigFile), Failure> {
    let named = (scope == Scope::Serve)
        .then(|| {
            let typed = typed.get("config").and_then(|words| words.last()).cloned();
            typed.or_else(|| std::env::var_os("GODWIT_CONFIG"))
        })
        .flatten()
        .filter(|name| !name.is_empty())
        .map(PathBuf::from);
    Ok(match named {
        Some(named) => {
            let file = ConfigFile::load_named(&named).map_err(plan::failure_of)?;
            (named, file)
        }
        None => (
            home.config(),
            ConfigFile::load(&home.config()).map_err(plan::failure_of)?,
        ),
    })
}

fn settings(scope: Scope, matches: &ArgMatches, home: &Home) -> Result<Values, Failure> {
    let values = settings_with(scope, &args::typed(scope, matches), home)?;
    Ok(values.with_order(args::order(scope, matches)))
}

/// A positional argument that clap requires.
fn required<'a>(matches: &'a ArgMatches, name: &str) -> Result<&'a OsString, Failure> {
    matches
        .get_one(name)
        .ok_or_else(|| Failure::usage(format!("{name} is missing")))
}

/// An option that must be text.
fn text_of(matches: &ArgMatches, name: &str) -> Result<Option<String>, Failure> {
    let text = matches.get_one::<OsString>(name).map(|text| {
        text.to_str().map(str::to_owned).ok_or_else(|| {
            Failure::usage(format!(
                "--{name} {}: it is not UTF-8",
                text.to_string_lossy()
            ))
        })
    });
    text.transpose()
}

/// Refuses `-` for a file that is read twice, or that gets its name only when it is complete.
fn not_a_stream(path: &Path) -> Result<&Path, Failure> {
    if path == Path::new("-") {
        return Err(Failure::usage(
            "-: a manifest or list must be a file; for a file named - write ./-",
        ));
    }
    Ok(path)
}

/// A positional argument that must be text.
fn required_text<'a>(matches: &'a ArgMatches, name: &str) -> Result<&'a str, Failure> {
    let text = required(matches, name)?;
    text.to_str()
        .ok_or_else(|| Failure::usage(format!("{}: it is not UTF-8", text.to_string_lossy())))
}
