//! Settings as the program uses them: one struct for each command.
//! Ranges and defaults come from the table; no check happens twice.

use crate::settings::preserve::Preserve;
use crate::settings::resolve::{Origin, SettingError, SettingProblem, Values};
use crate::settings::selection::SelectionSettings;
use crate::settings::sharing::SharingSettings;
use crate::settings::value::{Bounds, ValueError};
use godwit_model::DigestKind;
use std::ffi::OsString;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Whether file contents are encrypted on the network.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Encryption {
    /// Everything is inside TLS.
    Tls,
    /// File contents go in clear, all else inside TLS.
    None,
}

/// Order in which slices and bundles are sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Order {
    /// The order in which the source is read.
    #[default]
    Source,
    /// Random, within a bounded window.
    Random,
}

/// A cipher of TLS 1.3.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cipher {
    /// The fastest cipher on this processor.
    Auto,
    /// AES-256-GCM
    Aes256Gcm,
    /// AES-128-GCM
    Aes128Gcm,
    /// CHACHA20-POLY1305
    Chacha20Poly1305,
}

/// Settings of `godwit cp` and `godwit sync`; each field is the setting of its name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CpSettings {
    /// None is no limit.
    pub limit_bytes_per_second: Option<NonZeroU64>,
    /// The only network paths to use, as typed; empty uses what is found.
    pub channels: Vec<String>,
    /// Behaviour towards others.
    pub sharing: SharingSettings,
    /// Number of streams, within bounds from 1 to 128.
    pub streams: Bounds,
    /// Most nodes of each site that take part in a divided job.
    pub nodes: u32,
    /// Most cores; 0 uses all.
    pub threads: u32,
    /// CPUs to run on, or the network interface next to which; empty for all.
    pub pin: OsString,
    /// Number of reader threads, within bounds from 0 to 64.
    pub readers: Bounds,
    /// Number of writer threads, within bounds from 0 to 64.
    pub writers: Bounds,
    /// Encryption that this side requests.
    pub encryption: Encryption,
    /// Order in which slices and bundles are sent.
    pub order: Order,
    /// Cipher to offer; no other is offered.
    pub cipher: Cipher,
    /// Digest of blocks and files.
    pub digest: DigestKind,
    /// How long to retry after the loss of the last connection.
    pub retry_for: Duration,
    /// Do not wait for durability.
    pub no_sync: bool,
    /// Contents of large files bypass the page cache.
    pub direct: bool,
    /// Re-reads written files at the destination.
    pub verify: bool,
    /// Sends unchanged files, too.
    pub force: bool,
    /// Metadata to keep.
    pub preserve: Preserve,
    /// Treatment of entries that already exist.
    pub comparison: ComparisonSettings,
    /// Prints the decision about each entry.
    pub verbose: bool,
    /// Prints JSON.
    pub json: bool,
    /// A power of two from 64 KiB to 4 MiB.
    pub block_bytes: u32,
    /// Memory for the blocks of one transfer.
    pub memory_bytes: u64,
    /// Limit for dialling, TLS and hello together.
    pub handshake_deadline: Duration,
    /// Limit without a byte moving.
    pub stall_deadline: Duration,
    /// How long the buffer of the sending node keeps the files.
    pub keep_in_buffer: Duration,
    /// Reports about the transfer.
    pub reports: ReportSettings,
    /// Program that reaches other machines, with its options, as typed.
    pub rsh: OsString,
    /// Command that starts this program there, for the shell there.
    pub remote_command: OsString,
    /// Carries this program to a machine that has none.
    pub install_remote: bool,
    /// First and last port for data beside ssh; `None` is any.
    pub data_ports: Option<(u16, u16)>,
    /// Sends no data beside ssh.
    pub via_ssh: bool,
    /// Every given setting, except defaults, as it would be typed.
    pub given: Vec<(&'static str, OsString)>,
    /// Selection of entries.
    pub selection: SelectionSettings,
}

/// Reports about a transfer, besides the printed output.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ReportSettings {
    /// File for the manifest.
    pub manifest: Option<PathBuf>,
    /// Kinds of digest, as typed, if the copies are sealed with ASC MHL histories in place of a manifest.
    pub ascmhl: Option<OsString>,
    /// Sorts the manifest by name, not in the order of completion.
    pub manifest_sorted: bool,
    /// Signs with this user's identity.
    pub sign: bool,
    /// File for the names of failed entries.
    pub failed: Option<PathBuf>,
    /// File to which events are appended.
    pub log_file: Option<PathBuf>,
    /// Prints figures of each stage.
    pub stats: bool,
}

