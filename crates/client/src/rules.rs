//! The calls about limits, shares, schedules and flows of jobs, and about webhooks that report jobs.
//! Decides nothing: the node interprets the rules.

use godwit_api::rest::{
    DeliveryView, FlowView, LimitScopeName, LimitView, NewFlow, NewLimit, NewSchedule, NewShare,
    NewWebhook, ScheduleView, ShareView, WebhookView,
};
use hyper::Method;

use crate::calls::escaped;
use crate::error::ClientError;
use crate::transport::Client;

/// The calls about limits and shares.
#[derive(Clone, Copy)]
pub struct Limits<'a>(&'a Client);

/// The calls about schedules.
#[derive(Clone, Copy)]
pub struct Schedules<'a>(&'a Client);

/// The calls about flows.
#[derive(Clone, Copy)]
pub struct Flows<'a>(&'a Client);

/// The calls about webhooks.
#[derive(Clone, Copy)]
pub struct Webhooks<'a>(&'a Client);

impl<'a> Limits<'a> {
    /// The calls about limits and shares, for a client.
    #[must_use]
    pub const fn of(client: &'a Client) -> Self {
        Self(client)
    }
}

impl<'a> Schedules<'a> {
    /// The calls about schedules, for a client.
    #[must_use]
    pub const fn of(client: &'a Client) -> Self {
        Self(client)
    }
}

impl<'a> Flows<'a> {
    /// The calls about flows, for a client.
    #[must_use]
    pub const fn of(client: &'a Client) -> Self {
        Self(client)
    }
}

impl<'a> Webhooks<'a> {
    /// The calls about webhooks, for a client.
    #[must_use]
    pub const fn of(client: &'a Client) -> Self {
        Self(client)
    }
}

impl Limits<'_> {
    /// All limits.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses.
    pub fn list(&self) -> Result<Vec<LimitView>, ClientError> {
        self.0.get("/limits")
    }

    /// Adds or replaces a limit. The name `*` stands for every node, owner or site.
    ///
    /// # Errors
    /// As [`Limits::list`].
    pub fn put(
        &self,
        scope: LimitScopeName,
        name: &str,
        limit: &NewLimit,
    ) -> Result<LimitView, ClientError> {
        self.0.with(Method::PUT, &path(scope, name), limit)
    }

    /// Removes a limit.
    ///
    /// # Errors
    /// As [`Limits::list`]; also if the limit does not exist.
    pub fn remove(&self, scope: LimitScopeName, name: &str) -> Result<(), ClientError> {
        self.0.delete(&path(scope, name))
    }

    /// The shares of all owners that have one.
    ///
    /// # Errors
    /// As [`Limits::list`].
    pub fn shares(&self) -> Result<Vec<ShareView>, ClientError> {
        self.0.get("/shares")
    }

    /// Adds or replaces the share of an owner.
    ///
    /// # Errors
    /// As [`Limits::list`].
    pub fn put_share(&self, owner: &str, share: NewShare) -> Result<ShareView, ClientError> {
        let path = format!("/shares/{}", escaped(owner));
        self.0.with(Method::PUT, &path, &share)
    }

    /// Removes the share of an owner, whose weight is then 1.
    ///
    /// # Errors
    /// As [`Limits::remove`].
    pub fn remove_share(&self, owner: &str) -> Result<(), ClientError> {
        self.0.delete(&format!("/shares/{}", escaped(owner)))
    }
}

fn path(scope: LimitScopeName, name: &str) -> String {
    format!("/limits/{}/{}", scope.word(), escaped(name))
}

impl Schedules<'_> {
    /// All schedules.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses.
    pub fn list(&self) -> Result<Vec<ScheduleView>, ClientError> {
        self.0.get("/schedules")
    }

    /// Adds or replaces a schedule.
    ///
    /// # Errors
    /// As [`Schedules::list`].
    pub fn put(&self, id: &str, schedule: &NewSchedule) -> Result<ScheduleView, ClientError> {
        let path = format!("/schedules/{}", escaped(id));
        self.0.with(Method::PUT, &path, schedule)
    }

    /// Removes a schedule; its jobs remain.
    ///
    /// # Errors
    /// As [`Schedules::list`]; also if the schedule does not exist.
    pub fn remove(&self, id: &str) -> Result<(), ClientError> {
        self.0.delete(&format!("/schedules/{}", escaped(id)))
    }
}

impl Flows<'_> {
    /// All flows, with what their hops are like now.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses.
    pub fn list(&self) -> Result<Vec<FlowView>, ClientError> {
        self.0.get("/flows")
    }

    /// Adds or replaces a flow.
    ///
    /// # Errors
    /// As [`Flows::list`].
    pub fn put(&self, id: &str, flow: &NewFlow) -> Result<FlowView, ClientError> {
        let path = format!("/flows/{}", escaped(id));
        self.0.with(Method::PUT, &path, flow)
    }

    /// Removes a flow; its jobs remain.
    ///
    /// # Errors
    /// As [`Flows::list`]; also if the flow does not exist.
    pub fn remove(&self, id: &str) -> Result<(), ClientError> {
        self.0.delete(&format!("/flows/{}", escaped(id)))
    }
}

impl Webhooks<'_> {
    /// All webhooks, without their secrets.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses.
    pub fn list(&self) -> Result<Vec<WebhookView>, ClientError> {
        self.0.get("/webhooks")
    }

    /// Adds or replaces a webhook.
    ///
    /// # Errors
    /// As [`Webhooks::list`].
    pub fn put(&self, id: &str, webhook: &NewWebhook) -> Result<WebhookView, ClientError> {
        let path = format!("/webhooks/{}", escaped(id));
        self.0.with(Method::PUT, &path, webhook)
    }

    /// Removes a webhook.
    ///
    /// # Errors
    /// As [`Webhooks::list`]; also if the webhook does not exist.
    pub fn remove(&self, id: &str) -> Result<(), ClientError> {
        self.0.delete(&format!("/webhooks/{}", escaped(id)))
    }

    /// The recent deliveries to a webhook, and their results.
    ///
    /// # Errors
    /// As [`Webhooks::remove`].
    pub fn deliveries(&self, id: &str) -> Result<Vec<DeliveryView>, ClientError> {
        self.0.get(&format!("/webhooks/{}/deliveries", escaped(id)))
    }
}
