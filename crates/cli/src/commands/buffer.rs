//! `godwit buffer`: makes, checks and shows the transfer buffer on a device, in a file or in a directory.
//! Asks no node; `node::buffer` does.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use clap::ArgMatches;
use godwit_api::duration::exact_duration;
use godwit_api::rest::Timestamp;
use godwit_api::units::{exact_size, human_size, parse_size};
use godwit_buffer::device::Access;
use godwit_buffer::extent::Recovered;
use godwit_buffer::in_use::Places;
use godwit_buffer::inspect::{self, BadExtent, Survey};
use godwit_buffer::layout::{EXTENT_BYTES, EXTENT_BYTES_DEFAULT};
use godwit_buffer::make::{self, Kind, Refusal, Request};
use godwit_sys::acting::Acting;
use serde::Serialize;
use serde_json::json;

use super::required;
use crate::exit::{Exit, Failure};
use crate::home::{self, Home};
use crate::output::{print, print_data};

/// Runs one of the commands.
pub(super) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    match matches.subcommand() {
        Some(("format", own)) => format(own, &super::node::connect::home_of_node()?),
        Some(("check", own)) => check(own),
        Some(("status", own)) if own.contains_id("place") => status(own),
        Some((name, own)) => super::node::buffer::run(name, own),
        None => Err(Failure::usage(
            "buffer: name a subcommand: godwit buffer format, check, status, list, pin, unpin, drop, retry or warm",
        )),
    }
}

fn format(matches: &ArgMatches, home: &Home) -> Result<Exit, Failure> {
    let path = Path::new(required(matches, "place")?);
    let identity = {
        let _owner = home::as_owner(home)?;
        home.make()?;
        home.identity()?.id().to_string()
    };
    let _owner = match path.exists() {
        true => as_owner(path)?,
        false => as_maker(path, home)?,
    };
    let mut random = [0; 24];
    aws_lc_rs::rand::fill(&mut random)
        .map_err(|error| Failure::local(format!("there are no random numbers: {error}")))?;
    let (id, salt) = random.split_at(16);
    let request = Request {
        path: path.to_owned(),
        bytes: size(matches, "bytes")?,
        extent_bytes: extent_bytes(matches)?,
        node: identity,
        force: super::text_of(matches, "force-format")?,
        id: id.try_into().unwrap_or_default(),
        salt: u64::from_le_bytes(salt.try_into().unwrap_or_default()),
        now: now(),
    };
    let made = make::make(&request, &Places::default()).map_err(|refusal| {
        let what = format!("{}: {refusal}", path.display());
        match refusal {
            Refusal::NoBytes | Refusal::OtherSerial { .. } => Failure::usage(what),
            _ => Failure::local(what),
        }
    })?;
    let found = examine(path, Access::Check)?.1;
    if matches.get_flag("json") {
        print_json(&document(path, &found)?);
        return Ok(Exit::Complete);
    }
    print(&format!(
        "made a transfer buffer of {} extents of {} in {}; it belongs to {}",
        made.layout.slots,
        exact_size(u64::from(made.layout.extent_bytes)),
        path.display(),
        made.node
    ));
    Ok(Exit::Complete)
}

/// The rights of the owner of a place, for a command of root: links of the owner must lead root nowhere.
fn as_owner(path: &Path) -> Result<Acting, Failure> {
    let of = match make::kind(path) {
        // Root owns devices, and another user may have made a link to one.
        Ok(Kind::Device) => above(path),
        _ => path,
    };
    Acting::as_owner_of(of).map_err(|error| {
        let what = format!("{}: cannot act as the owner: {error}", of.display());
        Failure::local(what)
    })
}

/// The rights to make a directory: those of the owner of the home, whose node will use it. Root makes none in a directory of another user.
fn as_maker(path: &Path, home: &Home) -> Result<Acting, Failure> {
    let owner = home::as_owner(home)?;
    match owner.is_other() {
        true => Ok(owner),
        false => as_owner(above(path)),
    }
}

