//! Converts the engine's bottleneck to an event, with advice for the settings that the user chose. Does not find the bottleneck.

use godwit_api::event::{Evidence, Limited};
use godwit_api::settings::{CpSettings, Encryption};
use godwit_engine::{Bottleneck, Chosen, Finding};
use godwit_net::check_congestion;
use godwit_store::digest::DigestKind;

pub(super) fn limited(finding: Finding) -> Limited {
    Limited {
        stage: finding.stage,
        evidence: Evidence {
            figure: finding.figure,
            advice: finding.advice,
        },
    }
}

/// The event if both ends are here, where no network can be the limit.
pub(super) fn limited_here(finding: Finding) -> Option<Limited> {
    (finding.stage != Bottleneck::Network).then(|| limited(finding))
}

/// The settings in force that advice depends on. `sends` is true if this end sends over a network. The kernel of another machine
/// is unknown here.
pub(super) fn chosen(settings: &CpSettings, sends: bool) -> Chosen {
    let free = |bounds: godwit_api::settings::Bounds| bounds.least < bounds.most;
    let sharing = &settings.sharing;
    let undecided = sharing.congestion.is_empty() && !sharing.background;
    Chosen {
        streams_most: settings.streams.most,
        readers_free: free(settings.readers),
        writers_free: free(settings.writers),
        costly_digest: settings.digest != DigestKind::Crc64Nvme,
        encrypted: settings.encryption != Encryption::None,
        syncs: !settings.no_sync,
        bbr_is_left: sends && undecided && bbr_is_left(),
    }
}

/// The settings if both ends are here: data is not encrypted, and streams cost nothing.
pub(super) fn chosen_here(settings: &CpSettings) -> Chosen {
    Chosen {
        encrypted: false,
        ..chosen(settings, false)
    }
}

/// Whether sockets of this machine may use `bbr` but do not by default.
fn bbr_is_left() -> bool {
    let usual = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
    usual.is_ok_and(|usual| !usual.starts_with("bbr"))
        && check_congestion("bbr", "this machine").is_ok()
}
