//! Owns the search for data of others on a device or file that is to become a buffer: file systems, partition tables, RAID, LVM, swap,
//! encryption. Reads both ends of the device, and the places where such data has its marks.
//!
//! Offsets and marks are those of public documentation: `linux/*_fs.h`, the headers of the tools, and blkid(8), which knows the same.

use std::io;

use godwit_sys::page_buffer::PageBuffer;

use crate::backing::Backing;
use crate::layout::PAGE;
use crate::superblock::MAGIC;

/// A mark at a fixed place: name, offset, bytes.
type Mark = (&'static str, u64, &'static [u8]);

/// Marks, counted from the beginning.
const FROM_START: [Mark; 34] = [
    ("a transfer buffer", 0, &MAGIC),
    ("a transfer buffer", 64 << 10, &MAGIC),
    ("a GPT partition table", 512, b"EFI PART"),
    ("a GPT partition table", 4096, b"EFI PART"),
    ("ext2, ext3 or ext4", 1024 + 56, &[0x53, 0xef]),
    ("xfs", 0, b"XFSB"),
    ("btrfs", (64 << 10) + 64, b"_BHRfS_M"),
    ("an LVM physical volume", 0, b"LABELONE"),
    ("an LVM physical volume", 512, b"LABELONE"),
    ("an LVM physical volume", 1024, b"LABELONE"),
    ("an LVM physical volume", 1536, b"LABELONE"),
    ("a member of an md RAID", 0, &MD_MARK),
    ("a member of an md RAID", 4096, &MD_MARK),
    ("swap", 4096 - 10, b"SWAPSPACE2"),
    ("swap", 4096 - 10, b"SWAP-SPACE"),
    ("swap", (16 << 10) - 10, b"SWAPSPACE2"),
    ("swap", (64 << 10) - 10, b"SWAPSPACE2"),
    ("a suspended system", 4096 - 10, b"S1SUSPEND"),
    ("LUKS encryption", 0, b"LUKS\xba\xbe"),
    ("LUKS encryption", 16 << 10, b"SKUL\xba\xbe"),
    (
        "bcache or bcachefs",
        4096 + 24,
        &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca],
    ),
    (
        "bcachefs",
        4096 + 24,
        &[0xc6, 0x85, 0x73, 0xf6, 0x66, 0xce, 0x90, 0xa9],
    ),
    ("f2fs", 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    ("NTFS", 3, b"NTFS    "),
    ("exFAT", 3, b"EXFAT   "),
    ("APFS", 32, b"NXSB"),
    ("HFS+", 1024, b"H+\0\x04"),
    ("squashfs", 0, b"hsqs"),
    ("ISO 9660", (32 << 10) + 1, b"CD001"),
    ("JFS", 32 << 10, b"JFS1"),
    ("GFS2", 64 << 10, &[0x01, 0x16, 0x19, 0x70]),
    ("Ceph BlueStore", 0, b"bluestore block device"),
    ("Stratis", 512 + 4, b"!Stra0tis\x86\xff\x02^"),
    ("dm-verity or dm-integrity", 0, b"verity\0\0"),
];

/// The number 0xa92b4efc.
const MD_MARK: [u8; 4] = [0xfc, 0x4e, 0x2b, 0xa9];
/// The first bytes of an uberblock of ZFS, in the byte order of its writer.
const ZFS_MARKS: [[u8; 8]; 2] = [
    [0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0xba, 0xb1, 0x0c],
];
/// The name of other data.
const UNKNOWN: &str = "data of an unknown kind";
/// Size of a label of ZFS; two lie at each end. Its second half has the uberblocks.
const ZFS_LABEL: u64 = 256 << 10;
/// Bytes at each end that are looked at.
const END_BYTES: u64 = 1 << 20;

/// Finds the owner of the data on a device of `bytes` bytes. `None` if both ends have only zeros, or there is no byte.
///
/// # Errors
/// The kernel's error.
pub fn find(backing: &dyn Backing, bytes: u64) -> io::Result<Option<&'static str>> {
    let pages = bytes / PAGE * PAGE;
    let some = END_BYTES.min(pages);
    if some == 0 {
        // Direct I/O cannot read less than a page. A key is as short.
        return Ok((bytes > 0).then_some(UNKNOWN));
    }
    let mut start = PageBuffer::new(usize::try_from(some).unwrap_or(usize::MAX))?;
    backing.read_at(0, &mut start)?;
    let mut end = PageBuffer::new(usize::try_from(some).unwrap_or(usize::MAX))?;
    let end_at = pages - some;
    backing.read_at(end_at, &mut end)?;
    Ok(name(&start, &end, end_at, bytes))
}

