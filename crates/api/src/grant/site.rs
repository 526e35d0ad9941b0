//! Owns how users write an area at a site: `SITE`, or `SITE:/EXPORT[/PATH]`.
//! Does not know the existing sites.

use std::fmt;
use std::str::FromStr;

use super::area::unescaped;
use super::{Area, GrantError};
use crate::rest::{HERE, check_site_name};

/// An area of the exports of a site.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SiteArea {
    /// Name of the site.
    pub site: String,
    /// Area at the site.
    pub area: Area,
}

impl fmt::Display for SiteArea {
    /// `SITE:/` for all exports of the site, else `SITE:/EXPORT[/PATH]`, with `%XX` as in an [`Area`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:/", self.site)?;
        match &self.area {
            Area::All => Ok(()),
            area => f.write_str(&area.to_string().replacen(":/", "/", 1)),
        }
    }
}

impl FromStr for SiteArea {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Self, GrantError> {
        let wrong = |error: &dyn fmt::Display| GrantError(error.to_string());
        let (site, below) = match text.split_once(':') {
            None => (text, ""),
            Some((site, rest)) => {
                let below = rest.strip_prefix('/').ok_or_else(|| {
                    GrantError(format!(
                        "{text:?}: write SITE, or SITE:/EXPORT/PATH, as in siteB:/archive/run42"
                    ))
                })?;
                (site, below)
            }
        };
        check_site_name(site).map_err(|error| wrong(&error))?;
        if site == HERE {
            return Err(GrantError(format!(
                "{text:?}: {HERE} is the node itself; name its exports with --export"
            )));
        }
        let below = below.trim_end_matches('/');
        let area = match below.split_once('/') {
            None if below.is_empty() => Area::All,
            None => Area::below(below, "")?,
            Some((export, path)) => Area::below(export, &unescaped(path)?)?,
        };
        Ok(Self {
            site: site.to_owned(),
            area,
        })
    }
}
