//! `godwit ls`: a directory, a file, or the exports of a whole node, in the same form wherever the place is.
//! Reaches no place: a client of this machine's node does, or `far`.

use clap::ArgMatches;
use godwit_api::ask::{EntryKind, EntryView, ExportRoom, Listing, code, mode_text};
use godwit_api::failure::FailureCode;
use godwit_api::rest::whole_site;
use godwit_api::units::human_size;
use godwit_client::Client;

use super::places::{is, known_form, places, shown};
use super::when::Clock;
use super::{connect, far, print_json, print_list};
use crate::args::{by_ssh, typed_of};
use crate::exit::{Exit, Failure};
use crate::output::{print, printable};

/// The way to one place.
pub(super) trait Listed {
    /// The exports, if the place is a whole node.
    fn exports(&mut self) -> Result<Option<Vec<ExportRoom>>, Failure>;

    /// A page of the directory; None if the place is no directory.
    fn page(&mut self, cursor: Option<&[u8]>) -> Result<Option<Listing>, Failure>;

    /// The entry at the place.
    fn entry(&mut self) -> Result<EntryView, Failure>;
}

/// A place of the asked node or of one of its sites.
struct OfNode<'a> {
    client: &'a Client,
    place: Vec<u8>,
}

impl Listed for OfNode<'_> {
    fn exports(&mut self) -> Result<Option<Vec<ExportRoom>>, Failure> {
        match whole_site(&self.place) {
            Some(_) => Ok(Some(self.client.places().space(&self.place)?)),
            None => known_form(&self.place).map(|_| None),
        }
    }

    fn page(&mut self, cursor: Option<&[u8]>) -> Result<Option<Listing>, Failure> {
        match self.client.places().list(&self.place, cursor) {
            Err(error) if is(&error, code::NOT_A_DIRECTORY) => Ok(None),
            page => Ok(Some(page?)),
        }
    }

    fn entry(&mut self) -> Result<EntryView, Failure> {
        Ok(self.client.places().stat(&self.place)?)
    }
}

/// Runs the command.
pub(super) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    let json = matches.get_flag("json");
    let all = json || matches.get_flag("all");
    let mut client = None;
    let typed = typed_of(by_ssh(), matches);
    for place in places(matches) {
        if let Some(mut far) = far::open(&place, &typed, json)? {
            list(&mut *far, json, all)?;
            continue;
        }
        if client.is_none() {
            client = Some(connect::connect(matches)?);
        }
        if let Some(client) = &client {
            let mut place = OfNode { client, place };
            list(&mut place, json, all).map_err(with_hint)?;
        }
    }
    Ok(Exit::Complete)
}

/// A user of ssh may have meant a machine.
fn with_hint(mut failure: Failure) -> Failure {
    if failure.code == FailureCode::UnknownSite {
        failure
            .message
            .push_str("; a machine that ssh reaches is USER@HOST:PATH");
    }
    failure
}

fn list(place: &mut dyn Listed, json: bool, all: bool) -> Result<(), Failure> {
    if let Some(rooms) = place.exports()? {
        show_exports(&rooms, json);
        return Ok(());
    }
    let mut cursor: Option<Vec<u8>> = None;
    loop {
        let Some(page) = place.page(cursor.as_deref())? else {
            show(&[place.entry()?], json);
            return Ok(());
        };
        let mut entries = page.entries;
        entries.retain(|entry| all || !entry.name.0.starts_with(b"."));
        show(&entries, json);
        // Ends on a repeated page, so that a faulty node is not asked for ever.
        match page.next {
            Some(next) if cursor.as_deref().is_none_or(|before| before < &next.0[..]) => {
                cursor = Some(next.0);
            }
            _ => return Ok(()),
        }
    }
}

fn show_exports(rooms: &[ExportRoom], json: bool) {
    let size = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), human_size);
    let none = "no export there may be used";
    let head = ["EXPORT", "ACCESS", "FREE", "SIZE"];
    print_list(json, rooms, none, &head, |room| {
        let rights = match (room.read, room.write) {
            (true, true) => "read, write",
            (true, false) => "read",
            _ => "write",
        };
        vec![
            printable(&room.name),
            rights.to_owned(),
            size(room.bytes_free),
            size(room.bytes_total),
        ]
    });
}

/// Prints one line for each entry, as `ls -l` does.
fn show(entries: &[EntryView], json: bool) {
    if json {
        entries.iter().for_each(print_json);
        return;
    }
    let clock = Clock::now();
    let sizes: Vec<String> = entries.iter().map(|entry| entry.size.to_string()).collect();
    let times: Vec<String> = entries
        .iter()
        .map(|entry| clock.show(entry.modified))
        .collect();
    let widest = |texts: &[String]| texts.iter().map(String::len).max().unwrap_or(0);
    let (size_width, time_width) = (widest(&sizes), widest(&times));
    for ((entry, size), time) in entries.iter().zip(&sizes).zip(&times) {
        let target = match (&entry.target, entry.kind) {
            (Some(target), EntryKind::Symlink) => format!(" -> {}", shown(&target.0)),
            _ => String::new(),
        };
        print(&format!(
            "{}  {size:>size_width$}  {time:>time_width$}  {}{target}",
            mode_text(entry.kind, entry.mode),
            shown(&entry.name.0)
        ));
    }
}
