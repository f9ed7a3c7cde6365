//! `corelane top`: shows the lanes of replicas in the terminal, read from their admin ports.

mod lanes;
mod screen;
mod source;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use clap::Args;
use corelane_service::flags::allowed;
use corelane_service::http::Url;
use corelane_service::{process, value};

use self::lanes::View;
use self::source::{Sources, Target};

/// Show how busy each lane is, as `htop` does for CPUs
///
/// Reads /lanes and /metrics on each admin port.
#[derive(Args, Debug)]
#[command(after_help = "Example: corelane top --admin 127.0.0.1:8081 --sort busy\n\n\
                        Keys: q quit, p pause, s sort by the next column, / filter by replica, Esc no filter, \
                        arrows scroll. In a cluster: kubectl port-forward POD 8081, then --admin 127.0.0.1:8081. \
                        Exit codes: 0; 1 if no replica replied; 64 for a bad flag.")]
pub(crate) struct Top {
    /// Admin port of a replica; may be repeated [default: replicas of the local platform]
    #[arg(long, value_name = "HOST:PORT", value_parser = allowed(admin))]
    admin: Vec<Url>,
    /// Local instance folder [default: the first of .corelane/INSTANCE and .run/INSTANCE, with
    /// INSTANCE from the environment or "default"]
    #[arg(long, value_name = "FOLDER", conflicts_with = "admin")]
    instance: Option<PathBuf>,
    /// Time between reads
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    #[arg(value_parser = allowed(value::duration(Duration::from_millis(100), Duration::from_secs(60))))]
    interval: Duration,
    /// Sort column
    #[arg(long, value_enum, default_value = "replica")]
    sort: lanes::Sort,
    /// Print the table once after one interval, then exit
    #[arg(long)]
    once: bool,
}

fn admin(text: &str) -> Result<Url, &'static str> {
    let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    url.parse().map_err(|_| "HOST:PORT of an admin port, such as 127.0.0.1:8081")
}

impl Top {
    pub(crate) fn run(self) -> ExitCode {
        let shown = self.targets().and_then(|targets| self.show(Sources::new(targets)));
        match shown {
            Ok(code) => code,
            Err(message) => {
                process::report(crate::NAME, &message);
                ExitCode::FAILURE
            }
        }
    }

    fn targets(&self) -> Result<Vec<Target>, String> {
        match self.admin.is_empty() {
            true => source::of_instance(self.instance.as_deref()),
            false => Ok(self.admin.iter().cloned().map(Target::of).collect()),
        }
    }

    fn show(&self, mut sources: Sources) -> Result<ExitCode, String> {
        let (interval, failed) = (self.interval, |error: std::io::Error| error.to_string());
        if self.once {
            let view = process::block_on(sources.watch(interval), true).map_err(failed)?;
            process::print(&table::text(&view, self.sort));
            let none = view.replicas.iter().all(|replica| replica.error.is_some());
            return Ok(if none { ExitCode::FAILURE } else { ExitCode::SUCCESS });
        }
        let (sender, views) = mpsc::channel::<View>();
        // The thread exits when the process exits or the receiver is dropped.
        std::thread::spawn(move || {
            let read = async { while sender.send(sources.watch(interval).await).is_ok() {} };
            process::block_on(read, true)
        });
        screen::run(&views, self.sort).map_err(failed)?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_admin_port_is_a_host_and_a_port_or_a_url() {
        for text in ["127.0.0.1:8081", "http://127.0.0.1:8081"] {
            assert_eq!(admin(text).map(|url| url.to_string()), Ok("http://127.0.0.1:8081/".into()));
        }
        assert!(admin("https://a:1").is_err() && admin("a:b").is_err());
    }
}
