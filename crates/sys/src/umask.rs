//! Owns the process's file mode creation mask.
//! Does not decide the modes of files.

/// Clears the mask for the whole process, so that files are created with exactly the mode that is asked for, without a second
/// call for each. Returns the mask that there was. For the binary's start, before threads create files.
pub fn clear() -> u32 {
    rustix::process::umask(rustix::fs::Mode::empty()).bits()
}
