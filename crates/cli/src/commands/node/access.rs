//! `godwit site`, `user`, `token` and `node status`: the sites, users and tokens of a node.
//! Stores nothing here.

use std::ffi::OsString;
use std::path::Path;

use clap::ArgMatches;
use godwit_api::ask::ExportRoom;
use godwit_api::rest::{
    IndependentNode, NewSite, NewToken, NewUser, NodeView, RoleName, SiteView, TokenKind,
    check_site_name,
};
use godwit_api::units::human_size;
use godwit_client::{Client, ClientError};

use super::show::Lines;
use super::when::Clock;
use super::{account, optional, print_json, print_list, text, texts};
use crate::exit::{Exit, Failure};
use crate::output::{complain, print, printable};

/// Runs one of the commands.
pub(super) fn run(
    name: &str,
    sub: &str,
    matches: &ArgMatches,
    client: &Client,
) -> Result<Exit, Failure> {
    match (name, sub) {
        ("site", "add") => add_site(matches, client)?,
        ("site", "test") => test_site(&text(matches, "name")?, client)?,
        ("site", "list") => list_sites(matches, client)?,
        ("site", "remove") => {
            let name = text(matches, "name")?;
            client.sites().remove(&name)?;
            print(&format!("site {} removed", printable(&name)));
        }
        ("user", "add") => add_user(matches, client)?,
        ("user", "list") => list_users(matches, client)?,
        ("user", "remove") => {
            let name = text(matches, "name")?;
            client.users().remove(&name)?;
            print(&format!("user {} removed", printable(&name)));
        }
        ("token", "create") => create_token(matches, client)?,
        ("token", "list") => list_tokens(matches, client)?,
        ("user", "passwd") => account::change_password(matches, client)?,
        ("token", "revoke") if matches.get_flag("others") => account::end_others(matches, client)?,
        ("token", "revoke") => {
            let id = text(matches, "id")?;
            client.tokens().revoke(&id)?;
            print(&format!("token {} revoked", printable(&id)));
        }
        ("node", "status") => {
            let node = client.node()?;
            match matches.get_flag("json") {
                true => print_json(&node),
                false => print(&status(&node, client)),
            }
        }
        _ => return Err(Failure::usage(format!("{name} {sub} is not a command"))),
    }
    Ok(Exit::Complete)
}

fn add_site(matches: &ArgMatches, client: &Client) -> Result<(), Failure> {
    let name = text(matches, "name")?;
    check_site_name(&name).map_err(Failure::usage)?;
    let (first, nodes) = nodes_of(texts(matches, "address")?, texts(matches, "identity")?)?;
    let site = NewSite {
        addresses: first.addresses,
        identity: first.identity,
        comment: optional(matches, "comment")?.unwrap_or_default(),
        nodes,
    };
    let site = client.sites().put(&name, &site)?;
    // With JSON, standard output has the document only.
    let say = match matches.get_flag("json") {
        true => complain,
        false => print,
    };
    if matches.get_flag("json") {
        print_json(&site);
    } else {
        print(&format!(
            "jobs reach {} as {}:/EXPORT/PATH",
            printable(&addresses(&site)),
            printable(&site.name)
        ));
    }
    // A site may be added before it runs.
    if let Err(failure) = test_nodes(&site, client, say) {
        complain(&failure.message);
    }
    Ok(())
}

/// The first node of a new site, and its independent nodes. With one identity all addresses lead to that node or its cluster.
fn nodes_of(
    addresses: Vec<String>,
    identities: Vec<String>,
) -> Result<(IndependentNode, Vec<IndependentNode>), Failure> {
    let nodes: Vec<IndependentNode> = match identities.as_slice() {
        [identity] => vec![IndependentNode {
            addresses,
            identity: identity.clone(),
        }],
        _ if identities.len() != addresses.len() => {
            return Err(Failure::usage(format!(
                "{} addresses and {} identities: name one identity for all, or one for each address, in the same order",
                addresses.len(),
                identities.len()
            )));
        }
        _ => {
            let pairs = addresses.into_iter().zip(identities);
            let node = |(address, identity)| IndependentNode {
                addresses: vec![address],
                identity,
            };
            pairs.map(node).collect()
        }
    };
    let mut nodes = nodes.into_iter();
    let first = nodes.next();
    let first = first.ok_or_else(|| Failure::usage("name an identity: --identity"))?;
    Ok((first, nodes.collect()))
}

