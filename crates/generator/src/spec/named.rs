//! Owns the names of data sets from papers. The grammar (`spec`) reads what they stand for.

/// The item that a name stands for.
pub(super) fn named(name: &str) -> Option<&'static str> {
    let found = SETS.iter().find(|(known, _)| *known == name);
    found.map(|(_, item)| *item)
}

/// The names of the papers whose names begin like this one.
pub(super) fn others(name: &str) -> Option<&'static str> {
    let found = PAPERS.iter().find(|(paper, _)| name.starts_with(paper));
    found.map(|(_, names)| *names)
}

/// Beginnings of names, and a description of an error for each.
pub(super) const PAPERS: [(&str, &str); 2] = [
    (
        "zx-",
        "the sets are zx-200GiB, zx-50GiB, zx-30GiB, zx-20GiB, zx-50MiB, zx-1MiB, zx-8KiB, zx-mixed",
    ),
    (
        "memznet-",
        "the sets are memznet-10MB, memznet-100MB, memznet-1GB",
    ),
];

/// The sets of SLAC-TN-15-002 and of the paper of 2016 on zx, and of the paper on MemzNet.
pub(super) const SETS: [(&str, &str); 11] = [
    ("zx-200GiB", "1x200GiB"),
    ("zx-50GiB", "4x50GiB"),
    ("zx-30GiB", "10x30GiB"),
    ("zx-20GiB", "50x20GiB"),
    ("zx-50MiB", "20000x50MiB"),
    ("zx-1MiB", "1000000x1MiB"),
    ("zx-8KiB", "327680x8KiB"),
    ("zx-mixed", "uniform:200000x8KiB..4MiB"),
    ("memznet-10MB", "2000x10MB"),
    ("memznet-100MB", "200x100MB"),
    ("memznet-1GB", "20x1GB"),
];