/// Settings of `godwit verify`; each field is the setting of its name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VerifySettings {
    /// Most cores; 0 uses all.
    pub threads: u32,
    /// CPUs to run on, or the network interface next to which; empty for all.
    pub pin: OsString,
    /// Cipher to offer; no other is offered.
    pub cipher: Cipher,
    /// How long to retry after the loss of the connection.
    pub retry_for: Duration,
    /// Prints JSON.
    pub json: bool,
    /// Names every entry that differs.
    pub verbose: bool,
    /// Limit for dialling, TLS and hello together.
    pub handshake_deadline: Duration,
    /// Limit without a byte moving.
    pub stall_deadline: Duration,
    /// Ignores modes and times.
    pub content_only: bool,
    /// Reports entries that are not in the manifest.
    pub extra: bool,
    /// The only network paths to use, as typed.
    pub channels: Vec<String>,
    /// Identity of the required signer, as typed.
    pub signed_by: Option<OsString>,
    /// Program that reaches other machines, with its options, as typed.
    pub rsh: OsString,
    /// Command that starts this program there, for the shell there.
    pub remote_command: OsString,
    /// Carries this program to a machine that has none.
    pub install_remote: bool,
}

/// Settings of `godwit manifest`; each field is the setting of its name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ManifestSettings {
    /// Most cores; 0 uses all.
    pub threads: u32,
    /// CPUs to run on, or the network interface next to which; empty for all.
    pub pin: OsString,
    /// Digest of files.
    pub digest: DigestKind,
    /// Kinds of digest in an ASC MHL history, as typed.
    pub ascmhl_digest: OsString,
    /// Sorts by name, not in the order of completion.
    pub manifest_sorted: bool,
    /// Signs with this user's identity.
    pub sign: bool,
}

/// Settings of `godwit gen`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GenSettings {
    /// Seed of names and contents.
    pub seed: u64,
}

impl CpSettings {
    /// Takes the values of [`Scope::Sync`](crate::settings::Scope::Sync).
    ///
    /// # Errors
    /// Names the setting at fault.
    ///
    /// # Panics
    /// If the values belong to another command.
    pub fn from_sync_values(values: &Values) -> Result<Self, SettingError> {
        let mut settings = Self::from_values(values)?;
        let comparison = &mut settings.comparison;
        comparison.counterpart = true;
        comparison.delete_before = values.flag("delete-before");
        comparison.delete = values.flag("delete") || comparison.delete_before;
        let max = values.count("max-delete");
        comparison.max_delete = (max != u64::MAX).then_some(max);
        Ok(settings)
    }

    /// Takes the values of [`Scope::Cp`](crate::settings::Scope::Cp).
    ///
    /// # Errors
    /// Names the setting at fault.
    ///
    /// # Panics
    /// If the values belong to another command.
    pub fn from_values(values: &Values) -> Result<Self, SettingError> {
        Ok(Self {
            limit_bytes_per_second: NonZeroU64::new(values.bytes("limit")),
            channels: values.list("channel", text)?,
            sharing: SharingSettings::from_values(values),
            streams: values.bounds("streams"),
            nodes: values.count_u32("nodes"),
            threads: values.count_u32("threads"),
            pin: values.text("pin"),
            readers: values.bounds("readers"),
            writers: values.bounds("writers"),
            encryption: match values.choice("encryption") {
                "none" => Encryption::None,
                _ => Encryption::Tls,
            },
            order: match values.choice("order") {
                "random" => Order::Random,
                _ => Order::Source,
            },
            cipher: cipher(values),
            digest: digest(values),
            retry_for: values.duration("retry-for"),
            no_sync: values.flag("no-sync"),
            direct: values.flag("direct"),
            verify: values.flag("verify"),
            force: values.flag("force"),
            preserve: Preserve::from_values(values),
            comparison: ComparisonSettings::from_values(values),
            verbose: values.flag("verbose"),
            json: values.flag("json"),
            block_bytes: u32::try_from(values.bytes("block-size"))
                .expect("the table's range fits 32 bits"),
            memory_bytes: values.bytes("memory"),
            handshake_deadline: values.duration("handshake-deadline"),
            stall_deadline: values.duration("stall-deadline"),
            keep_in_buffer: values.duration("keep-in-buffer"),
            reports: ReportSettings::from_values(values),
            rsh: values.text("rsh"),
            remote_command: values.text("remote-command"),
            install_remote: values.flag("install-remote"),
            data_ports: values.ports("data-ports"),
            via_ssh: values.flag("via-ssh"),
            given: values.chosen(),
            selection: SelectionSettings::from_values(values)?,
        })
    }
}

