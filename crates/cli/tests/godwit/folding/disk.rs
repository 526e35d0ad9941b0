//! A file system in memory, by FUSE, that keeps the spelling of a name without dots at its end, and finds the name in any letter case.
//! Knows as much of the protocol as one transfer needs; does not test its contents.
//!
//! File systems of cameras and other systems do the same. Each spelling gives an entry another inode number, as some drivers do.

#![expect(
    clippy::host_endian_bytes,
    reason = "the kernel speaks in the order of the machine"
)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use godwit_testkit::{needs_fuse, needs_root};

const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
const ENOTDIR: i32 = 20;
const EISDIR: i32 = 21;
const EINVAL: i32 = 22;
const ENOSYS: i32 = 38;
const ENOTEMPTY: i32 = 39;

const DIRECTORY: u32 = 0o040_000;
const FORMAT: u32 = 0o170_000;
const ROOT: u64 = 1;
/// Shift of the number of a spelling, above that of its entry.
const SPELLING_SHIFT: u32 = 32;
const IN_HEADER_BYTES: usize = 40;
const WRITE_BYTES_MAX: u32 = 128 << 10;

/// The file system, mounted. The file system is unmounted when this value is dropped.
pub(crate) struct FoldingDisk {
    at: PathBuf,
}

impl FoldingDisk {
    /// None for a user who may not mount it.
    pub(crate) fn mount(at: &Path) -> Option<Self> {
        if !needs_root() || !needs_fuse() {
            return None;
        }
        std::fs::create_dir_all(at).expect("made");
        let device = File::options()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .expect("FUSE");
        // The command's standard input is the device.
        let options = "fd=0,rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions";
        let mounted = Command::new("mount")
            .args(["-i", "-t", "fuse", "-o", options, "folding"])
            .arg(at)
            .stdin(device.try_clone().expect("a handle"))
            .status();
        assert!(mounted.expect("mount runs").success(), "root can mount");
        let disk = Self { at: at.to_owned() };
        std::thread::spawn(move || serve(device));
        // Shared, so that `umount` reaches the copies in namespaces that other tests make meanwhile.
        let shared = Command::new("mount").arg("--make-shared").arg(at).status();
        assert!(shared.expect("mount runs").success());
        Some(disk)
    }
}

impl Drop for FoldingDisk {
    fn drop(&mut self) {
        // Lazily, because a failed test may have left a process in it.
        let _ = Command::new("umount").arg("--lazy").arg(&self.at).status();
    }
}

#[derive(Default)]
struct Node {
    mode: u32,
    content: Vec<u8>,
    mtime: (u64, u32),
    ctime: u64,
    /// Names by the common part of their spellings: the kept name and its entry.
    names: BTreeMap<Vec<u8>, (Vec<u8>, u64)>,
}

struct Tree {
    nodes: BTreeMap<u64, Node>,
    clock: u64,
}

/// The contents of a request, taken from its front.
struct Request<'a>(&'a [u8]);

impl<'a> Request<'a> {
    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count);
        self.0 = rest;
        bytes
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.bytes(4).try_into().expect("4 bytes"))
    }

    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.bytes(8).try_into().expect("8 bytes"))
    }

    fn name(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == 0).expect("an end");
        let name = self.bytes(end);
        self.bytes(1);
        name
    }
}

/// The contents of a reply.
#[derive(Default)]
struct Reply(Vec<u8>);

impl Reply {
    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn zeros(mut self, count: usize) -> Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }
}

type Answer = Result<Reply, i32>;

fn serve(mut device: File) {
    let mut tree = Tree {
        nodes: BTreeMap::new(),
        clock: 1,
    };
    tree.make(DIRECTORY | 0o755);
    let mut buffer = vec![0; WRITE_BYTES_MAX as usize + (64 << 10)];
    loop {
        let read = match device.read(&mut buffer) {
            Ok(read) => read,
            // A request that was taken back before it was read.
            Err(error) if matches!(error.raw_os_error(), Some(ENOENT | 4 | 11)) => continue,
            // The file system is no longer mounted.
            Err(_) => return,
        };
        let mut request = Request(&buffer[..read]);
        let _length = request.u32();
        let operation = request.u32();
        let [unique, node] = [request.u64(), request.u64()];
        request.bytes(IN_HEADER_BYTES - 24);
        // FORGET, INTERRUPT and BATCH_FORGET are not answered.
        if matches!(operation, 2 | 36 | 42) {
            continue;
        }
        let (error, reply) = match tree.answer(operation, node, &mut request) {
            Ok(reply) => (0, reply.0),
            Err(error) => (-error, Vec::new()),
        };
        let length = u32::try_from(16 + reply.len()).expect("short");
        let mut message = Reply::default()
            .u32(length)
            .u32(error.cast_unsigned())
            .u64(unique)
            .0;
        message.extend(reply);
        // The asker may be gone.
        let _ = device.write_all(&message);
    }
}

