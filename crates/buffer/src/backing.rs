//! Owns the narrow interface between a volume and its bytes: a device, a directory, or the hostile ones of tests. Knows the places of
//! slots, and nothing else of the format.

use std::io;
use std::sync::Arc;

use crate::extent::SlotIndex;
use crate::layout::Layout;

/// The bytes below a volume. Several threads may call it at once, for different ranges.
///
/// The log lies below `layout.data_at`, in one range of bytes. A directory keeps each slot in a file.
pub trait Backing: Send + Sync {
    /// Reads exactly these bytes of the log.
    ///
    /// # Errors
    /// The kernel's error; `UnexpectedEof` if there are fewer bytes.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes these bytes of the log; not durable before [`Self::sync`].
    ///
    /// # Errors
    /// The kernel's error.
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Makes all ended writes of the log durable.
    ///
    /// # Errors
    /// The kernel's error. After an error, a later success does not prove that the earlier writes are durable.
    fn sync(&self) -> io::Result<()>;

    /// Discards these bytes, which are no longer needed.
    ///
    /// # Errors
    /// The kernel's error, often that the device has no such operation.
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()>;

    /// Makes room for a new volume.
    ///
    /// # Errors
    /// The kernel's error.
    fn prepare(&self, layout: &Layout) -> io::Result<()> {
        let _ = layout;
        Ok(())
    }

    /// Whether a volume of this geometry has room here.
    ///
    /// # Errors
    /// The kernel's error.
    fn has_room(&self, layout: &Layout) -> io::Result<bool> {
        let _ = layout;
        Ok(true)
    }

    /// Reads the beginning of a slot.
    ///
    /// # Errors
    /// As [`Self::read_at`].
    fn read_slot(&self, layout: &Layout, slot: SlotIndex, buffer: &mut [u8]) -> io::Result<()> {
        self.read_at(layout.slot_at(slot), buffer)
    }

    /// Writes the beginning of a slot.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    fn write_slot(&self, layout: &Layout, slot: SlotIndex, data: &[u8]) -> io::Result<()> {
        self.write_at(layout.slot_at(slot), data)
    }

    /// Makes the contents of these slots durable.
    ///
    /// # Errors
    /// As [`Self::sync`].
    fn sync_slots(&self, layout: &Layout, slots: &[SlotIndex]) -> io::Result<()> {
        let _ = (layout, slots);
        self.sync()
    }

    /// Discards the content of a slot, which is no longer needed.
    ///
    /// # Errors
    /// As [`Self::discard`].
    fn discard_slot(&self, layout: &Layout, slot: SlotIndex) -> io::Result<()> {
        self.discard(layout.slot_at(slot), u64::from(layout.extent_bytes))
    }

    /// Removes the data that earlier processes left in unused slots. `is_held` says which slots hold something.
    ///
    /// # Errors
    /// The kernel's error.
    fn sweep(&self, layout: &Layout, is_held: &dyn Fn(SlotIndex) -> bool) -> io::Result<()> {
        let _ = (layout, is_held);
        Ok(())
    }
}

impl Backing for Arc<dyn Backing> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        (**self).read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        (**self).write_at(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        (**self).sync()
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        (**self).discard(offset, bytes)
    }

    fn prepare(&self, layout: &Layout) -> io::Result<()> {
        (**self).prepare(layout)
    }

    fn has_room(&self, layout: &Layout) -> io::Result<bool> {
        (**self).has_room(layout)
    }

    fn read_slot(&self, layout: &Layout, slot: SlotIndex, buffer: &mut [u8]) -> io::Result<()> {
        (**self).read_slot(layout, slot, buffer)
    }

    fn write_slot(&self, layout: &Layout, slot: SlotIndex, data: &[u8]) -> io::Result<()> {
        (**self).write_slot(layout, slot, data)
    }

    fn sync_slots(&self, layout: &Layout, slots: &[SlotIndex]) -> io::Result<()> {
        (**self).sync_slots(layout, slots)
    }

    fn discard_slot(&self, layout: &Layout, slot: SlotIndex) -> io::Result<()> {
        (**self).discard_slot(layout, slot)
    }

    fn sweep(&self, layout: &Layout, is_held: &dyn Fn(SlotIndex) -> bool) -> io::Result<()> {
        (**self).sweep(layout, is_held)
    }
}
