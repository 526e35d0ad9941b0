//! Random numbers that are the same for the same seed. Knows nothing of transfers.

pub(crate) use godwit_seeded::Seeded as Random;
