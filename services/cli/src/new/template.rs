//! The files of a new service, which are real files in `templates`.

use clap::ValueEnum;

/// What a new service speaks.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Template {
    /// JSON over HTTP with axum, and a database in SQLite or PostgreSQL
    Rest,
    /// gRPC with tonic
    Grpc,
    /// WebSockets with axum
    Websocket,
}

type File = (&'static str, &'static str);

/// The files of each list, from a folder of `templates`.
macro_rules! files {
    ($folder:literal: $($source:literal => $path:literal),* $(,)?) => {
        [$(($path, include_str!(concat!("../../templates/", $folder, "/", $source)))),*]
    };
}

const COMMON: [File; 5] = files!("common":
    "Dockerfile" => "Dockerfile",
    "README.md" => "README.md",
    "ci.yaml" => ".github/workflows/ci.yaml",
    "corelane.yaml" => "corelane.yaml",
    "gitignore" => ".gitignore",
);

const REST: [File; 5] = files!("rest":
    "package.toml" => "Cargo.toml",
    "main.rs" => "src/main.rs",
    "lib.rs" => "src/lib.rs",
    "test.rs" => "tests/service.rs",
    "smoke.js" => "loadtest/smoke.js",
);

const GRPC: [File; 7] = files!("grpc":
    "package.toml" => "Cargo.toml",
    "build.rs" => "build.rs",
    "greeter.proto" => "proto/greeter.proto",
    "main.rs" => "src/main.rs",
    "lib.rs" => "src/lib.rs",
    "test.rs" => "tests/service.rs",
    "smoke.js" => "loadtest/smoke.js",
);

const WEBSOCKET: [File; 5] = files!("websocket":
    "package.toml" => "Cargo.toml",
    "main.rs" => "src/main.rs",
    "lib.rs" => "src/lib.rs",
    "test.rs" => "tests/service.rs",
    "smoke.js" => "loadtest/smoke.js",
);

impl Template {
    /// Path and text of each file.
    pub(super) fn files(self) -> impl Iterator<Item = File> {
        let own: &[File] = match self {
            Template::Rest => &REST,
            Template::Grpc => &GRPC,
            Template::Websocket => &WEBSOCKET,
        };
        COMMON.iter().chain(own).copied()
    }

    /// The service in the first sentence of the README.
    pub(super) fn about(self) -> &'static str {
        match self {
            Template::Rest => "Notes over HTTP",
            Template::Grpc => "Greetings over gRPC",
            Template::Websocket => "A chat room over WebSockets",
        }
    }

    /// A command that tries the service.
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
