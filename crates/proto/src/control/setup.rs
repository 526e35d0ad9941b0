//! Owns the messages that open a transfer. Does not interpret the paths in them. `docs/wire.md`, "OPEN" and "OPENED".

use std::fmt;

use prost::Message;

use super::announced::check_announced;
use super::join::read_tokens;
use super::{
    Announced, Beacon, Comparison, Earlier, Ground, Mandate, Member, Preserve, Selection, Sharing,
    Verification, decode, try_encode,
};
use crate::control::Direction;
use crate::error::WireError;
use crate::hello::capability;
use crate::ids::{DigestKind, Token, TransferId};
use crate::limits::{BLOCK_BYTES_MIN, LABEL_BYTES_MAX, PATH_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::prelude::FrameKind;

/// The client requests a transfer.
#[derive(Clone, PartialEq, Message)]
pub struct Open {
    /// See [`Direction`].
    #[prost(uint32, tag = "1")]
    pub direction: u32,
    /// The sources: paths of the daemon in a pull, the client's names in a push.
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub sources: Vec<Vec<u8>>,
    /// The destination: a path of the daemon in a push; an absolute path of the client in a pull with a `view`.
    #[prost(bytes = "vec", tag = "3")]
    pub destination: Vec<u8>,
    /// The destination was named as a directory (a trailing slash, or several sources).
    #[prost(bool, tag = "4")]
    pub destination_is_directory: bool,
    /// See [`DigestKind`].
    #[prost(uint32, tag = "5")]
    pub digest: u32,
    /// Send entries even if they seem to exist.
    #[prost(bool, tag = "6")]
    pub force: bool,
    /// Read everything again at the destination.
    #[prost(bool, tag = "7")]
    pub verify: bool,
    /// Do not wait for the storage.
    #[prost(bool, tag = "8")]
    pub no_sync: bool,
    /// Payloads travel outside TLS on the streams of this transfer.
    #[prost(bool, tag = "9")]
    pub plain_payload: bool,
    /// How long to keep the transfer without any stream, in milliseconds.
    #[prost(uint64, tag = "10")]
    pub retry_for_ms: u64,
    /// Number of wanted streams, including this one; 0 lets the daemon choose.
    #[prost(uint32, tag = "11")]
    pub streams: u32,
    /// Wanted size of a block, in bytes, a power of two; 0 lets the daemon choose.
    #[prost(uint32, tag = "12")]
    pub block_bytes: u32,
    /// Cores that the daemon may use; 0 lets the daemon choose.
    #[prost(uint32, tag = "13")]
    pub threads: u32,
    /// Most bytes of content a second, both directions together; 0 is no limit.
    #[prost(uint64, tag = "14")]
    pub limit_bytes_per_second: u64,
    /// In a push, the name of each source inside a destination directory; empty for "its contents".
    #[prost(bytes = "vec", repeated, tag = "15")]
    pub names: Vec<Vec<u8>>,
    /// Metadata to keep besides contents, mode and times. Needs [`capability::PRESERVE`].
    #[prost(message, optional, tag = "17")]
    pub preserve: Option<Preserve>,
    /// Which entries below the sources are selected. Needs [`capability::SELECTION`].
    #[prost(message, optional, tag = "18")]
    pub selection: Option<Selection>,
    /// How existing entries are treated. Needs [`capability::COMPARISON`].
    #[prost(message, optional, tag = "16")]
    pub comparison: Option<Comparison>,
    /// Check a copy, and transfer no data. Only in [`Direction::VERIFY`].
    #[prost(message, optional, tag = "20")]
    pub verification: Option<Verification>,
    /// In a pull: the client writes in order, so holes are sent as zeros.
    #[prost(bool, tag = "21")]
    pub in_order: bool,
    /// The accepting end also reads or writes large files without the page cache. Needs [`capability::DIRECT`].
    #[prost(bool, tag = "30")]
    pub direct: bool,
    /// In a push: the client accepts the digest in OPENED, if an unfinished transfer uses another one.
    #[prost(bool, tag = "31")]
    pub any_digest: bool,
    /// The transfer's behaviour towards other traffic. Needs [`capability::SHARING`].
    #[prost(message, optional, tag = "22")]
    pub sharing: Option<Sharing>,
    /// Identifies the files that the client sees, if known: [`crate::limits::VIEW_BYTES`]. A daemon that sees the same
    /// files refuses to copy a tree into itself.
    #[prost(bytes = "vec", tag = "32")]
    pub view: Vec<u8>,
    /// The client's label for this work: the id of a job that another node may take over. The daemon's log contains it.
    #[prost(string, tag = "34")]
    pub label: String,
    /// Another OPEN follows with more sources, and names in a push. Needs [`capability::MANY_SOURCES`].
    #[prost(bool, tag = "33")]
    pub more: bool,
    /// In a push: the transfer is one of several for a job. Needs [`capability::PARTS`].
    #[prost(message, optional, tag = "35")]
    pub member: Option<Member>,
    /// In a pull: slices and bundles are sent in a random order. Needs [`capability::RANDOM_ORDER`].
    #[prost(bool, tag = "37")]
    pub random_order: bool,
    /// In a push: results of earlier attempts of the same job. Needs [`capability::EARLIER`].
    #[prost(message, optional, tag = "36")]
    pub earlier: Option<Earlier>,
    /// The transfer serves a job of another node. Needs [`capability::MANDATE`].
    #[prost(message, optional, tag = "38")]
    pub mandate: Option<Mandate>,
    /// Location of the client's data, independent of paths.
    #[prost(message, optional, tag = "39")]
    pub ground: Option<Ground>,
    /// In a pull, see [`Beacon`].
    #[prost(message, optional, tag = "40")]
    pub beacon: Option<Beacon>,
    /// In a push: the owner of the job may not read at the destination, even if the client may. Needs
    /// [`capability::OWNER_SIGHT`].
    #[prost(bool, tag = "41")]
    pub may_not_read: bool,
    /// In a push: the owner of the job may not list the destination either. Entries that only the destination has are
    /// then not named. Needs [`capability::OWNER_SIGHT`].
    #[prost(bool, tag = "42")]
    pub may_not_list: bool,
    /// In a push: identities of other nodes that may take over the job in the label, at most
    /// [`HEIRS_MAX`](crate::limits::HEIRS_MAX).
    #[prost(string, repeated, tag = "43")]
    pub heirs: Vec<String>,
}

impl Open {
    /// Reads a frame's head.
    ///
    /// # Errors
    /// The fault in the head.
    pub fn decode(head: &[u8]) -> Result<Self, WireError> {
        let open: Self = decode(head, "OPEN")?;
        open.validate()?;
        Ok(open)
    }

    /// The direction of the data.
    pub fn direction(&self) -> Direction {
        Direction(self.direction)
    }

    /// The requested digest.
    pub fn digest_kind(&self) -> DigestKind {
        DigestKind(u8::try_from(self.digest).unwrap_or(0))
    }

    /// Whether mounts inside a tree are left out.
    pub fn keeps_to_one_file_system(&self) -> bool {
        let selection = self.selection.as_ref();
        selection.is_some_and(|selection| selection.one_file_system)
    }

    /// The capabilities that a daemon needs to understand this request; without one of them a daemon would ignore a
    /// part of it.
    pub fn capabilities_needed(&self) -> u64 {
        let need = |asked: bool, bit: u64| if asked { bit } else { 0 };
        Comparison::capability_needed(self.comparison)
            | need(self.preserve.is_some(), capability::PRESERVE)
            | need(self.selection.is_some(), capability::SELECTION)
            | need(self.keeps_to_one_file_system(), capability::ONE_FILE_SYSTEM)
            | need(self.sharing.is_some(), capability::SHARING)
            | need(
                self.verification.is_some() || self.in_order,
                capability::MANIFEST,
            )
            | need(self.direct, capability::DIRECT)
            | need(self.member.is_some(), capability::PARTS)
            | need(
                self.member.is_some() && Comparison::spares(self.comparison),
                capability::JUDGED_PARTS,
            )
            | need(self.finishes_region(), capability::REGIONS)
            | need(
                // A sender compares nothing.
                self.direction() == Direction::PUSH
                    && Comparison::replaces_nothing(self.comparison),
                capability::NO_REPLACE,
            )
            | need(self.earlier.is_some(), capability::EARLIER)
            | need(self.random_order, capability::RANDOM_ORDER)
            | need(self.mandate.is_some(), capability::MANDATE)
            | need(
                self.may_not_read || self.may_not_list,
                capability::OWNER_SIGHT,
            )
            | need(self.frame_ends().len() > 1, capability::MANY_SOURCES)
    }

    pub(super) fn validate(&self) -> Result<(), WireError> {
        let verifies = match self.direction() {
            Direction::PUSH | Direction::PULL => false,
            Direction::VERIFY => true,
            _ => {
                return Err(WireError::Unknown {
                    field: "direction",
                    value: self.direction.into(),
                });
            }
        };
        if verifies != self.verification.is_some() || (verifies && self.sources.len() != 1) {
            return Err(WireError::Disagree {
                what: "direction, verification and number of sources",
            });
        }
        self.validate_order()?;
        check_digest(self.digest)?;
        if self.label.len() > LABEL_BYTES_MAX {
            return Err(WireError::too_long("label", LABEL_BYTES_MAX as u64));
        }
        self.validate_sources()?;
        if let Some(sharing) = &self.sharing {
            sharing.validate()?;
        }
        if let Some(selection) = &self.selection {
            selection.validate(self.sources.len())?;
        }
        if let Some(comparison) = &self.comparison {
            comparison.validate(self.sources.len())?;
            let is_listed = self.selection.as_ref().is_some_and(|wanted| wanted.listed);
            if comparison.delete && is_listed && !self.finishes_region() {
                return Err(WireError::invalid(
                    "comparison",
                    "deletes entries that a list does not name",
                ));
            }
        }
        self.validate_member()?;
        self.validate_earlier()?;
        self.validate_mandate()?;
        self.validate_heirs()?;
        self.validate_view()?;
        Beacon::validate(self.beacon.as_ref())?;
        let names = self.sources.iter().chain([&self.destination]);
        names.into_iter().try_for_each(|name| check_name(name))?;
        if self.block_bytes == 0 {
            Ok(())
        } else {
            check_block_bytes(self.block_bytes)
        }
    }
}

fn check_digest(digest: u32) -> Result<(), WireError> {
    if u8::try_from(digest).is_ok() {
        return Ok(());
    }
    Err(WireError::Unknown {
        field: "digest",
        value: digest.into(),
    })
}

/// The daemon grants a transfer.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub struct Opened {
    /// A [`TransferId`].
    #[prost(bytes = "vec", tag = "1")]
    pub transfer: Vec<u8>,
    /// A [`Token`] for each additional stream.
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub tokens: Vec<Vec<u8>>,
    /// Whether an unfinished transfer is resumed.
    #[prost(bool, tag = "3")]
    pub resumed: bool,
    /// Bytes of content that was received before and is no longer held.
    #[prost(uint64, tag = "4")]
    pub lost_bytes: u64,
    /// The final destination, for users.
    #[prost(bytes = "vec", tag = "5")]
    pub destination: Vec<u8>,
    /// Block size in use, in bytes, a power of two.
    #[prost(uint32, tag = "6")]
    pub block_bytes: u32,
    /// Most streams that the daemon accepts.
    #[prost(uint32, tag = "7")]
    pub streams_max: u32,
    /// Other addresses for streams, if the client has paths to them; the daemon's interfaces in their order.
    #[prost(message, repeated, tag = "8")]
    pub addresses: Vec<Announced>,
    /// See [`DigestKind`]: the digest with which the transfer began; 0 means the requested one.
    #[prost(uint32, tag = "9")]
    pub digest: u32,
    /// Most bytes that the daemon's kernel buffers for one connection in the direction of the contents; 0 if unknown.
    #[prost(uint64, tag = "10")]
    pub buffer_bytes: u64,
    /// In a push, see [`Mapping`](super::Mapping); 0 if unknown.
    #[prost(uint32, tag = "11")]
    pub mapping: u32,
    /// The tag of the transfer's temporary files; 0 if it has none.
    #[prost(fixed64, tag = "12")]
    pub tag: u64,
    /// In a push, see [`Beacon`].
    #[prost(message, optional, tag = "13")]
    pub beacon: Option<Beacon>,
    /// True if a push that deletes could make no beacon. Then nothing proves that the source is outside the destination.
    #[prost(bool, tag = "14")]
    pub unproved: bool,
    /// Content that earlier runs of the transfer delivered, in bytes.
    #[prost(uint64, tag = "15")]
    pub held_bytes: u64,
    /// Files that earlier runs of the transfer completed.
    #[prost(uint64, tag = "16")]
    pub held_files: u64,
    /// In a verification: what is reported as announced is durable.
    #[prost(bool, tag = "17")]
    pub durable: bool,
}

