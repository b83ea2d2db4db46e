//! The binary where the programs are a library: to link it otherwise is not to compile them once more.

fn main() {
    suite::main()
}
