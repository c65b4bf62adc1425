//! How the commands are linked.

fn main() {
    // Each job of `sbatch` starts this program twice, and each poll of an engine once. A fixed address saves the
    // dynamic linker 4,800 relative relocations, as for `pinfold`. A statically linked program would not run at a
    // fixed address: see `pinfold`'s build script.
    let features = std::env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    if !features.split(',').any(|feature| feature == "crt-static") {
        println!("cargo::rustc-link-arg-bin=pinfold-slurm=-no-pie");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
