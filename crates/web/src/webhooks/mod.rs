//! Owns sending deliveries to webhooks, and reports to the state how each attempt ended.
//! Does not choose the receivers: the state notes the deliveries with the change that they report.

pub(crate) mod address;
pub(crate) mod message;
pub(crate) mod post;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use godwit_jobs::now;
use godwit_state::{Actor, Change, Delivery, JobState, Op, PendingDelivery, Timestamp, Webhook};
use rustls::ClientConfig;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::app::App;
use crate::problem::ApiError;
use crate::server::stopped;
use address::Network;

/// Deliveries that are sent at once.
const AT_ONCE_MAX: usize = 16;

/// Deliveries to one webhook that are sent at once, so that a slow receiver does not hold up the others.
const AT_ONCE_EACH_MAX: usize = 2;

/// Due deliveries of one webhook that are read at once: those in progress, and as many to follow them.
const DUE_EACH_MAX: usize = 2 * AT_ONCE_EACH_MAX;

/// Pause after the state could not be read or changed.
const PAUSE: Duration = Duration::from_secs(2);

/// How soon to look again while something is being sent.
const LOOK_WHILE_SENDING: Duration = Duration::from_millis(500);

/// The longest sleep, so that a clock that was set forward is noticed.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// Most bytes of the text that says how an attempt ended.
const STATUS_BYTES_MAX: usize = 500;

/// Sends webhooks.
pub(crate) struct Webhooks {
    pub(crate) app: Arc<App>,
    pub(crate) networks: Vec<Network>,
    pub(crate) tls: Arc<ClientConfig>,
}

/// The deliveries in progress, and whose turn it is.
#[derive(Default)]
struct DeliveryTurns {
    /// The webhook of each delivery in progress.
    webhooks: HashMap<u64, String>,
    /// The latest turn of each webhook with due deliveries.
    turns: HashMap<String, u64>,
    turn: u64,
}

/// How an attempt ended.
struct Ended {
    delivery: PendingDelivery,
    status: String,
    next_attempt: Option<Timestamp>,
    /// The webhook as it was, if its receiver wants no further deliveries.
    gone: Option<Webhook>,
}

impl Webhooks {
    /// Sends due deliveries until the server stops.
    pub(crate) async fn run(self, mut stopping: watch::Receiver<bool>) {
        let own = Arc::new(self);
        let mut newest = own.app.hub.newest.clone();
        let mut running: JoinSet<u64> = JoinSet::new();
        let mut sending = DeliveryTurns::default();
        loop {
            newest.mark_unchanged();
            let pause = match own.look().await {
                Ok((due, pause)) => {
                    for delivery in sending.choose(due) {
                        running.spawn(Arc::clone(&own).attempt(delivery));
                    }
                    pause
                }
                Err(()) => PAUSE,
            };
            tokio::select! {
                () = stopped(&mut stopping) => return,
                () = sleep(pause) => {}
                changed = newest.changed() => if changed.is_err() { return },
                Some(ended) = running.join_next(), if !running.is_empty() => match ended {
                    Ok(id) => drop(sending.webhooks.remove(&id)),
                    // The panic has been printed; its delivery is retried with the others.
                    Err(_panic) => sending.webhooks.clear(),
                },
            }
        }
    }

    /// Returns the due deliveries, in progress or not, and how long to wait before the next look.
    async fn look(&self) -> Result<(Vec<PendingDelivery>, Duration), ()> {
        let looked = self.app.run(|app| {
            // One node sends for the whole cluster.
            if !app.jobs.replica().is_leader() {
                return Ok((Vec::new(), PAUSE));
            }
            let (reader, now) = (app.reader(), now());
            let Some(next) = reader.deliveries().next()? else {
                return Ok((Vec::new(), SLEEP_MAX));
            };
            if next > now {
                let left = u64::try_from(next.0.saturating_sub(now.0)).unwrap_or(0);
                return Ok((Vec::new(), Duration::from_millis(left).min(SLEEP_MAX)));
            }
            // Deliveries without a place wait for the end of another, and so do deliveries that become due meanwhile.
            Ok((
                reader.deliveries().due(now, DUE_EACH_MAX)?,
                LOOK_WHILE_SENDING,
            ))
        });
        looked.await.map_err(|_error| ())
    }

    async fn attempt(self: Arc<Self>, delivery: PendingDelivery) -> u64 {
        let id = delivery.id;
        let ended = self.send(delivery).await;
        while self.report(&ended).await.is_err() {
            sleep(PAUSE).await;
        }
        id
    }

