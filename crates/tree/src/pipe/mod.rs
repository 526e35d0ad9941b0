//! A pipe as a source of unknown size, and as a destination that is written in order. Does not know
//! the program at the other end of the pipe, nor how bytes are transferred.

mod dense;
mod sink;
mod source;

pub use dense::InOrder;
pub use sink::PipeSink;
pub use source::PipeSource;