fn above(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn check(matches: &ArgMatches) -> Result<Exit, Failure> {
    let path = Path::new(required(matches, "place")?);
    let _owner = as_owner(path)?;
    let (backing, found) = examine(path, Access::Check)?;
    let bad = inspect::check(&*backing, &found).map_err(|error| failed(path, &error))?;
    let is_sound = found.damage.is_empty() && bad.is_empty();
    if matches.get_flag("json") {
        let mut document = document(path, &found)?;
        document["sound"] = json!(is_sound);
        document["damage"] = found.damage.iter().map(ToString::to_string).collect();
        document["bad_extents"] = bad.iter().map(bad_document).collect();
        print_json(&document);
    } else {
        for damage in &found.damage {
            print(&damage.to_string());
        }
        for one in &bad {
            print(&bad_line(one));
        }
        print(&match is_sound {
            true => format!(
                "{}: sound, {} extents read",
                path.display(),
                found.extents.len()
            ),
            false => format!(
                "{}: damaged: {} faults of the log, {} of {} extents",
                path.display(),
                found.damage.len(),
                bad.len(),
                found.extents.len()
            ),
        });
    }
    Ok(if is_sound {
        Exit::Complete
    } else {
        Exit::Partial
    })
}

fn status(matches: &ArgMatches) -> Result<Exit, Failure> {
    let path = Path::new(required(matches, "place")?);
    let _owner = as_owner(path)?;
    let found = examine(path, Access::Look)?.1;
    if matches.get_flag("json") {
        print_json(&document(path, &found)?);
        return Ok(Exit::Complete);
    }
    let figures = Figures::of(&found);
    let superblock = &found.superblock;
    let extent_bytes = u64::from(superblock.layout.extent_bytes);
    let shown = |slots: u64| format!("{} ({slots} extents)", human_size(slots * extent_bytes));
    let mut lines = vec![
        format!(
            "{}: transfer buffer {}",
            path.display(),
            hex(&superblock.id)
        ),
        format!("owner         {}", superblock.node),
        format!("generation    {}", superblock.generation),
        format!("extents       {}", exact_size(extent_bytes)),
        format!("free          {}", shown(figures.free)),
        format!("clean         {}", shown(figures.clean)),
        format!("dirty         {}", shown(figures.dirty)),
        format!("files         {}", figures.files),
    ];
    if let Some(age) = figures.oldest_dirty.map(age) {
        lines.push(format!("oldest dirty  {}", exact_duration(age)));
    }
    for damage in &found.damage {
        lines.push(format!("damage        {damage}"));
    }
    print(&lines.join("\n"));
    Ok(Exit::Complete)
}

/// Opens a place, and reads superblocks and log.
fn examine(
    path: &Path,
    access: Access,
) -> Result<(Box<dyn godwit_buffer::backing::Backing>, Survey), Failure> {
    let backing = make::open(path, access).map_err(|error| failed(path, &error))?;
    let found = inspect::survey(&*backing)
        .map_err(|error| Failure::local(format!("{}: {error}", path.display())))?;
    Ok((backing, found))
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    let shown = path.display();
    Failure::local(match error.kind() {
        io::ErrorKind::ResourceBusy => {
            format!("{shown}: in use: another process uses it; stop the node first")
        }
        _ => format!("{shown}: {error}"),
    })
}

/// Contents of a volume.
struct Figures {
    free: u64,
    clean: u64,
    dirty: u64,
    files: usize,
    oldest_dirty: Option<Duration>,
}

impl Figures {
    fn of(found: &Survey) -> Self {
        let dirty = found.extents.iter().filter(|extent| extent.is_dirty);
        let files: BTreeSet<_> = found
            .extents
            .iter()
            .map(|extent| &extent.content.file)
            .collect();
        let held = found.extents.len() as u64;
        let dirty_count = dirty.clone().count() as u64;
        Self {
            free: u64::from(found.superblock.layout.slots) - held,
            clean: held - dirty_count,
            dirty: dirty_count,
            files: files.len(),
            oldest_dirty: dirty.map(|extent| extent.since).min(),
        }
    }
}

fn document(path: &Path, found: &Survey) -> Result<serde_json::Value, Failure> {
    let kind = make::kind(path).map_err(|error| failed(path, &error))?;
    let figures = Figures::of(found);
    let superblock = &found.superblock;
    let extent_bytes = u64::from(superblock.layout.extent_bytes);
    let state = |slots: u64| json!({ "extents": slots, "bytes": slots * extent_bytes });
    Ok(json!({
        "path": path.to_string_lossy(),
        "kind": kind.name(),
        "id": hex(&superblock.id),
        "node": superblock.node,
        "serial": superblock.serial,
        "generation": superblock.generation,
        "made": timestamp(superblock.made),
        "extent_bytes": extent_bytes,
        "free": state(figures.free),
        "clean": state(figures.clean),
        "dirty": state(figures.dirty),
        "files": figures.files,
        "oldest_dirty": figures.oldest_dirty.map(timestamp),
        "oldest_dirty_seconds": figures.oldest_dirty.map(|since| age(since).as_secs()),
        "log_bytes": found.log_bytes,
        "superblocks_valid": found.are_valid,
        "torn_end": found.is_torn,
        "log_damaged": !found.damage.is_empty(),
    }))
}

fn bad_document(bad: &BadExtent) -> serde_json::Value {
    let Recovered {
        slot,
        content,
        is_dirty,
        ..
    } = &bad.extent;
    json!({
        "slot": slot.0,
        "path": content.file.to_string(),
        "offset": content.offset,
        "bytes": content.bytes,
        "dirty": is_dirty,
        "error": bad.error.to_string(),
    })
}

fn bad_line(bad: &BadExtent) -> String {
    let Recovered {
        slot,
        content,
        is_dirty,
        ..
    } = &bad.extent;
    let copy = match is_dirty {
        true => "the only copy",
        false => "a copy",
    };
    format!(
        "{} at byte {}, {} bytes in slot {}, {copy}: {}",
        content.file, content.offset, content.bytes, slot.0, bad.error
    )
}

fn size(matches: &ArgMatches, name: &str) -> Result<Option<u64>, Failure> {
    let text = super::text_of(matches, name)?;
    let parsed = text.map(|text| {
        parse_size(&text).map_err(|error| Failure::usage(format!("--{name} {text}: {error}")))
    });
    parsed.transpose()
}

fn extent_bytes(matches: &ArgMatches) -> Result<u32, Failure> {
    let Some(bytes) = size(matches, "extent")? else {
        return Ok(EXTENT_BYTES_DEFAULT);
    };
    let known = EXTENT_BYTES
        .into_iter()
        .find(|known| u64::from(*known) == bytes);
    known.ok_or_else(|| Failure::usage("--extent: an extent has 1MiB, 2MiB or 4MiB"))
}

fn now() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

/// Whole seconds since then.
fn age(since: Duration) -> Duration {
    Duration::from_secs(now().saturating_sub(since).as_secs())
}

fn timestamp(time: Duration) -> Timestamp {
    Timestamp(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn print_json<T: Serialize>(document: &T) {
    // Plain fields always become JSON.
    print_data(&serde_json::to_string(document).unwrap_or_default());
}
