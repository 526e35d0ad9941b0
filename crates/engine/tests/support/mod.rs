//! Random numbers that are the same for the same seed. Does not depend on transfers.

pub(crate) use godwit_seeded::Seeded as Random;
