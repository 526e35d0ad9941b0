//! `godwit backup` and `godwit restore`: the knowledge of a node, saved to a directory and restored.
//! Saves no data of exports, no log or report of a job, and no journal of a transfer.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use godwit_cluster::ClusterHome;
use godwit_state::Restored;
use godwit_sys::replaceable;
use godwit_sys::secret_file::{self, SecretFileError};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::required;
use crate::exit::{Exit, Failure, FailureCode};
use crate::home::{Home, as_owner};
use crate::output::print;

/// The file that describes the backup; written last.
const LABEL: &str = "backup.json";

/// The state of the node in a backup.
const STATE: &str = "state.db";

/// Version of the format of backups.
const VERSION: u32 = 1;

/// Files of a home directory beside the state. Each may be missing.
const FILES: [&str; 6] = [
    "identity.pem",
    "grants",
    "known_peers",
    "config.toml",
    "web/certificate.pem",
    "web/key.pem",
];

/// The files that contain a secret. The state contains secrets, too.
const SECRET: [&str; 2] = ["identity.pem", "web/key.pem"];

/// Largest accepted size of these files: lists of grants with a margin.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Maximum number of directories with replaced files that are kept beside the present files.
const KEPT_MAX: u32 = 1_000;

/// The knowledge of a node, read with the rights of its user.
struct Saved {
    identity: String,
    files: Vec<(&'static str, Vec<u8>)>,
    /// A copy of the state, if this program acted as another user; that user cannot write into the backup.
    state: Option<File>,
}

/// The description of a backup.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Label {
    version: u32,
    program: String,
    identity: String,
}

/// Saves the knowledge of the node of this home; the node may run meanwhile.
pub(super) fn backup(matches: &ArgMatches, home: &Home) -> Result<Exit, Failure> {
    let directory = place(matches)?;
    if fs::symlink_metadata(&directory).is_ok() {
        return Err(Failure::usage(format!(
            "{}: this directory already exists; name a new one for the backup",
            directory.display()
        )));
    }
    check_way(&directory)?;
    let saved = save(home)?;
    let draft = draft_of(&directory);
    let _ = fs::remove_dir_all(&draft);
    let made = fill(&draft, home, saved).and_then(|label| {
        fs::rename(&draft, &directory).map_err(|error| failed(&directory, error))?;
        sync_parent(&directory)?;
        Ok(label)
    });
    if made.is_err() {
        // The first failure matters, not this one.
        let _ = fs::remove_dir_all(&draft);
    }
    let label = made?;
    print(&format!(
        "saved the state of {} to {}; the backup holds keys: protect it as you protect the keys",
        label.identity,
        directory.display()
    ));
    Ok(Exit::Complete)
}

/// Refuses a new directory that others could lead elsewhere while it is written: this program would remove and write there, with keys and
/// with root's rights. All above it must exist.
fn check_way(directory: &Path) -> Result<(), Failure> {
    match replaceable::weakness(directory, geteuid().as_raw()) {
        Ok(None) => Ok(()),
        Ok(Some(weakness)) => {
            let shown = directory.display().to_string();
            Err(Failure::usage(weakness.words(&shown)))
        }
        // All that is there was judged before.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(directory, error)),
    }
}

