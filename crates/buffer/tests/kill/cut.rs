//! Owns what a power cut does to a device: writes that no flush followed are dropped, sector by sector. The process that writes remembers the
//! older content of each range; after its kill, the test puts some of it back. Decides no moment of a cut.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use godwit_buffer::backing::Backing;
use godwit_buffer::device::{Access, Device};
use godwit_buffer::layout::Layout;
use godwit_seeded::Seeded;
use godwit_sys::page_buffer::PageBuffer;

const SECTOR: usize = 512;
const PAGE: usize = 4096;

/// A device of which each write since the last flush can be undone.
pub(crate) struct Undoable {
    device: Device,
    /// Offset, length and older content of each write since the last flush.
    undo: File,
}

impl Undoable {
    pub(crate) fn open(device: &Path, undo: &Path) -> io::Result<Self> {
        Ok(Self {
            device: Device::open(device, Access::Own)?,
            undo: OpenOptions::new().create(true).append(true).open(undo)?,
        })
    }

    /// Remembers a range before it changes. The file outlives a kill of this process.
    fn remember(&self, offset: u64, bytes: usize) -> io::Result<()> {
        let mut older = PageBuffer::new(bytes)?;
        self.device.read_at(offset, &mut older)?;
        let head = [offset.to_le_bytes(), (bytes as u64).to_le_bytes()].concat();
        (&self.undo).write_all(&head)?;
        (&self.undo).write_all(&older)
    }
}

impl Backing for Undoable {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.device.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.remember(offset, data.len())?;
        self.device.write_at(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.device.sync()?;
        self.undo.set_len(0)
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.remember(offset, usize::try_from(bytes).expect("an extent"))?;
        self.device.discard(offset, bytes)
    }

    fn has_room(&self, layout: &Layout) -> io::Result<bool> {
        self.device.has_room(layout)
    }
}

/// Drops some of the writes that no flush followed, after the process that made them is gone. Returns the number of dropped sectors.
pub(crate) fn cut(device: &Path, undo: &Path, seeded: &mut Seeded) -> u64 {
    let olds = remembered(undo);
    let device = Device::open(device, Access::Own).expect("free");
    let mut page = PageBuffer::new(PAGE).expect("memory");
    // None of the writes are dropped, or all, or some.
    let most = [0, 100, 50, 5][usize::try_from(seeded.below(4)).expect("small")];
    let mut pages: BTreeMap<u64, Vec<(usize, Vec<u8>)>> = BTreeMap::new();
    let mut dropped = 0;
    for (at, olds) in olds {
        if seeded.below(100) >= most {
            continue;
        }
        // A sector may have been written several times; each of its contents may be the last one on the device.
        let which = match most {
            100 => 0,
            _ => usize::try_from(seeded.below(olds.len() as u64)).expect("small"),
        };
        let within = usize::try_from(at % PAGE as u64).expect("small");
        let of_page = pages.entry(at - within as u64).or_default();
        of_page.push((within, olds[which].clone()));
        dropped += 1;
    }
    for (at, sectors) in pages {
        device.read_at(at, &mut page).expect("readable");
        for (within, old) in sectors {
            page[within..within + SECTOR].copy_from_slice(&old);
        }
        device.write_at(at, &page).expect("written");
    }
    device.sync().expect("durable");
    std::fs::remove_file(undo).expect("removed");
    dropped
}

/// The older contents of each sector, the oldest first.
fn remembered(undo: &Path) -> BTreeMap<u64, Vec<Vec<u8>>> {
    let mut bytes = Vec::new();
    File::open(undo)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .expect("the writer has made it");
    let mut olds: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
    let mut rest = &bytes[..];
    while let Some((head, behind)) = rest.split_at_checked(16) {
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight"));
        let (offset, length) = (number(&head[..8]), number(&head[8..]));
        // Before its last record was whole, the write had not begun.
        let length = usize::try_from(length).expect("small");
        let Some((older, behind)) = behind.split_at_checked(length) else {
            break;
        };
        for (number, sector) in (0..).zip(older.chunks(SECTOR)) {
            let at = offset + number * SECTOR as u64;
            olds.entry(at).or_default().push(sector.to_vec());
        }
        rest = behind;
    }
    olds
}
