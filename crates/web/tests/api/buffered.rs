//! Tests that each change of the transfer buffer is in the audit log before it is made.
//! The buffer itself is tested with the real binary.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use godwit_api::rest::{BufferChanged, BufferFiles, BufferView};
use godwit_state::Replica;
use godwit_web::BufferControl;
use serde_json::json;

use crate::world::{Settings, World};

/// Notes the last line of the audit log at each change.
#[derive(Default)]
struct Watched {
    replica: OnceLock<Arc<Replica>>,
    seen: Mutex<Vec<String>>,
}

impl Watched {
    fn note(&self) -> BufferChanged {
        let reader = self.replica.get().unwrap().reader();
        let lines = reader.audit(&Default::default(), 1).unwrap();
        let last = lines.first().map(|line| line.action.clone());
        self.seen.lock().unwrap().push(last.unwrap_or_default());
        BufferChanged {
            files: 1,
            refused: 0,
        }
    }
}

impl BufferControl for Watched {
    fn view(&self) -> BufferView {
        BufferView::default()
    }

    fn files(&self, _: &str, _: &[u8], _: Option<&[u8]>, _: usize) -> BufferFiles {
        BufferFiles::default()
    }

    fn keep(&self, _: &str, _: &[u8], _: Option<Duration>) -> BufferChanged {
        self.note()
    }

    fn drop_files(&self, _: &str, _: &[u8]) -> BufferChanged {
        self.note()
    }
}

#[test]
fn a_change_of_the_buffer_is_in_the_audit_log_before_it_is_made() {
    let watched = Arc::new(Watched::default());
    let control: Arc<dyn BufferControl> = watched.clone();
    let world = World::with(Settings {
        buffer: Some(control),
        ..Settings::default()
    });
    assert!(watched.replica.set(world.replica.clone()).is_ok());
    let place = json!({"place": "here:/data/run42"});
    for path in ["keep", "drop"] {
        let path = format!("/api/v1/buffer/{path}");
        let changed = world.client().post(&path, &place).expect(200).json();
        assert_eq!(changed["files"], 1, "{changed}");
    }
    assert_eq!(
        *watched.seen.lock().unwrap(),
        ["buffer_keep", "buffer_drop"]
    );
}
