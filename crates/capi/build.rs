//! Gives the shared library its name for the dynamic linker: `libaquifer.so.` and the major version.

fn main() {
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libaquifer.so.{major}");
    println!("cargo::rerun-if-changed=build.rs");
}
