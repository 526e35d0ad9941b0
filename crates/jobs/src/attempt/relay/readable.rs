//! Checks before a round that the site of the taker lets this node read there, because the relay of the complete copy is checked there.
//! Reads no file: no digests exist yet.

use godwit_api::ask::{Question, ReachSite, Refusal, code};
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::job::Text;
use godwit_state::Site;

use super::{Checks, Ends, WITHIN};
use crate::asking::reached;
use crate::basis::spec;

impl Checks<'_> {
    /// Refuses a taker whose site does not let this node read the copy later.
    pub(super) fn check_readable(&self, ends: &Ends) -> Result<(), Failure> {
        if ends.to.is_here() {
            return Ok(());
        }
        let taker = self.site_of(ends, &ends.to.site)?;
        let giver = match ends.from.is_here() {
            true => reached::peer(&taker),
            false => reached::peer(&self.site_of(ends, &ends.from.site)?),
        };
        let goes_on = || !self.control.is_cancelled();
        let refused = |no: Refusal| {
            let code = match no.code.known() {
                Some(code::NOT_GRANTED | code::PERMISSION) => FailureCode::AccessDenied,
                Some(code) => code,
                None => FailureCode::PeerFailed,
            };
            Failure::new(code, format!("{}: {}", ends.to, no.message))
        };
        let path = ends.to.below_exports();
        let living = reached::living(self.asking, taker, &path, &goes_on).map_err(refused)?;
        let node = reached::peer(&living.site);
        // The site checks the right before it connects.
        let question = Question::Reach(ReachSite {
            peer: giver,
            paths: vec![Text(path)],
            write: false,
        });
        match reached::ask(self.asking, &node, &question, WITHIN, &goes_on) {
            // The giver may connect to the taker instead.
            Err(no) if no.code != code::UNREACHABLE => Err(refused(no)),
            _ => Ok(()),
        }
    }

    fn site_of(&self, ends: &Ends, name: &str) -> Result<Site, Failure> {
        let reader = self.asking.this.reader();
        let site = ends.stored.site(&reader, name);
        site.and_then(|site| site.ok_or_else(|| spec::unknown_site(name)))
            .map_err(Failure::local)
    }
}
