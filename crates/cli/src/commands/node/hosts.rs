//! The hosts at both ends of a job: one line a host while the job runs, and the hosts whose energy is unknown.
//! Asks no node.

use std::collections::{BTreeMap, BTreeSet};

use godwit_api::energy::{self, UNREAD_FIGURE};
use godwit_api::rest::{HERE, JobView, NodeProgress, ProgressView, SampleView};
use godwit_api::units::{human_rate, human_size};

use super::words;

type Figures = BTreeMap<String, f64>;

/// A line for each host that has figures.
pub(super) fn lines(job: &JobView, progress: &ProgressView) -> Vec<String> {
    let own = job.node.as_deref().unwrap_or(HERE);
    let known = hosts(own, other_site(places(job)), Ends::of(progress)).into_iter();
    known
        .filter(|(_, figures)| !figures.is_empty())
        .map(|(name, figures)| format!("{name}: {}", said(figures)))
        .collect()
}

/// A sentence for each host of a job that node `own` ran whose energy counters its node may not read.
pub(super) fn unread(own: &str, job: &JobView, samples: &[SampleView]) -> Vec<String> {
    let names = names_of_unread(own, other_site(places(job)), samples);
    names.iter().map(|name| energy::unread(name)).collect()
}

fn names_of_unread(own: &str, other: &str, samples: &[SampleView]) -> BTreeSet<String> {
    let found = samples.iter().flat_map(|sample| {
        let ends = Ends {
            host: &sample.host,
            other_host: &sample.other_host,
            nodes: &sample.nodes,
        };
        hosts(own, other, ends)
    });
    found
        .filter(|(_, figures)| figures.contains_key(UNREAD_FIGURE))
        .map(|(name, _)| name)
        .collect()
}

fn places(job: &JobView) -> impl Iterator<Item = &String> {
    job.sources.iter().chain([&job.destination])
}

/// The figures of both ends at one time.
#[derive(Clone, Copy)]
struct Ends<'a> {
    host: &'a Figures,
    other_host: &'a Figures,
    /// The nodes of a divided job.
    nodes: &'a [NodeProgress],
}

impl<'a> Ends<'a> {
    fn of(progress: &'a ProgressView) -> Self {
        Self {
            host: &progress.host,
            other_host: &progress.other_host,
            nodes: &progress.nodes,
        }
    }
}

/// The hosts of the ends, each with its name.
fn hosts<'a>(own: &str, other: &str, ends: Ends<'a>) -> Vec<(String, &'a Figures)> {
    // Nodes of both ends may have one name.
    let far = |name: &str| format!("{name} (other end)");
    if ends.nodes.is_empty() {
        return vec![(own.to_owned(), ends.host), (far(other), ends.other_host)];
    }
    let own = ends.nodes.iter();
    let mut hosts: Vec<_> = own.map(|node| (node.node.clone(), &node.host)).collect();
    for node in ends.nodes {
        let to = match node.to.as_str() {
            "" => format!("other end of {}", node.node),
            to => far(to),
        };
        // Several nodes may send to one.
        if hosts.iter().all(|(name, _)| *name != to) {
            hosts.push((to, &node.other_host));
        }
    }
    hosts
}

/// The site of the first place elsewhere.
fn other_site<'a>(mut places: impl Iterator<Item = &'a String>) -> &'a str {
    let site = places.find_map(|place| place.split_once(':').filter(|(site, _)| *site != HERE));
    site.map_or("unknown", |(site, _)| site)
}

