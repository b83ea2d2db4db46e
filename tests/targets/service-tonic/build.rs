//! Puts the generated code where a code generator would.
fn main() {
    let generated = "../src/service/tonic_generated.rs";
    let out = std::env::var("OUT_DIR").expect("cargo");
    std::fs::copy(generated, format!("{out}/shop.rs")).expect("shop.rs");
    println!("cargo:rerun-if-changed={generated}");
}
