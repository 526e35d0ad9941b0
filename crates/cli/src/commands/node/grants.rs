//! `godwit access`: the grants at the node of this machine, in the file of its home and in its state.
//! Enforces nothing; a running node rereads the file without a command.

use std::ffi::OsString;

use clap::ArgMatches;
use godwit_api::fnv;
use godwit_api::grant::{Area, Grant, Right, Rights, SiteArea, Subject};
use godwit_api::rest::{AccessOrigin, AccessView, NewAccess, Timestamp};
use godwit_api::settings::{Scope, ServeSettings};
use godwit_client::{Client, ClientError};
use godwit_data_port::Grants;

use super::connect::home_of_node;
use super::when::Clock;
use super::{optional, print_json, table, text};
use crate::exit::{Exit, Failure, FailureCode};
use crate::home::Home;
use crate::output::{complain, print, printable};

/// Runs one of the commands.
pub(super) fn run(sub: &str, matches: &ArgMatches) -> Result<Exit, Failure> {
    let home = home_of_node()?;
    match sub {
        "list" => list(matches, &home),
        "allow" => allow(matches, &home),
        "deny" => deny(matches, &home),
        _ => Err(Failure::usage(format!("access {sub} is not a command"))),
    }
}

/// The running node of a home, with the rules that it has.
struct NodeRules {
    client: Client,
    /// Rules of the node; None if no node runs with this home.
    rules: Option<Result<Vec<AccessView>, ClientError>>,
}

impl NodeRules {
    fn ask(home: &Home) -> Result<Self, Failure> {
        let client = Client::local(home.path().to_owned())?;
        let rules = match client.access().list() {
            Err(ClientError::NotRunning { .. }) => None,
            answer => Some(answer),
        };
        Ok(Self { client, rules })
    }

    /// The rules of the node's state; None if they are unknown.
    fn of_state(&self) -> Option<Vec<&AccessView>> {
        let rules = self.rules.as_ref()?.as_ref().ok()?;
        let of_state = rules
            .iter()
            .filter(|rule| rule.origin == AccessOrigin::State);
        Some(of_state.collect())
    }

    /// Whether the node is in a cluster with others, which a file in its home would not reach.
    fn is_in_cluster(&self) -> bool {
        let view = self.rules.is_some().then(|| self.client.cluster().view());
        view.is_some_and(|view| view.is_ok_and(|view| view.nodes.len() > 1))
    }

    /// Adds a grant to the state; returns whether that changes anything.
    fn add(&self, mut grant: Grant, clock: &Clock) -> Result<bool, Failure> {
        let rules = self.of_state().unwrap_or_default();
        let (subject, area) = (grant.subject.to_string(), grant.place());
        // One rule for each subject, area and end, as in the file.
        let id = rule_id(&subject, &area, grant.expires);
        let earlier = rules.into_iter().find(|rule| rule.id.as_ref() == Some(&id));
        let earlier = earlier.and_then(AccessView::grant);
        if let Some(earlier) = earlier.filter(|earlier| earlier.holds(clock.present())) {
            let rights: Rights = earlier.rights.iter().chain(grant.rights.iter()).collect();
            if rights == earlier.rights {
                return Ok(false);
            }
            grant.rights = rights;
        }
        let view = AccessView::of(&grant, None, clock.present());
        let new = NewAccess {
            subject: view.subject,
            site: view.site,
            export: view.export,
            path: view.path,
            rights: view.rights,
            expires: view.expires,
            comment: view.comment,
        };
        self.client.access().put(&id, &new)?;
        Ok(true)
    }

    /// Why the rules of the state are unknown; None if they are known.
    fn silence(&self) -> Option<String> {
        match &self.rules {
            None => Some("no node runs with this home".to_owned()),
            Some(Err(error)) => Some(error.to_string()),
            Some(Ok(_)) => None,
        }
    }
}

/// The id of the rule of a subject, an area and an end.
fn rule_id(subject: &str, area: &str, expires: Option<Timestamp>) -> String {
    let until = expires.map_or_else(String::new, |at| at.0.to_string());
    let text = format!("{subject} {area} {until}");
    format!("allow-{:016x}", fnv(text.bytes()))
}

