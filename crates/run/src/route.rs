//! Decides which endpoints can be the sources and the destination of one transfer. Uses names only, never files.

use godwit_api::endpoint::{Endpoint, NodePlace};
use godwit_api::host::HostPort;
use godwit_api::login::Login;

/// Checks that one transfer can connect these endpoints; the error is the reason why not.
pub(crate) fn check(sources: &[Endpoint], destination: &Endpoint) -> Result<(), String> {
    if let Some(source) = sources.iter().find(|source| is_null(source)) {
        return Err(format!(
            "{source} holds no data: it can only be a destination"
        ));
    }
    if is_memory(destination) {
        return Err(format!(
            "{destination} can only be a source; null: discards all data that it receives"
        ));
    }
    if let Some(memory) = sources.iter().find(|source| is_memory(source))
        && sources.len() > 1
    {
        return Err(format!("{memory} must be the only source"));
    }
    if sources.contains(&Endpoint::Stdio) && sources.len() > 1 {
        return Err("- (standard input) must be the only source".to_owned());
    }
    if *destination == Endpoint::Stdio && (sources.len() > 1 || sources.contains(destination)) {
        return Err(
            "- (standard output) takes one file, and standard input is not allowed as its source"
                .to_owned(),
        );
    }
    let mut machines = sources.iter().map(machine);
    let first = machines.next().unwrap_or(Machine::This);
    if machines.any(|machine| machine != first) {
        return Err(
            "all sources must be on one machine: copy from each machine in turn".to_owned(),
        );
    }
    match (first, machine(destination)) {
        // Data is sent directly between two machines that ssh reaches. A node accepts requests only from its client.
        (Machine::This, _) | (_, Machine::This) | (Machine::Ssh(_), Machine::Ssh(_)) => Ok(()),
        (Machine::Ssh(login), _) => Err(not_lent(sources, destination, login)),
        (_, Machine::Ssh(login)) => Err(not_lent(sources, destination, login)),
        _ => Err(format!(
            "{destination}: godwit cp cannot copy between two nodes: run it on the machine of one node, as a user whom the other node allows (godwit access allow, there), or {}",
            through_here(sources, destination)
        )),
    }
}

/// The message about a node and a machine that ssh reaches. A node admits identities. The user of godwit on that machine may have
/// an identity, but this process does not lend its own to that machine.
fn not_lent(sources: &[Endpoint], destination: &Endpoint, login: &Login) -> String {
    let there = |endpoint: &Endpoint| match endpoint {
        Endpoint::Ssh(place) => String::from_utf8_lossy(&place.path).into_owned(),
        other => other.to_string(),
    };
    let words: Vec<String> = sources.iter().chain([destination]).map(there).collect();
    format!(
        "{destination}: a copy between a node and another machine cannot be started from here, because the node would not know the user; run it on that machine, as a user whom the node allows: ssh {login} godwit cp {}; or {}",
        words.join(" "),
        through_here(sources, destination)
    )
}

fn through_here(sources: &[Endpoint], destination: &Endpoint) -> String {
    let words: Vec<String> = sources.iter().map(ToString::to_string).collect();
    format!(
        "copy through this machine: godwit cp {} DIR/, then godwit cp DIR/NAME {destination}",
        words.join(" ")
    )
}

/// The machine of an endpoint.
#[derive(Eq, PartialEq)]
enum Machine<'a> {
    This,
    Node(&'a HostPort),
    Ssh(&'a Login),
}

fn machine(endpoint: &Endpoint) -> Machine<'_> {
    match endpoint {
        Endpoint::Remote(remote) => Machine::Node(&remote.node),
        Endpoint::Ssh(place) => Machine::Ssh(&place.login),
        Endpoint::Local(_) | Endpoint::Memory { .. } | Endpoint::Null | Endpoint::Stdio => {
            Machine::This
        }
    }
}

fn is_memory(endpoint: &Endpoint) -> bool {
    match endpoint {
        Endpoint::Memory { .. } => true,
        Endpoint::Remote(remote) => matches!(remote.place, NodePlace::Memory { .. }),
        _ => false,
    }
}

fn is_null(endpoint: &Endpoint) -> bool {
    match endpoint {
        Endpoint::Null => true,
        Endpoint::Remote(remote) => remote.place == NodePlace::Null,
        Endpoint::Local(_) | Endpoint::Memory { .. } | Endpoint::Stdio | Endpoint::Ssh(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(line: &str) -> Result<(), String> {
        let mut endpoints: Vec<Endpoint> = line
            .split(' ')
            .map(|text| Endpoint::parse(text.as_ref()).expect("an endpoint"))
            .collect();
        let destination = endpoints.pop().expect("a destination");
        check(&endpoints, &destination)
    }

    #[test]
    fn valid_pairs_of_ends_are_accepted() {
        for line in [
            "a godwit://h/d/",
            "a b godwit://h/d/",
            "godwit://h/d/x godwit://H:7272/e ./",
            "mem:1GiB godwit://h/null:",
            "godwit://h/mem:1GiB null:",
            "a null:",
            "a b h:c",
            "u@h:a u@h:b .",
            "h:a u@h:b",
            "mem:1 h:f",
            "mem:1 ./f",
            "a b",
            "- a",
            "- godwit://h/d/x",
            "a -",
            "godwit://h/d/x -",
            "mem:1 -",
        ] {
            assert_eq!(route(line), Ok(()), "{line}");
        }
    }

    #[test]
    fn invalid_pairs_of_ends_are_refused_with_their_reason() {
        for (line, reason) in [
            ("null: a", "can only be a destination"),
            ("godwit://h/null: a", "can only be a destination"),
            ("a mem:1", "can only be a source"),
            ("a godwit://h/mem:1", "can only be a source"),
            ("a mem:1 b", "must be the only source"),
            ("- a b", "must be the only source"),
            ("a b -", "takes one file"),
            ("- -", "takes one file"),
            ("godwit://g/d godwit://h/d .", "on one machine"),
            ("godwit://g/d b .", "on one machine"),
            ("b godwit://g/d .", "on one machine"),
            ("h:a u@h:b .", "on one machine"),
            ("h:a b .", "on one machine"),
            (
                "u@h:a godwit://g/d",
                "ssh u@h godwit cp a godwit://g:7272/d; or copy through this machine: godwit cp u@h:a DIR/",
            ),
            (
                "godwit://g/d/x h:a",
                "ssh h godwit cp godwit://g:7272/d/x a; or copy through this machine: godwit cp godwit://g:7272/d/x DIR/",
            ),
            (
                "godwit://g/d godwit://h/d",
                "on the machine of one node, as a user whom the other node allows",
            ),
        ] {
            let message = route(line).expect_err(line);
            assert!(message.contains(reason), "{line}: {message}");
        }
    }
}
