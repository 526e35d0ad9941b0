//! A job from three nodes to three others reports everything that a job of one node reports, and all of it is true.
//! See `divided` for the arrived files.

use std::fs;
use std::time::Instant;

use godwit_api::rest::Timestamp;
use serde_json::Value;

use super::super::judge::assert_identical_to_rsync;
use super::super::process::wait_until;
use super::super::rest::Caller;
use super::super::rig::Rig;
use super::super::sites::{submit, two_sites, wait_for};
use super::super::totals::{accounted, counted, json};
use super::Site;
use super::sites::know;

/// A limit that makes the job take some seconds.
const LIMIT: u64 = 12_000_000;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(-1.0)
}

/// The nodes of a document that move data to a node of the other site, and have figures of stages and of the hosts of both
/// ends.
fn telling(progress: &Value) -> usize {
    let nodes = progress["nodes"].as_array().cloned().unwrap_or_default();
    let tells = |node: &&Value| {
        !node["to"].as_str().unwrap_or_default().is_empty()
            && number(&node["stages"]["send_bytes_per_second"]) >= 0.0
            && ["host", "other_host"].iter().all(|host| {
                let figures = ["cpu_user", "memory_available_bytes"];
                figures
                    .iter()
                    .all(|name| number(&node[*host][*name]) >= 0.0)
            })
    };
    nodes.iter().filter(tells).count()
}

/// Bytes that the loopback interface, the only one between the nodes, has carried.
fn carried() -> u64 {
    let text = fs::read_to_string("/proc/net/dev").expect("read");
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("lo:"));
    let first = line.and_then(|line| line.split_whitespace().next());
    first.and_then(|word| word.parse().ok()).expect("a count")
}

/// Bytes of memory of the machine.
fn memory() -> f64 {
    let text = fs::read_to_string("/proc/meminfo").expect("read");
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let words = line.and_then(|line| line.split_whitespace().next());
    1024.0 * words.and_then(|word| word.parse::<f64>().ok()).expect("kB")
}

/// The rate, end and hosts that a running job shows agree with its limit, the clock and the kernel.
fn assert_plausible(progress: &Value) {
    let rate = number(&progress["bytes_per_second"]);
    assert!(rate < 2.0 * LIMIT as f64, "{progress}");
    let moment = |value: &Value| -> Timestamp {
        serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {progress}"))
    };
    // No job ends before its limit lets it.
    let rest = number(&progress["bytes_total"]) - number(&progress["bytes"]);
    let left = moment(&progress["forecast"]["likely"]).0 - moment(&progress["at"]).0;
    assert!(
        left as f64 >= 500.0 * rest / LIMIT as f64,
        "{left} ms: {progress}"
    );
    let all = memory();
    for node in progress["nodes"].as_array().expect("nodes") {
        for host in ["host", "other_host"] {
            let available = number(&node[host]["memory_available_bytes"]);
            assert!(available > 0.0 && available <= all, "{host}: {node}");
        }
    }
}

/// The transfers of all nodes took processor time, and no more than all processors have. As in a job of one node, the receiving nodes can
/// say the memory of a transfer that was alone there. A sending node cannot.
fn assert_used(summary: &Value, seconds: f64) {
    let processors = std::thread::available_parallelism()
        .expect("a number")
        .get() as f64;
    let spent = |end: &str| number(&summary["cpu_seconds"][end]);
    let (here, there) = (spent("source"), spent("destination"));
    assert!(here > 0.0 && there > 0.0, "{summary}");
    assert!(here + there <= processors * seconds, "{summary}");
    let memory_used = &summary["max_rss_bytes"];
    assert!(memory_used["source"].is_null(), "{summary}");
    let most = number(&memory_used["destination"]);
    assert!(most > 0.0 && most <= memory(), "{summary}");
}

/// The labels of the time series of this name that are of the job, each with its value.
fn series(metrics: &str, name: &str, job: &str) -> Vec<(String, f64)> {
    let own = format!("job_id=\"{job}\"");
    let lines = metrics.lines().filter_map(|line| {
        let (labels, value) = line
            .strip_prefix(name)?
            .strip_prefix('{')?
            .split_once("} ")?;
        labels
            .contains(&own)
            .then(|| (labels.to_owned(), value.parse().expect("a number")))
    });
    lines.collect()
}

/// The sum of the figures of this name in the metrics of these nodes.
fn sum_of<'a>(nodes: impl IntoIterator<Item = &'a Rig>, begin: &str) -> f64 {
    let metrics = nodes.into_iter().map(|node| Caller::admin(node).metrics());
    let figures = metrics.flat_map(|metrics| {
        let lines = metrics.lines().filter(|line| line.starts_with(begin));
        let figures = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        figures.collect::<Vec<_>>()
    });
    figures.sum()
}