fn file_error(error: impl ToString) -> Failure {
    Failure::new(FailureCode::HomeUnusable, error.to_string())
}

fn list(matches: &ArgMatches, home: &Home) -> Result<Exit, Failure> {
    let clock = Clock::now();
    let grants = Grants::new(home.path()).list().map_err(file_error)?;
    let mut views: Vec<AccessView> = grants
        .iter()
        .map(|grant| AccessView::of(grant, None, clock.present()))
        .collect();
    let node = NodeRules::ask(home)?;
    let of_state = node.of_state().unwrap_or_default();
    views.extend(of_state.into_iter().cloned());
    if matches.get_flag("json") {
        views.iter().for_each(print_json);
    } else if views.is_empty() {
        print("there are no grants; grant access to a client with: godwit access allow");
    } else {
        let rows: Vec<Vec<String>> = views.iter().map(|view| row(view, &clock)).collect();
        let head = ["WHO", "WHERE", "MAY", "ENDS", "KEPT IN", "COMMENT"];
        print(&table::plain(&head, &rows));
        let mut grants = views.iter().filter_map(AccessView::grant);
        if let Some(note) = grants.find_map(|grant| grant.rights.note()) {
            print(&format!("\n{note}"));
        }
    }
    if let Some(why) = node.silence() {
        complain(&format!(
            "these are the grants in {}; the rules in the node's state are not shown: {why}",
            home.path().join("grants").display()
        ));
    }
    Ok(Exit::Complete)
}

fn row(view: &AccessView, clock: &Clock) -> Vec<String> {
    let grant = view.grant();
    let words = |text: Option<String>| printable(&text.unwrap_or_default());
    let ends = match view.expires {
        Some(time) if view.expired => format!("expired {}", clock.show(time)),
        Some(time) => clock.show(time),
        None => "never".to_owned(),
    };
    let kept = match (&view.id, &view.job) {
        (None, _) => "file".to_owned(),
        (Some(_), Some(job)) => format!("state, job {}", printable(job)),
        (Some(id), None) => format!("state, rule {}", printable(id)),
    };
    vec![
        printable(&view.subject),
        words(grant.as_ref().map(Grant::place)),
        words(grant.map(|grant| grant.rights.to_string())),
        ends,
        kept,
        printable(&view.comment),
    ]
}

fn allow(matches: &ArgMatches, home: &Home) -> Result<Exit, Failure> {
    let clock = Clock::now();
    let subject = subject(matches)?;
    let places = match matches.get_flag("all-exports") {
        true => vec![(None, Area::All)],
        false => places(matches)?,
    };
    let flags = [
        ("read", Right::Read),
        ("write", Right::Write),
        ("list", Right::List),
        ("delete", Right::Delete),
    ];
    let asked = flags.into_iter().filter(|(flag, _)| matches.get_flag(flag));
    let mut rights: Rights = asked.map(|(_, right)| right).collect();
    if rights.is_empty() {
        rights = Rights::READ;
    }
    let expires = optional(matches, "expires")?
        .map(|text| clock.parse_end("--expires", &text))
        .transpose()?;
    let comment = optional(matches, "comment")?.unwrap_or_default();
    home.make()?;
    let node = NodeRules::ask(home)?;
    check_exports(&places, &node, home)?;
    let is_at_sites = places.iter().any(|(site, _)| site.is_some());
    check_sites(is_at_sites, &subject, &node)?;
    let file = Grants::new(home.path());
    // Only the state knows the sites, so the state holds the rules at them.
    let in_state = is_at_sites || node.is_in_cluster();
    for (site, area) in places {
        let grant = Grant {
            subject: subject.clone(),
            site,
            area,
            rights,
            expires,
            comment: comment.clone(),
            mandate: None,
        };
        let changed = match in_state {
            true => node.add(grant.clone(), &clock)?,
            false => file.add(&grant).map_err(file_error)?,
        };
        let note = rights
            .note()
            .map_or_else(String::new, |note| format!("; {note}"));
        print(&match changed {
            true => format!("{subject} may now {}{note}", says(&grant, &clock)),
            false => format!("{subject} could already {}{note}", says(&grant, &clock)),
        });
    }
    match in_state {
        true => complain("stored in the state of the node or cluster; it applies at all its nodes"),
        false => report_place(home, &node),
    }
    Ok(Exit::Complete)
}

