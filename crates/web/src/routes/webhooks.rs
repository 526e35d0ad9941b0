//! Owns the routes of webhooks and their deliveries.
//! Sends nothing: `webhooks` does.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use godwit_api::rest::{DeliveryView, NewWebhook, WebhookView};
use godwit_state::{
    Agreed, Change, DRAINED_EVENT, DeliveryLine, JobState, LEVEL_KEPT_KEY, Op, SITE_EVENTS, Secret,
    Webhook,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Problems;
use crate::app::App;
use crate::caller::Admin;
use crate::extract::{Body, Path};
use crate::problem::ApiError;
use crate::webhooks::{message, post};

/// Deliveries that a list shows.
const DELIVERIES_SHOWN: usize = 100;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(webhooks))
        .routes(routes!(put_webhook, remove_webhook))
        .routes(routes!(deliveries))
}

/// Lists the webhooks, without their keys.
#[utoipa::path(get, path = "/webhooks", tag = "webhooks", responses((status = 200, body = Vec<WebhookView>), Problems))]
async fn webhooks(
    Admin(_caller): Admin,
    State(app): State<Arc<App>>,
) -> Result<Json<Vec<WebhookView>>, ApiError> {
    let webhooks = app
        .run(|app| Ok(app.reader().objects::<Webhook>()?))
        .await?;
    Ok(Json(webhooks.into_iter().map(webhook_view).collect()))
}

/// Adds or replaces a webhook.
#[utoipa::path(put, path = "/webhooks/{id}", tag = "webhooks", params(("id" = String, Path)), request_body = NewWebhook, responses((status = 200, body = WebhookView), Problems))]
async fn put_webhook(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(new): Body<NewWebhook>,
) -> Result<Json<WebhookView>, ApiError> {
    post::check(&new.url).map_err(|why| ApiError::invalid(format!("url: {why}")))?;
    if new
        .secret
        .as_ref()
        .is_some_and(|key| message::key(key).is_none())
    {
        return Err(ApiError::invalid(
            "secret: write whsec_ and the base64 of 24 to 64 bytes; without a secret the node makes one",
        ));
    }
    if let Some(wrong) = new.events.iter().find(|name| {
        let mut others = [DRAINED_EVENT].into_iter().chain(SITE_EVENTS);
        JobState::from_name(name).is_none() && !others.any(|other| other == name.as_str())
    }) {
        let known = JobState::ALL.map(JobState::name).join(", ");
        return Err(ApiError::invalid(format!(
            "events: {wrong:?} is not an event; the states are: {known}; {DRAINED_EVENT} is about the transfer buffer; {} are about sites",
            SITE_EVENTS.join(" and ")
        )));
    }
    app.run(move |app| {
        let earlier = app.reader().object::<Webhook>(&id)?;
        let given = new.secret.map(Secret::new);
        let mut made = None;
        let secret = match (given, earlier) {
            (Some(secret), _) => secret,
            // The state keeps the key: another admin may have changed it since the row was read.
            (None, Some(_)) if Agreed(&app.reader()).level()? >= LEVEL_KEPT_KEY => Secret::new(""),
            (None, Some(earlier)) => earlier.secret,
            (None, None) => {
                let key = message::make_key()
                    .map_err(|error| ApiError::internal(format!("no random numbers: {error}")))?;
                Secret::new(made.insert(key).as_str())
            }
        };
        let webhook = Webhook {
            id,
            url: new.url,
            events: new.events,
            owner: new.owner,
            secret,
            disabled: new.disabled,
        };
        let change = match made {
            // A new key does not replace that of a webhook which this node does not know yet.
            Some(_) => Change::Create(webhook.clone()),
            None => Change::Put(webhook.clone()),
        };
        app.propose(caller.actor(), Op::Webhook(change))?;
        Ok(WebhookView {
            secret: made,
            ..webhook_view(webhook)
        })
    })
    .await
    .map(Json)
}

/// Lists the latest deliveries to a webhook, the newest first.
#[utoipa::path(get, path = "/webhooks/{id}/deliveries", tag = "webhooks", params(("id" = String, Path)), responses((status = 200, body = Vec<DeliveryView>), Problems))]
async fn deliveries(
    Admin(_caller): Admin,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Json<Vec<DeliveryView>>, ApiError> {
    app.run(move |app| {
        if app.reader().object::<Webhook>(&id)?.is_none() {
            return Err(ApiError::not_found(format!("there is no webhook {id}")));
        }
        let lines = app.reader().deliveries().to(&id, DELIVERIES_SHOWN)?;
        Ok(lines.into_iter().map(delivery_view).collect())
    })
    .await
    .map(Json)
}

fn delivery_view(line: DeliveryLine) -> DeliveryView {
    DeliveryView {
        id: line.id,
        job: line.job,
        event: line.event,
        at: line.at,
        attempts: line.attempts,
        next_attempt: line.next_attempt,
        status: line.status,
    }
}

/// Removes a webhook.
#[utoipa::path(delete, path = "/webhooks/{id}", tag = "webhooks", params(("id" = String, Path)), responses((status = 204), Problems))]
async fn remove_webhook(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    app.run(move |app| app.propose(caller.actor(), Op::Webhook(Change::Remove(id))))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

fn webhook_view(webhook: Webhook) -> WebhookView {
    WebhookView {
        id: webhook.id,
        url: webhook.url,
        events: webhook.events,
        owner: webhook.owner,
        disabled: webhook.disabled,
        secret: None,
    }
}
