//! Turns the engine's finding of the bottleneck into an event, with the settings that the user chose.
//! Finds nothing out itself.

use godwit_api::event::{Limited, LimitedTold};
use godwit_api::settings::{CpSettings, Digest, Encryption};
use godwit_engine::{Bottleneck, Chosen, Finding};
use godwit_net::check_congestion;

pub(super) fn limited(finding: Finding) -> Limited {
    Limited {
        stage: finding.stage.as_str().to_owned(),
        told: LimitedTold {
            figure: finding.figure,
            advice: finding.advice,
        },
    }
}

/// The same with both ends here: no network between them can limit anything.
pub(super) fn limited_here(finding: Finding) -> Option<Limited> {
    (finding.stage != Bottleneck::Network).then(|| limited(finding))
}

/// The settings in force, as far as advice depends on them. `sends` says that this end sends over a network. The kernel of another
/// machine is unknown here.
pub(super) fn chosen(settings: &CpSettings, sends: bool) -> Chosen {
    let free = |bounds: godwit_api::settings::Bounds| bounds.least < bounds.most;
    let sharing = &settings.sharing;
    let undecided = sharing.congestion.is_empty() && !sharing.background;
    Chosen {
        streams_most: settings.streams.most,
        readers_free: free(settings.readers),
        writers_free: free(settings.writers),
        costly_digest: settings.digest != Digest::Crc64Nvme,
        encrypted: settings.encryption != Encryption::None,
        syncs: !settings.no_sync,
        bbr_is_left: sends && undecided && bbr_is_left(),
    }
}

/// The same with both ends here: nothing is encrypted, and streams cost nothing.
pub(super) fn chosen_here(settings: &CpSettings) -> Chosen {
    Chosen {
        encrypted: false,
        ..chosen(settings, false)
    }
}

/// Whether sockets of this machine may use `bbr` but do not use it by default.
fn bbr_is_left() -> bool {
    let usual = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
    usual.is_ok_and(|usual| !usual.starts_with("bbr"))
        && check_congestion("bbr", "this machine").is_ok()
}
