//! Owns the making of data sets by specification: trees of files that are always the same for the same seed.
//! Does not decide where they go, and measures nothing.
//!
//! A specification is a list of items, separated by commas:
//!
//! ```text
//! item     [kind:]* COUNT x SIZE [.. SIZE] [/ PER_DIRECTORY]
//! kind     tree | compressible
//! SIZE     a number of bytes, or with a unit: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB
//! ```
//!
//! - `4000x1MiB`: 4,000 files of 1 MiB.
//! - `3000x1KiB..64KiB`: sizes between the two, as many from 1 to 2 KiB as from 32 to 64.
//! - `100000x8KiB/100`: 100 files in each directory; 1,000 if not said.
//! - `tree:20000x100..30kB`: like a source tree: directories in directories, 12 files in each if not said, names with
//!   endings, some files executable.
//! - `compressible:1x1GiB`: contents that compressors bring to about a third; otherwise contents look random.
//!
//! The same specification and seed give the same names, contents, modes and modification times, directories included,
//! on every machine. Only the owner differs.

mod content;
mod layout;
mod spec;
mod write;

pub use content::Content;
pub use spec::{Item, Spec, SpecError, parse};
pub use write::{Totals, generate};
