//! Tests of the order of jobs.
//! Tests no scheduler.

use super::*;
use crate::basis::examples::job;

fn ids(jobs: &[Job]) -> Vec<&str> {
    jobs.iter().map(|job| job.id.as_str()).collect()
}

#[test]
fn owners_take_turns_in_each_order_of_arrival() {
    let waiting = vec![
        job("a1", "alice", "siteB"),
        job("a2", "alice", "siteB"),
        job("a3", "alice", "siteB"),
        job("b1", "bob", "siteB"),
    ];
    let rules = Rules {
        node_max: 2,
        ..Rules::default()
    };
    let plan = choose(waiting, &[], &[], &rules);
    assert_eq!(ids(&plan.start), ["a1", "b1"]);
    assert_eq!(plan.wait.len(), 2);
    assert!(
        plan.wait
            .iter()
            .all(|(_, why)| why.code == FailureCode::JobsOfNode)
    );
}

#[test]
fn sites_of_one_parent_take_turns_and_other_jobs_keep_their_order() {
    let children = [
        ("p1", "siteB"),
        ("p2", "siteB"),
        ("p3", "siteB"),
        ("p4", "siteC"),
    ];
    let waiting: Vec<Job> = [("a1", "siteB"), ("a2", "siteB")]
        .iter()
        .chain(&children)
        .map(|(id, site)| job(id, "alice", site))
        .collect();
    let parents = children.map(|(id, _)| (id.to_owned(), "p0".to_owned()));
    let rules = Rules {
        node_max: 4,
        parents: HashMap::from(parents),
        ..Rules::default()
    };
    let plan = choose(waiting.clone(), &[], &[], &rules);
    assert_eq!(ids(&plan.start), ["a1", "a2", "p4", "p1"]);
    // A higher priority goes first still.
    let mut urgent = waiting;
    urgent.remove(0);
    urgent.remove(0);
    urgent[0].priority = 1;
    let plan = choose(urgent, &[], &[], &rules);
    assert_eq!(ids(&plan.start), ["p1", "p4", "p2", "p3"]);
    // The site's limit binds its own jobs alone.
    let rules = Rules {
        site_max: HashMap::from([("siteB".to_owned(), 1)]),
        ..rules
    };
    let waiting = children.map(|(id, site)| job(id, "alice", site)).to_vec();
    let plan = choose(waiting, &[], &[], &rules);
    assert_eq!(ids(&plan.start), ["p1", "p4"]);
}

/// The limit of a site is shared by users and guests, too.
#[test]
fn jobs_of_other_sites_leave_places_with_a_site() {
    for (max, of_one, of_all) in [(1, 1, 1), (2, 1, 1), (4, 2, 3), (16, 9, 12)] {
        let rules = Rules {
            node_max: 100,
            site_max: HashMap::from([("siteB".to_owned(), max)]),
            ..Rules::default()
        };
        let guests = |owners: &[&str]| -> Vec<Job> {
            let ids = (0..20).flat_map(|n| owners.iter().map(move |owner| (n, *owner)));
            ids.map(|(n, owner)| {
                job(
                    &format!("g{n}{owner}"),
                    &format!("site:gw1-{owner}"),
                    "siteB",
                )
            })
            .collect()
        };
        let plan = choose(guests(&["c"]), &[], &[], &rules);
        assert_eq!(plan.start.len(), of_one, "one site of {max}");
        assert!(
            plan.wait
                .iter()
                .all(|(_, why)| why.code == FailureCode::JobsOfSite)
        );
        let plan = choose(guests(&["c", "d", "e", "f"]), &[], &[], &rules);
        assert_eq!(plan.start.len(), of_all, "all sites of {max}");
        let running = running_of(&plan.start, plan.start.len());
        let own = choose(vec![job("a", "alice", "siteB")], &running, &[], &rules);
        assert_eq!(own.start.len(), usize::from(max > 1), "of {max}");
    }
}

