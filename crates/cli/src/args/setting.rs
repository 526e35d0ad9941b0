//! The flag for a setting of the table.
//! Parses no value; the table does.

use clap::builder::ValueParser;
use clap::{Arg, ArgAction};
use godwit_api::settings::{Kind, Setting, placeholder};

/// The flag of a setting.
pub(super) fn setting_arg(setting: &'static Setting) -> Arg {
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
        .value_parser(ValueParser::os_string())
        .help(help)
        .long_help(long_help)
        .help_heading(setting.heading.text());
    let arg = match setting.letter() {
        Some(letter) => arg.short(letter),
        None => arg,
    };
    match setting.kind {
        // `--verify` alone, or `--verify=false` against a true value in the environment.
        Kind::Flag => arg
            .value_name("true|false")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .overrides_with(setting.name),
        Kind::List { .. } => arg
            .value_name(placeholder(&setting.kind).unwrap_or_default())
            // A pattern may begin with a dash.
            .allow_hyphen_values(setting.name == "exclude" || setting.name == "include")
            .action(ArgAction::Append),
        _ => arg
            .value_name(placeholder(&setting.kind).unwrap_or_default())
            .allow_hyphen_values(setting.name == "files-from")
            .overrides_with(setting.name),
    }
}
