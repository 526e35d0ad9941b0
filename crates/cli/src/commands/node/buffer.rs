//! `godwit buffer status`, `list`, `pin`, `unpin`, `drop`, `retry` and `warm` of a running node.
//! Opens no volume; the node has them.

use std::collections::{BTreeMap, BTreeSet};

use clap::ArgMatches;
use godwit_api::duration::parse_duration;
use godwit_api::job::{JobKind, Text};
use godwit_api::rest::{
    BufferChanged, BufferFile, BufferNode, BufferView, Divide, DropFromBuffer, HERE, KeepInBuffer,
    Merge, NewJob, Relay, RetryDrain, Timestamp,
};
use godwit_api::units::human_size;
use godwit_client::{Buffer, Client, idempotency_key};

use super::places::{known_form, places, shown};
use super::when::Clock;
use super::{connect, optional, print_json, table};
use crate::exit::{Exit, Failure};
use crate::output::{complain, print, printable};

/// How long files that `warm` reads stay by default.
const KEPT: &str = "7d";

/// Runs one of the commands.
pub(crate) fn run(name: &str, matches: &ArgMatches) -> Result<Exit, Failure> {
    let client = connect::connect(matches)?;
    match name {
        "status" => status(matches, &client),
        "list" => list(matches, &client),
        "warm" => warm(matches, &client),
        _ => change(name, matches, &client),
    }
}

fn status(matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    let view = Buffer::of(client).view()?;
    if matches.get_flag("json") {
        print_json(&view);
        return Ok(Exit::Complete);
    }
    if view.volumes.is_empty() {
        print(
            "this node has no transfer buffer; its settings name one: buffer-path or buffer-device",
        );
    } else {
        print(&lines(&view, &Clock::now()).join("\n"));
    }
    if !view.nodes.is_empty() {
        print(&pool(&view.nodes, &Clock::now()));
    }
    Ok(Exit::Complete)
}

/// A row for each node of the cluster, and their sum.
fn pool(nodes: &[BufferNode], clock: &Clock) -> String {
    let figures = |of: &dyn Fn(fn(&BufferNode) -> u64) -> u64| {
        let size = |figure: fn(&BufferNode) -> u64| human_size(of(figure));
        vec![
            size(|node| node.bytes_total),
            size(|node| node.bytes_free),
            size(|node| node.bytes_dirty),
            size(|node| node.bytes_draining),
            of(|node| node.files_waiting).to_string(),
            of(|node| node.files_aside).to_string(),
            size(|node| node.bytes_kept),
            size(|node| node.hit_bytes),
            size(|node| node.pooled_bytes),
            size(|node| node.missed_bytes),
        ]
    };
    let since = |oldest: Option<Timestamp>| {
        vec![oldest.map_or_else(|| "-".to_owned(), |oldest| clock.show(oldest))]
    };
    let row = |node: &BufferNode| {
        let reason = node.reason.as_ref();
        let reason = reason.map_or_else(String::new, |why| format!(" ({})", printable(why)));
        let mut state = format!("{}{reason}", printable(&node.state));
        for stall in &node.stalled {
            state.push_str(&format!(", {} takes no data", printable(&stall.export)));
        }
        let named = vec![printable(&node.node), state];
        [
            named,
            figures(&|figure| figure(node)),
            since(node.oldest_dirty),
        ]
        .concat()
    };
    let mut rows: Vec<Vec<String>> = nodes.iter().map(row).collect();
    let sum =
        |figure: fn(&BufferNode) -> u64| nodes.iter().map(figure).fold(0, u64::saturating_add);
    let oldest = nodes.iter().filter_map(|node| node.oldest_dirty).min();
    let all = vec!["all".to_owned(), String::new()];
    rows.push([all, figures(&sum), since(oldest)].concat());
    let head = [
        "NODE",
        "STATE",
        "SIZE",
        "FREE",
        "DIRTY",
        "DRAINING",
        "WAITING",
        "ASIDE",
        "KEPT",
        "HIT",
        "POOLED",
        "MISSED",
        "UNDRAINED",
    ];
    table::plain(&head, &rows)
}

