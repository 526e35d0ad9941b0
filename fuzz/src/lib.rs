//! Owns the shared code of the fuzz targets.
//! Contains no target; those are in `fuzz_targets/`.

mod check;

pub use check::{check, check_agent, check_prelude};
pub use godwit_proto::FrameKind;
