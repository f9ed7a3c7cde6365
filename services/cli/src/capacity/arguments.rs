//! Flags of `corelane capacity`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, ArgGroup, Args, ValueEnum};
use corelane::Placement;
use corelane_cli::model::{Mix, Simulation};
use corelane_service::flags::allowed;
use corelane_service::value;

use super::source::Source;
use super::text;

/// Predict how much load a replica can handle and how many replicas a load needs
#[derive(Args, Debug)]
#[command(
    after_help = "Example: corelane capacity --mix \"GET /hello=90%, GET /work=10%:7ms\" --rps 5000 --p99 50ms\n\n\
                  KIND=SHARE%[:MEAN[:DEVIATION]][+WAIT[:DEVIATION]] is one kind of request in a mix. MEAN is \
                  the time in which its handler computes, WAIT the time in which it waits. With --from, \
                  shares alone are enough: the times are those that the replica has measured. Durations \
                  have a unit: ns, us, ms, s."
)]
#[command(group = ArgGroup::new("what").args(["mix", "mix_file", "from"]).required(true).multiple(true))]
#[command(group = ArgGroup::new("quantile").args(["p50", "p90", "p95", "p99", "p999"]))]
#[command(group = ArgGroup::new("form").args(["json", "hpa"]))]
pub(crate) struct Question {
    /// Mix of requests: "GET /hello=90%, GET /work=10%:7ms"
    #[arg(
        long,
        help_heading = "Mix of requests",
        value_name = "TEXT",
        conflicts_with = "mix_file"
    )]
    mix: Option<String>,
    /// File with a mix of requests, one kind per line; # begins a comment
    #[arg(long, help_heading = "Mix of requests", value_name = "FILE")]
    mix_file: Option<PathBuf>,
    /// Admin port of a running replica, http://HOST:PORT, or a file with its metrics; repeat it to
    /// measure between two readings
    #[arg(long, help_heading = "Mix of requests", value_name = "URL|FILE", action = ArgAction::Append, value_parser = Source::parse)]
    pub(super) from: Vec<Source>,
    /// With --from: measure from now for this long instead of since the replica started
    #[arg(long, help_heading = "Mix of requests", value_name = "DURATION", requires = "from")]
    #[arg(value_parser = allowed(value::duration(Duration::from_millis(100), Duration::from_secs(600))))]
    pub(super) window: Option<Duration>,
    /// Load, in requests per second
    #[arg(long, help_heading = "Load", value_name = "NUMBER", value_parser = text::rate)]
    rps: Option<f64>,
    /// Load of one replica, as a share of its maximum
    #[arg(long, help_heading = "Load", value_name = "SHARE", conflicts_with_all = ["rps", "replicas"], value_parser = text::used)]
    used: Option<f64>,
    /// Target for the median latency
    #[arg(long, help_heading = "Target", value_name = "DURATION", value_parser = text::target)]
    p50: Option<f64>,
    /// Target for the 90th percentile of the latency
    #[arg(long, help_heading = "Target", value_name = "DURATION", value_parser = text::target)]
    p90: Option<f64>,
    /// Target for the 95th percentile of the latency
    #[arg(long, help_heading = "Target", value_name = "DURATION", value_parser = text::target)]
    p95: Option<f64>,
    /// Target for the 99th percentile of the latency
    #[arg(long, help_heading = "Target", value_name = "DURATION", value_parser = text::target)]
    p99: Option<f64>,
    /// Target for the 99.9th percentile of the latency
    #[arg(long = "p99.9", help_heading = "Target", value_name = "DURATION", value_parser = text::target)]
    p999: Option<f64>,
    /// Maximum share of requests that may be shed
    #[arg(long, help_heading = "Target", value_name = "SHARE", default_value = "0.1%", value_parser = text::share)]
    pub(super) shed: f64,
    /// Number of replicas to examine
    #[arg(long, help_heading = "Load", value_name = "NUMBER", value_parser = allowed(value::number(1, 100_000)))]
    pub(super) replicas: Option<u64>,
    /// Number of replicas that may be unavailable
    #[arg(long, help_heading = "Load", value_name = "NUMBER", default_value = "1", value_parser = allowed(value::number(0, 1000)))]
    pub(super) spare: u64,
    /// With --hpa: load growth until a new replica is ready
    #[arg(long, help_heading = "Load", value_name = "SHARE", default_value = "25%", value_parser = text::growth)]
    pub(super) growth: f64,
    #[command(flatten)]
    pub(super) settings: Settings,
    /// Number of simulated requests
    #[arg(long, help_heading = "Simulation", value_name = "NUMBER", default_value = "200000")]
    #[arg(value_parser = allowed(value::number(1000, 10_000_000)))]
    requests: u64,
    /// Seed of the simulation; the same seed gives the same answer
    #[arg(long, help_heading = "Simulation", value_name = "NUMBER", default_value = "1")]
    seed: u64,
    /// Exit with status 1 if the target is not met
    #[arg(long, help_heading = "Answer")]
    pub(super) check: bool,
    /// Print the answer as JSON
    #[arg(long, help_heading = "Answer")]
    json: bool,
    /// Print HorizontalPodAutoscaler values for charts/service
    #[arg(long, help_heading = "Answer", requires = "rps", requires = "quantile")]
    #[arg(value_name = "METRIC", num_args = 0..=1, require_equals = true, default_missing_value = "required")]
    hpa: Option<Metric>,
    /// With --hpa: `service` label of the replicas, which is the Deployment's name
    #[arg(long, help_heading = "Answer", value_name = "NAME", required_if_eq("hpa", "required"))]
    pub(super) service: Option<String>,
}