fn said(figures: &Figures) -> String {
    let figure = |name: &str| figures.get(name).copied();
    let rate = |name: &str, way: &str| {
        figure(name).map(|value| format!("{} {way}", human_rate(words::whole(value))))
    };
    let pair = |what: &str, names: [(&str, &str); 2]| {
        let both: Vec<String> = names
            .iter()
            .filter_map(|(name, way)| rate(name, way))
            .collect();
        (!both.is_empty()).then(|| format!("{what} {}", both.join(", ")))
    };
    let modes = ["cpu_user", "cpu_system", "cpu_interrupts", "cpu_steal"].map(figure);
    let busy = modes[0].map(|_| modes.iter().flatten().sum::<f64>());
    let processors = busy.map(|busy| {
        let core = figure("cpu_busiest_core");
        let core = core.map_or_else(String::new, |core| {
            format!(", busiest core {:.0} %", core * 100.0)
        });
        format!("processors {:.0} % busy{core}", busy * 100.0)
    });
    let memory = figure("memory_available_bytes")
        .map(|bytes| format!("{} of memory available", human_size(words::whole(bytes))));
    let network = pair(
        "network",
        [
            ("network_received_bytes_per_second", "in"),
            ("network_sent_bytes_per_second", "out"),
        ],
    );
    let disks = pair(
        "disks",
        [
            ("disk_read_bytes_per_second", "read"),
            ("disk_written_bytes_per_second", "written"),
        ],
    );
    let watts = figure("package_watts").map(|watts| format!("{watts:.0} W"));
    let unread = || Some("energy counters unread: see job report".to_owned());
    let power = watts.or_else(|| figure(UNREAD_FIGURE).and_then(|_| unread()));
    let parts = [processors, memory, network, disks, power];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_of_both_ends_has_one_line() {
        let host = |busy: f64| {
            Figures::from([
                ("cpu_user".to_owned(), busy),
                ("cpu_system".to_owned(), 0.1),
                ("cpu_busiest_core".to_owned(), 0.9),
                ("network_sent_bytes_per_second".to_owned(), 2.5e6),
            ])
        };
        let node = |node: &str, to: &str| NodeProgress {
            node: node.to_owned(),
            to: to.to_owned(),
            host: host(0.2),
            other_host: host(0.3),
            ..NodeProgress::default()
        };
        let mut progress = ProgressView {
            nodes: vec![node("a1", "a1"), node("a2", "a1"), node("a3", "")],
            ..ProgressView::default()
        };
        let names = |progress: &ProgressView| -> Vec<String> {
            let found = hosts("a1", "siteB", Ends::of(progress)).into_iter();
            found.map(|(name, _)| name).collect()
        };
        assert_eq!(
            names(&progress),
            ["a1", "a2", "a3", "a1 (other end)", "other end of a3"]
        );
        progress.nodes.clear();
        assert_eq!(names(&progress), ["a1", "siteB (other end)"]);
        let places = ["here:/data/a".to_owned(), "siteC:/data/b".to_owned()];
        assert_eq!(other_site(places.iter()), "siteC");
        assert_eq!(other_site(places[..1].iter()), "unknown");
        assert_eq!(
            said(&host(0.2)),
            "processors 30 % busy, busiest core 90 %; network 2.50 MB/s out"
        );
    }

    #[test]
    fn hosts_whose_energy_counters_are_unread_are_named_once() {
        let counters = |unread: bool| -> Figures {
            let name = if unread {
                UNREAD_FIGURE
            } else {
                "package_watts"
            };
            Figures::from([(name.to_owned(), 1.0)])
        };
        let lone = SampleView {
            host: counters(false),
            other_host: counters(true),
            ..SampleView::default()
        };
        let names = |samples: &[SampleView]| -> Vec<String> {
            let names = names_of_unread("a1", "siteB", samples);
            names.into_iter().collect()
        };
        assert_eq!(names(&[lone.clone(), lone]), ["siteB (other end)"]);
        let divided = SampleView {
            nodes: vec![NodeProgress {
                node: "a2".to_owned(),
                to: "b1".to_owned(),
                host: counters(true),
                other_host: counters(false),
                ..NodeProgress::default()
            }],
            ..SampleView::default()
        };
        assert_eq!(names(&[divided]), ["a2"]);
        assert!(names(&[]).is_empty());
    }
}
