//! Compiles the interface in `proto`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(["greeter.proto"], ["proto"])?;
    // Clients bring their own connection, so tonic needs its transport only in tests.
    tonic_prost_build::configure()
        .build_transport(false)
        .compile_fds(files)?;
    Ok(())
}
