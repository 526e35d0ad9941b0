//! Compares one file in one transfer with the same file as four parts in four transfers: `cargo run -p godwit-data-port --example parts`.
//! Prints measurements only. Everything is in memory (/dev/shm) and in this process: two nodes, and the client of both.
#![expect(clippy::print_stdout, reason = "a tool for developers")]

#[expect(dead_code, reason = "the tests use more of it")]
#[path = "../tests/parts/world.rs"]
mod world;

use std::fs::{self, File};
use std::io::Write as _;
use std::time::Instant;

use godwit_api::event::Status;
use godwit_api::job::{Item, JobSpec};
use godwit_worlds::BegunTransfer;

use world::World;

const PARTS: u64 = 4;
const PART_BYTES: u64 = 1 << 30;
const PAIRS: u32 = 5;

fn main() {
    println!("pair\tone transfer, s\tfour parts, s\tof these to assemble, s");
    for pair in 1..=PAIRS {
        let world = World::new();
        write_source(&world);
        let mut figures = [String::new(), String::new(), String::new()];
        for turn in 0..2 {
            // The two take turns to run first, because the first one finds other caches.
            if (u32::from(pair % 2 == 0)) == turn {
                figures[0] = format!("{:.3}", one_transfer(&world));
            } else {
                let (all, assembling) = four_parts(&world);
                (figures[1], figures[2]) = (format!("{all:.3}"), format!("{assembling:.3}"));
            }
            world.assert_same("big");
            fs::remove_file(world.path("to/set/big")).expect("removed");
        }
        println!("{pair}\t{}", figures.join("\t"));
    }
}

fn write_source(world: &World) {
    let mut file = File::create(world.path("from/big")).expect("made");
    let block: Vec<u8> = (0..1_u32 << 20)
        .map(|at| u8::try_from(at * 7 % 251).expect("a byte"))
        .collect();
    for _ in 0..(PARTS * PART_BYTES) >> 20 {
        file.write_all(&block).expect("written");
    }
}

fn one_transfer(world: &World) -> f64 {
    let start = Instant::now();
    let spec = JobSpec {
        sources: vec!["from/big".parse().expect("an endpoint")],
        ..world.spec(0, &[])
    };
    let ended = world.run(spec);
    assert_eq!(ended.summary().status, Status::Complete, "{ended:?}");
    start.elapsed().as_secs_f64()
}

fn four_parts(world: &World) -> (f64, f64) {
    let start = Instant::now();
    world.claim_all();
    let generation = world.generation("big");
    let part = |number: u64| Item::Part {
        path: "big".into(),
        offset: number * PART_BYTES,
        bytes: PART_BYTES,
        generation,
    };
    let begun: Vec<(Item, BegunTransfer)> = (0..PARTS)
        .map(|number| {
            let node = usize::try_from(number % 2).expect("few");
            let mut spec = world.member(node, vec![part(number)], &[]);
            spec.member.as_mut().expect("a member").lane = u32::try_from(number / 2).expect("few");
            (part(number), world.begin(spec))
        })
        .collect();
    let done: Vec<_> = begun
        .into_iter()
        .map(|(item, running)| {
            let digest = running.end().digests(1).remove(0);
            (item, digest.expect("done"))
        })
        .collect();
    let assembling = Instant::now();
    let ended = world.run(world.member(0, vec![world.assemble("big", &done)], &[]));
    assert_eq!(ended.summary().status, Status::Complete, "{ended:?}");
    for node in 0..2 {
        world.release(node).expect("released");
    }
    let now = Instant::now();
    (
        (now - start).as_secs_f64(),
        (now - assembling).as_secs_f64(),
    )
}
