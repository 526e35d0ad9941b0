//! Tests of the plots of a report.
//! Reads the drawn text only.

use std::collections::BTreeMap;

use godwit_api::rest::Timestamp;

use super::*;
use crate::report::hosts;

fn sample(second: i64, attempt: u32, bottleneck: Option<Bottleneck>) -> SampleView {
    let host = |value: f64| BTreeMap::from([("cpu_core_0".to_owned(), value)]);
    SampleView {
        at: Timestamp(second * 1_000),
        attempt,
        bytes_per_second: 5.0,
        bottleneck,
        host: host(0.5),
        other_host: host(0.4),
        ..SampleView::default()
    }
}

fn drawn(samples: &[SampleView]) -> String {
    let mut page = String::new();
    let found = hosts::all(samples, &[], &["here:/a", "<site>:/b"]);
    all(&mut page, samples, &found).expect("text");
    page
}

/// The figures with this title.
fn figures<'a>(page: &'a str, title: &str) -> Vec<&'a str> {
    let label = format!("aria-label=\"{title}\"");
    let parts = page.split(label.as_str()).skip(1);
    parts
        .map(|part| part.split("</svg>").next().expect("it ends"))
        .collect()
}

#[test]
fn a_bottleneck_has_one_bar_for_as_long_as_it_lasts() {
    let samples = [
        sample(0, 1, None),
        sample(1, 1, Some(Bottleneck::Network)),
        sample(2, 1, Some(Bottleneck::Network)),
        sample(3, 1, Some(Bottleneck::SourceStorage)),
        sample(9, 2, Some(Bottleneck::Network)),
    ];
    let page = drawn(&samples);
    assert_eq!(page.matches("<rect").count(), 3, "{page}");
    assert_eq!(page.matches("class=\"key\"").count(), 2, "{page}");
    assert!(page.contains("source storage"), "{page}");
    assert!(
        page.contains("Host of here<") && page.contains("Host of &lt;site&gt; (other end)<"),
        "{page}"
    );
    // A rate needs two samples of one attempt; the second attempt has one value, which is a point.
    let parts = |title: &str| {
        let parts = |figure: &&str| {
            let count = |sign: &str| figure.matches(sign).count();
            (count("<polyline"), count("<circle"))
        };
        figures(&page, title).iter().map(parts).collect::<Vec<_>>()
    };
    assert_eq!(parts("Rate"), [(1, 0)]);
    assert_eq!(parts("Streams"), [(1, 1)]);
    assert_eq!(parts("Each core"), [(1, 1), (1, 1)]);
    assert!(!page.contains("Disks"), "{page}");
}

#[test]
fn plots_have_axes_with_units_and_gaps_where_nothing_was_measured() {
    let mut samples: Vec<_> = (0..20).map(|second| sample(second, 1, None)).collect();
    // Ten seconds of silence, and one sample without figures of the other end.
    samples.extend((30..40).map(|second| sample(second, 1, None)));
    samples[5].other_host.clear();
    let page = drawn(&samples);
    let count = |figure: &str, sign: &str| figure.matches(sign).count();
    let rate = figures(&page, "Rate")[0];
    assert_eq!(count(rate, "<polyline"), 2, "{rate}");
    for label in ["00:00:10<", "00:00:30<", ">6 B/s<", ">3 B/s<", ">0 B/s<"] {
        assert!(rate.contains(label), "{label}: {rate}");
    }
    let cores = figures(&page, "Each core");
    assert_eq!(count(cores[0], "<polyline"), 2, "{cores:?}");
    assert_eq!(count(cores[1], "<polyline"), 3, "{cores:?}");
    assert!(cores[0].contains(">60 %<"), "{cores:?}");
    for figure in page.split("<svg").skip(1) {
        assert!(count(figure, "class=\"time\"") >= 2, "{figure}");
    }
}

#[test]
fn a_long_job_has_no_more_points_than_the_plot_has_room_for() {
    let samples: Vec<_> = (0..2_000).map(|second| sample(second, 1, None)).collect();
    let page = drawn(&samples);
    let rate = figures(&page, "Rate")[0];
    let (_, points) = rate.split_once("points=\"").expect("a line");
    let points = points.split('"').next().expect("it ends");
    let count = points.split_whitespace().count();
    assert!((150..=POINTS_MAX).contains(&count), "{count}");
}

#[test]
fn the_highest_bar_is_that_of_most_samples() {
    let mut page = String::new();
    histogram(&mut page, &[1, 4, 0]).expect("text");
    let heights: Vec<&str> = page.split(" height=\"").skip(1).collect();
    assert!(
        heights[0].starts_with("5.0") && heights[1].starts_with("20.0"),
        "{page}"
    );
    assert!(heights[2].starts_with("0.0"), "{page}");
}