/// A site controls the other end of its jobs, so it can keep them running for ever.
#[test]
fn jobs_of_other_sites_leave_places_to_those_of_this_site() {
    for (node_max, of_sites, of_one) in [(1, 1, 1), (2, 1, 1), (4, 3, 2), (8, 6, 5), (32, 24, 18)] {
        let rules = Rules {
            node_max,
            ..Rules::default()
        };
        let guests = |sites: usize| {
            let ids = (0..node_max * 2).map(|n| (n, n % sites));
            ids.map(|(n, site)| job(&format!("g{n}"), &format!("site:gw1-{site}"), "siteB"))
                .collect::<Vec<_>>()
        };
        for sites in [1, 3] {
            let plan = choose(guests(sites), &[], &[], &rules);
            let places = if sites == 1 { of_one } else { of_sites };
            assert_eq!(plan.start.len(), places, "{sites} sites, {node_max} places");
            assert!(
                plan.wait
                    .iter()
                    .all(|(_, why)| why.code == FailureCode::JobsOfNode)
            );
        }
        // Those that run count, and own jobs take all places.
        let running = running_of(&guests(3), of_sites);
        let own = (0..node_max).map(|n| job(&format!("a{n}"), "alice", "siteB"));
        let plan = choose(own.chain(guests(1)).collect(), &running, &[], &rules);
        assert_eq!(plan.start.len(), node_max - of_sites);
        assert!(plan.start.iter().all(|job| job.owner == "alice"));
        // Jobs that other nodes run take no place here.
        let plan = choose(guests(1), &[], &running, &rules);
        assert_eq!(plan.start.len(), of_one);
        // A site with endless jobs leaves job slots to another site.
        let running = &running_of(&guests(1), of_one);
        let further = vec![job("f", "site:gw1-f", "siteB")];
        let plan = choose(further, running, &[], &rules);
        assert_eq!(plan.start.len(), usize::from(of_sites > of_one));
    }
}

fn running_of(jobs: &[Job], number: usize) -> Vec<ActiveJob> {
    let running = jobs.iter().take(number).map(|job| ActiveJob {
        sites: sites_of(job),
        owner: job.owner.clone(),
    });
    running.collect()
}

#[test]
fn a_heavier_share_gets_more_turns() {
    let mut waiting = Vec::new();
    for n in 0..10 {
        waiting.push(job(&format!("a{n}"), "alice", "siteB"));
        waiting.push(job(&format!("b{n}"), "bob", "siteB"));
    }
    let rules = Rules {
        node_max: 8,
        weights: HashMap::from([("alice".to_owned(), 3)]),
        ..Rules::default()
    };
    let plan = choose(waiting, &[], &[], &rules);
    let of_alice = plan.start.iter().filter(|job| job.owner == "alice").count();
    assert_eq!((of_alice, plan.start.len()), (6, 8));
}

#[test]
fn a_job_that_waits_for_a_full_site_does_not_delay_other_jobs() {
    let running = [ActiveJob {
        owner: "alice".to_owned(),
        sites: vec!["siteB".to_owned()],
    }];
    let waiting = vec![job("a1", "alice", "siteB"), job("a2", "alice", "siteC")];
    let rules = Rules {
        node_max: 4,
        site_max: HashMap::from([("siteB".to_owned(), 1)]),
        ..Rules::default()
    };
    let plan = choose(waiting, &running, &[], &rules);
    assert_eq!(ids(&plan.start), ["a2"]);
    assert_eq!(plan.wait[0].1.code, FailureCode::JobsOfSite);
}

#[test]
fn an_owner_has_as_many_as_the_limit_says() {
    let waiting = vec![job("a1", "alice", "siteB"), job("a2", "alice", "siteB")];
    let rules = Rules {
        node_max: 4,
        owner_max: HashMap::from([("alice".to_owned(), 1)]),
        ..Rules::default()
    };
    let plan = choose(waiting, &[], &[], &rules);
    assert_eq!(ids(&plan.start), ["a1"]);
    assert_eq!(plan.wait[0].1.code, FailureCode::JobsOfOwner);
}

#[test]
fn the_least_limit_counts_and_shared_ones_are_divided() {
    assert_eq!(rate(None, &[(None, 3)]), 0);
    assert_eq!(rate(Some(50), &[(None, 3)]), 50);
    assert_eq!(rate(Some(50), &[(Some(90), 3), (Some(1_000), 1)]), 30);
    assert_eq!(rate(None, &[(Some(1), 3)]), 1);
}
