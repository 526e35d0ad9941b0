//! Owns the ids of the named objects, and the checks of their fields. Does not compare objects;
//! `apply` does.

use std::collections::BTreeSet;

use super::{
    AccessRule, Limit, LimitScope, Object, Schedule, Setting, Share, Site, SiteNode, Token, User,
    Webhook,
};
use crate::bounds::{self, text};
use crate::model::{CommandError, Secret, TARGETS_MAX};

impl Object for Site {
    const KIND: &'static str = "site";
    fn id(&self) -> String {
        self.name.clone()
    }
    fn lookup(&self) -> Option<String> {
        Some(self.identity.clone())
    }
    fn check(&self) -> Result<(), CommandError> {
        bounds::name("name", &self.name)?;
        bounds::name("identity", &self.identity)?;
        bounds::count("addresses", self.addresses.len(), bounds::LIST_MAX)?;
        for address in &self.addresses {
            bounds::name("addresses", address)?;
        }
        bounds::count("nodes", self.nodes.len(), TARGETS_MAX)?;
        for SiteNode { peer, .. } in &self.nodes {
            bounds::name("name", &peer.name)?;
            bounds::name("identity", &peer.identity)?;
            bounds::count("addresses", peer.addresses.len(), bounds::LIST_MAX)?;
            for address in &peer.addresses {
                bounds::name("addresses", address)?;
            }
        }
        let mut identities = BTreeSet::from([&self.identity]);
        if !self
            .independent()
            .all(|node| identities.insert(&node.peer.identity))
        {
            let what =
                "two independent nodes of a site have one identity; name the identity of each node";
            return Err(CommandError::invalid("nodes", what));
        }
        text("comment", &self.comment)
    }
}

impl Object for Schedule {
    const KIND: &'static str = "schedule";
    fn id(&self) -> String {
        self.id.clone()
    }
    fn check(&self) -> Result<(), CommandError> {
        bounds::name("id", &self.id)?;
        bounds::name("cron", &self.cron)?;
        bounds::name("time_zone", &self.time_zone)?;
        bounds::name("owner", &self.owner)?;
        bounds::spec("template", &self.template)?;
        text("comment", &self.comment)
    }
}

impl Object for User {
    const KIND: &'static str = "user";
    fn id(&self) -> String {
        self.name.clone()
    }
    fn check(&self) -> Result<(), CommandError> {
        bounds::name("name", &self.name)?;
        text(
            "password",
            self.password.as_ref().map_or("", Secret::expose),
        )
    }
}

impl Object for Token {
    const KIND: &'static str = "token";
    fn id(&self) -> String {
        self.id.clone()
    }
    fn lookup(&self) -> Option<String> {
        Some(self.hash.expose().to_owned())
    }
    fn check(&self) -> Result<(), CommandError> {
        bounds::name("id", &self.id)?;
        bounds::name("user", &self.user)?;
        bounds::name("hash", self.hash.expose())?;
        text("scope", &self.scope)?;
        text("last_digits", &self.last_digits)?;
        text("comment", &self.comment)
    }
}

impl Object for AccessRule {
    const KIND: &'static str = "access";
    fn id(&self) -> String {
        self.id.clone()
    }
    fn lookup(&self) -> Option<String> {
        Some(self.subject.clone())
    }
    fn check(&self) -> Result<(), CommandError> {
        bounds::name("id", &self.id)?;
        bounds::name("subject", &self.subject)?;
        if let Some(site) = &self.site {
            bounds::name("site", &site.name)?;
            bounds::name("identity", &site.identity)?;
            if !self.subject.starts_with("user:") {
                let what = "a rule at a site must be for a user";
                return Err(CommandError::invalid("subject", what));
            }
        }
        bounds::name("export", &self.export)?;
        if let Some(job) = &self.job {
            bounds::name("job", job)?;
        }
        bounds::count("rights", self.rights.len(), bounds::LIST_MAX)?;
        if self.rights.is_empty() {
            return Err(CommandError::invalid(
                "rights",
                "a rule must allow something",
            ));
        }
        text("path", &self.path)?;
        text("comment", &self.comment)
    }
}

impl Object for Limit {
    const KIND: &'static str = "limit";
    fn id(&self) -> String {
        let scope = match self.scope {
            LimitScope::Node => "node",
            LimitScope::Owner => "owner",
            LimitScope::Site => "site",
            LimitScope::JobDefault => "job_default",
        };
        format!("{scope}/{}", self.name)
    }
    fn check(&self) -> Result<(), CommandError> {
        bounds::name("name", &self.name)?;
        text("time_zone", &self.time_zone)?;
        bounds::count("windows", self.windows.len(), bounds::LIST_MAX)?;
        for window in &self.windows {
            let minutes = window.from < 1_440 && window.to <= 1_440;
            if !minutes || window.days.len() > 7 || window.days.iter().any(|day| *day > 6) {
                let what = "days must be 0 to 6, minutes 0 to 1440";
                return Err(CommandError::invalid("windows", what));
            }
        }
        Ok(())
    }
}

impl Object for Share {
    const KIND: &'static str = "share";
    fn id(&self) -> String {
        self.owner.clone()
    }
    fn check(&self) -> Result<(), CommandError> {
        bounds::name("owner", &self.owner)?;
        if self.weight == 0 {
            return Err(CommandError::invalid(
                "weight",
                "a share must be at least 1",
            ));
        }
        Ok(())
    }
}

impl Object for Webhook {
    const KIND: &'static str = "webhook";
    const COUNT_MAX: u64 = bounds::WEBHOOKS_MAX;
    fn id(&self) -> String {
        self.id.clone()
    }
    fn check(&self) -> Result<(), CommandError> {
        bounds::name("id", &self.id)?;
        text("url", &self.url)?;
        text("secret", self.secret.expose())?;
        bounds::count("events", self.events.len(), bounds::LIST_MAX)?;
        self.events
            .iter()
            .try_for_each(|event| bounds::name("events", event))
    }
}

impl Object for Setting {
    const KIND: &'static str = "setting";
    fn id(&self) -> String {
        self.name.clone()
    }
    fn check(&self) -> Result<(), CommandError> {
        bounds::name("name", &self.name)?;
        text("value", &self.value)
    }
}
