//! `godwit manifest`: a manifest of data at rest on this machine, or an ASC MHL history.
//! Moves nothing.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use godwit_api::event::{Event, EventSink as _, Failed};
use godwit_api::settings::ManifestSettings;
use godwit_api::units::counted;
use godwit_engine::{Offers, Unoffered, Work};
use godwit_tree::TreeWork;

use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::{Output, print, printable};
use godwit_run::reports::{
    Finished, Keeper, KeeperOptions, ManifestPlace, ReportFiles, Signer, show,
};
use godwit_run::verify::root_of;

/// Runs the command.
pub(crate) fn run(
    settings: &ManifestSettings,
    source: &Path,
    file: &Path,
    home: &Home,
) -> Result<Exit, Failure> {
    godwit_node::cores::restrict(settings.threads, &settings.pin)?;
    let root = root_of(source, home)?;
    let keeper = Keeper::open(KeeperOptions {
        place: ManifestPlace::File {
            path: file.to_owned(),
            sorted: settings.manifest_sorted,
            signer: settings.sign.then(|| Signer::load(home)).transpose()?,
        },
        spill: home.spill()?,
        // The mask of the process applies.
        umask: 0,
        threads: settings.threads as usize,
    })?;
    let digest = settings.digest;
    keeper.begin(vec![Vec::new()], vec![root.clone()], digest)?;
    let own = ReportFiles::new([(show(file), keeper.places())]);
    let output = Output::new(false, false, Instant::now(), None);
    let mut work = TreeWork::new(vec![root]).without(own.files());
    let mut offers = Offers::default();
    let mut failed = 0;
    let mut more = true;
    while more {
        more = work.next_batch(&mut offers);
        for record in offers.entries.drain(..) {
            keeper.entry_done(&record);
        }
        for Unoffered { path, fault, .. } in offers.faults.drain(..) {
            failed += 1;
            output.emit(Event::Failed(Failed::named(path, fault.message)));
        }
    }
    for note in own.notes() {
        output.note(&note);
    }
    let Finished {
        manifest,
        unreadable,
        ..
    } = keeper.finish(failed, &output, &|| true)?;
    if let Some(manifest) = manifest {
        print(&format!(
            "manifest    {}, {}, {}",
            String::from_utf8_lossy(&manifest.path),
            counted(manifest.entries, "entry"),
            manifest.digest
        ));
    }
    Ok(if failed + unreadable == 0 {
        Exit::Complete
    } else {
        Exit::Partial
    })
}

/// Adds a generation to the ASC MHL history of a directory.
pub(crate) fn seal(settings: &ManifestSettings, directory: &Path) -> Result<Exit, Failure> {
    if settings.sign {
        return Err(Failure::usage(
            "--sign: an ASC MHL history has no signature; leave out --sign",
        ));
    }
    godwit_node::cores::restrict(settings.threads, &settings.pin)?;
    let stop = Arc::new(AtomicBool::new(false));
    godwit_node::signals::watch(&stop)
        .map_err(|error| Failure::local(format!("signals cannot be handled: {error}")))?;
    let output = Output::new(false, false, Instant::now(), None).showing(false, true);
    let how = (settings.ascmhl_digest.as_os_str(), settings.threads);
    let outcome = godwit_run::seal::at_rest(directory, how, &output, &stop)?;
    if let Some(made) = &outcome.generation {
        print(&format!(
            "manifest    {}, {}, {}",
            printable(&String::from_utf8_lossy(&made.path)),
            counted(made.entries, "entry"),
            made.digest
        ));
    }
    Ok(match outcome.differences {
        0 => Exit::Complete,
        _ => Exit::Partial,
    })
}
