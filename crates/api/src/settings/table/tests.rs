//! Tests of the table.
//! Those of values are with their parser.

use super::*;
use crate::settings::value::parse_value;
use std::collections::HashSet;
use std::ffi::OsString;

#[test]
fn every_default_is_a_value_of_its_setting() {
    for setting in SETTINGS
        .iter()
        .filter(|setting| !setting.default.is_empty())
    {
        parse_value(setting, &[OsString::from(setting.default)])
            .unwrap_or_else(|error| panic!("{}: {error}", setting.name));
    }
}

#[test]
fn names_are_unique_in_a_command_and_variables_everywhere() {
    for scope in Scope::ALL {
        let names: HashSet<_> = Setting::all_of(scope).map(|setting| setting.name).collect();
        assert_eq!(names.len(), Setting::all_of(scope).count(), "{scope:?}");
    }
    let variables: HashSet<_> = SETTINGS.iter().map(|setting| setting.variable).collect();
    assert_eq!(variables.len(), SETTINGS.len());
}

#[test]
fn variables_follow_from_names() {
    for setting in SETTINGS {
        let name = setting.name.to_uppercase().replace('-', "_");
        let own = format!("GODWIT_{name}");
        let scoped = format!("GODWIT_SERVE_{name}");
        assert!(
            [own, scoped].contains(&setting.variable.to_owned()),
            "{}",
            setting.name
        );
    }
}
