//! Owns the bare pipes: the smallest program that moves the same bytes with the same streams and buffers, as a reference for the
//! benchmark. Does not resume, and checks only on request: the comparison shows the cost of Godwit's additional work.

mod checked;
mod link;
mod plan;
mod receive;
mod send;
mod tls;
mod wire;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

/// Default buffer of one stream and bytes of one frame: Godwit's default block.
pub(crate) const BLOCK_BYTES_DEFAULT: usize = 512 << 10;
/// Default number of streams: Godwit's default on two cores.
pub(crate) const STREAMS_DEFAULT: usize = 2;

/// Settings that both ends must share.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// Number of TCP connections, each with a separate thread.
    pub(crate) streams: usize,
    /// Buffer of each stream, in bytes.
    pub(crate) block_bytes: usize,
    /// Treat whole files with the same calls as Godwit: write them under a temporary name with mode and times, and rename them.
    pub(crate) commit: bool,
    /// Sync a file before it is closed.
    pub(crate) sync: bool,
    /// Each stream sends whole files in order, instead of sharing each file with the other streams.
    pub(crate) by_file: bool,
    /// Compute the digest of all bytes at both ends, and compare the two.
    pub(crate) digest: bool,
    /// The kernel's name of a congestion control, in place of the system's default.
    pub(crate) congestion: Option<String>,
    /// Use TLS 1.3: the receiver writes its certificate to this file, and the sender trusts it.
    pub(crate) certificate: Option<PathBuf>,
}

/// The data that the sending end sends.
#[derive(Debug)]
pub(crate) enum Load {
    /// This many bytes of memory.
    Memory(u64),
    /// A file or a directory, which arrives with its name.
    Files(PathBuf),
}

/// The sending end.
#[derive(Debug)]
pub(crate) struct SendArgs {
    pub(crate) shape: Shape,
    /// Address of the receiver.
    pub(crate) to: SocketAddr,
    pub(crate) load: Load,
}

/// The receiving end.
#[derive(Debug)]
pub(crate) struct ReceiveArgs {
    pub(crate) shape: Shape,
    /// Address to listen on; port 0 selects any free port.
    pub(crate) listen: SocketAddr,
    /// Directory for received files; without it the bytes are dropped.
    pub(crate) directory: Option<PathBuf>,
}

/// The command line of both ends; the benchmark is its only user.
pub fn command() -> Command {
    let path = || value_parser!(PathBuf);
    let shape = [
        Arg::new("streams")
            .long("streams")
            .value_parser(value_parser!(usize)),
        Arg::new("block-bytes")
            .long("block-bytes")
            .value_parser(value_parser!(usize)),
        Arg::new("commit").long("commit").action(ArgAction::SetTrue),
        Arg::new("by-file")
            .long("by-file")
            .action(ArgAction::SetTrue),
        Arg::new("sync").long("sync").action(ArgAction::SetTrue),
        Arg::new("digest").long("digest").action(ArgAction::SetTrue),
        Arg::new("congestion").long("congestion"),
        Arg::new("certificate")
            .long("certificate")
            .value_parser(path()),
    ];
    Command::new("pipe")
        .about("One end of a bare pipe; the benchmark starts these itself")
        .hide(true)
        .subcommand_required(true)
        .subcommand(
            Command::new("send")
                .about("Dial, and send files or memory")
                .args(shape.clone())
                .arg(
                    Arg::new("to")
                        .long("to")
                        .required(true)
                        .value_parser(value_parser!(SocketAddr)),
                )
                .arg(
                    Arg::new("memory")
                        .long("memory")
                        .value_parser(value_parser!(u64)),
                )
                .arg(
                    Arg::new("source")
                        .value_parser(path())
                        .required_unless_present("memory")
                        .conflicts_with("memory"),
                ),
        )
        .subcommand(
            Command::new("recv")
                .about("Listen, print `listening on ADDR:PORT`, receive once, end")
                .args(shape)
                .arg(
                    Arg::new("listen")
                        .long("listen")
                        .default_value("127.0.0.1:0")
                        .value_parser(value_parser!(SocketAddr)),
                )
                .arg(Arg::new("directory").long("directory").value_parser(path())),
        )
}

/// Runs one end until it has finished.
///
/// # Errors
/// The first failure: a benchmark cannot use a partial result.
pub fn run(matches: &ArgMatches) -> anyhow::Result<()> {
    let (end, matches) = matches.subcommand().context("send or recv?")?;
    let copied = |name: &str| matches.get_one::<usize>(name).copied();
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    let address = |name: &str| {
        matches
            .get_one::<SocketAddr>(name)
            .copied()
            .context("no address given")
    };
    let shape = Shape {
        streams: copied("streams").unwrap_or(STREAMS_DEFAULT),
        block_bytes: copied("block-bytes").unwrap_or(BLOCK_BYTES_DEFAULT),
        commit: matches.get_flag("commit"),
        sync: matches.get_flag("sync"),
        by_file: matches.get_flag("by-file"),
        congestion: matches.get_one::<String>("congestion").cloned(),
        digest: matches.get_flag("digest"),
        certificate: path("certificate"),
    };
    if end == "send" {
        let load = match matches.get_one::<u64>("memory") {
            Some(&bytes) => Load::Memory(bytes),
            None => Load::Files(path("source").context("nothing to send")?),
        };
        send::run(&SendArgs {
            shape,
            to: address("to")?,
            load,
        })
    } else {
        let (listen, directory) = (address("listen")?, path("directory"));
        receive::run(&ReceiveArgs {
            shape,
            listen,
            directory,
        })
    }
}
