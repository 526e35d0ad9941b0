//! Owns the process's file mode creation mask.
//! Does not decide the modes of files.

/// Clears the mask for the whole process: files then get exactly the requested mode, without a second call for each. Returns
/// the previous mask. Must be called at the start of the binary, before threads create files.
pub fn clear() -> u32 {
    rustix::process::umask(rustix::fs::Mode::empty()).bits()
}
