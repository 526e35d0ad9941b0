//! Leads what is told of transfers to the log and to accounting.
//! Makes nothing of it itself.

use std::sync::Arc;

use godwit_api::record::{HearTransfers, TransferNews};
use godwit_api::settings::ServeSettings;

use super::accounting::Accounting;
use super::log;
use crate::home::Home;

/// Where news of transfers go.
pub(super) struct News {
    accounting: Arc<Accounting>,
}

impl News {
    pub(super) fn new(settings: &ServeSettings, home: &Home) -> Self {
        let accounting = Accounting::new(home.path(), settings.keep_accounting);
        Self {
            accounting: Arc::new(accounting),
        }
    }

    /// For those who have news.
    pub(super) fn hearer(&self) -> Arc<HearTransfers> {
        let accounting = Arc::clone(&self.accounting);
        Arc::new(move |news: &TransferNews| {
            log::tell(news);
            if let TransferNews::Ended(record) = news
                && let Some(trouble) = accounting.add(record)
            {
                log::warn(&trouble);
            }
        })
    }
}
