//! The reference service's own settings.

use std::path::PathBuf;
use std::time::Duration;

use corelane_files::Rules;
use corelane_service::settings;
use corelane_service::value::{
    HOUR, MILLISECOND, choice, duration, file, folder, number, size, switch, text, word,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatabaseKind {
    Sqlite,
    Postgres,
}

impl DatabaseKind {
    const WORDS: &[(&str, Self)] =
        &[("sqlite", DatabaseKind::Sqlite), ("postgres", DatabaseKind::Postgres)];
}

settings! {
    pub(crate) struct Config {
        "static.root" => static_root: Option<PathBuf> = "", folder,
            "Folder served under /static/; if empty, no files are served";
        "static.cache" => static_cache: u64 = "16MiB", size(0, 1 << 40),
            "Size of each lane's cache for small files; 0 disables the cache";
        "static.cache_file" => static_cache_file: u64 = "64KiB", size(0, 16 << 20),
            "Maximum size of a cached file";
        "static.cache_control" => static_cache_control: Rules = "", word::<Rules>,
            "Cache-Control of files, as rules `pattern: value` separated by semicolons; the first match applies, otherwise no-cache";
        "work.max_ops" => work_max_ops: u64 = "100000000", number(0, 1_000_000_000_000),
            "Maximum iterations of /work?ops=N";
        "database.kind" => database_kind: DatabaseKind = "sqlite", choice(DatabaseKind::WORDS),
            "Database of projects: sqlite (a file) or postgres (a server)";
        "database.path" => database_path: Option<PathBuf> = "", file,
            "SQLite database file; if empty, projects are disabled";
        "database.url" => database_url: String = "", text,
            "URL of the PostgreSQL database without a password, such as \
             postgres://user@host:5432/name";
        "database.password_file" => database_password_file: Option<PathBuf> = "", file,
            "File with the PostgreSQL password, read at each connect; if empty, no password is \
             sent";
        "database.ca_file" => database_ca_file: Option<PathBuf> = "", file,
            "PEM file of the certificate authorities for PostgreSQL; empty disables verification";
        "database.connections" => database_connections: u64 = "4", number(1, 256),
            "Database connections per lane; with slow lanes, one of them belongs to the slow lane";
        "database.queue" => database_queue: u64 = "256", number(1, 1_000_000),
            "Maximum operations per lane that wait for the database; more are rejected with 503";
        "database.wait" => database_wait: Duration = "1s", duration(MILLISECOND, HOUR),
            "Maximum wait for a database connection before the server responds with 503";
        "database.connect_timeout" => database_connect_timeout: Duration = "3s", duration(100 * MILLISECOND, HOUR),
            "Time limit for connecting to PostgreSQL";
        "database.statement_timeout" => database_statement_timeout: Duration = "5s", duration(100 * MILLISECOND, HOUR),
            "Time limit for a statement before the server responds with 503";
        "database.migrate" => database_migrate: bool = "on", switch,
            "Whether the server creates and migrates the PostgreSQL tables: on or off";
    }
}

impl Config {
    pub(crate) fn serves_projects(&self) -> bool {
        self.database_kind == DatabaseKind::Postgres || self.database_path.is_some()
    }
}