fn lines(view: &BufferView, clock: &Clock) -> Vec<String> {
    let row = |name: &str, bytes: u64| format!("{name:<9}{}", human_size(bytes));
    let mut lines = vec![
        row("size", view.bytes_total),
        row("free", view.bytes_free),
        row("filling", view.bytes_filling),
        row("clean", view.bytes_clean),
        row("dirty", view.bytes_dirty),
        row("draining", view.bytes_draining),
        row("kept", view.bytes_kept),
        format!("{:<9}{}", "files", view.files),
        format!("{:<9}{}", "pinned", view.files_pinned),
        row("hit", view.hit_bytes),
        row("missed", view.missed_bytes),
        row("filled", view.filled_bytes),
        row("drained", view.drained_bytes),
        row("passed", view.passed_bytes),
        row("damaged", view.damaged_bytes),
    ];
    for (name, since) in [("oldest", view.oldest), ("undrained", view.oldest_dirty)] {
        lines.extend(since.map(|since| format!("{name:<9} since {}", clock.show(since))));
    }
    if view.files_waiting > 0 {
        lines.push(format!(
            "{:<9}{} files for their exports, {} of them after a failure, {} put aside: godwit buffer list --waiting",
            "waiting", view.files_waiting, view.files_troubled, view.files_aside
        ));
    }
    for stall in &view.stalled {
        lines.push(format!(
            "stalled   export {} has taken no data since {}; {} files drain there; look at its storage",
            printable(&stall.export),
            clock.show(stall.since),
            stall.files
        ));
    }
    for volume in &view.volumes {
        let path = volume.path.as_ref().map(|path| shown(&path.0));
        let reason = volume.reason.as_ref();
        lines.push(format!(
            "volume   {}: {}{}, {} of {} free",
            path.unwrap_or_else(|| "…".to_owned()),
            printable(&volume.state),
            reason.map_or_else(String::new, |why| format!(" ({})", printable(why))),
            human_size(volume.bytes_free),
            human_size(volume.bytes_total)
        ));
    }
    lines
}

fn list(matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    let json = matches.get_flag("json");
    let waiting = matches.get_flag("waiting");
    let clock = Clock::now();
    let mut silent = BTreeSet::new();
    for place in places(matches) {
        known_form(&place)?;
        let mut cursor: Option<Vec<u8>> = None;
        loop {
            let page = Buffer::of(client).files(&place, cursor.as_deref(), waiting)?;
            silent.extend(page.silent);
            if json {
                page.files.iter().for_each(print_json);
            } else if waiting && !page.files.is_empty() {
                let rows = page.files.iter().map(|file| waiting_row(file, &clock));
                let rows: Vec<Vec<String>> = rows.collect();
                let heads = ["SIZE", "SINCE", "STATE", "TRIES", "PATH", "REASON"];
                print(&table::plain(&heads, &rows));
            } else if !page.files.is_empty() {
                let rows = page.files.iter().map(|file| row(file, &clock));
                let rows: Vec<Vec<String>> = rows.collect();
                print(&table::plain(&["SIZE", "HELD", "STAYS", "PATH"], &rows));
            }
            // Ends on a repeated page, so that a faulty node is not asked for ever.
            match page.next {
                Some(next) if cursor.as_deref().is_none_or(|before| before < &next.0[..]) => {
                    cursor = Some(next.0);
                }
                _ => break,
            }
        }
    }
    for node in &silent {
        let node = printable(node);
        complain(&format!(
            "the node {node} does not answer, so its files are missing; see: godwit cluster status"
        ));
    }
    Ok(match silent.is_empty() {
        true => Exit::Complete,
        false => Exit::Partial,
    })
}

fn row(file: &BufferFile, clock: &Clock) -> Vec<String> {
    let stays = match (file.pinned, file.until) {
        (true, _) => "pinned".to_owned(),
        (false, Some(until)) => clock.show(until),
        (false, None) => "-".to_owned(),
    };
    vec![
        human_size(file.bytes),
        human_size(file.bytes_held),
        stays,
        shown(&file.path.0),
    ]
}

fn waiting_row(file: &BufferFile, clock: &Clock) -> Vec<String> {
    let text = |text: &Option<String>| {
        text.as_deref()
            .map_or_else(|| "-".to_owned(), |text| printable(text).to_string())
    };
    vec![
        human_size(file.bytes),
        file.since
            .map_or_else(|| "-".to_owned(), |since| clock.show(since)),
        text(&file.waiting),
        file.tries.unwrap_or_default().to_string(),
        shown(&file.path.0),
        text(&file.reason),
    ]
}

