//! Splits an OPEN into several frames if it has too many sources for one. Does not interpret sources. `docs/wire.md`,
//! "OPEN".

use super::setup::Open;
use super::try_encode;
use crate::error::WireError;
use crate::limits::{SOURCES_BYTES_MAX, SOURCES_BYTES_PER_FRAME, SOURCES_MAX};
use crate::path;
use crate::prelude::FrameKind;

/// Tags and lengths of a source and its name in an OPEN.
const SOURCE_FIELDS_BYTES: usize = 8;

impl Open {
    /// Appends the frame's head image to `out`: several frames if the sources do not fit into one.
    ///
    /// # Errors
    /// An invalid field, or names that are too long together; `out` is then unchanged.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        self.validate()?;
        let before = out.len();
        let ends = self.frame_ends();
        let mut begin = 0;
        for (index, end) in ends.iter().enumerate() {
            let part =
                |list: &[Vec<u8>]| list.get(begin..*end).map_or_else(Vec::new, <[_]>::to_vec);
            let (sources, names) = (part(&self.sources), part(&self.names));
            let more = index + 1 < ends.len();
            let frame = if index == 0 {
                Self {
                    sources,
                    names,
                    more,
                    ..self.clone()
                }
            } else {
                Self {
                    direction: self.direction,
                    sources,
                    names,
                    more,
                    ..Self::default()
                }
            };
            if let Err(error) = try_encode(&frame, FrameKind::OPEN, out) {
                out.truncate(before);
                return Err(error);
            }
            begin = *end;
        }
        Ok(())
    }

    /// For each frame of this request, the number of sources up to the end of that frame.
    pub(super) fn frame_ends(&self) -> Vec<usize> {
        let mut ends = Vec::new();
        let mut bytes = 0;
        for (index, source) in self.sources.iter().enumerate() {
            let own =
                source.len() + self.names.get(index).map_or(0, Vec::len) + SOURCE_FIELDS_BYTES;
            if bytes > 0 && bytes + own > SOURCES_BYTES_PER_FRAME {
                ends.push(index);
                bytes = 0;
            }
            bytes += own;
        }
        ends.push(self.sources.len());
        ends
    }

    /// Checks the number and the length of sources and names.
    pub(super) fn validate_sources(&self) -> Result<(), WireError> {
        check_sources(self, source_bytes(self))?;
        for name in &self.names {
            path::validate(name)?;
            if name.contains(&b'/') {
                return Err(WireError::invalid("name of a source", "contains a slash"));
            }
        }
        Ok(())
    }
}

/// An OPEN while the frames with the rest of its sources arrive. The cost of a frame depends only on its own sources,
/// not on those of earlier frames.
#[derive(Debug)]
pub struct PartialOpen {
    open: Open,
    /// Total length of the sources and names so far.
    bytes: usize,
}

impl PartialOpen {
    /// Begins with the first frame, which `decode` has checked.
    #[must_use]
    pub fn new(first: Open) -> Self {
        let bytes = source_bytes(&first);
        Self { open: first, bytes }
    }

    /// Whether another frame follows.
    #[must_use]
    pub const fn waits(&self) -> bool {
        self.open.more
    }

    /// Adds the sources of a following frame, which `decode` has checked.
    ///
    /// # Errors
    /// There are too many sources, or they are too long together.
    pub fn add(&mut self, next: Open) -> Result<(), WireError> {
        let open = &mut self.open;
        if next.direction != open.direction || next.sources.is_empty() {
            return Err(WireError::Disagree {
                what: "an OPEN and the next OPEN of the same request",
            });
        }
        self.bytes += source_bytes(&next);
        open.sources.extend(next.sources);
        open.names.extend(next.names);
        open.more = next.more;
        check_sources(open, self.bytes)
    }

    /// The whole request.
    ///
    /// # Errors
    /// Other fields do not fit the number of its sources.
    pub fn finish(self) -> Result<Open, WireError> {
        self.open.validate()?;
        Ok(self.open)
    }
}

