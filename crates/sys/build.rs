//! Lets the program link where the system has libhwloc's header but not libudev's.
//!
//! hwlocality-sys asks pkg-config for the libraries of a static libhwloc, of which libudev is one, and then
//! links the shared libhwloc, which needs none of them. Debian's libhwloc-dev does not bring libudev-dev, so
//! `-ludev` would end the build for a library that nothing uses. An empty archive of that name satisfies the
//! linker; it is only made when there is no libudev to find.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_HWLOC").is_none() || libudev_is_there() {
        return;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
    let archive = out.join("libudev.a");
    if let Err(error) = fs::write(&archive, "!<arch>\n") {
        println!("cargo::warning=failed to write {}: {error}", archive.display());
        return;
    }
    println!("cargo::rustc-link-search=native={}", out.display());
}

/// Whether a linker would find libudev in the usual places.
fn libudev_is_there() -> bool {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let multiarch = format!("/usr/lib/{arch}-linux-gnu");
    ["/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib", &multiarch]
        .iter()
        .any(|dir| ["libudev.so", "libudev.a"].iter().any(|name| Path::new(dir).join(name).exists()))
}
