//! Examples of the commands for schedules, flows and webhooks.
//! Parses nothing.

use super::{Example, example};

/// Examples by the words of the command after `godwit`.
pub(super) const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "schedule",
        &[
            example(
                "godwit schedule add nightly '0 22 * * *' here:/data/run42 siteB:/archive/nightly/",
                "each night at ten",
            ),
            example("godwit schedule list", "the next starts and their times"),
        ],
    ),
    (
        "schedule add",
        &[
            example(
                "godwit schedule add nightly '0 22 * * mon-fri' here:/data/run42 siteB:/archive/run42 --sync --exclude '*.tmp'",
                "on working days, without temporary files",
            ),
            example(
                "godwit schedule add nightly '0 22 * * *' --from siteB:/raw --from siteC:/raw --to here:/archive --merge newest",
                "gather two sites: of each name the newest file",
            ),
        ],
    ),
    (
        "schedule list",
        &[example(
            "godwit schedule list",
            "the next starts and their times",
        )],
    ),
    (
        "schedule disable",
        &[example("godwit schedule disable nightly", "for a time")],
    ),
    (
        "schedule enable",
        &[example("godwit schedule enable nightly", "again")],
    ),
    (
        "schedule remove",
        &[example("godwit schedule remove nightly", "for good")],
    ),
    (
        "flow",
        &[example("godwit flow list", "files that wait, and how long")],
    ),
    (
        "flow add",
        &[
            example(
                "godwit flow add night --from telescope:/raw --to centre:/archive --then partners:/in",
                "pass each file on as soon as it is whole",
            ),
            example(
                "godwit flow add night --from here:/raw --to siteB:/archive --then siteC:/in --hop 2:limit=100MB --exclude '*.tmp'",
                "with a slow second hop, without temporary files",
            ),
        ],
    ),
    (
        "flow list",
        &[example("godwit flow list", "files that wait, and how long")],
    ),
    (
        "flow show",
        &[example(
            "godwit flow show night",
            "each hop, and why one does not move",
        )],
    ),
    (
        "flow pause",
        &[example("godwit flow pause night", "for a time")],
    ),
    (
        "flow resume",
        &[example("godwit flow resume night", "again")],
    ),
    (
        "flow remove",
        &[example("godwit flow remove night", "for good")],
    ),
    (
        "webhook",
        &[
            example(
                "godwit webhook add chat https://chat.example.org/godwit --event failed,partial",
                "what went wrong",
            ),
            example("godwit webhook list", "list the webhooks"),
        ],
    ),
    (
        "webhook add",
        &[example(
            "godwit webhook add chat https://chat.example.org/godwit --event failed,partial > key",
            "report failed jobs; the key of the signatures goes to the file",
        )],
    ),
    (
        "webhook list",
        &[example("godwit webhook list", "list the webhooks")],
    ),
    (
        "webhook deliveries",
        &[example(
            "godwit webhook deliveries chat",
            "what came through",
        )],
    ),
    (
        "webhook disable",
        &[example("godwit webhook disable chat", "for now")],
    ),
    (
        "webhook enable",
        &[example("godwit webhook enable chat", "again")],
    ),
    (
        "webhook remove",
        &[example("godwit webhook remove chat", "for good")],
    ),
];
