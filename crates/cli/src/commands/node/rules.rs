//! `godwit node limits`, `node limit`, `site limit`, `user limit` and `user share`: the rates of jobs, and how many run at once.
//! Enforces nothing; the node does.

use clap::ArgMatches;
use godwit_api::rest::{LimitScopeName, LimitView, NewLimit, NewShare, NewWindow};
use godwit_api::units::human_rate;
use godwit_client::{Client, ClientError, Limits};

use super::submit::{limit as parse_rate, number};
use super::when::time_zone;
use super::{optional, print_json, table, text, texts, window};
use crate::exit::{Exit, Failure};
use crate::output::{complain, print, printable};

/// Each node, owner or site.
const EACH: &str = "*";

/// Sets or removes a limit; `family` is the parent command.
pub(super) fn limit(family: &str, matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    let (scope, name) = match family {
        "site" => (LimitScopeName::Site, text(matches, "name")?),
        "user" => (LimitScopeName::Owner, text(matches, "name")?),
        _ if matches.get_flag("each-job") => (LimitScopeName::JobDefault, EACH.to_owned()),
        _ => {
            let of = optional(matches, "of")?;
            (LimitScopeName::Node, of.unwrap_or_else(|| EACH.to_owned()))
        }
    };
    let windows: Result<Vec<NewWindow>, Failure> = texts(matches, "window")?
        .iter()
        .map(|text| window::parse(text))
        .collect();
    let windows = windows?;
    let zone = optional(matches, "time-zone")?;
    let new = NewLimit {
        rate: Some(parse_rate(&text(matches, "rate")?)?).filter(|rate| *rate > 0),
        jobs_max: number(matches, "jobs")?,
        time_zone: match windows.is_empty() {
            true => zone.unwrap_or_default(),
            false => zone.or_else(time_zone).unwrap_or_default(),
        },
        windows,
    };
    if new.rate.is_none() && new.jobs_max.is_none() && new.windows.is_empty() {
        Limits::of(client).remove(scope, &name)?;
        print(&format!("{}: no limit any more", what(scope, &name)));
        return Ok(Exit::Complete);
    }
    let limit = Limits::of(client).put(scope, &name, &new)?;
    match matches.get_flag("json") {
        true => print_json(&limit),
        false => print(&format!("{}: {}", what(scope, &name), says(&limit))),
    }
    if !is_known(scope, &name, client) {
        complain(&format!(
            "the node does not know {} yet; the limit will apply once it does",
            what(scope, &name)
        ));
    }
    Ok(Exit::Complete)
}

/// Whether the target of a limit exists, as far as the node says.
fn is_known(scope: LimitScopeName, name: &str, client: &Client) -> bool {
    let named: Result<Vec<String>, ClientError> = match (scope, name) {
        (_, EACH) | (LimitScopeName::JobDefault, _) => return true,
        (LimitScopeName::Site, _) => {
            let sites = client.sites().list();
            sites.map(|sites| sites.into_iter().map(|site| site.name).collect())
        }
        (LimitScopeName::Owner, _) => {
            let users = client.users().list();
            users.map(|users| users.into_iter().map(|user| user.name).collect())
        }
        (LimitScopeName::Node, _) => {
            let cluster = client.cluster().view();
            cluster.map(|cluster| cluster.nodes.into_iter().map(|node| node.name).collect())
        }
    };
    named.map_or(true, |names| names.iter().any(|known| known == name))
}

/// Lists limits and shares.
pub(super) fn list(matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    let limits = Limits::of(client).list()?;
    let shares = Limits::of(client).shares()?;
    if matches.get_flag("json") {
        limits.iter().for_each(print_json);
        shares.iter().for_each(print_json);
        return Ok(Exit::Complete);
    }
    if limits.is_empty() && shares.is_empty() {
        print(
            "there are no limits; set them with godwit node limit, site limit, user limit and user share",
        );
        return Ok(Exit::Complete);
    }
    let of_limits = limits
        .iter()
        .map(|limit| vec![what(limit.scope, &limit.name), says(limit)]);
    let of_shares = shares.iter().map(|share| {
        vec![
            what(LimitScopeName::Owner, &share.owner),
            format!("share {}", share.weight),
        ]
    });
    let rows: Vec<Vec<String>> = of_limits.chain(of_shares).collect();
    print(&table::plain(&["OF", "LIMIT"], &rows));
    Ok(Exit::Complete)
}

/// Sets the share of a user.
pub(super) fn share(matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    let name = text(matches, "name")?;
    // clap requires the argument.
    let weight = number(matches, "weight")?.unwrap_or(1);
    let share = Limits::of(client).put_share(&name, NewShare { weight })?;
    match matches.get_flag("json") {
        true => print_json(&share),
        false => print(&format!(
            "{}: share {}; the default share is 1",
            what(LimitScopeName::Owner, &share.owner),
            share.weight
        )),
    }
    Ok(Exit::Complete)
}

fn what(scope: LimitScopeName, name: &str) -> String {
    let kind = match scope {
        LimitScopeName::Node => "node",
        LimitScopeName::Owner => "user",
        LimitScopeName::Site => "site",
        LimitScopeName::JobDefault => return "each job that has no other limit".to_owned(),
    };
    match name {
        EACH => format!("each {kind}"),
        name => format!("{kind} {}", printable(name)),
    }
}

/// The rates and the number of jobs of a limit, in one line.
fn says(limit: &LimitView) -> String {
    let mut parts: Vec<String> = limit.windows.iter().map(window::show).collect();
    if !parts.is_empty() {
        let zone = match limit.time_zone.as_str() {
            "" => "UTC",
            zone => zone,
        };
        parts.push(format!("(times in {})", printable(zone)));
    }
    let rate = limit.rate.map_or_else(|| "none".to_owned(), human_rate);
    match (parts.is_empty(), limit.rate) {
        (false, _) => parts.push(format!("otherwise {rate}")),
        (true, Some(_)) => parts.push(rate),
        (true, None) => {}
    }
    if let Some(jobs) = limit.jobs_max {
        parts.push(format!("at most {jobs} jobs at once"));
    }
    if let Some(trouble) = &limit.trouble {
        parts.push(printable(trouble));
    }
    parts.join(", ").replace(", (", " (")
}
