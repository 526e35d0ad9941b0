//! Owns the project's tasks for developers, run as `cargo xtask …`: the house rules, and the kit
//! for measurements. Users do not install it.

mod tidy;

use clap::Command;
use godwit_kit::{bench, cluster, pipe, scan};

fn main() -> anyhow::Result<()> {
    let cli = Command::new("xtask")
        .about("Chores of the Godwit project")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(bench::command())
        .subcommand(cluster::command())
        .subcommand(pipe::command())
        .subcommand(scan::command())
        .subcommand(
            Command::new("ease")
                .about("Prints the reading ease of the documents, 0 to 100, and their words"),
        )
        .subcommand(Command::new("tidy").about("Checks the house rules over the whole tree"));
    match cli.get_matches().subcommand() {
        Some(("bench", matches)) => bench::run(matches),
        Some(("cluster", matches)) => cluster::run(matches),
        Some(("pipe", matches)) => pipe::run(matches),
        Some(("scan", matches)) => scan::run(matches),
        Some(("ease", _)) => tidy::ease(),
        Some(("tidy", _)) => tidy::run(),
        _ => anyhow::bail!("no such chore"),
    }
}