/// Replaces the knowledge of this home by a backup.
pub(super) fn restore(matches: &ArgMatches, home: &Home) -> Result<Exit, Failure> {
    let directory = place(matches)?;
    let label = read_label(&directory)?;
    home.make()?;
    check_origin(&directory, home)?;
    let mut contents = Vec::new();
    let copy = directory.join(STATE);
    let opened = File::open(&copy);
    if let Ok(file) = &opened {
        secret_file::check(&copy, file).map_err(Failure::usage)?;
    }
    for name in FILES {
        let file = directory.join(name);
        let content = match SECRET.contains(&name) {
            true => read_secret(&file)?,
            false => read(&file)?,
        };
        contents.extend(content.map(|content| (name, content)));
    }
    let owner = as_owner(home)?;
    let state = home.path().join("state");
    // Refuses while a node runs, and checks the backup before any change.
    let restore = |copy: &Path| {
        godwit_state::restore(&state, copy, &label.identity, godwit_jobs::now())
            .map_err(Failure::local)
    };
    let restored = match owner.is_other() {
        true => {
            // The owner of the home cannot read the backup itself.
            let file = opened.map_err(|error| failed(&copy, error))?;
            let staged = home.path().join("restore.draft");
            remove_draft(&staged)?;
            let restored = write_from(&staged, file).and_then(|()| restore(&staged));
            remove_draft(&staged)?;
            restored?
        }
        false => restore(&copy)?,
    };
    set_cluster(home, &label.identity, &restored)?;
    let mut moved = restored.kept;
    for (name, content) in &contents {
        let place = home.path().join(name);
        if read(&place)?.as_ref() == Some(content) {
            continue;
        }
        if place.exists() {
            let kept = match &moved {
                Some(kept) => kept.clone(),
                None => make_kept(home)?,
            };
            let kept = moved.insert(kept);
            let kept = kept.join(name.replace('/', "-"));
            fs::rename(&place, &kept).map_err(|error| failed(&place, error))?;
        }
        write(&place, content)?;
    }
    print(&format!(
        "restored {} into {}; the backup was made in {}",
        label.identity,
        home.path().display(),
        directory.display()
    ));
    if restored.others > 0 {
        print(
            "the node is now the only one of its cluster; make the other nodes join again (on each: godwit cluster leave, then godwit serve --join)",
        );
    }
    if let Some(moved) = moved {
        print(&format!("the earlier files are in {}", moved.display()));
    }
    Ok(Exit::Complete)
}

/// Refuses a backup that others than root and the owner of the home could have made or changed: it decides the rights at the node.
fn check_origin(directory: &Path, home: &Home) -> Result<(), Failure> {
    let owner = fs::metadata(home.path()).map_err(|error| failed(home.path(), error))?;
    let files = [LABEL, STATE].into_iter().chain(FILES);
    let files = files.map(|name| directory.join(name));
    for place in std::iter::once(directory.to_owned()).chain(files) {
        let meta = match fs::metadata(&place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            meta => meta.map_err(|error| failed(&place, error))?,
        };
        let shown = place.display();
        let trouble = if meta.uid() != owner.uid() && meta.uid() != 0 {
            Some(format!(
                "{shown} belongs to another user (uid {}), who could have changed the backup and with it the rights of the node; \
                 check it, and copy it to a directory of your own",
                meta.uid()
            ))
        } else if replaceable::is_open(&place, &meta) {
            Some(format!(
                "other users may write {shown} (mode {:03o}), and could have changed the backup and with it the rights of the node; \
                 check it, then forbid this with: chmod go-w {shown}",
                meta.mode() & 0o777
            ))
        } else {
            let weakness = replaceable::weakness(&place, owner.uid());
            let weakness = weakness.map_err(|error| failed(&place, error))?;
            weakness.map(|weakness| weakness.words(&shown.to_string()))
        };
        if let Some(trouble) = trouble {
            return Err(Failure::usage(trouble));
        }
    }
    Ok(())
}

/// Records the identity of this node from now on. A node whose backup names other nodes starts a new cluster, because their state is
/// not the state of the backup.
fn set_cluster(home: &Home, identity: &str, restored: &Restored) -> Result<(), Failure> {
    let before = ClusterHome::read(home.path()).map_err(Failure::local)?;
    let done = match &restored.node {
        Some(node) => {
            let cluster = before.unwrap_or_else(|| ClusterHome::of_one(identity));
            cluster.restored(node.number, &node.name).write(home.path())
        }
        None => ClusterHome::remove(home.path()),
    };
    done.map_err(Failure::local)
}

/// Reads the knowledge of the node with the rights of its user.
fn save(home: &Home) -> Result<Saved, Failure> {
    let owner = as_owner(home)?;
    let state = home.path().join("state");
    if !state.join(STATE).exists() {
        return Err(Failure::new(
            FailureCode::HomeUnusable,
            format!(
                "{}: no node has run with this home; set GODWIT_HOME to the node's home",
                home.path().display()
            ),
        ));
    }
    let mut files = Vec::new();
    for name in FILES {
        let content = read(&home.path().join(name))?;
        files.extend(content.map(|content| (name, content)));
    }
    let copied = || {
        let staged = home.path().join("backup.draft");
        remove_draft(&staged)?;
        godwit_state::backup(&state, &staged).map_err(Failure::local)?;
        let file = File::open(&staged).map_err(|error| failed(&staged, error))?;
        remove_draft(&staged)?;
        Ok::<_, Failure>(file)
    };
    Ok(Saved {
        identity: home.identity()?.id().to_string(),
        files,
        state: owner.is_other().then(copied).transpose()?,
    })
}