/// The addresses of all nodes that the operator named.
fn addresses(site: &SiteView) -> String {
    let independent = site.nodes.iter().flat_map(|node| &node.addresses);
    let all = site.addresses.iter().chain(independent);
    all.map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// The identities of all nodes that the operator named.
fn identities(site: &SiteView) -> String {
    let independent = site.nodes.iter().map(|node| &node.identity);
    let all = std::iter::once(&site.identity).chain(independent);
    all.map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Asks each node of a site that the operator named, or this node.
fn test_site(name: &str, client: &Client) -> Result<(), Failure> {
    let mut sites = client.sites().list()?.into_iter();
    match sites.find(|site| site.name == name) {
        Some(site) => test_nodes(&site, client, print),
        None => test_whole(name, client, print),
    }
}

fn test_whole(name: &str, client: &Client, say: fn(&str)) -> Result<(), Failure> {
    let exports = client.places().space(format!("{name}:/").as_bytes());
    say(&sentence(&printable(name), exports, client)?);
    Ok(())
}

/// Asks each node that the operator named what this node may reach there. All are asked; the first failure is returned, and others are
/// printed.
fn test_nodes(site: &SiteView, client: &Client, say: fn(&str)) -> Result<(), Failure> {
    if site.nodes.is_empty() {
        return test_whole(&site.name, client, say);
    }
    let name = printable(&site.name);
    let first = (&site.addresses, &site.identity);
    let others = site
        .nodes
        .iter()
        .map(|node| (&node.addresses, &node.identity));
    let mut tested = Ok(());
    for (addresses, identity) in std::iter::once(first).chain(others) {
        let shown = format!("{name} at {}", printable(&addresses.join(", ")));
        let exports = client.places().space_at(&site.name, identity);
        match sentence(&shown, exports, client) {
            Err(failure) if tested.is_err() => complain(&failure.message),
            Err(failure) => tested = Err(failure),
            Ok(line) => say(&line),
        }
    }
    tested
}

/// The answer of a site or of one of its nodes, for people.
fn sentence(
    shown: &str,
    exports: Result<Vec<ExportRoom>, ClientError>,
    client: &Client,
) -> Result<String, Failure> {
    let exports = exports.map_err(|error| Failure {
        message: format!("testing the site {shown}: {error}"),
        ..Failure::from(error)
    })?;
    let named = |export: &ExportRoom| {
        let rights = match (export.read, export.write) {
            (true, true) => "read and write",
            (true, false) => "read",
            (false, true) => "write",
            (false, false) => "see",
        };
        format!("{} ({rights})", printable(&export.name))
    };
    let named: Vec<String> = exports.iter().map(named).collect();
    Ok(match named.is_empty() {
        false => format!("{shown} answers; you may use {}", named.join(", ")),
        true => format!(
            "{shown} answers, but you may use nothing there: an admin of that site can allow it with godwit \
             access allow {} --export EXPORT:/PATH; users who are not admins also need a rule at this node",
            client.node().map_or_else(
                |_| "THE-IDENTITY-OF-THIS-NODE".to_owned(),
                |node| node.identity
            )
        ),
    })
}

fn list_sites(matches: &ArgMatches, client: &Client) -> Result<(), Failure> {
    let sites = client.sites().list()?;
    let none = "the node knows no other site; add one with: godwit site add";
    let head = ["SITE", "ADDRESSES", "IDENTITY", "COMMENT"];
    print_list(matches.get_flag("json"), &sites, none, &head, |site| {
        [
            site.name.as_str(),
            &addresses(site),
            &identities(site),
            &site.comment,
        ]
        .map(printable)
        .to_vec()
    });
    Ok(())
}

fn add_user(matches: &ArgMatches, client: &Client) -> Result<(), Failure> {
    let name = text(matches, "name")?;
    let password = matches
        .get_one::<OsString>("password-file")
        .map(|file| account::password(Path::new(file)))
        .transpose()?;
    let user = NewUser {
        role: role(matches)?,
        password,
        disabled: matches.get_flag("disabled"),
        revoke_tokens: matches.get_flag("revoke-tokens"),
    };
    let user = client.users().put(&name, &user)?;
    if matches.get_flag("json") {
        print_json(&user);
        return Ok(());
    }
    let how = match (user.disabled, user.has_password) {
        (true, _) => "is locked out",
        (false, true) => "has a password",
        (false, false) => "has no password: log-in works with tokens, or on the node's own machine",
    };
    print(&format!(
        "{} is {} and {how}",
        printable(&user.name),
        role_word(user.role)
    ));
    Ok(())
}

fn list_users(matches: &ArgMatches, client: &Client) -> Result<(), Failure> {
    let users = client.users().list()?;
    let yes = |is: bool, word: &str| if is { word.to_owned() } else { String::new() };
    let none = "there are no users; godwit user add makes one";
    let head = ["USER", "ROLE", "PASSWORD", "DISABLED"];
    print_list(matches.get_flag("json"), &users, none, &head, |user| {
        vec![
            printable(&user.name),
            role_word(user.role).to_owned(),
            yes(user.has_password, "yes"),
            yes(user.disabled, "yes"),
        ]
    });
    Ok(())
}

fn create_token(matches: &ArgMatches, client: &Client) -> Result<(), Failure> {
    let clock = Clock::now();
    let token = NewToken {
        user: optional(matches, "user")?,
        role: role(matches)?,
        expires: optional(matches, "expires")?
            .map(|text| clock.parse_end("--expires", &text))
            .transpose()?,
        comment: optional(matches, "comment")?.unwrap_or_default(),
        password: None,
    };
    let created = client.tokens().create(&token)?;
    if matches.get_flag("json") {
        print_json(&created);
        return Ok(());
    }
    let until = match created.token.expires {
        Some(expires) => format!("until {}", clock.show(expires)),
        None => "until it is revoked".to_owned(),
    };
    // Only the secret goes to standard output, so that it can be redirected into a file.
    complain(&format!(
        "token {} of {}, {}, {until}; keep the token in a file with mode 600: it is not shown again",
        created.token.id,
        created.token.user,
        role_word(created.token.role)
    ));
    print(&created.secret);
    Ok(())
}

fn list_tokens(matches: &ArgMatches, client: &Client) -> Result<(), Failure> {
    let tokens = client.tokens().list()?;
    let clock = Clock::now();
    let none = "there are no tokens; godwit token create makes one";
    let head = [
        "ID", "USER", "KIND", "ROLE", "CREATED", "ENDS", "SECRET", "COMMENT",
    ];
    print_list(matches.get_flag("json"), &tokens, none, &head, |token| {
        let ends = match (token.revoked, token.expires) {
            (Some(revoked), _) => format!("revoked {}", clock.show(revoked)),
            (None, Some(expires)) if clock.seconds_since(expires) > 0 => {
                format!("expired {}", clock.show(expires))
            }
            _ if !token.usable => "has ended".to_owned(),
            (None, Some(expires)) => format!("expires {}", clock.show(expires)),
            (None, None) => "never".to_owned(),
        };
        vec![
            printable(&token.id),
            printable(&token.user),
            kind_word(token.kind).to_owned(),
            role_word(token.role).to_owned(),
            clock.show(token.created),
            ends,
            format!("…{}", printable(&token.last_digits)),
            printable(&token.comment),
        ]
    });
    Ok(())
}

fn status(node: &NodeView, client: &Client) -> String {
    let clock = Clock::now();
    let mut lines = Lines::default();
    lines.add("asked", &client.node_name());
    lines.add("version", &node.version);
    lines.add("identity", &node.identity);
    lines.add("started", &clock.show(node.started));
    lines.add(
        "you are",
        &format!("{}, {}", node.user, role_word(node.role)),
    );
    for export in &node.exports {
        let room = match (export.bytes_free, export.bytes_total) {
            (Some(free), Some(total)) => {
                format!(", {} of {} free", human_size(free), human_size(total))
            }
            _ => String::new(),
        };
        lines.add("export", &format!("{}{room}", export.name));
    }
    lines.0.join("\n")
}

fn role(matches: &ArgMatches) -> Result<RoleName, Failure> {
    match matches.get_one::<String>("role").map(String::as_str) {
        Some("viewer") => Ok(RoleName::Viewer),
        Some("operator") => Ok(RoleName::Operator),
        Some("admin") => Ok(RoleName::Admin),
        _ => Err(Failure::usage("--role: must be viewer, operator or admin")),
    }
}

const fn kind_word(kind: TokenKind) -> &'static str {
    match kind {
        TokenKind::Token => "token",
        TokenKind::LogIn => "log-in",
        TokenKind::Session => "session",
    }
}

const fn role_word(role: RoleName) -> &'static str {
    match role {
        RoleName::Viewer => "viewer",
        RoleName::Operator => "operator",
        RoleName::Admin => "admin",
    }
}
