//! Lets the program carry its worker: with `SUNABA_EMBED_WORKER=PATH` in the build's environment the file
//! at PATH becomes part of the binary. Without it the worker is looked for beside the program.
//! It is named by its content here, so that a server need not read it through at every start.

use std::hash::{DefaultHasher, Hasher as _};

fn main() {
    println!("cargo:rerun-if-env-changed=SUNABA_EMBED_WORKER");
    println!("cargo:rustc-check-cfg=cfg(embedded_worker)");
    let Some(path) = std::env::var_os("SUNABA_EMBED_WORKER") else { return };
    let path =
        std::fs::canonicalize(&path).unwrap_or_else(|error| panic!("SUNABA_EMBED_WORKER {path:?}: {error}"));
    println!("cargo:rerun-if-changed={}", path.display());
    println!("cargo:rustc-cfg=embedded_worker");
    println!("cargo:rustc-env=SUNABA_EMBEDDED_WORKER={}", path.display());
    let content =
        std::fs::read(&path).unwrap_or_else(|error| panic!("SUNABA_EMBED_WORKER {path:?}: {error}"));
    let mut hasher = DefaultHasher::new();
    hasher.write(&content);
    println!("cargo:rustc-env=SUNABA_EMBEDDED_WORKER_DIGEST={:016x}", hasher.finish());
}