impl Tree {
    fn answer(&mut self, operation: u32, node: u64, request: &mut Request<'_>) -> Answer {
        let done = Ok(Reply::default());
        match operation {
            // INIT
            26 => {
                let [major, _minor, ahead, _flags] = [(); 4].map(|()| request.u32());
                let reply = Reply::default().u32(major).u32(31).u32(ahead).u32(1 << 5);
                Ok(reply.u32(0).u32(WRITE_BYTES_MAX).u32(1).zeros(36))
            }
            // LOOKUP
            1 => {
                let name = request.name();
                let found = self.find(node, name)?;
                Ok(self.entry(found, name))
            }
            // GETATTR
            3 => Ok(self.attributes(node)),
            // SETATTR
            4 => self.set(node, request),
            // READLINK
            5 => Ok(Reply(self.node(node)?.content.clone())),
            // SYMLINK
            6 => {
                let [name, target] = [request.name(), request.name()];
                let made = self.make_in(node, name, 0o120_777)?;
                self.node(made)?.content = target.to_vec();
                Ok(self.entry(made, name))
            }
            // MKNOD
            8 => {
                let mode = request.u32();
                request.bytes(12);
                let name = request.name();
                let made = self.make_in(node, name, mode)?;
                Ok(self.entry(made, name))
            }
            // MKDIR
            9 => {
                let mode = request.u32();
                request.bytes(4);
                let name = request.name();
                let made = self.make_in(node, name, DIRECTORY | mode)?;
                Ok(self.entry(made, name))
            }
            // UNLINK, RMDIR
            10 | 11 => {
                let name = request.name();
                let found = self.find(node, name)?;
                if !self.node(found)?.names.is_empty() {
                    return Err(ENOTEMPTY);
                }
                self.node(node)?.names.remove(&fold(name));
                done
            }
            // RENAME, RENAME2
            12 | 45 => {
                let to = request.u64();
                let keep = operation == 45 && request.u64() & 1 != 0;
                let [old, new] = [request.name(), request.name()];
                self.rename((node, old), (to, new), keep)?;
                done
            }
            // OPEN, OPENDIR
            14 | 27 => Ok(Reply::default().zeros(16)),
            // READ
            15 => {
                let [_handle, offset] = [request.u64(), request.u64()].map(index);
                let bytes = request.u32() as usize;
                let content = &self.node(node)?.content;
                let end = content.len().min(offset + bytes);
                Ok(Reply(content.get(offset..end).unwrap_or_default().to_vec()))
            }
            // WRITE
            16 => {
                let [_handle, offset] = [request.u64(), request.u64()].map(index);
                let bytes = request.u32();
                request.bytes(20);
                let data = request.bytes(bytes as usize);
                let content = &mut self.node(node)?.content;
                content.resize(content.len().max(offset + data.len()), 0);
                content[offset..offset + data.len()].copy_from_slice(data);
                self.changed(node);
                Ok(Reply::default().u32(bytes).u32(0))
            }
            // STATFS
            17 => {
                let reply = [1 << 20; 5].into_iter().fold(Reply::default(), Reply::u64);
                Ok(reply.u32(4096).u32(255).u32(4096).zeros(28))
            }
            // RELEASE, FSYNC, FLUSH, RELEASEDIR, FSYNCDIR
            18 | 20 | 25 | 29 | 30 => done,
            // READDIR
            28 => {
                let [_handle, offset] = [request.u64(), request.u64()].map(index);
                let bytes = request.u32() as usize;
                self.list(node, offset, bytes)
            }
            // CREATE
            35 => {
                let [_flags, mode] = [request.u32(), request.u32()];
                request.bytes(8);
                let name = request.name();
                let made = self.make_in(node, name, 0o100_000 | mode)?;
                Ok(Reply(self.entry(made, name).zeros(16).0))
            }
            _ => Err(ENOSYS),
        }
    }

    fn node(&mut self, node: u64) -> Result<&mut Node, i32> {
        self.nodes.get_mut(&number(node)).ok_or(ENOENT)
    }

    fn changed(&mut self, node: u64) {
        self.clock += 1;
        let clock = self.clock;
        if let Some(node) = self.nodes.get_mut(&number(node)) {
            node.ctime = clock;
            node.mtime = (clock, 0);
        }
    }

    fn make(&mut self, mode: u32) -> u64 {
        let number = self.nodes.len() as u64 + ROOT;
        self.nodes.insert(
            number,
            Node {
                mode,
                ..Node::default()
            },
        );
        self.changed(number);
        number
    }

    fn make_in(&mut self, parent: u64, name: &[u8], mode: u32) -> Result<u64, i32> {
        if self.find(parent, name).is_ok() {
            return Err(EEXIST);
        }
        let made = self.make(mode);
        self.node(parent)?
            .names
            .insert(fold(name), (stored(name).to_vec(), made));
        self.changed(parent);
        Ok(made)
    }

