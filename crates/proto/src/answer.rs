//! Owns the answer to a manifest: the receiver's verdict on each entry.
//! Does not compare entries with a destination. `docs/wire.md`, "ANSWER".

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes::{encode_frame, end, take};
use crate::error::WireError;
use crate::fault::Fault;
use crate::ids::{Digest, Seq, TransferId};
use crate::limits::RECORDS_MAX;
use crate::prelude::FrameKind;

/// The receiver's verdict on an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The receiver wants the contents.
    Send,
    /// The entry exists already.
    Skip,
    /// The entry needs no contents, and has been made or will be made at the end.
    Done,
    /// The receiver wants the contents, except for durable ranges that it holds.
    Partial {
        /// Ascending ranges that do not overlap.
        held: Vec<HeldRange>,
    },
    /// The entry failed.
    Failed(Fault),
    /// The entry has the size of the existing file: the sender must announce it again with its digest.
    Digest,
    /// The entry exists; its metadata was set without contents.
    Adjusted,
}

/// A part of a file that the receiver holds durably, with a digest of the transfer's kind that can be combined with
/// other digests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldRange {
    /// Offset of the part.
    pub offset: u64,
    /// Length, not 0.
    pub bytes: u64,
    /// Digest of the part.
    pub digest: Digest,
}

/// One verdict for each record of a manifest, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The transfer.
    pub transfer: TransferId,
    /// The answered manifest.
    pub seq: Seq,
    /// At most [`RECORDS_MAX`].
    pub verdicts: Vec<Verdict>,
}

const SEND: u8 = 1;
const SKIP: u8 = 2;
const DONE: u8 = 3;
const PARTIAL: u8 = 4;
const FAILED: u8 = 5;
const DIGEST: u8 = 6;
const ADJUSTED: u8 = 7;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Wire {
    transfer: [u8; 16],
    seq: U64,
    verdicts: U32,
    reserved: U32,
}

/// `count` is the length of a run of plain verdicts, the number of held ranges that follow, or 1 for a fault.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RunWire {
    verdict: u8,
    reserved_byte: u8,
    reserved: U16,
    count: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HeldWire {
    offset: U64,
    bytes: U64,
    digest: [u8; 32],
}

const _: () =
    assert!(size_of::<Wire>() == 32 && size_of::<RunWire>() == 8 && size_of::<HeldWire>() == 48);

impl Answer {
    /// Appends the frame's head image to `out`.
    ///
    /// # Errors
    /// Too many verdicts, or held ranges that are invalid or do not fit into a head; `out` is then unchanged.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        encode_frame(out, FrameKind::ANSWER, 0, |out| {
            let Some(verdicts) = u32::try_from(self.verdicts.len())
                .ok()
                .filter(|count| *count <= RECORDS_MAX)
            else {
                return Err(WireError::too_long("answer", u64::from(RECORDS_MAX)));
            };
            let wire = Wire {
                transfer: self.transfer.0,
                seq: self.seq.0.into(),
                verdicts: verdicts.into(),
                reserved: 0.into(),
            };
            out.extend_from_slice(wire.as_bytes());
            let mut rest = self.verdicts.as_slice();
            while let Some(verdict) = rest.first() {
                let run = push(verdict, rest, out)?;
                rest = &rest[run..];
            }
            Ok(())
        })
    }

    /// Reads a frame's head.
    ///
    /// # Errors
    /// The fault in the head.
    pub fn decode(head: &[u8]) -> Result<Self, WireError> {
        let what = "an answer";
        let mut rest = head;
        let wire: Wire = take(&mut rest, what)?;
        if wire.reserved.get() != 0 {
            return Err(WireError::NonZeroReserved { what });
        }
        let count = wire.verdicts.get();
        if count > RECORDS_MAX {
            return Err(WireError::too_long("answer", u64::from(RECORDS_MAX)));
        }
        let mut left = count as usize;
        let mut verdicts = Vec::new();
        let mut previous = 0;
        while left > 0 {
            let run: RunWire = take(&mut rest, what)?;
            if run.reserved_byte != 0 || run.reserved.get() != 0 {
                return Err(WireError::NonZeroReserved { what });
            }
            let plain = match run.verdict {
                SEND => Verdict::Send,
                SKIP => Verdict::Skip,
                DONE => Verdict::Done,
                DIGEST => Verdict::Digest,
                ADJUSTED => Verdict::Adjusted,
                _ => {
                    verdicts.push(take_rich(run.verdict, run.count.get(), &mut rest)?);
                    left -= 1;
                    previous = run.verdict;
                    continue;
                }
            };
            let run_length = run.count.get() as usize;
            if run_length == 0 || run_length > left {
                return Err(WireError::invalid(
                    "run of verdicts",
                    "is empty or goes beyond the end",
                ));
            }
            if run.verdict == previous {
                return Err(WireError::invalid(
                    "run of verdicts",
                    "continues the run before",
                ));
            }
            verdicts.extend(std::iter::repeat_n(plain, run_length));
            left -= run_length;
            previous = run.verdict;
        }
        end(rest, what)?;
        Ok(Self {
            transfer: TransferId(wire.transfer),
            seq: Seq(wire.seq.get()),
            verdicts,
        })
    }
}

