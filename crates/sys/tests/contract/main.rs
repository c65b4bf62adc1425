//! One suite of checks over every kind of containment: fake hierarchies, the kernel's own, and none at all.
//!
//! A world that cannot be had here is skipped aloud. Every run counts what it compared and fails if that was nothing.

mod checks;
mod child;
mod world;

use pinfold_sys::mode::Mode;
use world::World;

fn run(world: &World) {
    let compared = checks::all(world);
    assert!(compared > 0, "{}: nothing was compared", world.name);
    println!("{}: {compared} comparisons", world.name);
}

#[test]
fn kernel_hybrid() {
    match World::kernel(Mode::Hybrid) {
        Ok(world) => run(&world),
        Err(why) => println!("skipped: the kernel's hybrid hierarchies: {why}"),
    }
}

#[test]
fn kernel_unified() {
    match World::kernel(Mode::V2) {
        Ok(world) => run(&world),
        Err(why) => println!("skipped: the kernel's unified hierarchy: {why}"),
    }
}

#[test]
fn rootless() {
    let world = World::kernel(Mode::Rootless).expect("rootless needs nothing");
    run(&world);
}

/// Not a test by itself: what the children of the tests do. Without the variable it has nothing to do.
#[test]
fn play_role() {
    child::play();
}
