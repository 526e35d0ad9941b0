//! Owns the project's chores, run as `cargo xtask …`: the benchmark, the kit for clusters and the house rules.
//! No part of what users install.

mod bench;
mod cluster;
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
        .subcommand(cluster::command())
        .subcommand(pipe::command())
        .subcommand(scan::command())
        .subcommand(Command::new("tidy").about("Checks the house rules over the whole tree"));
    match cli.get_matches().subcommand() {
        Some(("bench", matches)) => bench::run(matches),
        Some(("cluster", matches)) => cluster::run(matches),
        Some(("pipe", matches)) => pipe::run(matches),
        Some(("scan", matches)) => scan::run(matches),
        Some(("tidy", _)) => tidy::run(),
        _ => anyhow::bail!("no such chore"),
    }
}
