//! Describes a destination in messages. Maps no names.

use godwit_store::RelPath;

use super::DestinationRequest;

impl DestinationRequest {
    /// The path of the only source, or the directory of several.
    pub(super) fn place_for_people(&self, mapping: &[RelPath]) -> Vec<u8> {
        let mut place = self.place.display.clone();
        let mut add = |name: &[u8]| {
            if !place.is_empty() && !place.ends_with(b"/") {
                place.push(b'/');
            }
            place.extend_from_slice(name);
        };
        match mapping {
            [first, _, ..] if self.names.first().is_some_and(|name| !name.is_empty()) => {
                let directory = first.parent().unwrap_or_default();
                add(directory.as_bytes());
                if !directory.is_root() {
                    place.push(b'/');
                }
                if place.is_empty() {
                    place.extend_from_slice(b"./");
                }
            }
            [first, ..] => add(first.as_bytes()),
            [] => {}
        }
        place
    }
}
