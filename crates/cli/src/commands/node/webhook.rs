//! `godwit webhook`: addresses to which a node reports the progress of jobs.
//! Sends nothing itself.

use std::ffi::OsString;
use std::path::Path;

use clap::ArgMatches;
use godwit_api::rest::{NewWebhook, WebhookView};
use godwit_client::{Client, Webhooks};

use super::when::Clock;
use super::{account, optional, print_json, print_list, text, texts};
use crate::exit::{Exit, Failure};
use crate::output::{complain, print, printable};

/// Runs one of the commands.
pub(super) fn run(sub: &str, matches: &ArgMatches, client: &Client) -> Result<Exit, Failure> {
    let json = matches.get_flag("json");
    match sub {
        "add" => add(matches, client)?,
        "list" => list(json, client)?,
        "deliveries" => deliveries(&text(matches, "id")?, json, client)?,
        "disable" | "enable" => {
            let webhook = switch(&text(matches, "id")?, sub == "disable", client)?;
            match json {
                true => print_json(&webhook),
                false => print(&description(&webhook)),
            }
        }
        _ => {
            let id = text(matches, "id")?;
            Webhooks::of(client).remove(&id)?;
            print(&format!("webhook {} removed", printable(&id)));
        }
    }
    Ok(Exit::Complete)
}

fn add(matches: &ArgMatches, client: &Client) -> Result<(), Failure> {
    let words = texts(matches, "event")?;
    let events = words.iter().flat_map(|word| word.split(','));
    let secret = matches.get_one::<OsString>("secret-file");
    let webhook = NewWebhook {
        url: text(matches, "url")?,
        events: events.map(|event| event.trim().to_owned()).collect(),
        owner: optional(matches, "owner")?,
        secret: secret
            .map(|file| account::password(Path::new(file)))
            .transpose()?,
        disabled: matches.get_flag("disabled"),
    };
    let made = Webhooks::of(client).put(&text(matches, "id")?, &webhook)?;
    if matches.get_flag("json") {
        print_json(&made);
        return Ok(());
    }
    let says = description(&made);
    complain(&match &made.secret {
        Some(_) => {
            format!("{says}; the messages are signed with this key, which is not shown again")
        }
        None => says,
    });
    // Only the key goes to standard output, so that it can be redirected into a file.
    if let Some(secret) = &made.secret {
        print(secret);
    }
    Ok(())
}

/// Disables or enables a webhook, and changes nothing else: the node keeps its key.
fn switch(id: &str, disabled: bool, client: &Client) -> Result<WebhookView, Failure> {
    let found = Webhooks::of(client).list()?;
    let found = found.into_iter().find(|webhook| webhook.id == id);
    let found = found.ok_or_else(|| {
        Failure::usage(format!(
            "there is no webhook {}; list the webhooks with: godwit webhook list",
            printable(id)
        ))
    })?;
    let webhook = NewWebhook {
        url: found.url,
        events: found.events,
        owner: found.owner,
        secret: None,
        disabled,
    };
    Ok(Webhooks::of(client).put(id, &webhook)?)
}

fn description(webhook: &WebhookView) -> String {
    let url = printable(&webhook.url);
    match webhook.disabled {
        true => format!(
            "the webhook {} is disabled and sends nothing to {url}",
            printable(&webhook.id)
        ),
        false => format!("job events are sent to {url}"),
    }
}

fn list(json: bool, client: &Client) -> Result<(), Failure> {
    let webhooks = Webhooks::of(client).list()?;
    let none = "there are no webhooks; godwit webhook add makes one";
    let head = ["NAME", "EVENTS", "OWNER", "DISABLED", "URL"];
    print_list(json, &webhooks, none, &head, |webhook| {
        let events = match webhook.events.is_empty() {
            true => "all".to_owned(),
            false => webhook.events.join(","),
        };
        let disabled = if webhook.disabled { "yes" } else { "" };
        vec![
            printable(&webhook.id),
            printable(&events),
            webhook.owner.as_deref().map_or_else(String::new, printable),
            disabled.to_owned(),
            printable(&webhook.url),
        ]
    });
    Ok(())
}

fn deliveries(id: &str, json: bool, client: &Client) -> Result<(), Failure> {
    let deliveries = Webhooks::of(client).deliveries(id)?;
    let clock = Clock::now();
    let none = "no messages were sent recently";
    let head = ["AT", "JOB", "EVENT", "ATTEMPTS", "ANSWER", "NEXT ATTEMPT"];
    print_list(json, &deliveries, none, &head, |delivery| {
        let next = delivery.next_attempt;
        vec![
            clock.show(delivery.at),
            printable(&delivery.job),
            printable(&delivery.event),
            delivery.attempts.to_string(),
            printable(&delivery.status),
            next.map_or_else(String::new, |next| clock.show(next)),
        ]
    });
    Ok(())
}