impl ReportSettings {
    fn from_values(values: &Values) -> Self {
        Self {
            manifest: path(values, "manifest").filter(|path| !is_ascmhl(path)),
            ascmhl: path(values, "manifest")
                .filter(|path| is_ascmhl(path))
                .map(|_| values.text("ascmhl-digest")),
            manifest_sorted: values.flag("manifest-sorted"),
            sign: values.flag("sign"),
            failed: path(values, "failed"),
            log_file: path(values, "log-file"),
            stats: values.flag("stats"),
        }
    }
}

impl VerifySettings {
    /// Takes the values of [`Scope::Verify`](crate::settings::Scope::Verify).
    ///
    /// # Errors
    /// Names the setting at fault.
    ///
    /// # Panics
    /// If the values belong to another command.
    pub fn from_values(values: &Values) -> Result<Self, SettingError> {
        Ok(Self {
            threads: values.count_u32("threads"),
            pin: values.text("pin"),
            cipher: cipher(values),
            retry_for: values.duration("retry-for"),
            json: values.flag("json"),
            verbose: values.flag("verbose"),
            handshake_deadline: values.duration("handshake-deadline"),
            stall_deadline: values.duration("stall-deadline"),
            content_only: values.flag("content-only"),
            extra: values.flag("extra"),
            channels: values.list("channel", text)?,
            signed_by: Some(values.text("signed-by")).filter(|text| !text.is_empty()),
            rsh: values.text("rsh"),
            remote_command: values.text("remote-command"),
            install_remote: values.flag("install-remote"),
        })
    }
}

impl ManifestSettings {
    /// Takes the values of [`Scope::Manifest`](crate::settings::Scope::Manifest).
    ///
    /// # Panics
    /// If the values belong to another command.
    #[must_use]
    pub fn from_values(values: &Values) -> Self {
        Self {
            threads: values.count_u32("threads"),
            pin: values.text("pin"),
            digest: digest(values),
            ascmhl_digest: values.text("ascmhl-digest"),
            manifest_sorted: values.flag("manifest-sorted"),
            sign: values.flag("sign"),
        }
    }
}

impl GenSettings {
    /// Takes the values of [`Scope::Gen`](crate::settings::Scope::Gen).
    ///
    /// # Panics
    /// If the values belong to another command.
    #[must_use]
    pub fn from_values(values: &Values) -> Self {
        Self {
            seed: values.count("seed"),
        }
    }
}

fn cipher(values: &Values) -> Cipher {
    match values.choice("cipher") {
        "aes-256-gcm" => Cipher::Aes256Gcm,
        "aes-128-gcm" => Cipher::Aes128Gcm,
        "chacha20-poly1305" => Cipher::Chacha20Poly1305,
        _ => Cipher::Auto,
    }
}

fn digest(values: &Values) -> DigestKind {
    DigestKind::from_name(values.choice("digest")).unwrap_or(DigestKind::Crc64Nvme)
}

/// Whether the place of a manifest is the word for ASC MHL histories, and no path.
#[must_use]
pub fn is_ascmhl(path: &Path) -> bool {
    path.as_os_str() == "ascmhl"
}

fn path(values: &Values, name: &str) -> Option<PathBuf> {
    Some(values.text(name))
        .filter(|text| !text.is_empty())
        .map(PathBuf::from)
}

fn text(text: &OsString) -> Result<String, String> {
    let text = text.to_str().ok_or("it is not UTF-8")?;
    Ok(text.to_owned())
}

fn element_error(origin: Origin, text: &str, reason: &str) -> SettingError {
    SettingError {
        origin,
        problem: SettingProblem::Value(ValueError::Element {
            text: text.to_owned(),
            reason: reason.to_owned(),
        }),
    }
}

mod comparing;
mod export;
mod serve;
#[cfg(test)]
mod tests;

pub use comparing::{ComparisonSettings, Judge};
pub use export::Export;
pub use serve::{
    BufferSettings, CertificateFiles, ClusterSettings, JoinSettings, LogFormat, LogLevel,
    ServeEncryption, ServeSettings,
};