/// Replica settings that override the running replica's settings or the defaults.
#[derive(Args, Debug)]
#[command(next_help_heading = "Replica")]
pub(crate) struct Settings {
    /// Lanes per replica [default: 1, or the running replica's setting]
    #[arg(long, value_name = "NUMBER", value_parser = allowed(value::number(1, 1024)))]
    pub(super) lanes: Option<u64>,
    /// limits.slots [default: 1024, or the running replica's setting]
    #[arg(long, value_name = "NUMBER", value_parser = allowed(value::number(1, 1 << 20)))]
    pub(super) slots: Option<u64>,
    /// limits.queue [default: 1024, or the running replica's setting]
    #[arg(long, value_name = "NUMBER", value_parser = allowed(value::number(0, 1 << 20)))]
    pub(super) queue: Option<u64>,
    /// hashed or least-loaded [default: hashed, or the running replica's setting]
    #[arg(long, value_name = "WORD", value_parser = allowed(value::word::<Placement>))]
    pub(super) placement: Option<Placement>,
    /// Whether connections carry more than one request
    #[arg(long, value_name = "on|off", default_value = "on", action = ArgAction::Set)]
    #[arg(value_parser = allowed(value::switch))]
    pub(super) keep_alive: bool,
    /// Load of the busiest lane divided by the mean
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = text::unevenness)]
    pub(super) unevenness: f64,
    /// CPU time of a request outside its handler [default: 10us, or the running replica's
    /// measurement]
    #[arg(long, value_name = "DURATION", value_parser = text::duration)]
    pub(super) outside: Option<f64>,
    /// CPU time for waking up a lane [default: 25us, or the running replica's measurement]
    #[arg(long, value_name = "DURATION", value_parser = text::duration)]
    pub(super) wake: Option<f64>,
    /// Network time of a request [default: 0us]
    #[arg(long, value_name = "DURATION", value_parser = text::duration)]
    pub(super) network: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Load {
    Rate(f64),
    Used(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Table,
    Json,
    Autoscaling(Metric),
}

/// The metric that a HorizontalPodAutoscaler scales on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Metric {
    /// The busy share of the lanes
    Busy,
    /// Required replicas at the current mix, as recorded by dashboards/rules
    Required,
}

impl Question {
    /// Rules that clap cannot express.
    pub(super) fn validate(&self) -> Result<(), String> {
        if let Some(third) = self.from.get(2) {
            return Err(format!("--from {third}: expected one reading or two"));
        }
        if self.window.is_some() && !matches!(self.from.as_slice(), [Source::Port(_)]) {
            return Err("--window: allowed with one --from http://HOST:PORT".to_owned());
        }
        Ok(())
    }

    pub(super) fn mix(&self) -> Result<Option<Mix>, String> {
        match (&self.mix, &self.mix_file) {
            (Some(text), _) => text::mix("--mix", text).map(Some),
            (None, Some(file)) => text::mix_file(file).map(Some),
            (None, None) => Ok(None),
        }
    }

    pub(super) fn load(&self) -> Option<Load> {
        self.rps.map(Load::Rate).or(self.used.map(Load::Used))
    }

    /// Share of requests, and their latency limit in seconds.
    pub(super) fn quantile(&self) -> Option<(f64, f64)> {
        let Question { p50, p90, p95, p99, p999, .. } = *self;
        let all = [(0.5, p50), (0.9, p90), (0.95, p95), (0.99, p99), (0.999, p999)];
        all.into_iter().find_map(|(share, within)| Some((share, within?)))
    }

    pub(super) fn simulation(&self) -> Simulation {
        Simulation { requests: self.requests as usize, seed: self.seed }
    }

    pub(super) fn form(&self) -> Form {
        match () {
            () if self.json => Form::Json,
            () => self.hpa.map_or(Form::Table, Form::Autoscaling),
        }
    }
}