/// Refuses rules at sites, unless they are for users and a running node keeps them.
fn check_sites(is_at_sites: bool, subject: &Subject, node: &NodeRules) -> Result<(), Failure> {
    if !is_at_sites {
        return Ok(());
    }
    if let Subject::Identity(_) = subject {
        return Err(Failure::usage(
            "--site: a rule at a site must be for a user of this node (user:NAME); rights of an identity are granted at that site itself",
        ));
    }
    match node.silence() {
        None => Ok(()),
        Some(why) => Err(Failure::local(format!(
            "--site: rules at sites are stored by a running node, and the node does not answer: {why}; start the node with: godwit serve"
        ))),
    }
}

/// Prints which home was written to, and its reader.
fn report_place(home: &Home, node: &NodeRules) {
    let file = home.path().join("grants");
    let file = file.display();
    let system = super::connect::system_home();
    complain(&match (&node.rules, system) {
        (Some(_), _) => {
            format!("stored in {file}; the node that runs with this home applies it at once")
        }
        (None, Some(other)) if other != home.path() => format!(
            "stored in {file}, but no node runs with this home. A node runs with the home {0}; to change its grants, run: GODWIT_HOME={0} godwit access …",
            other.display()
        ),
        (None, _) => format!(
            "stored in {file}; no node runs with this home now; a node started later applies it"
        ),
    });
}

