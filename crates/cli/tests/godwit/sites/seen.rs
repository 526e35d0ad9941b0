//! A divided job while it runs, for a viewer without any rule: each answer and the stream of events have an outline.
//! See the tests of the API for jobs of one node and for ended jobs.

use super::super::rest::Caller;
use super::{submit, two_sites, wait_for};

/// Words of the paths, and the address of the other site, which is in the names of network paths.
const HIDDEN: [&str; 3] = ["secret-run", "secret-copy", "127.0.0.1"];

#[test]
fn a_viewer_reads_an_outline_of_a_divided_job_that_runs() {
    let (here, _there) = two_sites();
    here.write("export/secret-run/large", vec![7; 64 << 20]);
    let (admin, vera) = (Caller::admin(&here), Caller::user(&here, "vera", "viewer"));
    let line = ["--limit", "4MB", "--divide", "always"];
    let (from, to) = ("here:/data/secret-run", "siteB:/data/secret-copy");
    let id = submit(&here, from, to, &line);
    wait_for(&here, &id, |job| {
        let some = |what: &str| {
            job["progress"][what]
                .as_array()
                .is_some_and(|all| !all.is_empty())
        };
        some("nodes") && some("channels")
    });
    let paths = [
        "jobs".to_owned(),
        format!("jobs/{id}"),
        format!("jobs/{id}/attempts"),
        format!("jobs/{id}/description"),
        format!("jobs/{id}/failures"),
        format!("jobs/{id}/samples"),
        format!("jobs/{id}/work"),
        // The job, and how far it is.
        format!("events?job={id}&limit=4"),
    ];
    let read = |caller: &Caller<'_>, path: &str| caller.get(path).expect(200).to_string();
    let mut whole = String::new();
    for path in &paths {
        let reported = read(&vera, path);
        for word in HIDDEN {
            assert!(!reported.contains(word), "{path}: {reported}");
        }
        if path.starts_with("events") {
            assert!(reported.contains("event: progress"), "{reported}");
        }
        whole.push_str(&read(&admin, path));
    }
    for word in HIDDEN {
        assert!(whole.contains(word), "{word}: {whole}");
    }
    assert!(read(&admin, &format!("jobs/{id}/work")).contains("secret-run"));
    for part in ["log", "report", "report.html"] {
        vera.get(&format!("jobs/{id}/{part}")).expect(403);
    }
    assert!(!vera.get("cluster").expect(200).is_null());
    let outcome = here.admin(&["job", "cancel", &id]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}
