//! Examples of `godwit cluster`.
//! Parses nothing.

use super::{Example, example};

/// Examples by the words of the command after `godwit`.
pub(super) const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "cluster",
        &[
            example(
                "godwit cluster invite > token",
                "on any node: let one other node join",
            ),
            example(
                "godwit serve --export data=/srv --join dtn1:7272 --token-file token",
                "on the node that joins",
            ),
            example("godwit cluster status", "show the nodes and their states"),
        ],
    ),
    (
        "cluster invite",
        &[
            example("godwit cluster invite > token", "a token for one node"),
            example("godwit cluster invite --expires 10m", "for ten minutes"),
        ],
    ),
    (
        "cluster invites",
        &[example(
            "godwit cluster invites",
            "who made each invitation, and is it used?",
        )],
    ),
    (
        "cluster revoke",
        &[example(
            "godwit cluster revoke 01jdq8x5k2m",
            "an invitation that went to the wrong person",
        )],
    ),
    (
        "cluster status",
        &[example("godwit cluster status", "the leader's view")],
    ),
    (
        "cluster drain",
        &[
            example(
                "godwit cluster drain dtn2",
                "before maintenance of the machine",
            ),
            example("godwit cluster drain dtn2 --undo", "after the maintenance"),
        ],
    ),
    (
        "cluster promote",
        &[example(
            "godwit cluster promote dtn4",
            "let the more reliable machine vote",
        )],
    ),
    (
        "cluster remove",
        &[
            example(
                "godwit cluster remove dtn2",
                "remove a drained or lost node",
            ),
            example(
                "godwit cluster remove --force dtn2",
                "remove a node that still answers",
            ),
        ],
    ),
    (
        "cluster recover",
        &[example(
            "godwit cluster recover --yes",
            "after the loss of two of three voters",
        )],
    ),
    (
        "cluster leave",
        &[example(
            "godwit cluster leave",
            "before the node joins again",
        )],
    ),
];
