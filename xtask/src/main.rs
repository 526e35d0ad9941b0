//! Owns the project's chores, run as `cargo xtask …`: the benchmark and the house rules.
//! No part of what users install.

mod bench;
mod pipe;
mod scan;
mod tidy;

use clap::Command;

fn main() -> anyhow::Result<()> {
    let cli = Command::new("xtask")
        .about("Chores of the Godwit project")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(bench::command())
        .subcommand(pipe::command())
        .subcommand(scan::command())
        .subcommand(Command::new("tidy").about("Checks the house rules over the whole tree"));
    match cli.get_matches().subcommand() {
        Some(("bench", matches)) => bench::run(matches),
        Some(("pipe", matches)) => pipe::run(matches),
        Some(("scan", matches)) => scan::run(matches),
        Some(("tidy", _)) => tidy::run(),
        _ => anyhow::bail!("no such chore"),
    }
}
