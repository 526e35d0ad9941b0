//! Owns the requests for the order in which contents are sent. Does not order contents.

use super::Open;
use crate::control::Direction;
use crate::error::WireError;

impl Open {
    pub(super) fn validate_order(&self) -> Result<(), WireError> {
        let receives = self.direction() == Direction::PULL;
        if self.in_order && !receives {
            return Err(WireError::invalid(
                "writing in order",
                "is requested by a side that does not receive",
            ));
        }
        if self.random_order && (self.in_order || !receives) {
            return Err(WireError::invalid(
                "a random order",
                "is requested by a side that does not receive, or that writes in order",
            ));
        }
        Ok(())
    }
}
