//! Owns the meaning of a grant: the rights of a subject below a path of an export, here or at a site, until a time.
//! Keeps no grants and reads no clock.
//!
//! The file `grants` of a node's home and the access rules of its state hold grants of this one kind. Grants add up: an action is allowed
//! if any grant allows it. An expired grant allows nothing.

mod area;
pub mod lasting;
mod mandate;
mod rights;
mod site;
mod subject;

use std::fmt;

use thiserror::Error;

pub use area::{Area, PATH_BYTES_MAX};
pub use mandate::{AskerRights, JOB_ID_BYTES_MAX, Mandate, Requester, is_job_id};
pub use rights::{Right, Rights};
pub use site::SiteArea;
pub use subject::{Subject, USER_PREFIX, check_identity};

use crate::endpoint::is_memory;
use crate::rest::Timestamp;

/// Rights of a subject in an area.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Grant {
    /// Subject that gets the rights.
    pub subject: Subject,
    /// Name of the site of the area; None stands for the node itself. Only grants for users have a site, and only the state keeps them.
    pub site: Option<String>,
    /// Area of the grant.
    pub area: Area,
    /// Rights of the grant.
    pub rights: Rights,
    /// Time at which the grant ends; None if the grant has no end.
    pub expires: Option<Timestamp>,
    /// Comment of the operator.
    pub comment: String,
    /// Job of another node that the grant belongs to. The grant ends with the job, and admits only requests that name the job.
    pub mandate: Option<Mandate>,
}

/// An action to check.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Wish<'a> {
    /// Name of the export, and path below it. None means an action outside all exports; any grant of this right allows such an action.
    pub place: Option<(&'a str, &'a [u8])>,
    /// The right to check.
    pub right: Right,
}

/// Error of a text that is no grant, or no part of a grant.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{0}")]
pub struct GrantError(pub(crate) String);

impl Grant {
    /// Whether the grant has not expired.
    #[must_use]
    pub fn holds(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }

    /// Whether the grant alone allows this at the node itself, for a peer or user that acts for itself. A grant that belongs to a job
    /// allows nothing here.
    #[must_use]
    pub fn allows(&self, who: &Subject, wish: Wish<'_>, now: Timestamp) -> bool {
        self.allows_at(None, who, wish, now)
    }

    /// Whether the grant alone allows this at a site; None stands for the node itself.
    #[must_use]
    pub fn allows_at(
        &self,
        site: Option<&str>,
        who: &Subject,
        wish: Wish<'_>,
        now: Timestamp,
    ) -> bool {
        self.mandate.is_none() && self.covers(site, who, wish, now)
    }

    fn covers(&self, site: Option<&str>, who: &Subject, wish: Wish<'_>, now: Timestamp) -> bool {
        self.subject == *who
            && self.site.as_deref() == site
            && self.holds(now)
            && self.rights.allow(wish.right)
            && wish
                .place
                .is_none_or(|(export, path)| self.area.covers(export, path))
    }
}

/// Whether any of the grants allows this at the node itself.
pub fn allows<'a>(
    grants: impl IntoIterator<Item = &'a Grant>,
    who: &Subject,
    wish: Wish<'_>,
    now: Timestamp,
) -> bool {
    grants.into_iter().any(|grant| grant.allows(who, wish, now))
}

/// Whether any of the grants allows this at a site; None stands for the node itself.
pub fn allows_at<'a>(
    grants: impl IntoIterator<Item = &'a Grant>,
    site: Option<&str>,
    who: &Subject,
    wish: Wish<'_>,
    now: Timestamp,
) -> bool {
    let mut grants = grants.into_iter();
    grants.any(|grant| grant.allows_at(site, who, wish, now))
}

impl<'a> Wish<'a> {
    /// A wish for a path of an export, or for the memory of a node. Memory (`mem:`, `null:`) belongs to no export: any grant of the right
    /// allows it. Only this rule decides who may measure.
    #[must_use]
    pub fn at(export: &'a str, path: &'a [u8], right: Right) -> Self {
        Self {
            place: (!is_memory(export)).then_some((export, path)),
            right,
        }
    }
}

impl Wish<'_> {
    /// Options of `godwit access allow` that allow exactly this, quoted for a shell.
    #[must_use]
    pub fn options(&self) -> String {
        self.options_at(None)
    }

    /// Options for a wish at a site; None stands for the node itself.
    #[must_use]
    pub fn options_at(&self, site: Option<&str>) -> String {
        let flag = match self.right {
            Right::Read | Right::List => "--read",
            Right::Write | Right::Delete => "--write",
        };
        let area = self.place.map(|(export, path)| Area::asked(export, path));
        let (option, place) = match (site, area) {
            (None, Some(area)) => ("--export", area.to_string()),
            (None, None) => ("--export", "NAME".to_owned()),
            (Some(site), area) => {
                let (site, area) = (site.to_owned(), area.unwrap_or(Area::All));
                ("--site", SiteArea { site, area }.to_string())
            }
        };
        format!("{option} {} {flag}", quoted(&place))
    }
}

/// The text quoted as one word of a shell.
fn quoted(text: &str) -> String {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || "%+,-./:=@_".contains(sign);
    if text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

impl Grant {
    /// The area as users write it: an [`Area`], or a [`SiteArea`] for a grant at a site.
    #[must_use]
    pub fn place(&self) -> String {
        let area = self.area.clone();
        match self.site.clone() {
            None => area.to_string(),
            Some(site) => SiteArea { site, area }.to_string(),
        }
    }
}

impl fmt::Display for Grant {
    /// The grant on one line, without the comment: `SUBJECT AREA RIGHTS [until=TIME]`. The area of a grant at a site begins with `@`, which
    /// [`Grant::of_words`] refuses: a file of grants cannot contain it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.site.is_some() { "@" } else { "" };
        write!(f, "{} {at}{} {}", self.subject, self.place(), self.rights)?;
        match self.expires {
            Some(expires) => write!(f, " until={}", expires.rfc3339()),
            None => Ok(()),
        }
    }
}

impl Grant {
    /// Reads the words of a line that [`fmt::Display`] wrote.
    ///
    /// # Errors
    /// Says which word is wrong, and what is expected there.
    pub fn of_words(words: &[&str]) -> Result<Self, GrantError> {
        let [subject, area, rights, rest @ ..] = words else {
            return Err(GrantError(format!(
                "{} words where SUBJECT EXPORT RIGHTS [until=TIME] is expected",
                words.len()
            )));
        };
        let expires = match rest {
            [] => None,
            [word] => {
                let time = word
                    .strip_prefix("until=")
                    .ok_or_else(|| GrantError(format!("{word:?} where until=TIME is expected")))?;
                let time = time.parse();
                Some(time.map_err(|error| GrantError(format!("{word}: {error}")))?)
            }
            _ => {
                return Err(GrantError(format!(
                    "{:?} is one word too many; comments begin with #",
                    rest[1]
                )));
            }
        };
        Ok(Self {
            subject: subject.parse()?,
            site: None,
            area: area.parse()?,
            rights: rights.parse()?,
            expires,
            comment: String::new(),
            mandate: None,
        })
    }
}

#[cfg(test)]
mod tests;
