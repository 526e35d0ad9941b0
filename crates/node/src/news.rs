//! Passes news of transfers to the log, to accounting and to the figures.
//! Derives nothing from the news.

use std::sync::{Arc, OnceLock};

use godwit_api::record::{NewsSink, TransferNews};
use godwit_api::settings::ServeSettings;

use crate::accounting::Accounting;
use crate::log;
use godwit_run::Home;

/// Where news of transfers go.
pub(crate) struct News {
    accounting: Arc<Accounting>,
    /// The figures of the API, once it is there.
    figures: Arc<OnceLock<Arc<NewsSink>>>,
}

impl News {
    pub(crate) fn new(settings: &ServeSettings, home: &Home) -> Self {
        let accounting = Accounting::new(home.path(), settings.keep_accounting);
        Self {
            accounting: Arc::new(accounting),
            figures: Arc::default(),
        }
    }

    /// Makes the figures count all later news.
    pub(crate) fn count(&self, figures: Arc<NewsSink>) {
        // There is one API.
        let _ = self.figures.set(figures);
    }

    /// Returns the function that takes news.
    pub(crate) fn news_sink(&self) -> Arc<NewsSink> {
        let (accounting, figures) = (Arc::clone(&self.accounting), Arc::clone(&self.figures));
        Arc::new(move |news: &TransferNews| {
            log::write_news(news);
            if let Some(figures) = figures.get() {
                figures(news);
            }
            if let TransferNews::Ended(record) = news
                && let Some(trouble) = accounting.add(record)
            {
                log::warn(&trouble);
            }
        })
    }
}
