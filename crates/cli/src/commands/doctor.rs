//! `godwit doctor`: finds the directory and the other side among the typed words.
//! Examines nothing itself; `doctor` does.

use super::node::connect;
use crate::doctor::{self, Directory, Node, OtherSide, Subject};
use crate::exit::{Exit, Failure};
use crate::home;
use clap::ArgMatches;
use godwit_api::PORT_DEFAULT;
use godwit_api::endpoint::{Endpoint, NodePlace};
use godwit_api::host::HostPort;
use godwit_api::rest::BufferView;
use godwit_api::settings::{CpSettings, Scope, Typed, resolve};
use godwit_client::Buffer;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Runs the command.
pub(super) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    let home = home::find()?;
    let file = godwit_api::settings::ConfigFile::load(&home.config())?;
    let values = resolve(
        Scope::Cp,
        &Typed::new(),
        &|name| std::env::var_os(name),
        &file,
    )?;
    let endpoints = matches.get_many::<OsString>("endpoint").unwrap_or_default();
    let (directory, far, far_gives) = subjects(endpoints.map(OsString::as_os_str))?;
    let measures_path = matches.get_flag("path");
    if measures_path {
        can_measure(far.as_ref())?;
    }
    Ok(doctor::run(
        &Subject {
            settings: CpSettings::from_values(&values)?,
            home,
            directory,
            far,
            far_gives,
            measures_path,
            buffer: buffer(),
        },
        matches.get_flag("json"),
    ))
}

/// The transfer buffer of the node of this machine, if that answers.
fn buffer() -> Option<BufferView> {
    let client = connect::here().ok()?;
    Buffer::of(&client).view().ok()
}

fn subjects<'a>(
    endpoints: impl Iterator<Item = &'a OsStr>,
) -> Result<(Directory, Option<OtherSide>, bool), Failure> {
    let (mut paths, mut far) = (Vec::new(), None);
    let twice = || {
        Failure::usage(
            "name at most one local path and one other machine: godwit doctor [PATH] [HOST]",
        )
    };
    for text in endpoints {
        match parse(text)? {
            Named::Path(path) => paths.push((path, far.is_none())),
            Named::OtherSide(_) if far.is_some() => return Err(twice()),
            Named::OtherSide(found) => far = Some(found),
        }
    }
    // If the other side is named, the remaining word can only be a directory.
    if far.is_none() {
        let hosts: Vec<Option<OsString>> = paths.iter().map(|(path, _)| bare_host(path)).collect();
        let at = match hosts.as_slice() {
            [Some(_)] | [Some(_), None] => Some(0),
            [None, Some(_)] => Some(1),
            [Some(_), Some(_)] => return Err(both_nowhere(&paths[0].0, &paths[1].0)),
            _ => None,
        };
        if let Some((at, host)) = at.and_then(|at| Some((at, hosts[at].as_ref()?)))
            && let Named::OtherSide(found) = parse(host)?
        {
            far = Some(found);
            paths.remove(at);
            // The directory stands before or after the machine.
            paths.iter_mut().for_each(|(_, first)| *first = at == 1);
        }
    }
    if paths.len() > 1 {
        return Err(twice());
    }
    let directory = paths.pop();
    // The first name is the source of the data.
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

/// Only a node takes data from memory, and gives some.
fn can_measure(far: Option<&OtherSide>) -> Result<(), Failure> {
    let lacks = match far {
        Some(OtherSide::Node(_)) => return Ok(()),
        Some(OtherSide::Ssh(place)) => format!("{} is reached by ssh", place.login),
        None => "no other machine is named".to_owned(),
    };
    Err(Failure::usage(format!(
        "--path measures the path to a node, and {lacks}; name a node as in godwit://HOST/EXPORT, or leave out --path"
    )))
}

enum Named {
    Path(PathBuf),
    OtherSide(OtherSide),
}

fn parse(text: &OsStr) -> Result<Named, Failure> {
    // A node alone is no endpoint of a transfer, but can be examined.
    if let Some(host) = text
        .to_str()
        .and_then(|text| text.strip_prefix("godwit://"))
        && !host.trim_end_matches('/').contains('/')
    {
        let node = HostPort::parse(host.trim_end_matches('/'), PORT_DEFAULT)
            .map_err(|error| Failure::usage(format!("{}: {error}", text.display())))?;
        return Ok(Named::OtherSide(OtherSide::Node(Node {
            node,
            export: None,
        })));
    }
    match Endpoint::parse(text).map_err(Failure::usage)? {
        Endpoint::Local(path) => Ok(Named::Path(path)),
        Endpoint::Remote(remote) => Ok(Named::OtherSide(OtherSide::Node(Node {
            node: remote.node,
            export: match remote.place {
                NodePlace::Export { .. } => Some(remote.place),
                NodePlace::Memory { .. } | NodePlace::Null => None,
            },
        }))),
        Endpoint::Ssh(place) => Ok(Named::OtherSide(OtherSide::Ssh(place))),
        _ => Err(Failure::usage(format!(
            "{}: name a path, a machine as in HOST:PATH, or a node as in godwit://HOST/EXPORT",
            text.display()
        ))),
    }
}

/// The error for two words that are no local paths, either of which may be the machine.
fn both_nowhere(first: &Path, second: &Path) -> Failure {
    let (first, second) = (first.display(), second.display());
    Failure::usage(format!(
        "neither {first} nor {second} is a path on this machine; if one of them is a machine, write it with a colon: {first}: or {second}:"
    ))
}

/// A word that is no local path names a machine, as in `HOST:`. Otherwise doctor would take it for a new directory, examine nothing and
/// report no problem.
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
            assert!(matches!(far(&[word]), Some(OtherSide::Ssh(_))), "{word}");
        }
        for path in [".", "..", "/", "./dtn2", "src", "dtn2/"] {
            assert!(far(&[path]).is_none(), "{path}");
        }
        // One word is a path, and the first word is the source of the data.
        for (words, gives) in [(["src", "dtn2"], false), (["dtn2", "src"], true)] {
            let named = subjects(words.iter().map(OsStr::new)).ok();
            let (directory, far, far_gives) = named.expect("one of each");
            assert!(matches!(far, Some(OtherSide::Ssh(_))), "{words:?}");
            assert_eq!(
                (directory.path.as_path(), far_gives),
                (Path::new("src"), gives)
            );
        }
        for words in [["dtn2", "dtn3"], ["src", "."], ["dtn2:", "dtn3"]] {
            let named = subjects(words.iter().map(OsStr::new));
            assert_eq!(named.is_err(), words[0] != "dtn2:", "{words:?}");
        }
        // The other side is named, so this word can only be a directory.
        let both = far(&["dtn2", "godwit://dtn2/data"]);
        assert!(matches!(both, Some(OtherSide::Node(_))));
    }
}
