//! The program `corelane-check`.

use std::process::ExitCode;

fn main() -> ExitCode {
    corelane_check::main()
}