    fn find(&mut self, parent: u64, name: &[u8]) -> Result<u64, i32> {
        let parent = self.node(parent)?;
        if parent.mode & FORMAT != DIRECTORY {
            return Err(ENOTDIR);
        }
        let found = parent.names.get(&fold(name));
        found.map(|(_, number)| *number).ok_or(ENOENT)
    }

    /// A replacing entry takes the spelling of the replaced entry, as on such file systems.
    fn rename(&mut self, from: (u64, &[u8]), to: (u64, &[u8]), keep: bool) -> Result<(), i32> {
        let moved = self.find(from.0, from.1)?;
        let mut name = stored(to.1).to_vec();
        if let Ok(there) = self.find(to.0, to.1) {
            let names = &self.node(to.0)?.names;
            let stored = names.get(&fold(to.1)).map(|(stored, _)| stored.clone());
            if keep {
                return Err(EEXIST);
            }
            if self.node(there)?.mode & FORMAT == DIRECTORY {
                return Err(EISDIR);
            }
            name = stored.ok_or(EINVAL)?;
        }
        self.node(from.0)?.names.remove(&fold(from.1));
        self.node(to.0)?.names.insert(fold(to.1), (name, moved));
        self.changed(from.0);
        self.changed(to.0);
        Ok(())
    }

    fn set(&mut self, node: u64, request: &mut Request<'_>) -> Answer {
        let valid = request.u32();
        request.bytes(12);
        let size = index(request.u64());
        request.bytes(16);
        let seconds = request.u64();
        request.bytes(12);
        let nanoseconds = request.u32();
        request.bytes(4);
        let mode = request.u32();
        self.changed(node);
        let found = self.node(node)?;
        if valid & 1 != 0 {
            found.mode = found.mode & FORMAT | mode & !FORMAT;
        }
        if valid & 8 != 0 {
            found.content.resize(size, 0);
        }
        if valid & 32 != 0 {
            found.mtime = (seconds, nanoseconds);
        }
        Ok(self.attributes(node))
    }

    fn list(&mut self, node: u64, offset: usize, bytes: usize) -> Answer {
        let names: Vec<_> = self.node(node)?.names.values().cloned().collect();
        let mut reply = Reply::default();
        for (at, (name, number)) in names.into_iter().enumerate().skip(offset) {
            let padded = 24 + name.len().next_multiple_of(8);
            if reply.0.len() + padded > bytes {
                break;
            }
            let kind = self.node(number)?.mode >> 12;
            let length = u32::try_from(name.len()).map_err(|_error| EINVAL)?;
            reply = reply.u64(number).u64(at as u64 + 1).u32(length).u32(kind);
            reply.0.extend(&name);
            reply = reply.zeros(padded - 24 - name.len());
        }
        Ok(reply)
    }

    /// The reply for the entry of this name in the directory `node`; the kernel must not cache the entry.
    fn entry(&mut self, node: u64, name: &[u8]) -> Reply {
        let spelled = name.iter().fold(1, |sum: u64, byte| {
            sum.wrapping_mul(31).wrapping_add(u64::from(*byte)) % (1 << 30)
        });
        let node = node | spelled << SPELLING_SHIFT;
        let mut reply = Reply::default().u64(node).zeros(32);
        reply.0.extend(self.attribute_bytes(node));
        reply
    }

    fn attributes(&mut self, node: u64) -> Reply {
        let mut reply = Reply::default().zeros(16);
        reply.0.extend(self.attribute_bytes(node));
        reply
    }

    fn attribute_bytes(&self, node: u64) -> Vec<u8> {
        let found = &self.nodes[&number(node)];
        let (seconds, nanoseconds) = found.mtime;
        let bytes = found.content.len() as u64;
        let times = [seconds, seconds, found.ctime];
        let reply = Reply::default()
            .u64(node)
            .u64(bytes)
            .u64(bytes.div_ceil(512));
        let reply = times.into_iter().fold(reply, Reply::u64);
        let reply = reply
            .u32(nanoseconds)
            .u32(nanoseconds)
            .u32(0)
            .u32(found.mode);
        reply.u32(1).zeros(12).u32(4096).u32(0).0
    }
}

fn index(value: u64) -> usize {
    usize::try_from(value).expect("it fits memory")
}

/// The entry that a number means, whatever its spelling.
fn number(node: u64) -> u64 {
    node % (1 << SPELLING_SHIFT)
}

/// The stored part of a name.
fn stored(name: &[u8]) -> &[u8] {
    let end = name.iter().rposition(|byte| *byte != b'.');
    end.map_or(name, |end| &name[..=end])
}

fn fold(name: &[u8]) -> Vec<u8> {
    let name = String::from_utf8_lossy(stored(name));
    name.to_lowercase().into_bytes()
}
