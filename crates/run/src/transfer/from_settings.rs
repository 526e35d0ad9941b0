//! Translates settings into the terms of the engine, the protocol and the storage. Does not decide.

use std::sync::Arc;

use crate::itself::{ground, view};
use crate::local::Access;
use godwit_api::endpoint::{NodePlace, Remote};
use godwit_api::settings::{self, CpSettings};
use godwit_engine::tuner::Bounds;
use godwit_engine::{Order, Resources, limits};
use godwit_proto::{DigestKind, Open, Preserve};

pub(super) fn wire_preserve_of(settings: &CpSettings) -> Preserve {
    let asked = settings.preserve;
    Preserve {
        owner: asked.owner,
        group: asked.group,
        xattrs: asked.xattrs,
        acls: asked.acls,
        specials: asked.specials,
        numeric_ids: asked.numeric_ids,
        strict: asked.strict,
    }
}

/// The access that this side requires of its storage.
pub(crate) fn access_of(settings: &CpSettings) -> Access {
    Access {
        preserve: wire_preserve_of(settings),
        direct: settings.direct,
    }
}

pub(super) const fn order_of(settings: &CpSettings) -> Order {
    match settings.order {
        settings::Order::Source => Order::Source,
        settings::Order::Random => Order::Random,
    }
}

pub(super) fn wire_digest_of(settings: &CpSettings) -> DigestKind {
    godwit_engine::wire_digest_kind(settings.digest)
}

pub(super) fn resources() -> Resources {
    Arc::new(godwit_engine::usage::peak_rss_bytes)
}

pub(super) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Prefix of the names below a source in messages.
pub(super) fn shown_of(remote: &Remote) -> Vec<u8> {
    let mut shown = remote.to_string();
    shown.truncate(shown.strip_suffix("/.").unwrap_or(&shown).len());
    shown.into_bytes()
}

/// The chosen bounds, for the tuner.
#[must_use]
pub fn bounds_of(set: settings::Bounds) -> Bounds {
    Bounds {
        least: set.least,
        most: set.most.min(limits::STREAMS_MAX),
    }
}

/// The request with the location of our paths, but without the paths.
pub(super) fn lying_at(destinations: &[Vec<u8>], request: Open) -> Open {
    Open {
        ground: Some(ground(destinations)),
        ..request
    }
}

/// An opaque path of a source in an export, for another node. It distinguishes the sources of two jobs but reveals no path.
pub(super) fn concealed(path: &[u8]) -> Vec<u8> {
    const SIGNS: usize = 32;
    let mut hasher =
        blake3::Hasher::new_derive_key("godwit 2026 which source a job of a node reads");
    hasher.update(path);
    let digest = hasher.finalize().to_hex();
    format!("source-{}", &digest[..SIGNS]).into_bytes()
}

/// The request with its destination paths, for another end that sees the same files. Paths that are too long are left out.
pub(super) fn going_to(destinations: &[Vec<u8>], names: &[Vec<u8>], request: Open) -> Open {
    let (destination, into) = match (destinations, names) {
        ([only], _) => (only.clone(), false),
        ([first, ..], [name, ..]) if names.iter().all(|name| !name.is_empty()) => {
            let directory = first.len().saturating_sub(name.len());
            (first[..directory].to_vec(), true)
        }
        _ => return lying_at(destinations, request),
    };
    Open {
        destination,
        destination_is_directory: into,
        view: view(),
        ground: Some(ground(destinations)),
        ..request
    }
}

/// The name of a source in the key of a journal. A directory and "its contents" have different names.
pub(super) fn key_of(place: &NodePlace) -> Vec<u8> {
    let mut key = place.to_wire();
    if matches!(place, NodePlace::Export { contents: true, .. }) {
        key.extend_from_slice(b"/.");
    }
    key
}
