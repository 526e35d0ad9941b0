//! Tests the order in which contents leave, as seen by a listener on a connection without encryption.
//! Completeness after each loss is tested in `cuts` and `kill`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::judge::assert_identical;
use super::rig::Rig;

const SLICES: usize = 128;
const SLICE_BYTES: usize = 64 << 10;
const FILES: usize = 3_000;

/// Passes connections on to a node, and records their data.
struct Tap {
    address: String,
    carried: Arc<Mutex<Vec<Vec<u8>>>>,
    /// Directions of connections that were begun; each sends its record at its end.
    begun: Arc<AtomicUsize>,
}

impl Tap {
    fn before(node: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let carried: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let begun: Arc<AtomicUsize> = Arc::default();
        let (node, own, count) = (node.to_owned(), Arc::clone(&carried), Arc::clone(&begun));
        // The threads of a connection end with it, and the listener with the process.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&node).expect("the node listens");
                let clone = |stream: &TcpStream| stream.try_clone().expect("descriptors");
                for (from, to) in [
                    (clone(&client), clone(&server)),
                    (clone(&server), clone(&client)),
                ] {
                    let carried = Arc::clone(&own);
                    count.fetch_add(1, Ordering::SeqCst);
                    thread::spawn(move || pass(from, to, &carried));
                }
            }
        });
        Self {
            address,
            carried,
            begun,
        }
    }

    /// The numbers after a mark, in the order in which they passed on each connection and direction.
    fn numbers(&self, mark: &str) -> Vec<usize> {
        let all = || self.begun.load(Ordering::SeqCst);
        while self.carried.lock().expect("no thread panicked").len() < all() {
            thread::sleep(Duration::from_millis(5));
        }
        let carried = self.carried.lock().expect("no thread panicked");
        let windows = carried
            .iter()
            .flat_map(|bytes| bytes.windows(mark.len() + 6));
        let found = windows.filter_map(|window| window.strip_prefix(mark.as_bytes()));
        found
            .filter_map(|digits| std::str::from_utf8(digits).ok()?.parse().ok())
            .collect()
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, carried: &Mutex<Vec<Vec<u8>>>) {
    let (mut buffer, mut all) = (vec![0; 64 << 10], Vec::new());
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        all.extend_from_slice(&buffer[..bytes]);
        if to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    carried.lock().expect("no thread panicked").push(all);
    // Closes the connection, so that the other side also sees its end.
    let _ = to.shutdown(Shutdown::Both);
}

/// A large file with a number in each slice, and small files with their numbers.
fn make(root: &std::path::Path) {
    fs::create_dir_all(root).expect("made");
    let mut large = vec![b'-'; SLICES * SLICE_BYTES];
    for number in 0..SLICES {
        let mark = format!("slice{number:06}");
        large[number * SLICE_BYTES..][..mark.len()].copy_from_slice(mark.as_bytes());
    }
    fs::write(root.join("large"), large).expect("written");
    for number in 0..FILES {
        let content = format!("small{number:06}");
        fs::write(root.join(format!("small-{number:06}")), content).expect("written");
    }
}

/// Counts numbers that are followed by the next higher one.
fn steps(numbers: &[usize]) -> usize {
    numbers
        .windows(2)
        .filter(|pair| pair[1] == pair[0] + 1)
        .count()
}

#[test]
fn in_a_random_order_slices_and_files_are_scattered_and_all_arrive() {
    let mut rig = Rig::new();
    rig.start(&["--encryption", "any"]);
    for ends in rig.push_and_pull() {
        make(&ends.source);
        for (order, scattered) in [("source", false), ("random", true)] {
            let tap = Tap::before(rig.address());
            rig.trust(&tap.address, &rig.identity);
            let words = ends.arguments.each_ref();
            let words = words.map(|word| word.replace(rig.address(), &tap.address));
            let mut line = vec!["--encryption", "none", "--streams", "1", "--force"];
            line.extend(["--block-size", "64KiB", "--order", order]);
            line.extend(words.iter().map(String::as_str));
            let outcome = rig.cp(&line);
            assert_eq!(outcome.code, Some(0), "{order}: {outcome:?}");
            assert_identical(&ends.source, &ends.destination);
            let slices = tap.numbers("slice");
            assert_eq!(slices.len(), SLICES, "{order}");
            // In order, each number follows the one before, except for slices that two threads read.
            match scattered {
                true => assert!(steps(&slices) < SLICES / 8, "{slices:?}"),
                false => assert!(steps(&slices) > SLICES / 2, "{slices:?}"),
            }
            let mut sorted = tap.numbers("small");
            let runs = steps(&sorted);
            sorted.sort_unstable();
            assert_eq!(sorted, (0..FILES).collect::<Vec<_>>(), "{order}");
            if scattered {
                assert!(runs < FILES / 8, "{runs} of {FILES} files in order");
            }
        }
    }
}

#[test]
fn standard_input_and_output_have_an_order() {
    let mut rig = Rig::new();
    rig.start(&[]);
    rig.write("f", "contents");
    let url = rig.url("f");
    for words in [["-", &url], [&url, "-"]] {
        let outcome = rig.cp(&["--order", "random", words[0], words[1]]);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(
            outcome.complaint.contains("give --order source"),
            "{outcome:?}"
        );
    }
}
