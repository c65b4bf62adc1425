//! How the commands are linked.

fn main() {
    // Each job of `sbatch` starts this program twice, and each look of an engine once. At a fixed address the dynamic
    // linker has none of the 4,800 relative relocations to work on, as with `pinfold`.
    // A program that is linked statically would not run so: see there.
    let features = std::env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    if !features.split(',').any(|feature| feature == "crt-static") {
        println!("cargo::rustc-link-arg-bin=pinfold-slurm=-no-pie");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
