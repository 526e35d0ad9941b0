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
use godwit_state::{Actor, Change, Delivery, Op, PendingDelivery, Timestamp, Webhook};
use rustls::ClientConfig;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::app::App;
use crate::server::stopped;
use address::Network;

/// Deliveries that are sent at once.
const AT_ONCE_MAX: usize = 16;

/// Deliveries to one webhook that are sent at once, so that a slow receiver does not hold up the others.
const AT_ONCE_EACH_MAX: usize = 2;

/// Due deliveries that are read at once.
const DUE_MAX: usize = 1_000;

/// Pause after the state could not be read or changed.
const PAUSE: Duration = Duration::from_secs(2);

/// How soon to look again while something is being sent.
const LOOK_WHILE_SENDING: Duration = Duration::from_millis(500);

/// The longest sleep, so that a clock that was set forward is noticed.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// The longest text of how an attempt ended.
const STATUS_BYTES_MAX: usize = 500;

/// Sends webhooks.
pub(crate) struct Webhooks {
    pub(crate) app: Arc<App>,
    pub(crate) networks: Vec<Network>,
    pub(crate) tls: Arc<ClientConfig>,
}

/// How an attempt ended.
struct Ended {
    delivery: PendingDelivery,
    status: String,
    next_attempt: Option<Timestamp>,
    /// The receiver wants no further deliveries.
    gone: bool,
}

impl Webhooks {
    /// Sends due deliveries until the server stops.
    pub(crate) async fn run(self, mut stopping: watch::Receiver<bool>) {
        let own = Arc::new(self);
        let mut newest = own.app.hub.newest.clone();
        let mut running: JoinSet<u64> = JoinSet::new();
        let mut sending: HashMap<u64, String> = HashMap::new();
        loop {
            newest.mark_unchanged();
            let pause = match own.look().await {
                Ok((due, pause)) => {
                    for delivery in due {
                        let each = sending.values().filter(|id| **id == delivery.webhook);
                        let busy = sending.len() >= AT_ONCE_MAX
                            || sending.contains_key(&delivery.id)
                            || each.count() >= AT_ONCE_EACH_MAX;
                        if !busy {
                            sending.insert(delivery.id, delivery.webhook.clone());
                            running.spawn(Arc::clone(&own).attempt(delivery));
                        }
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
                    Ok(id) => drop(sending.remove(&id)),
                    // The panic has been printed; its delivery is retried with the others.
                    Err(_panic) => sending.clear(),
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
            Ok((reader.deliveries().due(now, DUE_MAX)?, LOOK_WHILE_SENDING))
        });
        looked.await.map_err(|_error| ())
    }

    async fn attempt(self: Arc<Self>, delivery: PendingDelivery) -> u64 {
        let id = delivery.id;
        let ended = self.send(delivery).await;
        while self.tell(&ended).await.is_err() {
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
        let signed = message::signature(&webhook.secret, &id, seconds, &delivery.body);
        let Some(signature) = signed else {
            return end(delivery, "the key of the webhook is invalid; set a new key");
        };
        let message = post::Message {
            id,
            seconds,
            signature,
            body: delivery.body.clone(),
        };
        match post::post(&webhook.url, message, &self.networks, &self.tls).await {
            Ok(answer) if (200..300).contains(&answer.status) => {
                end(delivery, &answer.status.to_string())
            }
            Ok(answer) if answer.status == 410 => Ended {
                gone: true,
                ..end(delivery, "410: the receiver wants no more messages")
            },
            Ok(answer) => retry(delivery, answer.status.to_string(), answer.wish),
            Err(fault) => retry(delivery, fault, None),
        }
    }

    /// Reports the end of an attempt to the state, and a failure to the log.
    async fn tell(&self, ended: &Ended) -> Result<(), ()> {
        let op = Op::Delivery(Delivery {
            id: ended.delivery.id,
            next_attempt: ended.next_attempt,
            status: ended.status.clone(),
        });
        let (webhook, gone) = (ended.delivery.webhook.clone(), ended.gone);
        let told = self.app.run(move |app| {
            app.propose(Actor::node("webhooks"), op)?;
            if gone && let Some(webhook) = app.reader().object::<Webhook>(&webhook)? {
                let disabled = Webhook {
                    disabled: true,
                    ..webhook
                };
                app.propose(Actor::node("webhooks"), Op::Webhook(Change::Put(disabled)))?;
            }
            Ok(())
        });
        match told.await {
            Ok(()) => {}
            // The delivery made way for newer ones.
            Err(error) if error.status() == StatusCode::NOT_FOUND => {}
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

fn end(delivery: PendingDelivery, status: &str) -> Ended {
    Ended {
        delivery,
        status: status.to_owned(),
        next_attempt: None,
        gone: false,
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
        gone: false,
    }
}
