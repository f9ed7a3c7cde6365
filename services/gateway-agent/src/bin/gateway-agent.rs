//! The program `gateway-agent`.

use std::process::ExitCode;

fn main() -> ExitCode {
    gateway_agent::main()
}
