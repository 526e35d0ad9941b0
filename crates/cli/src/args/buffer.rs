//! The words of `godwit buffer`.
//! Runs nothing.

use clap::{Arg, Command, ValueHint};

use super::node::{reaching, value};
use super::{positional, switch};

/// The note on places behind the help of each command.
const PLACES: &str = "PLACE is a block device, a regular file in its place, or a directory.";

/// The note on files behind the help of each command that takes them.
const FILES: &str =
    "A place is here:/EXPORT/PATH: a file, or a directory with all that the buffer has of it.";

fn files() -> Arg {
    positional(
        "places",
        "PLACE",
        "Files and directories of the node's exports",
    )
    .num_args(1..)
    .value_hint(ValueHint::Other)
}

pub(super) fn buffer() -> Command {
    let place = || {
        positional("place", "PLACE", "A block device, a file, or a directory")
            .value_hint(ValueHint::AnyPath)
    };
    let json = || switch("json", "Print one JSON object instead of text");
    Command::new("buffer")
        .about("Make, check and show the transfer buffer of a node: extents on flash, beside slow storage")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("format")
                .about("Make a transfer buffer on a device, in a file or in a directory")
                .after_help(format!(
                    "{PLACES} A missing PLACE becomes a directory. The buffer belongs to the node of this home.\n\
                     A device that is mounted, in /etc/fstab, swap or part of another device is always refused. A device with data of others \
                     is refused unless --force-format names its serial, or its path if it has no serial."
                ))
                .arg(json())
                .arg(value(
                    "bytes",
                    "SIZE",
                    "Size of the buffer, as in 6TB [default: the whole device or file; a directory needs it]",
                ))
                .arg(value(
                    "extent",
                    "SIZE",
                    "Size of an extent: 1MiB, 2MiB or 4MiB [default: 4MiB]",
                ))
                .arg(value(
                    "force-format",
                    "SERIAL",
                    "Lose the data on the device with this serial, or at this path if it has no serial",
                ))
                .arg(place()),
        )
        .subcommand(
            Command::new("check")
                .about("Check superblocks, log and the digests of all extents; changes nothing")
                .after_help(format!(
                    "{PLACES} The node must not use the buffer meanwhile.\n\
                     Exit codes: 0 sound, 3 damage found, 1 the buffer could not be checked."
                ))
                .arg(json())
                .arg(place()),
        )
        .subcommand(
            reaching(Command::new("status"))
                .about("Show the buffers of a running node and its cluster, or owner and contents of a PLACE")
                .after_help(format!("{PLACES} A node may use the buffer meanwhile."))
                .arg(place().required(false)),
        )
        .subcommand(
            reaching(Command::new("list"))
                .about("List the files in the buffers of a running node and its cluster")
                .after_help(FILES)
                .arg(switch("waiting", "Only files that have arrived, and are not at their export yet, with the reason"))
                .arg(files()),
        )
        .subcommand(
            reaching(Command::new("pin"))
                .about("Keep files in the buffers of a running node and its cluster")
                .after_help(FILES)
                .arg(value("for", "TIME", "Keep them for this time from now on [default: until unpin]"))
                .arg(files()),
        )
        .subcommand(
            reaching(Command::new("unpin"))
                .about("Let files go when the buffer needs the room")
                .after_help(FILES)
                .arg(files()),
        )
        .subcommand(
            reaching(Command::new("drop"))
                .about("Let files leave the buffers of a running node and its cluster now")
                .after_help(FILES)
                .arg(switch("waiting", "Give up files that have arrived, and are not at their export yet: they are lost"))
                .arg(files()),
        )
        .subcommand(
            reaching(Command::new("retry"))
                .about("Try files again that have arrived, and could not go to their export")
                .after_help(FILES)
                .arg(files()),
        )
        .subcommand(
            reaching(Command::new("warm"))
                .about("Bring files into the buffers of a running node and its cluster, by a job that sends them nowhere")
                .after_help(FILES)
                .arg(value("for", "TIME", "Keep them for this time from now on [default: 7d]"))
                .arg(files()),
        )
}
