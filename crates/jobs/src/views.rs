//! Groups the views of callers on jobs and on their work.
//! Changes no job.

pub(crate) mod runs;
pub(crate) mod seen;
pub(crate) mod work;
