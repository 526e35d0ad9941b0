//! What settings say, in the terms of the engine, the wire and the storage.
//! Decides nothing.

use std::sync::Arc;

use godwit_api::endpoint::Remote;
use godwit_api::settings::{CpSettings, Digest};
use godwit_engine::tuner::Bounds;
use godwit_engine::{Resources, limits};
use godwit_node::local::Access;
use godwit_proto::{DigestKind, Preserve};
use godwit_store::digest;

pub(super) fn digest_of(settings: &CpSettings) -> digest::DigestKind {
    match settings.digest {
        Digest::Crc64Nvme => digest::DigestKind::Crc64Nvme,
        Digest::Blake3 => digest::DigestKind::Blake3,
    }
}

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

/// What the storage of this side is asked for.
pub(super) fn access_of(settings: &CpSettings) -> Access {
    Access {
        preserve: wire_preserve_of(settings),
        direct: settings.direct,
    }
}

pub(super) fn wire_digest_of(settings: &CpSettings) -> DigestKind {
    godwit_engine::wire_digest_kind(digest_of(settings))
}

pub(super) fn resources() -> Resources {
    Arc::new(godwit_engine::usage::peak_rss_bytes)
}

pub(super) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// How the names below a source begin in messages.
pub(super) fn shown_of(remote: &Remote) -> Vec<u8> {
    let mut shown = remote.to_string();
    shown.truncate(shown.strip_suffix("/.").unwrap_or(&shown).len());
    shown.into_bytes()
}

/// What was set, for the tuner.
pub(super) fn bounds_of(set: godwit_api::settings::Bounds) -> Bounds {
    Bounds {
        least: set.least,
        most: set.most.min(limits::STREAMS_MAX),
    }
}