fn change(name: &str, matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    let seconds = match (name, optional_time(matches)?) {
        ("unpin", _) => Some(0),
        (_, time) => time,
    };
    let waiting = name == "drop" && matches.get_flag("waiting");
    let mut exit = Exit::Complete;
    for place in places(matches) {
        known_form(&place)?;
        let shown = shown(&place);
        let place = Text(place);
        let changed = match name {
            "drop" => Buffer::of(client).drop_files(&DropFromBuffer { place, waiting })?,
            "retry" => Buffer::of(client).retry(&RetryDrain { place })?,
            _ => Buffer::of(client).keep(&KeepInBuffer { place, seconds })?,
        };
        if matches.get_flag("json") {
            print_json(&changed);
        }
        let BufferChanged {
            files,
            refused,
            nodes,
        } = changed;
        for node in &nodes {
            let name = printable(&node.node);
            match &node.problem {
                Some(problem) => {
                    complain(&format!(
                        "{shown}: the node {name} has not done it: {}; see: godwit cluster status",
                        printable(problem)
                    ));
                    exit = Exit::Partial;
                }
                None if !matches.get_flag("json") => {
                    print(&format!(
                        "{shown}: the node {name} has {} files",
                        node.files
                    ));
                }
                None => {}
            }
        }
        if refused > 0 {
            complain(&match waiting {
                true => format!(
                    "{shown}: {refused} files are on their way to the export, or their volume is out; try again"
                ),
                false => format!(
                    "{shown}: {refused} files do not stay, because others have reserved the room"
                ),
            });
            exit = Exit::Partial;
        }
        if files == 0 && refused == 0 && (waiting || name == "retry") {
            complain(&format!("{shown}: no file waits there"));
        } else if files == 0 && refused == 0 {
            complain(&format!(
                "{shown}: the buffer has no file there; bring files by: godwit buffer warm"
            ));
        }
    }
    Ok(exit)
}

fn optional_time(matches: &ArgMatches) -> Result<Option<u64>, Failure> {
    if !matches.ids().any(|id| id == "for") {
        return Ok(None);
    }
    let text = optional(matches, "for")?;
    let time = text.map(|text| {
        parse_duration(&text).map_err(|error| Failure::usage(format!("--for: {error}")))
    });
    Ok(time.transpose()?.map(|time| time.as_secs()))
}

/// Submits a job that reads the places, and sends them nowhere.
fn warm(matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    let time = optional(matches, "for")?.unwrap_or_else(|| KEPT.to_owned());
    parse_duration(&time).map_err(|error| Failure::usage(format!("--for: {error}")))?;
    let mut sources = Vec::new();
    for place in places(matches) {
        let known = known_form(&place)?;
        if known.site != HERE {
            return Err(Failure::usage(format!(
                "{}: a cluster fills its own buffers only; write {HERE}:/EXPORT/PATH",
                shown(&place)
            )));
        }
        let text = String::from_utf8(place).map_err(|error| {
            let bytes = error.into_bytes();
            Failure::usage(format!("{}: it is not UTF-8", shown(&bytes)))
        })?;
        sources.push(text);
    }
    let new = NewJob {
        kind: JobKind::Copy,
        sources,
        destination: format!("{HERE}:null:"),
        more_destinations: Vec::new(),
        gather: false,
        merge: Merge::BySite,
        label: "fills the transfer buffer".to_owned(),
        settings: BTreeMap::from([("keep-in-buffer".to_owned(), vec![Text(time.into_bytes())])]),
        selection: None,
        list: Vec::new(),
        manifest: false,
        divide: Divide::default(),
        relay: Relay::default(),
        remove_source_after: None,
        priority: 0,
        limit: None,
        not_before: None,
        deadline: None,
        retries_max: None,
    };
    let job = client.jobs().submit(&new, &idempotency_key()?)?;
    match matches.get_flag("json") {
        true => print_json(&job),
        false => print(&job.id),
    }
    Ok(Exit::Complete)
}
