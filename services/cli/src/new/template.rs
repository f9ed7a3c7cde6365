//! The files of a new service; the sources are in `templates`.

use clap::ValueEnum;

/// Protocol of a new service.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Template {
    /// JSON over HTTP with axum, and SQLite or PostgreSQL
    Rest,
    /// gRPC with tonic
    Grpc,
    /// WebSockets with axum
    Websocket,
}

type File = (&'static str, &'static str);

macro_rules! files {
    ($($source:literal => $path:literal),* $(,)?) => {
        [$(($path, include_str!(concat!("../../templates/", $source)))),*]
    };
}

const COMMON: [File; 4] = files!(
    "common/Dockerfile" => "Dockerfile",
    "common/README.md" => "README.md",
    "common/ci.yaml" => ".github/workflows/ci.yaml",
    "common/gitignore" => ".gitignore",
);

const REST: [File; 6] = files!(
    "rest/corelane.yaml" => "corelane.yaml",
    "rest/package.toml" => "Cargo.toml",
    "rest/main.rs" => "src/main.rs",
    "rest/lib.rs" => "src/lib.rs",
    "rest/test.rs" => "tests/service.rs",
    "rest/smoke.js" => "loadtest/smoke.js",
);

const GRPC: [File; 8] = files!(
    "common/corelane.yaml" => "corelane.yaml",
    "grpc/package.toml" => "Cargo.toml",
    "grpc/build.rs" => "build.rs",
    "grpc/greeter.proto" => "proto/greeter.proto",
    "grpc/main.rs" => "src/main.rs",
    "grpc/lib.rs" => "src/lib.rs",
    "grpc/test.rs" => "tests/service.rs",
    "grpc/smoke.js" => "loadtest/smoke.js",
);

const WEBSOCKET: [File; 6] = files!(
    "common/corelane.yaml" => "corelane.yaml",
    "websocket/package.toml" => "Cargo.toml",
    "websocket/main.rs" => "src/main.rs",
    "websocket/lib.rs" => "src/lib.rs",
    "websocket/test.rs" => "tests/service.rs",
    "websocket/smoke.js" => "loadtest/smoke.js",
);

impl Template {
    pub(super) fn files(self) -> impl Iterator<Item = File> {
        let own: &[File] = match self {
            Template::Rest => &REST,
            Template::Grpc => &GRPC,
            Template::Websocket => &WEBSOCKET,
        };
        COMMON.iter().chain(own).copied()
    }

    pub(super) fn about(self) -> &'static str {
        match self {
            Template::Rest => "Notes over HTTP",
            Template::Grpc => "Greetings over gRPC",
            Template::Websocket => "A chat room over WebSockets",
        }
    }

    pub(super) fn command(self) -> &'static str {
        match self {
            Template::Rest => "curl -i localhost:8080/",
            Template::Grpc => {
                "grpcurl -plaintext -proto proto/greeter.proto -d '{\"name\": \"Ada\"}' \
                 localhost:8080 greeter.v1.Greeter/Greet"
            }
            Template::Websocket => "websocat ws://localhost:8080/room",
        }
    }
}
