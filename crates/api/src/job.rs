//! The description of a job: everything that `cp`, `sync` and `verify` can ask for, as one value that can be sent and stored.
//! Opens nothing and dials nobody; what a job reads from its own machine is read before it is described, or given beside it.

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
    ConfigFile, CpSettings, GivenIn, ObeyedBy, SETTINGS, Scope, Setting, SettingError, Typed,
    Values, VerifySettings, resolve,
};
use godwit_model::Moment;

pub use size::SizeInput;
pub use text::Text;
pub use work::{
    ClaimId, HELD_PARTS_MAX, HeldPart, ITEMS_MAX, Item, Member, PartDigest, WorkTextError,
};

/// The version of the description that this program writes and reads.
pub const JOB_VERSION: u32 = 1;

/// Settings by their names in the settings table, as a user would type them.
pub type TypedTexts = BTreeMap<String, Vec<Text>>;

/// A job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// Always [`JOB_VERSION`].
    pub version: u32,
    /// What is to be done.
    pub kind: JobKind,
    /// The sources as endpoints; of a verification, the one manifest.
    pub sources: Vec<Text>,
    /// The destination as an endpoint; of a verification, the copy that is checked.
    pub destination: Text,
    /// Settings by their names in the settings table, as a user would type them; a list has several values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: TypedTexts,
    /// Which entries of the sources are meant; all of them if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<Selection>,
    /// What makes the transfer a member of a claim, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<Member>,
    /// Parts of files to send, and files to put together, beside what the selection means. Only a member has any, and with items
    /// and no list it brings nothing else. At most [`ITEMS_MAX`]. Events tell of each by its number here, counted from 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<Item>,
}

/// What a job does.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Copies sources, as `godwit cp`.
    Copy,
    /// Makes the destination equal the source, as `godwit sync`.
    Sync,
    /// Checks a copy by a manifest, as `godwit verify`.
    Verify,
}

/// Which entries of the sources are meant. Times are moments, and rule files are rules: nothing is left to be read.
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
    /// Only entries that a list names; the list is given beside the job. A request to the REST API has the names instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(ignore)]
    pub list: Option<ListForm>,
    /// Directories that the list names are meant with all that is in them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recursive: bool,
    /// A tree ends where another file system is mounted in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_file_system: bool,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Entries that match are taken; otherwise they are left out.
    pub include: bool,
    /// The pattern, without any sign in front.
    #[schema(value_type = String, example = "*.tmp")]
    pub pattern: Text,
}

/// A moment, in seconds and nanoseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// Negative before 1970.
    pub seconds: i64,
    /// Counted forward from there, below 10⁹.
    #[serde(default)]
    pub nanoseconds: u32,
}

/// How the names of a list are told apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListForm {
    /// One name a line.
    Lines,
    /// A zero byte behind each name.
    Zeros,
}

/// Why a description is no job.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum JobError {
    /// It is no JSON, a field is unknown or missing, or has the wrong type.
    #[error("this is no description of a job: {0}")]
    Form(String),
    /// It is of another version.
    #[error(
        "this job is described in version {0}, and this program reads version {JOB_VERSION}: use the program of the same version on both sides"
    )]
    Version(u32),
    /// No command of this kind has the setting.
    #[error(
        "godwit {command} has no setting --{name}; a job of a newer version needs a newer program"
    )]
    Unknown {
        /// The command that has the settings of such a job.
        command: &'static str,
        /// The setting.
        name: String,
    },
    /// The setting does not belong in a description.
    #[error("--{name} {why}")]
    NotOfAJob {
        /// The setting.
        name: String,
        /// What to do instead.
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
    /// It is of another version, or something in it is unknown.
    pub fn from_json(json: &[u8]) -> Result<Self, JobError> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let form = |error: serde_json::Error| JobError::Form(error.to_string());
        // The version first: what a later one has is not to be called unknown.
        let Version { version } = serde_json::from_slice(json).map_err(form)?;
        if version != JOB_VERSION {
            return Err(JobError::Version(version));
        }
        serde_json::from_slice(json).map_err(form)
    }

    /// The description as JSON, in one line.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Maps have texts for keys, so nothing can fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The command whose settings a job of this kind has.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        self.kind.scope()
    }

    /// The settings of a copy or synchronisation, resolved by the table.
    ///
    /// # Errors
    /// A setting is unknown, does not belong in a job, or has no such value.
    pub fn copy_settings(&self) -> Result<CpSettings, JobError> {
        self.kind.copy_settings(&self.settings)
    }

    /// The settings of a verification, resolved by the table.
    ///
    /// # Errors
    /// A setting is unknown, does not belong in a job, or has no such value.
    pub fn verify_settings(&self) -> Result<VerifySettings, JobError> {
        self.kind.verify_settings(&self.settings)
    }

    /// The sources, read as endpoints.
    ///
    /// # Errors
    /// A text is no endpoint.
    pub fn source_endpoints(&self) -> Result<Vec<Endpoint>, JobError> {
        let parse = |text: &Text| Endpoint::parse(&text.to_os()).map_err(JobError::from);
        self.sources.iter().map(parse).collect()
    }

    /// The destination, read as an endpoint.
    ///
    /// # Errors
    /// The text is no endpoint.
    pub fn destination_endpoint(&self) -> Result<Endpoint, JobError> {
        Ok(Endpoint::parse(&self.destination.to_os())?)
    }

    /// Takes those of a command's settings that belong in a description, from what was given anywhere but in the table.
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
    /// The kind of that name, as a description has it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let named = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(name);
        Self::deserialize(named).ok()
    }

    /// The command whose settings a job of this kind has.
    #[must_use]
    pub const fn scope(self) -> Scope {
        match self {
            Self::Copy => Scope::Cp,
            Self::Sync => Scope::Sync,
            Self::Verify => Scope::Verify,
        }
    }

    /// Whether a job of a node may have settings of these names.
    ///
    /// # Errors
    /// The first name that no such job has, or that only a command takes, with what to do instead.
    pub fn check_settings<'a>(
        self,
        names: impl IntoIterator<Item = &'a String>,
    ) -> Result<(), JobError> {
        for name in names {
            let setting = self.setting(name)?;
            if let GivenIn::Command(why) = setting.given_in {
                let name = name.clone();
                return Err(JobError::NotOfAJob { name, why });
            }
        }
        Ok(())
    }

    /// The settings of a copy or synchronisation, resolved by the table.
    ///
    /// # Errors
    /// A setting is unknown, does not belong in a job, or has no such value.
    pub fn copy_settings(self, settings: &TypedTexts) -> Result<CpSettings, JobError> {
        let values = self.values(settings)?;
        Ok(match self {
            Self::Sync => CpSettings::from_sync_values(&values)?,
            _ => CpSettings::from_values(&values)?,
        })
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

/// Why a setting is not to stand in a description, of a command's transfer or of a node's.
const fn no_place_in_a_job(setting: &Setting) -> Option<&'static str> {
    match (setting.obeyed_by, setting.given_in) {
        (ObeyedBy::Process | ObeyedBy::Rules | ObeyedBy::ListForm, GivenIn::Command(why)) => {
            Some(why)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
