//! How the command is linked.

fn main() {
    // Every `pinfold run` waits for the program's own start, and 0.2 ms of that was the dynamic linker's work on 14,000
    // relative relocations. At a fixed address there are none. The daemon, which has privileges, keeps the protection
    // that a random address gives.
    // A program that is linked statically takes other start files for a fixed address than the linker is given here, and
    // would not run: it relocates itself, without the dynamic linker.
    let features = std::env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    if !features.split(',').any(|feature| feature == "crt-static") {
        println!("cargo::rustc-link-arg-bin=pinfold=-no-pie");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
