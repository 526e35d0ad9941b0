//! `godwit cluster`: the state of a node's cluster, and its nodes.
//! Decides nothing; the node does. `leave` and `recover` work on the home of a node that is stopped.

use std::time::Duration;

use clap::ArgMatches;
use godwit_api::rest::{AccessOrigin, AccessView, ChangeNode, ClusterNode, ClusterView, NewInvite};
use godwit_client::Client;
use godwit_cluster::{ClusterHome, NUMBER_ALONE};

use super::when::Clock;
use super::{optional, print_json, print_list, table, text, work};
use crate::exit::{Exit, Failure};
use crate::home::{Home, as_owner};
use crate::output::{complain, print, printable};

/// Runs one of the commands that ask a node.
pub(super) fn run(sub: &str, matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    let json = matches.get_flag("json");
    match sub {
        "status" => {
            let view = client.cluster().view()?;
            match json {
                true => print_json(&view),
                false => show(&view),
            }
            let of_node = |node: &ClusterNode| node.problem.is_some();
            if view.problem.is_some() || view.nodes.iter().any(of_node) {
                return Ok(Exit::Failed);
            }
        }
        "invite" => invite(matches, client, json)?,
        "invites" => list_invites(client, json)?,
        "revoke" => {
            let id = text(matches, "id")?;
            client.cluster().revoke_invite(&id)?;
            print(&format!("invitation {} revoked", printable(&id)));
        }
        "drain" => {
            let draining = !matches.get_flag("undo");
            let name = text(matches, "name")?;
            let wish = ChangeNode {
                draining: Some(draining),
                ..ChangeNode::default()
            };
            let view = client.cluster().change(&name, &wish)?;
            let what = match draining {
                true => "takes no more jobs; its running jobs move to other nodes",
                false => "takes jobs again",
            };
            show_change(json, &view, &format!("{} {what}", printable(&name)));
        }
        "promote" => {
            let name = text(matches, "name")?;
            let wish = ChangeNode {
                voter: Some(true),
                ..ChangeNode::default()
            };
            let view = client.cluster().change(&name, &wish)?;
            let what = format!(
                "{} will vote as soon as it has received the whole state",
                printable(&name)
            );
            show_change(json, &view, &what);
        }
        "remove" => {
            let name = text(matches, "name")?;
            client.cluster().remove(&name, matches.get_flag("force"))?;
            print(&format!(
                "{} is no longer a node of the cluster; to use the node again, run on its machine: godwit cluster leave",
                printable(&name)
            ));
        }
        _ => return Err(Failure::usage(format!("cluster {sub} is not a command"))),
    }
    Ok(Exit::Complete)
}

fn show_change(json: bool, view: &ClusterView, what: &str) {
    match json {
        true => print_json(view),
        false => print(what),
    }
}

fn invite(matches: &ArgMatches, client: &Client, json: bool) -> Result<(), Failure> {
    let seconds = optional(matches, "expires")?
        .map(|text| {
            godwit_api::duration::parse_duration(&text)
                .map(|length: Duration| length.as_secs())
                .map_err(|error| Failure::usage(format!("--expires {text}: {error}")))
        })
        .transpose()?;
    let invite = client.cluster().invite(&NewInvite { seconds })?;
    report_own_grants(client);
    if json {
        print_json(&invite);
        return Ok(());
    }
    // Only the token goes to standard output, so that it can be redirected into a file.
    let address = invite.addresses.first().map_or("HOST:PORT", String::as_str);
    complain(&format!(
        "this token works once, until {}; write the token to a file on the new node (chmod 600), and run there: godwit serve --join {} --token-file FILE",
        Clock::now().show(invite.expires),
        printable(address)
    ));
    print(&invite.token);
    Ok(())
}

/// Says that the grants in the node's file do not reach the node that joins.
fn report_own_grants(client: &Client) {
    // The invitation is good without them.
    let rules = client.access().list().unwrap_or_default();
    let is_own = |rule: &AccessView| rule.origin == AccessOrigin::File && !rule.expired;
    if rules.iter().any(is_own) {
        complain(
            "the grants in the file of this node apply at this node alone (godwit access list: kept in file); once the new node has joined, run godwit access allow for each of them again, and it applies at all nodes",
        );
    }
}

