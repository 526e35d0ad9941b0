//! Temporary files of a cancelled job at its destination: the log names their number, and the owner of the job removes them at once.
//! See `places` for the rules for other temporary files.

use serde_json::json;

use super::super::judge::{files_below, is_temporary};
use super::super::process::wait_until;
use super::super::rest::Caller;
use super::{moved, submit, two_sites, wait_for};

#[test]
fn leftovers_of_a_cancelled_job_are_reported_and_removed_at_once() {
    let (here, there) = two_sites();
    here.write("export/run42/large", vec![7; 64 << 20]);
    let otto = Caller::user(&here, "otto", "operator");
    for more in ["auto", "always"] {
        let line = ["--limit", "8MB", "--divide", more];
        let id = submit(&here, "here:/data/run42", "siteB:/data/copy", &line);
        wait_for(&here, &id, |job| moved(job) > 16_000_000);
        let too_early = here.admin(&["clean", "--job", &id]);
        assert!(
            too_early.complaint.contains("cancel the job first"),
            "{too_early:?}"
        );
        let outcome = here.admin(&["job", "cancel", &id]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let log = wait_until(|| {
            let log = here.admin(&["job", "log", &id]).out;
            log.contains("the cancelled job leaves").then_some(log)
        });
        let log = log.unwrap_or_else(|| here.admin(&["job", "log", &id]).out);
        let temporary = || {
            let files = files_below(&there.export).into_iter();
            files.filter(|path| is_temporary(path)).count()
        };
        if more == "always" {
            // The data that was on the network may be gone with its claim. From then on the sentence is true.
            let said = match temporary() {
                0 => "leaves no temporary files at siteB:/data/copy".to_owned(),
                1 => "leaves 1 temporary file with ".to_owned(),
                count => format!("leaves {count} temporary files with "),
            };
            assert!(log.contains(&said), "{said}: {log}");
            let reported = here.admin(&["clean", "--job", &id]);
            assert_eq!(reported.code, Some(0), "{reported:?}");
            assert_eq!(temporary(), 0, "{reported:?}");
        } else {
            assert!(log.contains("leaves 1 temporary file with "), "{log}");
            assert!(log.contains("at siteB:/data/copy"), "{log}");
            assert!(log.contains(&format!("godwit clean --job {id}")), "{log}");
            let reported = here.admin(&["clean", "--dry-run", "--job", &id]);
            let line = "would remove 1 temporary file";
            assert!(reported.out.contains(line), "{reported:?}\n{log}");
            // The job means the site that had the name then.
            let rename = |identity: &str| {
                let line = ["site", "add", "siteB", there.address(), "--identity"];
                let outcome = here.admin(&[&line[..], &[identity]].concat());
                assert_eq!(outcome.code, Some(0), "{outcome:?}");
            };
            rename(&format!("gw1-{}a", "b".repeat(51)));
            let refused = here.admin(&["clean", "--job", &id]);
            assert_ne!(refused.code, Some(0), "{refused:?}");
            let says = "has changed since the job was submitted";
            assert!(refused.complaint.contains(says), "{refused:?}");
            rename(&there.identity);
        }
        otto.post("places/clean", &json!({"job": id})).expect(403);
        // The site may need a moment to learn that the transfer is over.
        let is_clean = wait_until(|| {
            let reported = here.admin(&["clean", "--job", &id]);
            assert_eq!(reported.code, Some(0), "{reported:?}");
            let mut files = files_below(&there.export).into_iter();
            (!files.any(|path| is_temporary(&path))).then_some(())
        });
        assert!(is_clean.is_some(), "{:?}", files_below(&there.export));
    }
}
