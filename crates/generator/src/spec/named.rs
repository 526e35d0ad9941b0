//! Owns the names of data sets from papers. The grammar (`spec`) reads the items that the names
//! stand for.

/// The item that a name stands for.
pub(super) fn named(name: &str) -> Option<&'static str> {
    let found = SETS.iter().find(|(known, _)| *known == name);
    found.map(|(_, item)| *item)
}

/// The text that lists the names of the same paper, if the name has a prefix from [`PAPERS`].
pub(super) fn others(name: &str) -> Option<&'static str> {
    let found = PAPERS.iter().find(|(paper, _)| name.starts_with(paper));
    found.map(|(_, names)| *names)
}

/// Prefixes of names, and for each the text that lists the names of the paper.
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

/// The data sets of SLAC-TN-15-002, of the paper of 2016 on zx, and of the paper on MemzNet.
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
