//! Finds the hosts of both ends of a job in its samples.
//! Draws nothing.

use std::collections::BTreeMap;

use godwit_api::rest::{AttemptView, HERE, SampleView};

type Figures = BTreeMap<String, f64>;

/// One host, with its figures in each sample.
pub(super) struct HostSeen<'a> {
    /// The name, for people.
    pub(super) name: String,
    /// In the order of the samples.
    pub(super) figures: Vec<Option<&'a Figures>>,
}

/// Name of a host; hosts at the other end come last.
#[derive(Clone, Eq, Ord, PartialEq, PartialOrd)]
struct Key {
    is_other: bool,
    name: String,
}

/// The hosts that have figures: those that ran the job or a part of it, then those at the other end. The names come from the attempts and
/// the places of the job.
pub(super) fn all<'a>(
    samples: &'a [SampleView],
    attempts: &[AttemptView],
    places: &[&str],
) -> Vec<HostSeen<'a>> {
    let mut hosts: BTreeMap<Key, Vec<Option<&Figures>>> = BTreeMap::new();
    for (place, sample) in samples.iter().enumerate() {
        for (key, figures) in of_sample(sample, attempts, places) {
            let of_host = hosts
                .entry(key)
                .or_insert_with(|| vec![None; samples.len()]);
            // Several nodes may send to one.
            if !figures.is_empty() && of_host[place].is_none() {
                of_host[place] = Some(figures);
            }
        }
    }
    let known = hosts
        .into_iter()
        .filter(|(_, figures)| figures.iter().any(Option::is_some));
    known
        .map(|(key, figures)| HostSeen {
            name: key.name,
            figures,
        })
        .collect()
}

fn of_sample<'a>(
    sample: &'a SampleView,
    attempts: &[AttemptView],
    places: &[&str],
) -> Vec<(Key, &'a Figures)> {
    let own = |name: String| Key {
        is_other: false,
        name,
    };
    let other = |name: String| Key {
        is_other: true,
        name,
    };
    if sample.nodes.is_empty() {
        let site = other_site(places).filter(|_| sample.site.is_none());
        let far = site.map_or_else(
            || "the other end".to_owned(),
            |site| format!("{site} (other end)"),
        );
        return vec![
            (own(runner(sample, attempts)), &sample.host),
            (other(far), &sample.other_host),
        ];
    }
    let nodes = sample.nodes.iter();
    let own = nodes
        .clone()
        .map(|node| (own(node.node.clone()), &node.host));
    let others = nodes.map(|node| {
        let name = match node.to.as_str() {
            "" => format!("the other end of {}", node.node),
            to => format!("{to} (other end)"),
        };
        (other(name), &node.other_host)
    });
    own.chain(others).collect()
}

/// The node or site that took the sample.
fn runner(sample: &SampleView, attempts: &[AttemptView]) -> String {
    if let Some(site) = &sample.site {
        return format!("a node of {site}");
    }
    let mut attempts = attempts.iter();
    let attempt = attempts.find(|attempt| attempt.number == sample.attempt);
    attempt.map_or_else(|| HERE.to_owned(), |attempt| attempt.node.clone())
}

/// The site of the first place elsewhere.
fn other_site<'a>(places: &[&'a str]) -> Option<&'a str> {
    let site = |place: &&'a str| place.split_once(':').filter(|(site, _)| *site != HERE);
    places.iter().find_map(site).map(|(site, _)| site)
}

#[cfg(test)]
mod tests {
    use godwit_api::rest::NodeProgress;

    use super::*;

    fn figures(busy: f64) -> Figures {
        Figures::from([("cpu_user".to_owned(), busy)])
    }

    fn names<'a>(hosts: &'a [HostSeen<'_>]) -> Vec<&'a str> {
        hosts.iter().map(|host| host.name.as_str()).collect()
    }

    #[test]
    fn both_ends_of_a_job_have_their_hosts() {
        let lone = |site: Option<&str>| SampleView {
            attempt: 1,
            host: figures(0.1),
            other_host: figures(0.2),
            site: site.map(str::to_owned),
            ..SampleView::default()
        };
        let empty = SampleView {
            attempt: 1,
            ..SampleView::default()
        };
        let places = ["here:/data/a", "siteB:/data/b"];
        let samples = [empty, lone(None)];
        let found = all(&samples, &[], &places);
        assert_eq!(names(&found), ["here", "siteB (other end)"]);
        assert_eq!(found[1].figures, [None, Some(&figures(0.2))]);
        // Another site ran the job. The other end of the job may be any site, so it has no name.
        let samples = [lone(Some("siteA"))];
        let found = all(&samples, &[], &places);
        assert_eq!(names(&found), ["a node of siteA", "the other end"]);
    }

    #[test]
    fn a_divided_job_has_the_hosts_of_all_nodes_once() {
        let node = |node: &str, to: &str, busy: f64| NodeProgress {
            node: node.to_owned(),
            to: to.to_owned(),
            host: figures(busy),
            other_host: figures(busy + 0.1),
            ..NodeProgress::default()
        };
        let sample = SampleView {
            // That of the node which controls the job, again.
            host: figures(0.9),
            nodes: vec![
                node("a1", "a1", 0.1),
                node("a2", "a1", 0.3),
                node("a3", "", 0.5),
            ],
            ..SampleView::default()
        };
        let samples = [sample];
        let found = all(&samples, &[], &[]);
        assert_eq!(
            names(&found),
            ["a1", "a2", "a3", "a1 (other end)", "the other end of a3"]
        );
        assert_eq!(found[3].figures, [Some(&figures(0.2))]);
    }
}