impl Opened {
    /// Appends the frame's head image to `out`.
    ///
    /// # Errors
    /// An invalid field; `out` is then unchanged.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        self.validate()?;
        try_encode(self, FrameKind::OPENED, out)
    }

    /// Reads a frame's head.
    ///
    /// # Errors
    /// The fault in the head.
    pub fn decode(head: &[u8]) -> Result<Self, WireError> {
        let opened: Self = decode(head, "OPENED")?;
        opened.validate()?;
        Ok(opened)
    }

    /// The transfer.
    ///
    /// # Errors
    /// Not 16 bytes; impossible after decoding.
    pub fn transfer_id(&self) -> Result<TransferId, WireError> {
        TransferId::try_from(self.transfer.as_slice())
    }

    /// The tokens.
    ///
    /// # Errors
    /// A token without 16 bytes; impossible after decoding.
    pub fn tokens(&self) -> Result<Vec<Token>, WireError> {
        read_tokens(&self.tokens)
    }

    /// The digest with which the transfer began, if it differs from the requested one.
    pub fn digest_kind(&self) -> Option<DigestKind> {
        let kind = u8::try_from(self.digest).unwrap_or(0);
        (kind > 0).then_some(DigestKind(kind))
    }

    fn validate(&self) -> Result<(), WireError> {
        self.transfer_id()?;
        self.tokens()?;
        check_name(&self.destination)?;
        check_announced(&self.addresses)?;
        Beacon::validate(self.beacon.as_ref())?;
        check_digest(self.digest)?;
        check_block_bytes(self.block_bytes)
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("transfer", &self.transfer)
            .field("tokens", &self.tokens.len())
            .field("resumed", &self.resumed)
            .field("lost_bytes", &self.lost_bytes)
            .field("held_bytes", &self.held_bytes)
            .field("destination", &self.destination)
            .finish_non_exhaustive()
    }
}

fn check_name(name: &[u8]) -> Result<(), WireError> {
    if name.len() > PATH_BYTES_MAX {
        return Err(WireError::too_long(
            "source or destination",
            PATH_BYTES_MAX as u64,
        ));
    }
    if name.contains(&0) {
        return Err(WireError::invalid("source or destination", "contains NUL"));
    }
    Ok(())
}

fn check_block_bytes(bytes: u32) -> Result<(), WireError> {
    if bytes.is_power_of_two() && (BLOCK_BYTES_MIN..=PAYLOAD_BYTES_MAX).contains(&bytes) {
        return Ok(());
    }
    Err(WireError::invalid(
        "block size",
        "must be a power of two from 4 KiB to 4 MiB",
    ))
}
