//! Compiles the calls of libfabric if its headers are there. The library itself is opened when it is asked for.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(fabric)");
    println!("cargo::rerun-if-changed=fabric");
    println!("cargo::rerun-if-changed=/usr/include/rdma/fabric.h");
    let mut build = cc::Build::new();
    build.file("fabric/fabric.c").include("fabric").warnings(true).extra_warnings(true).cargo_warnings(false);
    if build.try_compile("aquifer_fabric").is_ok() {
        println!("cargo::rustc-cfg=fabric");
    } else {
        println!(
            "cargo::warning=libfabric's headers are missing: built without memory of other machines (Debian: libfabric-dev)"
        );
    }
}