fn list_invites(client: &Client, json: bool) -> Result<(), Failure> {
    let invites = client.cluster().invites()?;
    let clock = Clock::now();
    let none = "there are no invitations; godwit cluster invite makes one";
    let head = ["ID", "MAKER", "CREATED", "ENDS"];
    print_list(json, &invites, none, &head, |invite| {
        let ends = match (&invite.used_by, invite.ended) {
            (_, Some(ended)) => format!("ended {}", clock.show(ended)),
            (Some(node), None) => format!("used by {}", printable(node)),
            (None, None) if clock.seconds_since(invite.expires) > 0 => {
                format!("expired {}", clock.show(invite.expires))
            }
            (None, None) if !invite.usable => "has ended".to_owned(),
            (None, None) => format!("expires {}", clock.show(invite.expires)),
        };
        vec![
            printable(&invite.id),
            printable(invite.maker.as_deref().unwrap_or("unknown")),
            invite
                .created
                .map_or_else(|| "unknown".to_owned(), |created| clock.show(created)),
            ends,
        ]
    });
    Ok(())
}

fn show(view: &ClusterView) {
    if let Some(problem) = &view.problem {
        complain(&format!(
            "reported by {}: {problem}",
            printable(&view.reported_by)
        ));
    }
    for line in work::problems(view) {
        complain(&printable(&line));
    }
    let rows: Vec<Vec<String>> = view.nodes.iter().map(|node| row(node, view)).collect();
    print(&table::plain(
        &[
            "NODE",
            "STATE",
            "ROLE",
            "JOBS",
            "EXPORTS",
            "CORES",
            "MEMORY",
            "ADDRESSES",
            "VERSION",
            "LEVEL",
        ],
        &rows,
    ));
    print(&format!("the cluster uses level {}", view.level));
}

fn row(node: &ClusterNode, view: &ClusterView) -> Vec<String> {
    let [cores, memory] = work::capacity(node);
    let name = match node.name == view.reported_by {
        true => format!("{} (asked)", node.name),
        false => node.name.clone(),
    };
    let fields = [
        name,
        work::state(node),
        work::role(node).to_owned(),
        node.running.to_string(),
        node.exports.join(", "),
        cores,
        memory,
        node.addresses.join(", "),
        node.version.clone(),
        node.level.to_string(),
    ];
    fields.iter().map(|field| printable(field)).collect()
}

/// Makes the stopped node of this home the only one of its cluster.
pub(in crate::commands) fn recover(matches: &ArgMatches, home: &Home) -> Result<Exit, Failure> {
    if !matches.get_flag("yes") {
        return Err(Failure::usage(
            "this makes the node the only one of its cluster, and changes that only other nodes have are lost; if a majority of the voters is gone for good, run: godwit cluster recover --yes",
        ));
    }
    let _owner = as_owner(home)?;
    let identity = home.identity()?.id().to_string();
    let member = ClusterHome::read(home.path()).map_err(Failure::local)?;
    let member = member.unwrap_or_else(|| ClusterHome::of_one(&identity));
    let state = home.path().join("state");
    // Refuses while a node runs, and checks the state before any change.
    let recovered =
        godwit_state::recover(&state, member.number, godwit_jobs::now()).map_err(Failure::local)?;
    let member = member.recovered();
    member.write(home.path()).map_err(Failure::local)?;
    let kept = recovered.kept.map_or(String::new(), |kept| {
        format!(" The earlier files are kept in {}.", kept.display())
    });
    print(&format!(
        "{} is now the only node of its cluster; start it with godwit serve, and make the others join again (on each: godwit cluster leave, then godwit serve --join).{kept}",
        printable(&member.name)
    ));
    Ok(Exit::Complete)
}

/// Has the stopped node of this home forget its cluster.
pub(in crate::commands) fn leave(matches: &ArgMatches, home: &Home) -> Result<Exit, Failure> {
    let _owner = as_owner(home)?;
    let member = ClusterHome::read(home.path()).map_err(Failure::local)?;
    let first = member
        .as_ref()
        .is_none_or(|member| member.number == NUMBER_ALONE);
    if first && !matches.get_flag("yes") {
        return Err(Failure::usage(
            "this node was the first of its cluster, so it may have the only copy of the state (jobs, users, rules); if another node of the cluster has the state (run godwit cluster status there), or you do not need the state, run: godwit cluster leave --yes",
        ));
    }
    let state = home.path().join("state");
    let kept = match state.exists() {
        true => godwit_state::set_aside(&state).map_err(Failure::local)?,
        false => None,
    };
    ClusterHome::remove(home.path()).map_err(Failure::local)?;
    let kept = kept.map_or(String::new(), |kept| {
        format!("; its state is kept in {}", kept.display())
    });
    print(&format!("this node belongs to no cluster now{kept}"));
    Ok(Exit::Complete)
}
