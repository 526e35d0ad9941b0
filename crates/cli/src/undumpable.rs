//! Keeps the memory of this process, with its keys and tokens, from core dumps and from other processes of the same user.
//! Does not know which memory holds a secret: every command reads a key.

use std::ffi::OsStr;

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};

/// The variable that allows dumps and debuggers.
const ALLOW: &str = "GODWIT_ALLOW_DUMPS";

/// Makes the process undumpable, unless the variable is `1`. Must run before any key is read. Child programs are dumpable again,
/// but write no core file.
pub(crate) fn protect() {
    // Once the process is undumpable, its files in /proc belong to root. Only a descriptor opened before still resets the peak.
    godwit_engine::usage::keep_peak();
    if std::env::var_os(ALLOW).is_some_and(|value| value == OsStr::new("1")) {
        return;
    }
    // Neither call fails on a kernel that runs this program. A node without this protection can still work.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let limit = Rlimit {
        current: Some(0),
        ..getrlimit(Resource::Core)
    };
    let _ = setrlimit(Resource::Core, limit);
}
