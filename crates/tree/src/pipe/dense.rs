//! A source that returns holes as zeros, for a destination that writes in order and needs each byte. Reads
//! nothing itself.

use std::ops::Range;
use std::sync::Arc;

use godwit_engine::{ReadError, Source, SourceFile};
use godwit_proto::{Fault, Record};

/// Wraps another source, without holes.
pub struct InOrder(Arc<dyn Source>);

impl InOrder {
    /// A source with the same bytes as `source`.
    pub fn new(source: Arc<dyn Source>) -> Self {
        Self(source)
    }
}

impl Source for InOrder {
    fn open(&self, record: &Record) -> Result<Arc<dyn SourceFile>, Fault> {
        Ok(Arc::new(Dense {
            file: self.0.open(record)?,
            bytes: record.bytes,
        }))
    }

    fn read_whole(&self, record: &Record, buffer: &mut [u8]) -> Result<usize, ReadError> {
        self.0.read_whole(record, buffer)
    }

    fn read_whole_again(&self, record: &Record, buffer: &mut [u8]) -> Result<usize, ReadError> {
        self.0.read_whole_again(record, buffer)
    }

    fn reads_again(&self) -> bool {
        self.0.reads_again()
    }

    fn close(&self) {
        self.0.close();
    }

    fn refresh(&self, record: &Record) -> Result<Record, Fault> {
        self.0.refresh(record)
    }
}

struct Dense {
    file: Arc<dyn SourceFile>,
    bytes: u64,
}

impl SourceFile for Dense {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.file.read_at(offset, buffer)
    }

    fn read_again(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.file.read_again(offset, buffer)
    }

    fn read_next(&self, buffer: &mut [u8]) -> Result<(usize, bool), ReadError> {
        self.file.read_next(buffer)
    }

    fn lend(&self, offset: u64, bytes: usize) -> Option<&'static [u8]> {
        self.file.lend(offset, bytes)
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, ReadError> {
        Ok((offset < self.bytes).then_some(offset..self.bytes))
    }

    fn generation(&self) -> Result<u64, ReadError> {
        self.file.generation()
    }
}
