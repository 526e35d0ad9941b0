//! Owns the figures of the room in the exports of the node.
//! Makes no room, and refuses no job.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use godwit_api::rest::ExportView;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::config::ExportInfo;
use crate::routes::node::exports_of;

/// A file system that answers later, such as one whose server is unreachable, has no figures. The others do not wait for it.
const LOOK_WITHIN: Duration = Duration::from_millis(250);

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(super) struct ExportLabel {
    pub(super) export: String,
}

/// The figures, one time series for each export.
#[derive(Default)]
pub(super) struct RoomMetrics {
    free: Family<ExportLabel, Gauge>,
    total: Family<ExportLabel, Gauge>,
    /// A thread is looking at the file systems. At most one such thread hangs.
    looks: Arc<AtomicBool>,
}

impl RoomMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "export_free",
            "Free space in the file system of each export",
            Unit::Bytes,
            self.free.clone(),
        );
        registry.register_with_unit(
            "export_size",
            "Size of the file system of each export",
            Unit::Bytes,
            self.total.clone(),
        );
    }

    /// Sets the current figures.
    pub(super) fn set(&self, exports: &[ExportInfo]) {
        self.free.clear();
        self.total.clear();
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        for view in self.look(exports) {
            let label = ExportLabel { export: view.name };
            if let (Some(free), Some(total)) = (view.bytes_free, view.bytes_total) {
                self.free.get_or_create(&label).set(whole(free));
                self.total.get_or_create(&label).set(whole(total));
            }
        }
    }

    /// Looks at the file systems, in a thread that may hang. Returns none of them if that takes too long.
    fn look(&self, exports: &[ExportInfo]) -> Vec<ExportView> {
        if self.looks.swap(true, Ordering::AcqRel) {
            return Vec::new();
        }
        let (sender, receiver) = sync_channel(1);
        let (looks, exports) = (Arc::clone(&self.looks), exports.to_vec());
        let look = move || {
            let seen = exports_of(&exports);
            looks.store(false, Ordering::Release);
            // Fails if the request stopped waiting.
            let _ = sender.send(seen);
        };
        let thread = std::thread::Builder::new().name("gw-room".to_owned());
        if thread.spawn(look).is_err() {
            self.looks.store(false, Ordering::Release);
        }
        receiver.recv_timeout(LOOK_WITHIN).unwrap_or_default()
    }
}
