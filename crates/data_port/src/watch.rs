//! Checks the file system of each export on a separate thread, so that one that does not respond does not delay the others. Does not
//! decide; `export` refuses exports that do not respond.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use godwit_api::watched::Watched;

use crate::export::Export;

/// Interval between two checks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long to wait for the first checks.
const FIRST_WITHIN: Duration = Duration::from_secs(2);

/// Checks exports from now on, as long as the process lives, and logs a line when one stops or resumes responding. Waits a moment for the
/// first check of each.
///
/// # Errors
/// No thread could be started.
pub fn watch(exports: &[Export], log: &Arc<dyn Fn(&str) + Send + Sync>) -> std::io::Result<()> {
    let looked = Arc::new(AtomicUsize::new(0));
    for export in exports {
        let (export, looked) = (export.clone(), Arc::clone(&looked));
        export.watched.begins(Instant::now());
        Builder::new().name("gw-watch".to_owned()).spawn(move || {
            follow(&export, &looked);
        })?;
    }
    let exports_said = exports.to_vec();
    let log = Arc::clone(log);
    // A hanging thread cannot report that it hangs.
    Builder::new()
        .name("gw-watch".to_owned())
        .spawn(move || say(&exports_said, &*log))?;
    let until = Instant::now() + FIRST_WITHIN;
    while looked.load(Ordering::SeqCst) < exports.len() && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn follow(export: &Export, looked: &AtomicUsize) {
    let mut is_first = true;
    loop {
        export.watched.begins(Instant::now());
        let room = export.room_now();
        export.watched.ends(Instant::now(), room);
        if std::mem::replace(&mut is_first, false) {
            looked.fetch_add(1, Ordering::SeqCst);
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn say(exports: &[Export], log: &dyn Fn(&str)) {
    let mut hanging = vec![false; exports.len()];
    while !exports.is_empty() {
        for (export, hung) in exports.iter().zip(&mut hanging) {
            let hangs = hangs(&export.watched);
            let (name, path) = (&export.name, export.path.display());
            match (*hung, hangs) {
                (false, true) => log(&format!(
                    "the file system of the export {name} ({path}) does not answer; this node does not use the export until it answers: check the mount"
                )),
                (true, false) => log(&format!(
                    "the file system of the export {name} ({path}) answers again"
                )),
                _ => {}
            }
            *hung = hangs;
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn hangs(watched: &Watched) -> bool {
    watched.hangs_for(Instant::now()).is_some()
}
