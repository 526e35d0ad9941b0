//! Owns the description of a job: all options of `cp`, `sync` and `verify`, as one value that can be sent and stored.
//! Opens nothing and connects to no node. Files that a job needs from this machine are read before the description is made, or
//! passed beside it.

mod imposed;
mod size;
mod text;
mod work;

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use utoipa::ToSchema;

use crate::endpoint::{Endpoint, EndpointError};
use crate::settings::{
    AppliesTo, ConfigFile, CpSettings, ObeyedBy, SETTINGS, Scope, Setting, SettingError, Typed,
    Values, VerifySettings, resolve,
};
use godwit_model::Moment;

pub use imposed::Imposed;
pub use size::SizeInput;
pub use text::Text;
pub use work::{
    ClaimId, HELD_PARTS_MAX, HeldPart, ITEMS_MAX, Item, Member, PartDigest, Region, WorkTextError,
};

/// Version of the description that this program writes and reads.
pub const JOB_VERSION: u32 = 1;

/// Settings by their names in the settings table, as a user would type them.
pub type TypedTexts = BTreeMap<String, Vec<Text>>;

/// A job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// Always [`JOB_VERSION`].
    pub version: u32,
    /// Kind of the job.
    pub kind: JobKind,
    /// Sources; the one manifest for a verification. As texts where the description is stored or sent.
    pub sources: Vec<Endpoint>,
    /// Destination; the copy to check for a verification.
    pub destination: Endpoint,
    /// Settings by their names in the settings table, as a user would type them; a list has several values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: TypedTexts,
    /// Selected entries of the sources; default all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<Selection>,
    /// The claim of the transfer, if it is a member of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<Member>,
    /// Parts of files to send, and files to assemble, beside the selected entries. Only a member has items; with items and no list, it
    /// sends nothing else. At most [`ITEMS_MAX`]. Events refer to each item by its number here, counted from 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<Item>,
    /// Values that the running node sets over the settings.
    #[serde(skip)]
    pub imposed: Imposed,
}

/// The kind of a job.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Copies sources, as `godwit cp`.
    Copy,
    /// Makes the destination equal to the source, as `godwit sync`.
    Sync,
    /// Checks a copy against a manifest, as `godwit verify`.
    Verify,
}

/// Selected entries of the sources. Times are absolute, and rule files are resolved to rules, so no file remains to be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// The first rule that matches an entry decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// Files with fewer bytes are left out.
    #[serde(
        default,
        deserialize_with = "size::read",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<SizeInput>)]
    pub bytes_min: Option<u64>,
    /// Files with more bytes are left out.
    #[serde(
        default,
        deserialize_with = "size::read",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<SizeInput>)]
    pub bytes_max: Option<u64>,
    /// Only entries that were modified after this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newer: Option<When>,
    /// Only entries that were modified before this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older: Option<When>,
    /// Only entries that a list names. The list is passed beside the job; a request to the REST API contains the names instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(ignore)]
    pub list: Option<ListForm>,
    /// Directories in the list include all their contents.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recursive: bool,
    /// The scan of a tree stops at mount points of other file systems.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_file_system: bool,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Matching entries are included; otherwise they are excluded.
    pub include: bool,
    /// The pattern, without any sign in front.
    #[schema(value_type = String, example = "*.tmp")]
    pub pattern: Text,
}

/// A point in time, in seconds and nanoseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// Negative before 1970.
    pub seconds: i64,
    /// Nanoseconds after `seconds`, below 10⁹.
    #[serde(default)]
    pub nanoseconds: u32,
}

/// Separator of the names in a list.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListForm {
    /// One name per line.
    Lines,
    /// A zero byte after each name.
    Zeros,
}