fn source_bytes(open: &Open) -> usize {
    open.sources.iter().chain(&open.names).map(Vec::len).sum()
}

/// Checks the number and the total length of sources and names.
fn check_sources(open: &Open, bytes: usize) -> Result<(), WireError> {
    if open.sources.len() > SOURCES_MAX {
        return Err(WireError::too_long("list of sources", SOURCES_MAX as u64));
    }
    if bytes > SOURCES_BYTES_MAX {
        return Err(WireError::too_long("sources", SOURCES_BYTES_MAX as u64));
    }
    if !open.names.is_empty() && open.names.len() != open.sources.len() {
        return Err(WireError::Disagree {
            what: "number of sources and number of names",
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Direction;
    use crate::hello::capability;
    use crate::ids::DigestKind;
    use crate::limits::SOURCES_MAX;
    use crate::{Frame, Prelude, decode};

    /// The frames of a request, in order.
    fn frames(open: &Open) -> Vec<Open> {
        let mut bytes = Vec::new();
        open.encode(&mut bytes).unwrap();
        let mut rest = bytes.as_slice();
        let mut frames = Vec::new();
        while let Some((prelude, after)) = rest.split_first_chunk() {
            let prelude = Prelude::decode(prelude).unwrap();
            let (head, after) = after.split_at(prelude.head_bytes as usize);
            let Frame::Open(frame) = decode(&prelude, head).unwrap() else {
                panic!("another frame");
            };
            frames.push(frame);
            rest = after;
        }
        frames
    }

    #[test]
    fn as_many_sources_as_there_may_be_take_several_frames() {
        let sources: Vec<Vec<u8>> = (0..SOURCES_MAX)
            .map(|number| format!("/a/directory/of/usual/depth/file-{number}").into_bytes())
            .collect();
        let open = Open {
            direction: Direction::PUSH.0,
            digest: DigestKind::CRC64_NVME.0.into(),
            names: sources.iter().map(|path| path[28..].to_vec()).collect(),
            sources,
            destination: b"data/".to_vec(),
            ..Open::default()
        };
        assert_eq!(open.capabilities_needed(), capability::MANY_SOURCES);
        let mut frames = frames(&open).into_iter();
        let mut whole = PartialOpen::new(frames.next().unwrap());
        for frame in frames {
            assert!(whole.waits());
            whole.add(frame).unwrap();
        }
        assert!(!whole.waits());
        assert_eq!(whole.finish().unwrap(), open);
        let mut twice = PartialOpen::new(open.clone());
        assert!(twice.add(open).is_err(), "twice as many");
    }

    /// One frame for each source: if every frame checked the whole list, this test would take minutes.
    #[test]
    fn each_frame_costs_what_it_brings() {
        let frame = |number: usize| Open {
            direction: Direction::PULL.0,
            digest: DigestKind::CRC64_NVME.0.into(),
            sources: vec![format!("data/{number}").into_bytes()],
            names: vec![b"n".to_vec()],
            more: number + 1 < SOURCES_MAX,
            ..Open::default()
        };
        let mut whole = PartialOpen::new(frame(0));
        for number in 1..SOURCES_MAX {
            whole.add(frame(number)).unwrap();
        }
        let unnamed = Open {
            names: Vec::new(),
            ..frame(0)
        };
        assert_eq!(whole.finish().unwrap().sources.len(), SOURCES_MAX);
        assert!(PartialOpen::new(frame(0)).add(unnamed).is_err());
    }

    #[test]
    fn few_sources_take_one_frame_as_ever() {
        let open = Open {
            direction: Direction::PULL.0,
            digest: DigestKind::CRC64_NVME.0.into(),
            sources: vec![b"data/x".to_vec()],
            ..Open::default()
        };
        assert_eq!(open.capabilities_needed(), 0);
        assert_eq!(frames(&open), [open]);
    }
}
