//! What a verification says: each entry that differs, and a summary; as lines for people or as JSON.
//! Judges nothing. May be called from any thread.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use godwit_api::units::{human_rate, human_size};
use godwit_proto::{EntryKind, Fault, FaultCode, Record};
use serde::Serialize;

use crate::output::{complain, print, printable};
use crate::reports::code;

/// Sums up while it tells.
pub(super) struct Findings {
    json: bool,
    started: Instant,
    totals: Mutex<Totals>,
}

/// What was found so far.
#[derive(Clone, Copy, Default)]
pub(super) struct Totals {
    /// Entries checked.
    pub(super) entries: u64,
    /// Contents of the files among them.
    pub(super) bytes: u64,
    /// Those that are not what they should be.
    pub(super) different: u64,
    /// Entries that nobody expected.
    pub(super) extra: u64,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event<'a> {
    Different {
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        path_b64: Option<String>,
        kind: &'a str,
        message: &'a str,
    },
    Extra {
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        path_b64: Option<String>,
    },
    Note {
        message: &'a str,
    },
    Summary {
        status: &'a str,
        entries: u64,
        bytes: u64,
        different: u64,
        extra: u64,
        seconds: f64,
    },
}

impl Findings {
    pub(super) fn new(json: bool, started: Instant) -> Self {
        Self {
            json,
            started,
            totals: Mutex::default(),
        }
    }

    /// An entry was checked; `None` if it is what it should be.
    pub(super) fn checked(&self, record: &Record, fault: Option<&Fault>) {
        let mut totals = super::super::reports::locked(&self.totals);
        totals.entries += 1;
        if record.kind == EntryKind::FILE && fault.is_none_or(|fault| was_read(fault.code)) {
            totals.bytes = totals.bytes.saturating_add(record.bytes);
        }
        let Some(fault) = fault else { return };
        totals.different += 1;
        drop(totals);
        let kind = kind(fault.code);
        let name = shown(&record.path);
        if self.json {
            let (path, path_b64) = named(&name);
            emit(&Event::Different {
                path,
                path_b64,
                kind,
                message: &fault.message,
            });
        } else {
            print(&format!(
                "{kind:<9} {}: {}",
                printable(&String::from_utf8_lossy(&name)),
                printable(&fault.message)
            ));
        }
    }

    /// An entry is there that is not in the manifest.
    pub(super) fn extra(&self, path: &[u8]) {
        super::super::reports::locked(&self.totals).extra += 1;
        let name = shown(path);
        if self.json {
            let (path, path_b64) = named(&name);
            emit(&Event::Extra { path, path_b64 });
        } else {
            print(&format!(
                "extra     {}: it is not in the manifest",
                printable(&String::from_utf8_lossy(&name))
            ));
        }
    }

    pub(super) fn note(&self, message: &str) {
        if self.json {
            emit(&Event::Note { message });
        } else {
            complain(message);
        }
    }

    pub(super) fn totals(&self) -> Totals {
        *super::super::reports::locked(&self.totals)
    }

    /// The last word.
    pub(super) fn summary(&self, status: &str) {
        let totals = self.totals();
        let elapsed = self.started.elapsed();
        if self.json {
            emit(&Event::Summary {
                status,
                entries: totals.entries,
                bytes: totals.bytes,
                different: totals.different,
                extra: totals.extra,
                seconds: (elapsed.as_secs_f64() * 1_000.0).round() / 1_000.0,
            });
            return;
        }
        print(&format!(
            "status      {status}\nverified    {} entries, {}\ndifferent   {}\nextra       {}\ntime        {:.2} s, {}",
            totals.entries,
            human_size(totals.bytes),
            totals.different,
            totals.extra,
            elapsed.as_secs_f64(),
            human_rate(rate(totals.bytes, elapsed)),
        ));
    }
}

/// The root has no name of its own.
fn shown(path: &[u8]) -> Vec<u8> {
    if path.is_empty() {
        b".".to_vec()
    } else {
        path.to_vec()
    }
}

fn named(name: &[u8]) -> (Option<&str>, Option<String>) {
    let text = std::str::from_utf8(name).ok();
    (text, text.is_none().then(|| BASE64.encode(name)))
}

/// Whether contents had to be read to find it: what was not read must not pass for speed.
fn was_read(fault: FaultCode) -> bool {
    matches!(fault, FaultCode::DIGEST | FaultCode::METADATA)
}

/// The word for a difference.
fn kind(fault: FaultCode) -> &'static str {
    match fault {
        FaultCode::NOT_FOUND => "missing",
        FaultCode::DIGEST => "content",
        FaultCode::SIZE | FaultCode::METADATA | FaultCode::TYPE_CONFLICT | FaultCode::CHANGED => {
            code(fault)
        }
        _ => "unread",
    }
}

fn emit(event: &Event<'_>) {
    // Nothing here can fail to become JSON.
    if let Ok(line) = serde_json::to_string(event) {
        print(&line);
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates, and a rate is never negative"
)]
fn rate(bytes: u64, elapsed: Duration) -> u64 {
    (bytes as f64 / elapsed.as_secs_f64().max(0.001)) as u64
}
