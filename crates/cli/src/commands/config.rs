//! `godwit config check`: reads the settings of a node, and reports all their errors.
//! Binds nothing and writes nothing.

use std::ffi::OsString;

use clap::ArgMatches;
use godwit_api::settings::{Scope, ServeSettings, Typed, resolve};

use crate::exit::{Exit, Failure};
use crate::home;
use crate::output::{complain, print};
use godwit_node::plan;

/// Runs one of the commands.
pub(super) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    match matches.subcommand() {
        Some(("check", own)) => check(own),
        _ => Err(Failure::usage(
            "config: name a subcommand: godwit config check",
        )),
    }
}

/// Checks everything that `godwit serve` checks before it binds a port.
fn check(matches: &ArgMatches) -> Result<Exit, Failure> {
    let home = home::find()?;
    let mut typed = Typed::new();
    if let Some(file) = matches.get_one::<OsString>("file") {
        typed.insert("config", vec![file.clone()]);
    }
    let (path, file) = super::config_file(Scope::Serve, &typed, &home)?;
    let values = resolve(Scope::Serve, &typed, &|name| std::env::var_os(name), &file)?;
    let settings = ServeSettings::from_values(&values).map_err(plan::failure_of)?;
    let (plan, notes) = plan::make(&values, &settings, &home).map_err(plan::failure_of)?;
    for note in notes {
        complain(&note);
    }
    let shown = path.display();
    if !path.exists() {
        print(&format!(
            "{shown} does not exist; the default settings were checked"
        ));
    }
    let addresses = |all: &[std::net::SocketAddr]| {
        let all: Vec<String> = all.iter().map(ToString::to_string).collect();
        all.join(", ")
    };
    for export in &plan.exports {
        print(&format!(
            "exports {} = {}",
            export.name,
            export.path.display()
        ));
    }
    print(&format!("listens on {}", addresses(&plan.listen)));
    if !plan.manage.is_empty() {
        print(&format!("API and page at {}", addresses(&plan.manage)));
    }
    print(&format!("{shown}: no errors found"));
    Ok(Exit::Complete)
}
