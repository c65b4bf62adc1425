//! A suite of checks over every kind of containment: fake hierarchies, the kernel's own, and none at all.
//!
//! The check of a world that cannot be had here is ignored. Every run counts its comparisons and fails if there was none.

#![expect(clippy::print_stdout, reason = "what was compared is said aloud")]

mod again;
mod checks;
mod child;
mod hurry;
mod restrict;
mod world;

use std::process::Command;

use pinfold_sys::mode::Mode;
use pinfold_testkit::fake::FakeHost;
use pinfold_testkit::ignore;
use world::World;

fn run(world: &World) {
    let compared = checks::all(world);
    assert!(compared > 0, "{}: nothing was compared", world.name);
    println!("{}: {compared} comparisons", world.name);
}

fn fake_unified() {
    let dir = tempfile::tempdir().expect("a directory");
    let host = FakeHost::unified(dir.path()).expect("a fake host");
    let world = World::fake("a fake unified hierarchy", &host);
    assert_eq!(world.plan.mode, Mode::V2);
    run(&world);
}

fn fake_hybrid() {
    let dir = tempfile::tempdir().expect("a directory");
    let host = FakeHost::hybrid(dir.path()).expect("a fake host");
    let world = World::fake("fake hybrid hierarchies", &host);
    assert_eq!((world.plan.mode, world.plan.hierarchies.len()), (Mode::Hybrid, 5));
    run(&world);
}

fn fake_first_generation() {
    let dir = tempfile::tempdir().expect("a directory");
    let host = FakeHost::first_only(dir.path()).expect("a fake host");
    let world = World::fake("fake first-generation hierarchies", &host);
    assert_eq!((world.plan.mode, world.plan.hierarchies.len()), (Mode::Hybrid, 5));
    run(&world);
}

fn kernel_hybrid() {
    match World::kernel(Mode::Hybrid) {
        Ok(world) => run(&world),
        Err(why) => ignore!("the kernel's hybrid hierarchies: {why}"),
    }
}

fn kernel_unified() {
    match World::kernel(Mode::V2) {
        Ok(world) => run(&world),
        Err(why) => ignore!("the kernel's unified hierarchy: {why}"),
    }
}

fn rootless() {
    let world = World::kernel(Mode::Rootless).expect("rootless needs nothing");
    run(&world);
}

/// The same as an unprivileged user, whatever the rights of the test's user.
fn rootless_without_rights() {
    if !rustix::process::geteuid().is_root() {
        ignore!("already without rights, so `rootless` was this test");
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set", "-all", "--"]);
    command.arg(std::env::current_exe().expect("own path")).args(["--exact", "rootless", "--nocapture"]);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => ignore!("a user without rights: setpriv: {error}"),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.code() == Some(126) || output.status.code() == Some(127) {
        ignore!("a user without rights: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("rootless on this host as user 65534") && said.contains("comparisons"), "{said}");
    println!("{said}");
}

/// Not a test by itself: the code of the tests' children. Without the variable it has nothing to do.
fn play_role() {
    child::play();
}

pinfold_testkit::trials! {
    fake_unified, fake_hybrid, fake_first_generation, kernel_hybrid, kernel_unified, rootless,
    rootless_without_rights, play_role,
}
