//! Owns the project's chores, run as `cargo xtask …`: the benchmark and the house rules.
//! No part of what users install.

mod bench;
mod pipe;

use clap::Command;

fn main() -> anyhow::Result<()> {
    let cli = Command::new("xtask")
        .about("Chores of the Godwit project")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(bench::command())
        .subcommand(pipe::command());
    match cli.get_matches().subcommand() {
        Some(("bench", matches)) => bench::run(matches),
        Some(("pipe", matches)) => pipe::run(matches),
        _ => anyhow::bail!("no such chore"),
    }
}
