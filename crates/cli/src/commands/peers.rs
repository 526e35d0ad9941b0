//! `godwit id`, `authorize`, `revoke` and `trust`: who we are, who may come in, whom we know.
//! Only changes files in the home directory; a running node reads them anew by itself.

use super::required_text;
use crate::exit::{Exit, Failure, FailureCode};
use crate::home::Home;
use crate::output::print;
use clap::ArgMatches;
use godwit_api::PORT_DEFAULT;
use godwit_api::endpoint::check_export_name;
use godwit_api::host::HostPort;
use godwit_net::{Access, Grants, IdentityId, KnownPeers, PeerAddress, Trusted};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Prints the identity, made at the first call.
pub(super) fn id(home: &Home) -> Result<Exit, Failure> {
    let identity = home.identity()?;
    print(&identity.id().to_string());
    Ok(Exit::Complete)
}

/// Lets an identity in.
pub(super) fn authorize(matches: &ArgMatches, home: &Home) -> Result<Exit, Failure> {
    let identity = identity(matches)?;
    let write = matches.get_flag("write");
    let access = Access {
        read: matches.get_flag("read") || !write,
        write,
    };
    let grants = Grants::new(home.path());
    for export in exports(matches)? {
        let changed = grants
            .add(identity, export.as_deref(), access)
            .map_err(|error| Failure::new(FailureCode::HomeUnusable, error))?;
        let place = place(export.as_deref());
        print(&if changed {
            format!("{identity} may now {} {place}", verbs(access))
        } else {
            format!("{identity} could {} {place} before", verbs(access))
        });
    }
    Ok(Exit::Complete)
}

/// Shuts an identity out.
pub(super) fn revoke(matches: &ArgMatches, home: &Home) -> Result<Exit, Failure> {
    let identity = identity(matches)?;
    let grants = Grants::new(home.path());
    for export in exports(matches)? {
        let changed = grants
            .remove(&identity, export.as_deref())
            .map_err(|error| Failure::new(FailureCode::HomeUnusable, error))?;
        // A grant for all exports outlives that for one: saying "done" would deceive.
        let left = match &export {
            Some(name) => grants
                .allowed(&identity, name)
                .map_err(|error| Failure::new(FailureCode::HomeUnusable, error))?,
            None => Access::NONE,
        };
        let place = place(export.as_deref());
        if !left.is_none() {
            return Err(Failure::local(format!(
                "{identity} may still {} {place} by a grant for all exports; end that by: godwit revoke {identity}",
                verbs(left)
            )));
        }
        print(&if changed {
            format!("{identity} may no longer reach {place}")
        } else {
            format!("{identity} had no access to {place}")
        });
    }
    Ok(Exit::Complete)
}

/// Remembers who a node is.
pub(super) fn trust(matches: &ArgMatches, home: &Home) -> Result<Exit, Failure> {
    let node = required_text(matches, "node")?;
    let node = HostPort::parse(node, PORT_DEFAULT)
        .map_err(|error| Failure::usage(format!("{node}: {error}")))?;
    let identity = identity(matches)?;
    let address = PeerAddress::new(&node.host, node.port);
    let trusted = KnownPeers::new(home.path())
        .trust(&address, identity)
        .map_err(|error| Failure::new(FailureCode::HomeUnusable, error))?;
    print(&match trusted {
        Trusted::Replaced(other) => {
            format!("{node} is trusted as {identity}, no longer as {other}")
        }
        Trusted::Added | Trusted::AlreadyKnown => format!("{node} is trusted as {identity}"),
    });
    Ok(Exit::Complete)
}

fn verbs(access: Access) -> &'static str {
    match (access.read, access.write) {
        (true, true) => "read and write",
        (false, true) => "write",
        _ => "read",
    }
}

fn place(export: Option<&str>) -> String {
    export.map_or_else(|| "all exports".to_owned(), |name| format!("export {name}"))
}

fn identity(matches: &ArgMatches) -> Result<IdentityId, Failure> {
    required_text(matches, "identity")?
        .parse()
        .map_err(Failure::usage)
}

/// The exports named; none named are all of them, as one `None`.
fn exports(matches: &ArgMatches) -> Result<Vec<Option<String>>, Failure> {
    let Some(names) = matches.get_many::<OsString>("export") else {
        return Ok(vec![None]);
    };
    names
        .map(|name| {
            check_export_name(name.as_bytes())
                .map(Some)
                .map_err(Failure::usage)
        })
        .collect()
}
