//! Owns what may be asked of the order in which contents come.
//! Does not know how they are put in it.

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