/// Puts all files of a backup into `draft`.
fn fill(draft: &Path, home: &Home, saved: Saved) -> Result<Label, Failure> {
    make_directory(draft)?;
    let copy = draft.join(STATE);
    match saved.state {
        Some(file) => write_from(&copy, file)?,
        None => {
            godwit_state::backup(&home.path().join("state"), &copy).map_err(Failure::local)?;
        }
    }
    for (name, content) in &saved.files {
        write(&draft.join(name), content)?;
    }
    let label = Label {
        version: VERSION,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        identity: saved.identity,
    };
    // Plain fields always become JSON.
    let text = serde_json::to_vec_pretty(&label).unwrap_or_default();
    write(&draft.join(LABEL), &text)?;
    Ok(label)
}

fn read_label(directory: &Path) -> Result<Label, Failure> {
    let file = directory.join(LABEL);
    let none = |why: String| Failure::usage(format!("{}: {why}", file.display()));
    let text = read(&file)?.ok_or_else(|| {
        none("this file is missing; name a directory made by godwit backup".to_owned())
    })?;
    let label: Label = serde_json::from_slice(&text).map_err(|error| none(error.to_string()))?;
    if label.version != VERSION {
        return Err(none(format!(
            "the backup has version {}; this program knows version {VERSION}",
            label.version
        )));
    }
    Ok(label)
}

/// Makes a directory for replaced files, inside the home.
fn make_kept(home: &Home) -> Result<PathBuf, Failure> {
    let kept = (1..=KEPT_MAX)
        .map(|number| home.path().join(format!("kept-{number}")))
        .find(|kept| !kept.exists())
        .ok_or_else(|| {
            Failure::local(format!(
                "{}: too many earlier files are kept here; remove some",
                home.path().display()
            ))
        })?;
    make_directory(&kept)?;
    Ok(kept)
}

fn place(matches: &ArgMatches) -> Result<PathBuf, Failure> {
    let place = Path::new(required(matches, "directory")?);
    std::path::absolute(place).map_err(|error| failed(place, error))
}

fn draft_of(directory: &Path) -> PathBuf {
    let mut name = directory.as_os_str().to_owned();
    name.push(".draft");
    name.into()
}

fn make_directory(path: &Path) -> Result<(), Failure> {
    DirBuilder::new()
        .mode(0o700)
        .create(path)
        .map_err(|error| failed(path, error))
}

/// The content of a file with a secret; None if the file does not exist.
fn read_secret(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    match secret_file::read(path, FILE_BYTES_MAX) {
        Ok(content) => Ok(Some(content)),
        Err(SecretFileError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(None)
        }
        Err(error) => Err(Failure::usage(error)),
    }
}

/// The content of a small file; None if the file does not exist.
fn read(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    match fs::metadata(path) {
        Ok(meta) if meta.len() > FILE_BYTES_MAX => {
            Err(failed(path, io::Error::from(io::ErrorKind::FileTooLarge)))
        }
        Ok(_) => fs::read(path)
            .map(Some)
            .map_err(|error| failed(path, error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, error)),
    }
}

/// Writes a file for its owner only, safe from a power cut.
fn write(path: &Path, content: &[u8]) -> Result<(), Failure> {
    write_from(path, content)
}

/// Writes a file for its owner only, from another one.
fn write_from(path: &Path, mut content: impl io::Read) -> Result<(), Failure> {
    if let Some(parent) = path.parent().filter(|parent| !parent.exists()) {
        make_directory(parent)?;
    }
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| io::copy(&mut content, &mut file).and_then(|_| file.sync_all()));
    written.map_err(|error| failed(path, error))?;
    sync_parent(path)
}

/// Removes what a killed command left.
fn remove_draft(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path, error)),
        _ => Ok(()),
    }
}

fn sync_parent(path: &Path) -> Result<(), Failure> {
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    File::open(parent)
        .and_then(|parent| parent.sync_all())
        .map_err(|error| failed(parent, error))
}

fn failed(path: &Path, error: io::Error) -> Failure {
    Failure::local(format!("{}: {error}", path.display()))
}