/// Why a description is not a valid job.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum JobError {
    /// The text is not JSON, or a field is unknown, missing or of the wrong type.
    #[error("this is not a description of a job: {0}")]
    Form(String),
    /// The description has another version.
    #[error(
        "the job description has version {0}, but this program reads version {JOB_VERSION}: use the same version of godwit on both sides"
    )]
    Version(u32),
    /// No command of this kind has the setting.
    #[error(
        "godwit {command} has no setting --{name}; a job of a newer version needs a newer program"
    )]
    Unknown {
        /// The command that has the settings of this kind of job.
        command: &'static str,
        /// The setting.
        name: String,
    },
    /// The setting must not be in a description.
    #[error("--{name} {why}")]
    NotOfAJob {
        /// The setting.
        name: String,
        /// Advice on what to do instead.
        why: &'static str,
    },
    /// The value of a setting.
    #[error("{0}")]
    Setting(#[from] SettingError),
    /// A source or the destination.
    #[error("{0}")]
    Endpoint(#[from] EndpointError),
}

impl JobSpec {
    /// Reads a description.
    ///
    /// # Errors
    /// The description has another version, or an unknown part.
    pub fn from_json(json: &[u8]) -> Result<Self, JobError> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let form = |error: serde_json::Error| JobError::Form(error.to_string());
        // The version comes first: a field of a later version must not be reported as unknown.
        let Version { version } = serde_json::from_slice(json).map_err(form)?;
        if version != JOB_VERSION {
            return Err(JobError::Version(version));
        }
        serde_json::from_slice(json).map_err(form)
    }

    /// The description as JSON, in one line.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Maps have strings as keys, so nothing can fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The command with the settings of this kind of job.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        self.kind.scope()
    }

    /// The settings of a copy or synchronisation, resolved by the table, with the imposed values.
    ///
    /// # Errors
    /// A setting is unknown, does not belong in a job, or has no such value.
    pub fn copy_settings(&self) -> Result<CpSettings, JobError> {
        let mut settings = self.kind.copy_settings(&self.settings)?;
        self.imposed.on_copy(&mut settings);
        Ok(settings)
    }

    /// The settings of a verification, resolved by the table.
    ///
    /// # Errors
    /// A setting is unknown, does not belong in a job, or has no such value.
    pub fn verify_settings(&self) -> Result<VerifySettings, JobError> {
        let mut settings = self.kind.verify_settings(&self.settings)?;
        self.imposed.on_verify(&mut settings);
        Ok(settings)
    }

    /// Selects those settings of a command that belong in a description, from all given settings except defaults.
    #[must_use]
    pub fn settings_of(given: &[(&'static str, OsString)]) -> BTreeMap<String, Vec<Text>> {
        let mut settings: BTreeMap<String, Vec<Text>> = BTreeMap::new();
        for (name, text) in given {
            let setting = SETTINGS.iter().find(|setting| setting.name == *name);
            if setting.is_none_or(|setting| no_place_in_a_job(setting).is_none()) {
                let texts = settings.entry((*name).to_owned()).or_default();
                texts.push(Text::from(text.clone()));
            }
        }
        settings
    }
}

impl From<Moment> for When {
    fn from(moment: Moment) -> Self {
        Self {
            seconds: moment.seconds,
            nanoseconds: moment.nanoseconds,
        }
    }
}

impl JobKind {
    /// The kind with this name in a description.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let named = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(name);
        Self::deserialize(named).ok()
    }

    /// The command with the settings of this kind of job.
    #[must_use]
    pub const fn scope(self) -> Scope {
        match self {
            Self::Copy => Scope::Cp,
            Self::Sync => Scope::Sync,
            Self::Verify => Scope::Verify,
        }
    }

    /// Checks that a job of a node may have settings of these names.
    ///
    /// # Errors
    /// The first setting that no such job has, or that only a command accepts, with advice.
    pub fn check_settings<'a>(
        self,
        names: impl IntoIterator<Item = &'a String>,
    ) -> Result<(), JobError> {
        for name in names {
            let setting = self.setting(name)?;
            if let AppliesTo::Command(why) = setting.applies_to {
                let name = name.clone();
                return Err(JobError::NotOfAJob { name, why });
            }
        }
        Ok(())
    }

    /// The settings of a copy or synchronisation, resolved by the table.
    ///
    /// # Errors
    /// A setting is unknown, does not belong in a job, or has no such value; or the job is a verification.
    pub fn copy_settings(self, settings: &TypedTexts) -> Result<CpSettings, JobError> {
        let values = self.values(settings)?;
        match self {
            Self::Copy => Ok(CpSettings::from_values(&values)?),
            Self::Sync => Ok(CpSettings::from_sync_values(&values)?),
            Self::Verify => Err(JobError::Form("a verification copies nothing".to_owned())),
        }
    }

    /// The settings of a verification, resolved by the table.
    ///
    /// # Errors
    /// A setting is unknown, does not belong in a job, or has no such value.
    pub fn verify_settings(self, settings: &TypedTexts) -> Result<VerifySettings, JobError> {
        Ok(VerifySettings::from_values(&self.values(settings)?)?)
    }

    fn values(self, settings: &TypedTexts) -> Result<Values, JobError> {
        let mut typed = Typed::new();
        for (name, texts) in settings {
            let setting = self.setting(name)?;
            if let Some(why) = no_place_in_a_job(setting) {
                let name = name.clone();
                return Err(JobError::NotOfAJob { name, why });
            }
            typed.insert(setting.name, texts.iter().map(Text::to_os).collect());
        }
        let nothing = ConfigFile::default();
        Ok(resolve(self.scope(), &typed, &|_| None, &nothing)?)
    }

    fn setting(self, name: &str) -> Result<&'static Setting, JobError> {
        Setting::find(self.scope(), name).ok_or_else(|| JobError::Unknown {
            command: self.scope().name(),
            name: name.to_owned(),
        })
    }
}

/// Why a setting must not be in a description, of a command's transfer or of a node's job.
const fn no_place_in_a_job(setting: &Setting) -> Option<&'static str> {
    match (setting.obeyed_by, setting.applies_to) {
        (ObeyedBy::Process | ObeyedBy::Rules | ObeyedBy::ListForm, AppliesTo::Command(why)) => {
            Some(why)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