    async fn send(&self, delivery: PendingDelivery) -> Ended {
        let name = delivery.webhook.clone();
        let found = self
            .app
            .run(move |app| Ok(app.reader().object::<Webhook>(&name)?))
            .await;
        let webhook = match found {
            Ok(Some(webhook)) if !webhook.disabled => webhook,
            Ok(Some(_)) => return end(delivery, "the webhook is disabled"),
            Ok(None) => return end(delivery, "the webhook was removed"),
            Err(error) => return retry(delivery, error.code().to_string(), None),
        };
        let (id, seconds) = (message::id(&delivery), now().0.div_euclid(1_000));
        let body = self.body(&delivery).await;
        let signed = message::signature(&webhook.secret, &id, seconds, &body);
        let Some(signature) = signed else {
            return end(delivery, "the key of the webhook is invalid; set a new key");
        };
        let message = post::Message {
            id,
            seconds,
            signature,
            body,
        };
        let answer = post::post(&webhook.url, message, &self.networks, &self.tls).await;
        match answer {
            Ok(answer) if (200..300).contains(&answer.status) => {
                end(delivery, &answer.status.to_string())
            }
            Ok(answer) if answer.status == 410 => Ended {
                gone: Some(webhook),
                ..end(delivery, "410: the receiver wants no more messages")
            },
            Ok(answer) => retry(delivery, answer.status.to_string(), answer.wish),
            Err(fault) => retry(delivery, fault, None),
        }
    }

    /// The body of a delivery. That about an ended job says how much of the job waits in the transfer buffer of this node.
    async fn body(&self, delivery: &PendingDelivery) -> String {
        let (id, body) = (delivery.job.clone(), delivery.body.clone());
        let has_ended = JobState::from_name(&delivery.event).is_some_and(JobState::ended);
        if id.is_empty() || !has_ended {
            return body;
        }
        let job = self.app.run(move |app| Ok(app.jobs.job(&id)?)).await;
        match job.ok().and_then(|job| job.buffered) {
            Some(bytes) => message::with_buffered(&body, bytes).unwrap_or(body),
            None => body,
        }
    }

    /// Reports the end of an attempt to the state, and a failure to the log.
    async fn report(&self, ended: &Ended) -> Result<(), ()> {
        let op = Op::Delivery(Delivery {
            id: ended.delivery.id,
            next_attempt: ended.next_attempt,
            status: ended.status.clone(),
        });
        let gone = ended.gone.clone();
        let reported = self.app.run(move |app| {
            app.propose(Actor::node("webhooks"), op)?;
            let Some(gone) = gone else {
                return Ok(());
            };
            let row = app.reader().object::<Webhook>(&gone.id)?;
            if let Some(disabled) = without_receiver(gone, row.as_ref()) {
                app.propose(Actor::node("webhooks"), Op::Webhook(Change::Put(disabled)))?;
            }
            Ok(())
        });
        match reported.await {
            Ok(()) => {}
            Err(error) if is_final(&error) => {}
            Err(_) => return Err(()),
        }
        let arrived = ended.status.parse::<u16>().is_ok_and(|status| status < 300);
        if !arrived {
            let next = match ended.next_attempt {
                Some(next) => format!("the next attempt comes at {}", next.utc()),
                None => "there are no more attempts".to_owned(),
            };
            (self.app.log)(&format!(
                "webhook {}: job {} is {}: not delivered: {}; {next}",
                ended.delivery.webhook, ended.delivery.job, ended.delivery.event, ended.status
            ));
        }
        Ok(())
    }
}

impl DeliveryTurns {
    /// The deliveries to send now. The webhook that has waited longest has the next turn, so slow receivers do not take all places for
    /// themselves.
    fn choose(&mut self, due: Vec<PendingDelivery>) -> Vec<PendingDelivery> {
        let is_due = |id: &String| due.iter().any(|delivery| delivery.webhook == *id);
        self.turns.retain(|id, _| is_due(id));
        let mut waiting: Vec<PendingDelivery> = due
            .into_iter()
            .filter(|delivery| !self.webhooks.contains_key(&delivery.id))
            .collect();
        let mut chosen = Vec::new();
        while self.webhooks.len() < AT_ONCE_MAX {
            let busy = |id: &str| self.webhooks.values().filter(|of| *of == id).count();
            let turn = |delivery: &PendingDelivery| self.turns.get(&delivery.webhook).copied();
            // If several webhooks have waited equally long, the first delivery of the list has been due longest.
            let next = (0..waiting.len())
                .filter(|at| busy(&waiting[*at].webhook) < AT_ONCE_EACH_MAX)
                .min_by_key(|at| turn(&waiting[*at]));
            let Some(next) = next else { break };
            let delivery = waiting.remove(next);
            self.turn += 1;
            self.turns.insert(delivery.webhook.clone(), self.turn);
            self.webhooks.insert(delivery.id, delivery.webhook.clone());
            chosen.push(delivery);
        }
        chosen
    }
}

/// The disabled webhook whose receiver wants no further deliveries. None if an admin has changed or removed the webhook since: then the answer
/// is that of another receiver.
fn without_receiver(gone: Webhook, row: Option<&Webhook>) -> Option<Webhook> {
    (row == Some(&gone)).then_some(Webhook {
        disabled: true,
        ..gone
    })
}

