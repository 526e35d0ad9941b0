//! `godwit doctor`: which directory and which other side are meant, from what was typed.
//! Looks at nothing itself; `doctor` does.

use crate::doctor::{self, Directory, Far, Node, Subject};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use clap::ArgMatches;
use godwit_api::PORT_DEFAULT;
use godwit_api::endpoint::{Endpoint, Place};
use godwit_api::host::HostPort;
use godwit_api::settings::{CpSettings, Scope, Typed, resolve};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

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
    let (directory, far, far_gives) = subjects(endpoints.map(OsString::as_os_str))?;
    Ok(doctor::run(
        &Subject {
            settings: CpSettings::from_values(&values)?,
            home,
            directory,
            far,
            far_gives,
        },
        matches.get_flag("json"),
    ))
}

fn subjects<'a>(
    endpoints: impl Iterator<Item = &'a OsStr>,
) -> Result<(Directory, Option<Far>, bool), Failure> {
    let (mut directory, mut far) = (None, None);
    for text in endpoints {
        let twice = || {
            Failure::usage("name at most one path and one other side: godwit doctor [PATH] [HOST]")
        };
        match parse(text)? {
            Named::Path(path) if directory.is_none() => {
                directory = Some((path, far.is_none()));
            }
            Named::Far(found) if far.is_none() => far = Some(found),
            _ => return Err(twice()),
        }
    }
    if far.is_none()
        && let Some(host) = directory.as_ref().and_then(|(path, _)| bare_host(path))
        && let Named::Far(found) = parse(&host)?
    {
        (directory, far) = (None, Some(found));
    }
    // What is named first is where data comes from.
    let far_gives = far.is_some() && matches!(directory, Some((_, false)));
    let directory = match directory {
        Some((path, first)) => Directory {
            path,
            must_take: !(first && far.is_some()),
        },
        None => Directory {
            path: PathBuf::from("."),
            must_take: false,
        },
    };
    Ok((directory, far, far_gives))
}

enum Named {
    Path(PathBuf),
    Far(Far),
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
        return Ok(Named::Far(Far::Node(Node { node, export: None })));
    }
    match Endpoint::parse(text).map_err(Failure::usage)? {
        Endpoint::Local(path) => Ok(Named::Path(path)),
        Endpoint::Remote(remote) => Ok(Named::Far(Far::Node(Node {
            node: remote.node,
            export: match remote.place {
                Place::Export { .. } => Some(remote.place),
                Place::Memory { .. } | Place::Null => None,
            },
        }))),
        Endpoint::Ssh(place) => Ok(Named::Far(Far::Ssh(place))),
        _ => Err(Failure::usage(format!(
            "{}: name a path, a machine as in HOST:PATH, or a node as in godwit://HOST/EXPORT",
            text.display()
        ))),
    }
}

/// A word that is no path here is a machine, as in `HOST:`. To take it for a directory that is yet to be made would find
/// everything fine without having looked at anything.
fn bare_host(path: &Path) -> Option<OsString> {
    let word = path.to_str()?;
    let is_word = !word.is_empty() && !word.contains(['/', ':']);
    if !is_word || path.symlink_metadata().is_ok() {
        return None;
    }
    Some(format!("{word}:").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_path_is_a_machine() {
        let far = |words: &[&'static str]| {
            let named = subjects(words.iter().map(OsStr::new));
            named.ok().and_then(|(_, far, _)| far)
        };
        for word in ["127.0.0.1", "dtn2", "alice@dtn2.example.org"] {
            assert!(matches!(far(&[word]), Some(Far::Ssh(_))), "{word}");
        }
        for path in [".", "..", "/", "./dtn2", "src", "dtn2/"] {
            assert!(far(&[path]).is_none(), "{path}");
        }
        // The other side is named: this can only be a directory.
        let both = far(&["dtn2", "godwit://dtn2/data"]);
        assert!(matches!(both, Some(Far::Node(_))));
    }
}