/// Refuses an unknown export, if the exports are known.
fn check_exports(places: &[Where], node: &NodeRules, home: &Home) -> Result<(), Failure> {
    let named = places.iter().filter_map(|(site, area)| match area {
        Area::Export { name, .. } if site.is_none() => Some(name),
        _ => None,
    });
    let named: Vec<&String> = named.collect();
    if named.is_empty() {
        return Ok(());
    }
    let (known, whose) = match known_exports(node, home) {
        Ok(known) => known,
        Err(why) => {
            complain(&format!(
                "cannot find out whether {} is exported: {why}",
                named
                    .iter()
                    .map(|name| name.as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            ));
            return Ok(());
        }
    };
    match named.into_iter().find(|name| !known.contains(name)) {
        Some(name) => Err(Failure::usage(format!(
            "--export {name}: {whose} has no such export; it has: {}",
            match known.is_empty() {
                true => "none".to_owned(),
                false => known.join(", "),
            }
        ))),
        None => Ok(()),
    }
}

/// The exports of the running node, or those of its configuration, with a name for their origin.
fn known_exports(node: &NodeRules, home: &Home) -> Result<(Vec<String>, String), String> {
    if node.rules.is_some() {
        let exports = node.client.exports().map_err(|error| error.to_string())?;
        let names = exports.into_iter().map(|export| export.name).collect();
        return Ok((names, format!("the node of {}", home.path().display())));
    }
    let nothing = "no node runs with this home, and the settings in this home name no export";
    let values = crate::commands::settings_of(Scope::Serve, home);
    let settings = values
        .and_then(|values| Ok(ServeSettings::from_values(&values)?))
        .map_err(|failure| failure.message)?;
    let names: Vec<String> = settings
        .exports
        .into_iter()
        .map(|export| export.name)
        .collect();
    if names.is_empty() {
        return Err(nothing.to_owned());
    }
    Ok((names, home.config().display().to_string()))
}

fn deny(matches: &ArgMatches, home: &Home) -> Result<Exit, Failure> {
    let clock = Clock::now();
    let subject = subject(matches)?;
    let places = places(matches)?;
    let lies_in =
        |grant: &Grant, (site, area): &Where| grant.site == *site && area.contains(&grant.area);
    // Access that the subject gave to others for its jobs ends with its access.
    let gave = |grant: &Grant| {
        let mandate = grant.mandate.as_ref();
        mandate.is_some_and(|mandate| mandate.asker == subject.to_string())
    };
    let concerns = |grant: &Grant| {
        (grant.subject == subject || gave(grant))
            && (places.is_empty() || places.iter().any(|place| lies_in(grant, place)))
    };
    let file = Grants::new(home.path());
    let mut removed = Vec::new();
    if places.is_empty() {
        removed = file.remove(&subject, None).map_err(file_error)?;
    }
    for (_, area) in places.iter().filter(|(site, _)| site.is_none()) {
        removed.extend(file.remove(&subject, Some(area)).map_err(file_error)?);
    }
    let node = NodeRules::ask(home)?;
    let mut left = file.list().map_err(file_error)?;
    for rule in node.of_state().unwrap_or_default() {
        let (Some(grant), Some(id)) = (rule.grant(), &rule.id) else {
            continue;
        };
        if concerns(&grant) {
            node.client.access().remove(id)?;
            removed.push(grant);
        } else {
            left.push(grant);
        }
    }
    for grant in &removed {
        let who = &grant.subject;
        print(&format!("{who} may no longer {}", says(grant, &clock)));
    }
    if removed.is_empty() {
        print(&format!("{subject} did not have this access"));
    }
    if let Some(why) = node.silence() {
        complain(&format!(
            "only the file {} was checked; rules in the node's state, if there are any, still apply: {why}",
            home.path().join("grants").display()
        ));
    }
    left.retain(|grant| {
        grant.subject == subject && grant.mandate.is_none() && grant.holds(clock.present())
    });
    let reaches =
        |grant: &Grant, (site, area): &Where| grant.site == *site && grant.area.contains(area);
    let still = |grant: &&Grant| places.iter().any(|place| reaches(grant, place));
    // Success would mislead: the denied access is still allowed by another grant.
    if let Some(grant) = left.iter().find(still) {
        return Err(Failure::local(format!(
            "{subject} may still {}, by a wider grant; end the wider grant with: godwit access deny {subject}{}",
            says(grant, &clock),
            match (&grant.site, &grant.area) {
                (Some(_), _) => format!(" --site {}", grant.place()),
                (None, Area::All) => String::new(),
                (None, area) => format!(" --export {area}"),
            }
        )));
    }
    for grant in left {
        print(&format!("{subject} may still {}", says(&grant, &clock)));
    }
    Ok(Exit::Complete)
}

/// Describes a grant in words.
fn says(grant: &Grant, clock: &Clock) -> String {
    let verbs: Vec<&str> = grant.rights.iter().map(Right::name).collect();
    let place = match (&grant.site, &grant.area) {
        (None, Area::All) => "all exports".to_owned(),
        (None, area) => format!("export {area}"),
        (Some(site), Area::All) => format!("all exports of the site {site}"),
        (Some(_), _) => grant.place(),
    };
    let until = grant
        .expires
        .map_or_else(String::new, |time| format!(" until {}", clock.show(time)));
    let job = grant.mandate.as_ref().map_or_else(String::new, |mandate| {
        format!(" for job {} of {}", mandate.job, mandate.asker)
    });
    format!("{} {place}{until}{job}", verbs.join(" and "))
}

fn subject(matches: &ArgMatches) -> Result<Subject, Failure> {
    text(matches, "subject")?.parse().map_err(Failure::usage)
}

/// A site, None for this node, and an area of its exports.
type Where = (Option<String>, Area);

/// The named places: exports of this node, or of sites.
fn places(matches: &ArgMatches) -> Result<Vec<Where>, Failure> {
    let exports = named(matches, "export", |text| match text.parse() {
        Ok(Area::All) => Err("for all exports write --all-exports".to_owned()),
        Ok(area) => Ok((None, area)),
        Err(error) => Err(error.to_string()),
    })?;
    let sites = named(matches, "site", |text| {
        let at: SiteArea = text.parse().map_err(|error| format!("{error}"))?;
        Ok((Some(at.site), at.area))
    })?;
    Ok(exports.into_iter().chain(sites).collect())
}

fn named(
    matches: &ArgMatches,
    option: &str,
    read: impl Fn(&str) -> Result<Where, String>,
) -> Result<Vec<Where>, Failure> {
    let words = matches.get_many::<OsString>(option).into_iter().flatten();
    words
        .map(|word| {
            let text = word.to_str().ok_or_else(|| {
                Failure::usage(format!(
                    "--{option} {}: it is not UTF-8; write each other byte as %XX",
                    word.display()
                ))
            })?;
            read(text).map_err(|why| Failure::usage(format!("--{option} {text}: {why}")))
        })
        .collect()
}