/// `top` shows the rates of the job and its three nodes as the JSON document has them.
fn assert_top_is_true(asked: &Rig, id: &str) {
    let seen = wait_until(|| {
        let document = json(asked, &["top", "--json"]);
        let progress = document["jobs"][0]["progress"].clone();
        let nodes = progress["nodes"].as_array()?.clone();
        (nodes.len() == 3 && number(&progress["bytes_per_second"]) > 0.0)
            .then_some((document, nodes))
    });
    let (document, nodes) = seen.expect("a rate of three nodes");
    let job = &document["jobs"][0];
    assert_eq!(job["id"], *id, "{document}");
    let whole = number(&job["progress"]["bytes_per_second"]);
    let sum: f64 = nodes
        .iter()
        .map(|node| number(&node["bytes_per_second"]))
        .sum();
    assert!(
        (sum - whole).abs() <= 0.01 * whole,
        "{sum}, not {whole}: {document}"
    );
    assert_eq!(document["work"][0]["job"], *id, "{document}");
    let moves = wait_until(|| {
        let top = asked.admin(&["top", "--once"]).out;
        let head = top.lines().next().unwrap_or_default();
        let is_whole = head.contains("1 running") && !head.ends_with(" 0 B/s");
        let lines = top.lines().filter(|line| line.starts_with(id));
        let (hosts, rows): (Vec<_>, Vec<_>) =
            lines.partition(|line| line.contains(": processors "));
        // Several nodes may send to one for a while.
        let (others, own): (Vec<_>, Vec<_>) = hosts
            .into_iter()
            .partition(|line| line.contains(" (other end): "));
        let has_hosts = own.len() == 3 && !others.is_empty();
        // The job, and each of its nodes.
        (is_whole && has_hosts && rows.len() >= 4 && top.contains("LIMITED BY")).then_some(())
    });
    assert!(moves.is_some(), "{}", asked.admin(&["top", "--once"]).out);
}

/// Each node of the cluster counts the ended job once, and the transfers of all nodes have its bytes.
fn assert_counted(site: &Site, bytes: u64) {
    let bytes = bytes as f64;
    let sent = "godwit_peer_moved_bytes_total{peer=\"siteB\",direction=\"send\"}";
    let of_all = wait_until(|| (sum_of(&site.nodes, sent) >= bytes).then_some(()));
    let sum = sum_of(&site.nodes, sent);
    assert!(of_all.is_some() && sum <= bytes, "{sum}, not {bytes}");
    for node in &site.nodes {
        for (figure, wanted) in [
            ("godwit_moved_bytes_total{runs=\"here\"} ", bytes),
            ("godwit_jobs{state=\"complete\",asked=\"here\"} ", 1.0),
            (
                "godwit_attempts_total{outcome=\"complete\",asked=\"here\"} ",
                1.0,
            ),
        ] {
            let seen = wait_until(|| (sum_of([node], figure) >= wanted).then_some(()));
            let now = sum_of([node], figure);
            assert!(
                seen.is_some() && now <= wanted,
                "{figure}{now}, not {wanted}"
            );
        }
    }
}