/// Whether the report of an attempt has no use any more: the delivery made way for newer ones, or another node leads now. That node sends
/// the delivery, and the state takes reports from it alone.
fn is_final(error: &ApiError) -> bool {
    [StatusCode::NOT_FOUND, StatusCode::FORBIDDEN].contains(&error.status())
}

fn end(delivery: PendingDelivery, status: &str) -> Ended {
    Ended {
        delivery,
        status: status.to_owned(),
        next_attempt: None,
        gone: None,
    }
}

fn retry(delivery: PendingDelivery, mut status: String, wish: Option<Duration>) -> Ended {
    status.truncate(status.floor_char_boundary(STATUS_BYTES_MAX));
    let pause = message::pause(delivery.attempts + 1, wish);
    let next_attempt = pause.map(|pause| {
        let millis = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        now().after(millis)
    });
    Ended {
        next_attempt,
        status,
        delivery,
        gone: None,
    }
}

#[cfg(test)]
mod tests {
    use godwit_state::{CommandError, ProposeError, Secret};

    use super::*;

    fn due(webhook: &str, ids: std::ops::Range<u64>) -> Vec<PendingDelivery> {
        ids.map(|id| PendingDelivery {
            id,
            webhook: webhook.to_owned(),
            job: String::new(),
            event: String::new(),
            body: String::new(),
            attempts: 0,
            next_attempt: Timestamp(0),
        })
        .collect()
    }

    fn names(chosen: &[PendingDelivery]) -> Vec<&str> {
        chosen.iter().map(|one| one.webhook.as_str()).collect()
    }

    #[test]
    fn a_node_that_no_longer_leads_gives_its_reports_up() {
        let is_final = |error: ProposeError| is_final(&ApiError::from(error));
        let denied = CommandError::Denied {
            what: "only the leader may request webhook.delivery".to_owned(),
        };
        let gone = CommandError::NotFound {
            kind: "delivery".to_owned(),
            id: "1".to_owned(),
        };
        for refused in [denied, gone] {
            assert!(is_final(ProposeError::Refused(refused)));
        }
        for later in [ProposeError::Busy, ProposeError::Unknown] {
            assert!(!is_final(later));
        }
    }

    #[test]
    fn a_receiver_that_is_gone_disables_its_own_webhook_only() {
        let webhook = Webhook {
            id: "hook".to_owned(),
            url: "https://one.example.org".to_owned(),
            events: Vec::new(),
            owner: None,
            secret: Secret::new("key"),
            disabled: false,
        };
        let moved = Webhook {
            url: "https://two.example.org".to_owned(),
            ..webhook.clone()
        };
        let disabled = without_receiver(webhook.clone(), Some(&webhook));
        assert!(disabled.is_some_and(|row| row.disabled && row.url == webhook.url));
        assert_eq!(without_receiver(webhook.clone(), Some(&moved)), None);
        assert_eq!(without_receiver(webhook, None), None);
    }

    #[test]
    fn slow_receivers_leave_a_place_for_a_later_one() {
        let mut sending = DeliveryTurns::default();
        let slow: Vec<String> = (0..20).map(|n| format!("slow{n:02}")).collect();
        let of_slow = || {
            let each = slow.iter().zip((0..).step_by(100));
            let all = each.flat_map(|(name, id)| due(name, id..id + 4));
            all.collect::<Vec<_>>()
        };
        let first = sending.choose(of_slow());
        let all: Vec<&str> = slow.iter().map(String::as_str).collect();
        assert_eq!(names(&first), all[..AT_ONCE_MAX], "one of each");
        assert!(sending.choose(of_slow()).is_empty(), "no place is free");
        // One place becomes free. The webhook without a turn has it, although its delivery is the last.
        sending.webhooks.remove(&first[0].id);
        let ended = |mut due: Vec<PendingDelivery>| {
            due.retain(|one| one.id != first[0].id);
            due
        };
        let mut now = ended(of_slow());
        now.retain(|one| one.webhook.as_str() < "slow16");
        now.extend(due("good", 5_000..5_001));
        assert_eq!(names(&sending.choose(now)), ["good"]);
    }

    #[test]
    fn one_receiver_has_no_more_than_its_places() {
        let mut sending = DeliveryTurns::default();
        let chosen = sending.choose(due("slow", 0..4));
        assert_eq!(chosen.len(), AT_ONCE_EACH_MAX);
        assert!(sending.choose(due("slow", 0..4)).is_empty());
        sending.webhooks.remove(&0);
        let chosen = sending.choose(due("slow", 1..5));
        let ids: Vec<u64> = chosen.iter().map(|one| one.id).collect();
        assert_eq!(ids, [2]);
    }
}