/// Names the owner of the data, given both ends. `end` begins at `end_at`.
fn name(start: &[u8], end: &[u8], end_at: u64, bytes: u64) -> Option<&'static str> {
    let has = |at: u64, mark: &[u8]| {
        let from = |part: &[u8], at: u64| {
            let at = usize::try_from(at).ok()?;
            Some(part.get(at..)?.starts_with(mark))
        };
        let behind = at.checked_sub(end_at).and_then(|at| from(end, at));
        from(start, at).unwrap_or(false) || behind.unwrap_or(false)
    };
    if let Some((name, ..)) = FROM_START.iter().find(|(_, at, mark)| has(*at, mark)) {
        return Some(name);
    }
    let from_end = |before: u64| bytes.checked_sub(before);
    let gpt = [512, 4096].into_iter().filter_map(from_end);
    if gpt.into_iter().any(|at| has(at, b"EFI PART")) {
        return Some("a GPT partition table");
    }
    // Version 1.0 lies 8 KiB before the end, version 0.90 in the last 64 KiB that are aligned.
    let sectors = bytes / 512;
    let md = [
        sectors.checked_sub(16).map(|at| (at & !7) * 512),
        (bytes & !0xffff).checked_sub(64 << 10),
    ];
    if md.into_iter().flatten().any(|at| has(at, &MD_MARK)) {
        return Some("a member of an md RAID");
    }
    let imsm = [512, 1024].into_iter().filter_map(from_end);
    if imsm
        .into_iter()
        .any(|at| has(at, b"Intel Raid ISM Cfg. Sig."))
    {
        return Some("a member of an Intel RAID");
    }
    let aligned = bytes / ZFS_LABEL * ZFS_LABEL;
    let labels = [
        Some(0),
        Some(ZFS_LABEL),
        aligned.checked_sub(2 * ZFS_LABEL),
        aligned.checked_sub(ZFS_LABEL),
    ];
    for label in labels.into_iter().flatten() {
        let uberblocks = (ZFS_LABEL / 2..ZFS_LABEL).step_by(1024);
        for at in uberblocks.map(|at| label + at) {
            if ZFS_MARKS.iter().any(|mark| has(at, mark)) {
                return Some("ZFS");
            }
        }
    }
    if has(510, &[0x55, 0xaa]) {
        return Some("a partition table or boot sector");
    }
    let is_zero = |part: &[u8]| part.iter().all(|byte| *byte == 0);
    (!is_zero(start) || !is_zero(end)).then_some(UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = (40 << 20) + 512;

    fn named(marks: &[(u64, &[u8])]) -> Option<&'static str> {
        let mut start = vec![0; usize::try_from(END_BYTES).expect("small")];
        let mut end = vec![0; usize::try_from(END_BYTES).expect("small")];
        let end_at = BYTES / PAGE * PAGE - END_BYTES;
        for (at, mark) in marks {
            let (part, at) = match at.checked_sub(end_at) {
                Some(at) => (&mut end, at),
                None => (&mut start, *at),
            };
            let at = usize::try_from(at).expect("small");
            let some = mark.len().min(part.len().saturating_sub(at));
            part[at..at + some].copy_from_slice(&mark[..some]);
        }
        name(&start, &end, end_at, BYTES)
    }

    #[test]
    fn each_mark_is_found_at_its_place_and_only_there() {
        for (name, at, mark) in FROM_START {
            assert_eq!(named(&[(at, mark)]), Some(name));
            let beside = named(&[(at + 128, mark)]);
            assert_eq!(beside, Some("data of an unknown kind"), "{name}");
        }
        assert_eq!(named(&[]), None);
    }

    #[test]
    fn marks_at_the_end_are_found() {
        let aligned = BYTES / ZFS_LABEL * ZFS_LABEL;
        for (at, mark, name) in [
            (
                (BYTES & !0xffff) - (64 << 10),
                &MD_MARK[..],
                "a member of an md RAID",
            ),
            (
                ((BYTES / 512 - 16) & !7) * 512,
                &MD_MARK,
                "a member of an md RAID",
            ),
            (aligned - ZFS_LABEL / 2 + 3072, &ZFS_MARKS[0], "ZFS"),
            (aligned - ZFS_LABEL - 1024, &ZFS_MARKS[1], "ZFS"),
            (ZFS_LABEL + ZFS_LABEL / 2, &ZFS_MARKS[0], "ZFS"),
            (510, &[0x55, 0xaa], "a partition table or boot sector"),
        ] {
            assert_eq!(named(&[(at, mark)]), Some(name), "{at}");
        }
    }
}
