//! Settings: one table, from which flags, environment variables, the file and `docs/settings.md` are derived.
//! Parses no command line: a front end passes the typed texts, by the names of the table.
//!
//! A value comes from the first of: flag, environment variable, settings file, default. Each value is parsed once, here, into
//! [`CpSettings`], [`ServeSettings`] or [`GenSettings`].

mod by_ssh;
mod channels;
mod choices;
mod comparing;
pub mod file;
mod general;
mod machine;
pub mod page;
mod preserve;
mod reports;
pub mod resolve;
pub mod selection;
mod serving;
mod sharing;
pub mod table;
pub mod typed;
pub mod value;

pub use file::ConfigFile;
pub use preserve::Preserve;
pub use resolve::{
    Origin, SettingError, SettingErrors, SettingProblem, SettingWithOrigin, Typed, Values, resolve,
};
pub use selection::{ListPlace, RuleSource, RuleText, SelectionSettings, When};
pub use sharing::SharingSettings;
pub use table::{AppliesTo, Heading, Kind, ObeyedBy, SETTINGS, Scope, Setting};
pub use typed::{
    BufferSettings, CertificateFiles, Cipher, ClusterSettings, ComparisonSettings, CpSettings,
    Encryption, Export, GenSettings, JoinSettings, Judge, LogFormat, LogLevel, ManifestSettings,
    Order, ReportSettings, ServeEncryption, ServeSettings, VerifySettings, is_ascmhl,
};
pub use value::{Bounds, Value, ValueError, parse_value, placeholder, range_text};
