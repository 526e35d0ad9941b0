//! Owns the generation of data sets by specification: the same seed always gives the same tree of files. Does not decide where the data
//! set is written, and measures nothing.
//!
//! A specification is a list of items, separated by commas:
//!
//! ```text
//! item     [kind:]* COUNT x SIZES [/ PER_DIRECTORY]  |  [compressible:] MIX
//! kind     tree | uniform | compressible
//! SIZES    SIZE  |  SIZE .. SIZE  |  ~ MEDIAN [* FACTOR]  |  ~ MEDIAN ~ SIGMA  |  SIZE = PART [+ SIZE = PART]*
//! MIX      source:COUNT | climate:COUNT | esnet-tiny | esnet-small | esnet-medium | esnet-large | zx-SIZE | memznet-SIZE
//! SIZE     a number of bytes, or with a unit: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB
//! ```
//!
//! - `4000x1MiB`: 4,000 files of 1 MiB.
//! - `3000x1KiB..64KiB`: sizes between the two, as many from 1 to 2 KiB as from 32 to 64.
//! - `500x~8MiB*4`: log-normal sizes around a median; a third of them more than a factor away from it, by default 4.
//! - `uniform:200000x8KiB..4MiB`: sizes between the two, each as likely.
//! - `500x~8MiB~1.2`: log-normal sizes; the deviation of their natural logarithm is 1.2.
//! - `90x1kB=2+1MB=1`: a table: two thirds of the files have 1 kB, a third has 1 MB. At most 12 sizes.
//! - `100000x8KiB/100`: 100 files in each directory; by default 1,000.
//! - `tree:20000x100..30kB`: like a source tree: directories in directories, by default 12 files in each, names with endings, some files
//!   executable.
//! - `source:20000`: `tree:20000x~4KiB*4`, the sizes of source code. `climate:2000`: `2000x~16MiB*6/100`, those of the
//!   files of climate models.
//! - `esnet-small`: the trees that ESnet measures with: 25 × 25 directories `a` to `y`, three files in each, of 1, 2
//!   and 5 MB; kB in `tiny`, ten and a hundred times as large in `medium` and `large`.
//! - `zx-200GiB`, `-50GiB`, `-30GiB`, `-20GiB`, `-50MiB`, `-1MiB`, `-8KiB`, `-mixed`, `memznet-10MB`, `-100MB`, `-1GB`: the sets of the
//!   papers on zx and on MemzNet.
//! - `compressible:1x1GiB`: contents that compressors reduce to about a third; otherwise contents look random.
//!
//! The same specification and seed give the same names, contents, modes and modification times, directories included,
//! on every machine. Only the owner differs.

mod content;
mod layout;
mod spec;
mod write;

pub use content::{Content, Texture};
pub use spec::{Item, SCALE_MAX, Shape, Sizes, Spec, SpecError, Table, parse};
pub use write::{Totals, foretell, generate};
