//! Tests the page: the files that the node serves, their headers, and who gets them.
//! The behaviour of the page is tested in a browser.

use crate::world::World;

const HTML: &[(&str, &str)] = &[("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];

#[test]
fn every_address_of_the_page_gives_the_page_and_programs_get_problems() {
    let world = World::new();
    let client = world.client();
    for path in ["/", "/jobs", "/jobs/0abc?tab=log", "/no/such/view"] {
        let page = client.send("GET", path, HTML, Vec::new()).expect(200);
        assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
        let policy = page.header("content-security-policy");
        assert!(policy.contains("default-src 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(page.header("x-content-type-options"), "nosniff");
        assert_eq!(page.header("referrer-policy"), "no-referrer");
        assert_eq!(page.header("cache-control"), "no-cache");
        let etag = page.header("etag").to_owned();
        let again = [HTML[0], ("if-none-match", &etag)];
        let again = client.send("GET", path, &again, Vec::new()).expect(304);
        assert!(again.body.is_empty());
    }
    let send = |path: &str| client.send("GET", path, HTML, Vec::new());
    for path in ["/api/v1/nothing", "/api", "/docs/x", "/assets/none.js"] {
        send(path).expect_problem(404, "no_such_route");
    }
    client.get("/jobs").expect_problem(404, "no_such_route");
    client
        .send("POST", "/jobs", HTML, Vec::new())
        .expect_problem(405, "no_such_method");
}

#[test]
fn assets_come_compressed_and_stay_with_the_browser() {
    let world = World::new();
    let client = world.client();
    let index = client.send("GET", "/", HTML, Vec::new()).expect(200);
    let index = String::from_utf8(index.body).unwrap();
    let script = index.split("src=\"").nth(1).unwrap();
    let script = script.split('"').next().unwrap();
    let plain = client.get(script).expect(200);
    assert_eq!(
        plain.header("content-type"),
        "text/javascript; charset=utf-8"
    );
    assert!(plain.header("cache-control").contains("immutable"));
    assert!(!plain.headers.contains_key("content-encoding"));
    for (asked, given) in [
        ("br, gzip", "br"),
        ("gzip", "gzip"),
        ("br;q=0, gzip", "gzip"),
    ] {
        let headers = [("accept-encoding", asked)];
        let short = client.send("GET", script, &headers, Vec::new()).expect(200);
        assert_eq!(short.header("content-encoding"), given);
        assert!(short.body.len() < plain.body.len() / 2);
        assert_eq!(short.header("vary"), "accept-encoding");
    }
}
