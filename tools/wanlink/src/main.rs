//! Owns the program `wanlink`: a long line between two network namespaces of one machine, for tests.
//! Decides nothing itself: the model is in `line`, the loop in `forward`, the devices in `endpoint`.

mod endpoint;
mod forward;
mod line;
mod options;
mod units;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::endpoint::MadeNamespaces;
use crate::forward::{Control, Forwarder};
use crate::options::Options;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args_os()) {
        Ok(options) => options,
        Err(error) => error.exit(),
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without standard error the message is lost.
            let _ = writeln!(io::stderr(), "wanlink: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> anyhow::Result<()> {
    // Signals first: from here on an end by signal removes the devices.
    let (signalled, signals) = UnixStream::pair().context("cannot make a socket pair")?;
    for signal in [SIGTERM, SIGINT] {
        let signals = signals.try_clone().context("cannot copy a socket")?;
        signal_hook::low_level::pipe::register(signal, signals).context("cannot handle signals")?;
    }
    let mut made = MadeNamespaces::default();
    if options.make {
        for place in &options.places {
            made.make(&place.namespace)?;
        }
    }
    let [left, right] = &options.places;
    let ends = [
        endpoint::open(left, &options.device)?,
        endpoint::open(right, &options.device)?,
    ];
    let forwarder = Forwarder::new(ends, options.lines, options.device.offload);
    announce(options.ready_fd).context("cannot say that the line is ready")?;

    let stdin = io::stdin();
    let control = Control {
        signalled: signalled.as_fd(),
        input: (!options.ignore_stdin).then_some(stdin.as_fd()),
        report_every: options.stats.then_some(Duration::from_secs(1)),
    };
    let end = forwarder.run(&control, |forwarder| {
        // The link stays up if the statistics cannot be printed.
        let _ = print_counters(&mut io::stderr().lock(), forwarder);
    });
    print_counters(&mut io::stdout().lock(), &forwarder).context("cannot print the counters")?;
    end
}

fn announce(ready_fd: Option<u32>) -> io::Result<()> {
    match ready_fd {
        None => {
            let mut out = io::stdout().lock();
            writeln!(out, "ready")?;
            out.flush()
        }
        // Opening by path takes no ownership of a descriptor that may not exist.
        Some(number) => {
            let mut out = OpenOptions::new()
                .write(true)
                .open(format!("/proc/self/fd/{number}"))?;
            out.write_all(b"ready\n")
        }
    }
}

fn print_counters(out: &mut impl Write, forwarder: &Forwarder) -> io::Result<()> {
    let names = ["left-to-right", "right-to-left"];
    for (name, (counters, refused)) in names.into_iter().zip(forwarder.sums()) {
        writeln!(
            out,
            "{name} offered={} offered_bytes={} delivered={} delivered_bytes={} lost={} queue_full={} overflow={} \
             refused={refused} queue_bytes_max={}",
            counters.offered,
            counters.offered_bytes,
            counters.delivered,
            counters.delivered_bytes,
            counters.lost,
            counters.queue_full,
            counters.overflow,
            counters.queue_bytes_max,
        )?;
    }
    out.flush()
}
