//! The flag for a setting of the table.
//! Parses no value; the table does.

use clap::builder::ValueParser;
use clap::{Arg, ArgAction};
use godwit_api::settings::{Kind, Setting, placeholder};

/// The flag of a setting as it is parsed.
pub(super) fn setting_arg(setting: &'static Setting) -> Arg {
    let arg = described(setting);
    match setting.kind {
        // `--verify` alone, or `--verify=false` against a true value in the environment.
        Kind::Flag => arg
            .value_parser(ValueParser::os_string())
            .value_name("true|false")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .overrides_with(setting.name),
        _ => with_value(setting, arg),
    }
}

/// The flag of a setting as people see it: a switch stands alone.
pub(super) fn shown_setting(setting: &'static Setting) -> Arg {
    let arg = described(setting);
    match setting.kind {
        Kind::Flag => arg.action(ArgAction::SetTrue).overrides_with(setting.name),
        _ => with_value(setting, arg),
    }
}

fn with_value(setting: &'static Setting, arg: Arg) -> Arg {
    let arg = arg
        .value_parser(ValueParser::os_string())
        .value_name(placeholder(&setting.kind).unwrap_or_default());
    match setting.kind {
        Kind::List { .. } => arg
            // A pattern may begin with a dash.
            .allow_hyphen_values(setting.name == "exclude" || setting.name == "include")
            .action(ArgAction::Append),
        _ => arg
            .allow_hyphen_values(setting.name == "files-from")
            .overrides_with(setting.name),
    }
}

/// Names and texts of the flag.
fn described(setting: &'static Setting) -> Arg {
    let default = match setting.default {
        "" => "none",
        text => text,
    };
    let help = match default {
        // A flag is off by default, which the help need not say.
        "none" | "false" => setting.help.to_owned(),
        _ => format!("{} [default: {default}]", setting.help),
    };
    let long_help = format!(
        "{}.\n{}[default: {default}; environment: {}]",
        setting.help,
        match setting.detail {
            "" => String::new(),
            detail => format!("{}\n", detail.replace('`', "")),
        },
        setting.variable
    );
    let arg = Arg::new(setting.name)
        .long(setting.name)
        .help(help)
        .long_help(long_help)
        .help_heading(setting.heading.text());
    match setting.letter() {
        Some(letter) => arg.short(letter),
        None => arg,
    }
}
