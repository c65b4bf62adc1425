//! How the command is linked.

fn main() {
    // Every `pinfold run` waits for the program's own start, and 0.2 ms of that was the dynamic linker's work on 14,000
    // relative relocations. At a fixed address there are none. The daemon, which has privileges, keeps the protection
    // that a random address gives.
    println!("cargo::rustc-link-arg-bin=pinfold=-no-pie");
    println!("cargo::rerun-if-changed=build.rs");
}