/// Appends the run that begins with `verdict`; returns its length.
fn push(verdict: &Verdict, rest: &[Verdict], out: &mut Vec<u8>) -> Result<usize, WireError> {
    let plain = match verdict {
        Verdict::Send => SEND,
        Verdict::Skip => SKIP,
        Verdict::Done => DONE,
        Verdict::Digest => DIGEST,
        Verdict::Adjusted => ADJUSTED,
        Verdict::Partial { held } => {
            validate_held(held)?;
            push_run(PARTIAL, held.len(), out)?;
            for range in held {
                let wire = HeldWire {
                    offset: range.offset.into(),
                    bytes: range.bytes.into(),
                    digest: range.digest.0,
                };
                out.extend_from_slice(wire.as_bytes());
            }
            return Ok(1);
        }
        Verdict::Failed(fault) => {
            push_run(FAILED, 1, out)?;
            fault.push(out);
            return Ok(1);
        }
    };
    let run = rest.iter().take_while(|other| *other == verdict).count();
    push_run(plain, run, out)?;
    Ok(run)
}

fn push_run(verdict: u8, count: usize, out: &mut Vec<u8>) -> Result<(), WireError> {
    let Ok(count) = u32::try_from(count) else {
        return Err(WireError::too_long("run of verdicts", u64::from(u32::MAX)));
    };
    let wire = RunWire {
        verdict,
        reserved_byte: 0,
        reserved: 0.into(),
        count: count.into(),
    };
    out.extend_from_slice(wire.as_bytes());
    Ok(())
}

fn take_rich(verdict: u8, count: u32, rest: &mut &[u8]) -> Result<Verdict, WireError> {
    let what = "an answer";
    match verdict {
        PARTIAL => {
            let count = count as usize;
            if rest.len() / size_of::<HeldWire>() < count {
                return Err(WireError::Short { what });
            }
            let mut held = Vec::with_capacity(count);
            for _ in 0..count {
                let wire: HeldWire = take(rest, what)?;
                held.push(HeldRange {
                    offset: wire.offset.get(),
                    bytes: wire.bytes.get(),
                    digest: Digest(wire.digest),
                });
            }
            validate_held(&held)?;
            Ok(Verdict::Partial { held })
        }
        FAILED if count == 1 => Ok(Verdict::Failed(Fault::take(rest)?)),
        FAILED => Err(WireError::invalid(
            "failed verdict",
            "has a count other than 1",
        )),
        _ => Err(WireError::Unknown {
            field: "verdict",
            value: u64::from(verdict),
        }),
    }
}

fn validate_held(held: &[HeldRange]) -> Result<(), WireError> {
    let mut free = 0;
    for range in held {
        if range.bytes == 0 || range.offset < free {
            return Err(WireError::invalid(
                "held ranges",
                "are empty, overlap or do not ascend",
            ));
        }
        let Some(end) = range.offset.checked_add(range.bytes) else {
            return Err(WireError::invalid("held ranges", "end beyond any file"));
        };
        free = end;
    }
    Ok(())
}
