//! Owns the cases of growth: they compare the cost of many files and bytes with that of few.
//! Measures nothing.

use super::super::data::Load;
use super::table::Table;
use super::{Bar, Case, Class, Expect, Kind, Suite};

/// The most memory that more data may add, and the largest growth of the processor time for each byte or file.
const GROWTH: Expect = Expect::Growth {
    bytes_max: 32 << 20,
    cpu_ratio_max: 1.25,
};

impl Table<'_> {
    /// Cases that measure the cost of more data.
    pub(super) fn growth(&self) -> Vec<Case> {
        let files = |files: u64| Load::Files {
            files,
            bytes: 0,
            directories: files / 1000,
        };
        let many = self.scaled(3_000_000);
        let memory = |gigabytes: u64| Load::Memory {
            bytes: self.scaled(gigabytes << 30),
        };
        let each = [
            // With fewer files the processor time would be only a few steps of the kernel's clock.
            ("grow-files", files(many), files(many.min(10_000))),
            ("grow-bytes", memory(64), memory(1)),
        ];
        let each = each.map(|(name, load, beside)| {
            let mut case = Case::new(name, Class::Encrypted, load);
            case.beside = Some(beside);
            // Each run is long, and the bar is far above the noise.
            case.rounds_max = Some(if self.suite == Suite::Quick { 1 } else { 3 });
            case.bars = vec![Bar {
                reference: Kind::GodwitBeside,
                expect: GROWTH,
            }];
            case
        });
        each.into()
    }
}
