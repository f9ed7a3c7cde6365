//! The program `node-tuner`.

use std::process::ExitCode;

fn main() -> ExitCode {
    node_tuner::main()
}