#[test]
fn a_job_of_three_nodes_and_three_shows_its_whole_course() {
    let (from, to) = (Site::of(3), Site::of(3));
    know(&from, &to);
    let set = from.nodes[0].export.join("set");
    for n in 0..240_u32 {
        let directory = set.join(format!("d{}", n % 24));
        fs::create_dir_all(&directory).expect("made");
        let content: Vec<u8> = (0..250_000_u32)
            .flat_map(|at| (at ^ n).to_le_bytes())
            .collect();
        fs::write(directory.join(format!("f{n}")), content).expect("written");
    }
    let limit = LIMIT.to_string();
    let line = ["--limit", limit.as_str(), "--divide", "always"];
    let asked = &from.nodes[1];
    let (carried_before, submitted) = (carried(), Instant::now());
    let id = submit(asked, "here:/data/set", "siteB:/data/copy", &line);
    let all = counted(&set);
    // Everything is known once the scans are done and all nodes report.
    let job = wait_for(asked, &id, |job| {
        assert!(job["ended"].is_null(), "too early: {job}");
        let progress = &job["progress"];
        let rate = number(&progress["bytes_per_second"]);
        progress["bytes_total"] == all.0
            && progress["files_total"] == all.1
            && progress["scanning"] == false
            && telling(progress) == 3
            && progress["bottleneck"].is_string()
            && progress["forecast"]["likely"].is_string()
            && rate > 0.0
    });
    let progress = &job["progress"];
    assert_plausible(progress);
    let text = progress["bottleneck_text"].as_str().expect("a sentence");
    assert!(
        text.contains("12.0 MB/s") || text.contains(" at "),
        "{text}"
    );
    let done = number(&progress["bytes"]);
    assert!(
        done > 0.0 && done <= number(&progress["bytes_total"]),
        "{progress}"
    );
    // Nothing is done that has not crossed the interface before.
    let crossed = carried() - carried_before;
    assert!(
        progress["bytes"].as_u64() <= Some(crossed),
        "{crossed}: {progress}"
    );
    assert!(
        number(&progress["stages"]["write_bytes_per_second"]) >= 0.0,
        "{progress}"
    );
    let shown = asked.admin(&["job", "show", &id]).out;
    for word in [
        "rate",
        "left",
        "limited by",
        "node ",
        "host ",
        " (other end): processors ",
        " of 240 MB",
        " of 240 files",
    ] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    let top = asked.admin(&["top", "--once"]).out;
    assert!(top.contains("LIMITED BY") && top.contains('%'), "{top}");
    assert_top_is_true(asked, &id);
    // The node that runs the job has the series of each node at work, and they add up to that of the job.
    let metrics = wait_until(|| {
        let metrics = from.nodes.iter().map(|node| Caller::admin(node).metrics());
        let mut metrics = metrics.collect::<Vec<_>>().into_iter();
        metrics.find(|metrics| series(metrics, "godwit_job_node_rate_bytes", &id).len() == 3)
    });
    let metrics = metrics.expect("a node that runs the job");
    let rates = series(&metrics, "godwit_job_node_rate_bytes", &id);
    assert_eq!(rates.len(), 3, "{rates:?}");
    let whole = series(&metrics, "godwit_job_rate_bytes", &id)[0].1;
    let sum: f64 = rates.iter().map(|(_, rate)| rate).sum();
    assert!(
        (sum - whole).abs() <= 0.01 * whole,
        "{sum}, not {whole}: {rates:?}"
    );
    let figure = |name: &str| series(&metrics, name, &id)[0].1;
    assert_eq!(figure("godwit_job_size_bytes"), all.0 as f64, "{metrics}");
    assert_eq!(figure("godwit_job_files"), all.1 as f64, "{metrics}");
    let done = figure("godwit_job_done_bytes");
    assert!(done > 0.0 && done <= all.0 as f64, "{done}");
    // No job ends before its limit lets it.
    let left = figure("godwit_job_left_seconds");
    assert!(left >= 0.5 * (all.0 as f64 - done) / LIMIT as f64, "{left}");
    let limited = series(&metrics, "godwit_job_node_limited", &id);
    assert!(!limited.is_empty(), "{metrics}");
    let hosts = series(&metrics, "godwit_job_host", &id);
    for end in ["own", "other"] {
        let memory = hosts.iter().filter(|(labels, value)| {
            labels.contains(&format!("end=\"{end}\""))
                && labels.contains("figure=\"memory_available_bytes\"")
                && *value > 0.0
        });
        assert_eq!(memory.count(), 3, "{end}: {hosts:?}");
    }
    let watched = asked.admin(&["job", "watch", &id]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
    let said = watched.said();
    for words in [
        "3 nodes at work: ",
        "limited by ",
        " (other end): processors ",
        " of 240 MB",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let ended = wait_for(asked, &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    let copy = to.nodes[0].export.join("copy");
    assert_identical_to_rsync("-aH", &set, &copy);
    let copied = counted(&copy);
    assert_eq!(copied, all);
    for of in ["moved", "summary"] {
        let figures = &ended[of];
        assert_eq!(
            (&figures["bytes"], &figures["files"]),
            (&copied.0.into(), &copied.1.into()),
            "{ended}"
        );
    }
    assert_counted(&from, copied.0);
    let report = json(asked, &["job", "report", &id, "--json"]);
    assert_eq!(report["bytes_moved"], copied.0, "{report}");
    let nodes = report["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), 3, "{nodes:?}");
    let shares: f64 = nodes.iter().map(|node| number(&node["share"])).sum();
    assert!((shares - 1.0).abs() < 0.01, "{nodes:?}");
    let even = &report["evenness"];
    assert!(number(&even["nodes"]) > 0.0, "{even}");
    assert!(number(&even["nodes"]) <= 1.0, "{even}");
    let text = asked.admin(&["job", "report", &id]).out;
    for words in [
        "FIRST SEEN",
        "LAST SEEN",
        " was done first and ",
        " last, ",
        "limited by ",
        " % of the time",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // By the clock: the limit held, and no sample contradicts it.
    let seconds = number(&report["seconds_running"]);
    assert!(
        number(&report["bytes_moved"]) / seconds < 1.15 * LIMIT as f64,
        "{seconds} s"
    );
    assert!(ended["summary"]["bottleneck"].is_string(), "{ended}");
    // The summary has the time of the whole attempt, and no more than the clock.
    let of_summary = number(&ended["summary"]["seconds"]);
    assert!(
        of_summary >= 0.8 * seconds && of_summary <= submitted.elapsed().as_secs_f64(),
        "{of_summary} of {seconds} s: {ended}"
    );
    assert_used(&ended["summary"], submitted.elapsed().as_secs_f64());
    let samples = report["samples"].as_array().expect("samples");
    let most = samples
        .iter()
        .map(|one| number(&one["bytes"]))
        .fold(0.0, f64::max);
    assert!(most <= number(&report["bytes_moved"]), "{most}");
    let crossed = carried() - carried_before;
    assert!(crossed >= copied.0, "{crossed} bytes crossed the interface");
    let page = Caller::admin(asked).get(&format!("jobs/{id}/report.html"));
    let page = page.expect(200).as_str().expect("text").to_owned();
    for row in nodes {
        let name = row["node"].as_str().expect("a name");
        assert!(page.contains(&format!("<td>{name}")), "{name}: {page}");
    }
    assert!(page.contains("240 MB"), "{page}");
    let limits = page.matches("<th>Limited by<td>").count();
    assert_eq!(limits, 1, "{page}");
    // Each of the three sends to another node.
    let (own, others): (Vec<_>, Vec<_>) = page
        .split("<h3>Host of ")
        .skip(1)
        .filter_map(|part| part.split("</h3>").next())
        .partition(|name| !name.contains("other end"));
    assert_eq!((own.len(), others.len()), (3, 3), "{own:?} {others:?}");
    let sum = from.nodes.iter().fold((0, 0), |sum, node| {
        let (bytes, files) = accounted(node, &id);
        (sum.0 + bytes, sum.1 + files)
    });
    assert_eq!(sum, copied);
}

/// The figures of the host that receives are in the samples, and in everything that is made of them.
#[test]
fn a_job_of_one_node_shows_the_hosts_of_both_ends() {
    let (here, _there) = two_sites();
    here.write("export/large", vec![7; 100 << 20]);
    let line = ["--limit", "8MB"];
    let id = submit(&here, "here:/data/large", "siteB:/data/copy", &line);
    let job = wait_for(&here, &id, |job| {
        assert!(job["ended"].is_null(), "too early: {job}");
        let progress = &job["progress"];
        ["host", "other_host"]
            .iter()
            .all(|host| number(&progress[*host]["cpu_user"]) >= 0.0)
    });
    let memory = number(&job["progress"]["other_host"]["memory_available_bytes"]);
    assert!(memory > 0.0, "{job}");
    let shown = here.admin(&["job", "show", &id]).out;
    assert!(shown.contains("siteB (other end): processors "), "{shown}");
    let metrics = Caller::admin(&here).metrics();
    let hosts = series(&metrics, "godwit_job_host", &id);
    let is_other = |(labels, _): &&(String, f64)| labels.contains("end=\"other\"");
    assert!(hosts.iter().any(|one| is_other(&one)), "{metrics}");
    let sampled = wait_until(|| {
        let report = json(&here, &["job", "report", &id, "--json"]);
        let samples = report["samples"].as_array().expect("samples");
        let has = |sample: &&Value| number(&sample["other_host"]["cpu_user"]) >= 0.0;
        (samples.iter().filter(has).count() > 1).then_some(())
    });
    assert!(sampled.is_some(), "no sample has the other end");
    here.admin(&["job", "limit", &id, "none"]);
    let ended = wait_for(&here, &id, |job| !job["ended"].is_null());
    assert_eq!(ended["state"], "complete", "{ended}");
    let page = Caller::admin(&here).get(&format!("jobs/{id}/report.html"));
    let page = page.expect(200).as_str().expect("text").to_owned();
    let title = "<h3>Host of siteB (other end)</h3>";
    assert!(page.contains(title), "{page}");
    let (_, of_other) = page.split_once(title).expect("drawn");
    assert!(
        of_other.contains("aria-label=\"Processors busy\""),
        "{page}"
    );
}
