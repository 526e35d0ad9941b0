//! Tests of the table.
//! Values are tested with their parser.

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

#[test]
fn a_name_has_one_heading_and_one_that_obeys_in_all_commands_that_move_data() {
    for setting in SETTINGS {
        let same = SETTINGS.iter().filter(|other| other.name == setting.name);
        for other in same {
            assert_eq!(other.heading, setting.heading, "{}", setting.name);
        }
    }
    for setting in Setting::all_of(Scope::Sync) {
        let cp = Setting::find(Scope::Cp, setting.name);
        if let Some(cp) = cp {
            assert_eq!(cp.obeyed_by, setting.obeyed_by, "{}", setting.name);
        }
    }
}

#[test]
fn only_transfers_have_settings_that_another_machine_obeys() {
    for setting in SETTINGS {
        let moves_data = [Scope::Cp, Scope::Sync]
            .iter()
            .any(|scope| setting.scopes.contains(scope));
        assert!(
            moves_data || setting.obeyed_by == ObeyedBy::Here,
            "{}",
            setting.name
        );
    }
}

#[test]
fn settings_that_choose_entries_are_sent_as_rules_or_as_a_list() {
    for setting in Setting::all_of(Scope::Cp) {
        assert_eq!(
            setting.heading == Heading::Choosing,
            matches!(setting.obeyed_by, ObeyedBy::Rules | ObeyedBy::ListForm),
            "{}",
            setting.name
        );
    }
}

#[test]
fn a_job_has_no_setting_that_steers_the_process_or_chooses_entries() {
    for setting in SETTINGS {
        let moves_data = [Scope::Cp, Scope::Sync, Scope::Verify]
            .iter()
            .any(|scope| setting.scopes.contains(scope));
        let of_jobs = setting.applies_to == AppliesTo::Jobs;
        let beside = matches!(
            setting.obeyed_by,
            ObeyedBy::Process | ObeyedBy::Rules | ObeyedBy::ListForm
        );
        assert!(!of_jobs || moves_data && !beside, "{}", setting.name);
        if let AppliesTo::Command(advice) = setting.applies_to {
            assert!(!advice.is_empty(), "{}", setting.name);
        }
    }
}

#[test]
fn a_job_has_no_setting_that_starts_programs_or_dials() {
    for name in ["rsh", "remote-command", "channel", "data-ports", "via-ssh"] {
        let setting = Setting::find(Scope::Cp, name).expect("in the table");
        assert_ne!(setting.applies_to, AppliesTo::Jobs, "{name}");
    }
}
