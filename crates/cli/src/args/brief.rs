//! Owns the short help of commands with many settings: which settings stand in it, and their order.
//! Parses no value; the table of settings does.

use clap::Arg;
use godwit_api::settings::{Scope, Setting};

use super::ordered;
use super::setting::shown_setting;

/// The settings in the short help of `cp` and `sync`.
pub(super) const MOVING: [&str; 17] = [
    "archive",
    "dry-run",
    "delete",
    "max-delete",
    "checksum",
    "update",
    "exclude",
    "include",
    "files-from",
    "limit",
    "streams",
    "priority",
    "verify",
    "retry-for",
    "rsh",
    "manifest",
    "verbose",
];

/// The settings in the short help of `serve`.
const SERVING: [&str; 15] = [
    "export",
    "config",
    "listen",
    "manage",
    "certificate",
    "certificate-key",
    "join",
    "token-file",
    "name",
    "jobs",
    "memory",
    "threads",
    "keep-history",
    "log-format",
    "log-level",
];

/// The settings in the short help of `verify`.
const CHECKING: [&str; 7] = [
    "content-only",
    "extra",
    "signed-by",
    "retry-for",
    "rsh",
    "json",
    "verbose",
];

/// The names of the settings in the short help of a command, in their order; none if all settings are in it.
fn names(scope: Scope) -> &'static [&'static str] {
    match scope {
        Scope::Cp | Scope::Sync => &MOVING,
        Scope::Serve => &SERVING,
        Scope::Verify => &CHECKING,
        Scope::Gen | Scope::Manifest => &[],
    }
}

/// The settings of a command in its short help.
pub(super) fn settings(scope: Scope) -> Vec<Arg> {
    let names = names(scope);
    if names.is_empty() {
        return ordered(scope).into_iter().map(shown_setting).collect();
    }
    let settings = names.iter().filter_map(|name| Setting::find(scope, name));
    let numbered = settings.map(brief).enumerate();
    numbered
        .map(|(order, arg)| arg.help_heading(None).display_order(order))
        .collect()
}

/// The settings that select entries in the short help of a job.
pub(super) fn choosing() -> Option<Arg> {
    let setting = Setting::find(Scope::Cp, "exclude")?;
    Some(shown_setting(setting).help_heading(None))
}

/// The line behind the common flags of a command.
pub(super) fn rest(command: &str) -> String {
    format!("All flags: godwit {command} --help")
}

/// A setting in the short help. Texts are printed beside the flags if the longest flag takes at most 24 columns.
fn brief(setting: &'static Setting) -> Arg {
    let arg = shown_setting(setting);
    match setting.name {
        "export" => arg.value_name("NAME=PATH"),
        "files-from" => arg.value_name("LIST"),
        "join" => arg.value_name("HOST"),
        "listen" | "manage" => arg.value_name("ADDRESS"),
        "log-level" => arg.value_name("LEVEL"),
        "priority" => arg.value_name("CLASS"),
        "keep-history" | "retry-for" => arg.value_name("TIME"),
        _ => arg,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_help_has_settings_of_the_table_alone() {
        for scope in Scope::ALL {
            for name in names(scope) {
                // Two of the names that `cp` and `sync` share belong to `sync` alone.
                let scope = match scope {
                    Scope::Cp => Scope::Sync,
                    _ => scope,
                };
                assert!(Setting::find(scope, name).is_some(), "{name}");
            }
        }
    }
}
