//! `godwit doctor`: which machine, directory and node are meant, from what was typed.
//! Looks at nothing itself; `doctor` does.

use crate::doctor::{self, Directory, Node, Subject};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use clap::ArgMatches;
use godwit_api::PORT_DEFAULT;
use godwit_api::endpoint::{Endpoint, Place};
use godwit_api::host::HostPort;
use godwit_api::settings::{CpSettings, Scope, Typed, resolve};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Runs the command.
pub(super) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    let home = Home::find()?;
    let file = godwit_api::settings::ConfigFile::load(&home.config())?;
    let values = resolve(
        Scope::Cp,
        &Typed::new(),
        &|name| std::env::var_os(name),
        &file,
    )?;
    let endpoints = matches.get_many::<OsString>("endpoint").unwrap_or_default();
    let (directory, node) = subjects(endpoints.map(OsString::as_os_str))?;
    Ok(doctor::run(
        &Subject {
            settings: CpSettings::from_values(&values)?,
            home,
            directory,
            node,
        },
        matches.get_flag("json"),
    ))
}

fn subjects<'a>(
    endpoints: impl Iterator<Item = &'a OsStr>,
) -> Result<(Directory, Option<Node>), Failure> {
    let (mut directory, mut node) = (None, None);
    for text in endpoints {
        let twice =
            || Failure::usage("name at most one path and one node: godwit doctor [PATH] [NODE]");
        match parse(text)? {
            Named::Path(path) if directory.is_none() => {
                directory = Some((path, node.is_none()));
            }
            Named::Node(found) if node.is_none() => node = Some(found),
            _ => return Err(twice()),
        }
    }
    let directory = match directory {
        Some((path, first)) => Directory {
            path,
            must_take: !(first && node.is_some()),
        },
        None => Directory {
            path: PathBuf::from("."),
            must_take: false,
        },
    };
    Ok((directory, node))
}

enum Named {
    Path(PathBuf),
    Node(Node),
}

fn parse(text: &OsStr) -> Result<Named, Failure> {
    // A node alone is no endpoint of a transfer, but it can be looked at.
    if let Some(host) = text
        .to_str()
        .and_then(|text| text.strip_prefix("godwit://"))
        && !host.trim_end_matches('/').contains('/')
    {
        let node = HostPort::parse(host.trim_end_matches('/'), PORT_DEFAULT)
            .map_err(|error| Failure::usage(format!("{}: {error}", text.display())))?;
        return Ok(Named::Node(Node { node, export: None }));
    }
    match Endpoint::parse(text).map_err(Failure::usage)? {
        Endpoint::Local(path) => Ok(Named::Path(path)),
        Endpoint::Remote(remote) => Ok(Named::Node(Node {
            node: remote.node,
            export: match remote.place {
                Place::Export { .. } => Some(remote.place),
                Place::Memory { .. } | Place::Null => None,
            },
        })),
        _ => Err(Failure::usage(format!(
            "{}: name a path or a node, as in godwit://HOST/EXPORT",
            text.display()
        ))),
    }
}
