//! Flags of `corelane capacity`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use corelane::Placement;
use corelane::capacity::{Mix, Simulation};
use corelane_service::{duration, number};

use super::source::Source;
use super::text;

/// What is asked.
#[derive(Debug)]
pub(crate) struct Question {
    /// As text or from a file.
    pub(crate) mix: Option<Mix>,
    /// What a running replica tells: since it started, or between two readings.
    pub(crate) from: Vec<Source>,
    pub(crate) window: Option<Duration>,
    pub(crate) load: Option<Load>,
    /// A share of the requests, and in how many seconds they have to be answered.
    pub(crate) quantile: Option<(f64, f64)>,
    /// Largest share of requests that may be shed.
    pub(crate) shed: f64,
    pub(crate) replicas: Option<u64>,
    pub(crate) spare: u64,
    pub(crate) growth: f64,
    pub(crate) settings: Settings,
    pub(crate) simulation: Simulation,
    pub(crate) check: bool,
    pub(crate) form: Form,
}

/// Settings of the replica that are given, in place of those of the running one or of the defaults.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) lanes: Option<usize>,
    pub(crate) slots: Option<usize>,
    pub(crate) queue: Option<usize>,
    pub(crate) placement: Option<Placement>,
    /// Whether a connection carries more than one request.
    pub(crate) keep_alive: bool,
    pub(crate) unevenness: f64,
    /// In seconds, as are the next.
    pub(crate) outside: Option<f64>,
    pub(crate) wake: Option<f64>,
    pub(crate) network: Option<f64>,
}

/// The load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Load {
    /// In requests per second.
    Rate(f64),
    /// As a share of what one replica carries at most.
    Used(f64),
}

/// How the answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Table,
    Json,
    Autoscaling,
}

/// The quantiles that may be a target.
const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];

impl Question {
    /// Reads the flags; the error says what is wrong.
    pub(crate) fn read(matches: &ArgMatches) -> Result<Self, String> {
        let get = |name: &str| matches.get_one::<f64>(name).copied();
        let whole = |name: &str| matches.get_one::<u64>(name).copied();
        let size = |name: &str| whole(name).map(|n| n as usize);
        let mix = match (matches.get_one::<String>("mix"), matches.get_one::<PathBuf>("mix-file")) {
            (Some(text), _) => Some(text::mix("--mix", text)?),
            (None, Some(file)) => Some(text::mix_file(file)?),
            (None, None) => None,
        };
        let from =
            matches.get_many::<Source>("from").unwrap_or_default().cloned().collect::<Vec<_>>();
        if from.len() > 2 {
            return Err(format!("--from {}: allowed are one reading or two", from[2]));
        }
        let window = matches.get_one::<Duration>("window").copied();
        if window.is_some() && !matches!(from.as_slice(), [Source::Port(_)]) {
            return Err("--window: allowed with one --from http://HOST:PORT".to_owned());
        }
        let quantile = QUANTILES.iter().find_map(|&(name, share)| Some((share, get(name)?)));
        let form = match () {
            () if matches.get_flag("json") => Form::Json,
            () if matches.get_flag("hpa") => Form::Autoscaling,
            () => Form::Table,
        };
        let flag = |name: &str| get(name).unwrap_or_default();
        Ok(Question {
            mix,
            from,
            window,
            load: get("rps").map(Load::Rate).or(get("used").map(Load::Used)),
            quantile,
            shed: flag("shed"),
            replicas: whole("replicas"),
            spare: whole("spare").unwrap_or_default(),
            growth: flag("growth"),
            settings: Settings {
                lanes: size("lanes"),
                slots: size("slots"),
                queue: size("queue"),
                placement: matches.get_one("placement").copied(),
                keep_alive: matches.get_one::<String>("keep-alive").is_none_or(|word| word == "on"),
                unevenness: get("unevenness").unwrap_or(1.0),
                outside: get("outside"),
                wake: get("wake"),
                network: get("network"),
            },
            simulation: Simulation {
                requests: size("requests").unwrap_or(Simulation::default().requests),
                seed: whole("seed").unwrap_or(Simulation::default().seed),
            },
            check: matches.get_flag("check"),
            form,
        })
    }
}

/// The flags of `corelane capacity`.
pub(crate) fn command() -> Command {
    let command = Command::new("capacity")
        .about("How much a replica carries, and how many replicas a load needs")
        .after_help(
            "KIND=SHARE%[:MEAN[:DEVIATION]][+WAIT[:DEVIATION]] is one kind of a mix: MEAN is how long its \
             handler holds a lane, WAIT how long it waits without it. With --from, a mix may give shares \
             alone: what each kind takes is what the replica has learnt. Durations have a unit: ns, us, \
             ms, s.",
        )
        .group(ArgGroup::new("what").args(["mix", "mix-file", "from"]).required(true).multiple(true))
        .group(ArgGroup::new("quantile").args(QUANTILES.map(|(name, _)| name)))
        .group(ArgGroup::new("form").args(["json", "hpa"]));
    flags().into_iter().fold(command, Command::arg)
}

fn flags() -> Vec<Arg> {
    let flag = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let switch = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    let time = |name: &'static str, help: &'static str| {
        flag(name, "DURATION", help).value_parser(text::duration)
    };
    let count = |name: &'static str, help: &'static str, min: u64, max: u64| {
        flag(name, "NUMBER", help).value_parser(number(min, max))
    };
    let mut flags = vec![
        flag("mix", "TEXT", "What is asked for: \"GET /hello=90%, GET /work=10%:7ms\"")
            .conflicts_with("mix-file"),
        flag("mix-file", "FILE", "The same from a file, a kind a line; # begins a comment")
            .value_parser(clap::value_parser!(PathBuf)),
        flag(
            "from",
            "URL|FILE",
            "Admin port of a running replica, http://HOST:PORT, or a file with what its /metrics showed; \
             twice for what was between two readings",
        )
        .action(ArgAction::Append)
        .value_parser(Source::parse),
        flag("window", "DURATION", "With --from: over this time from now, not since the replica started")
            .requires("from")
            .value_parser(duration(Duration::from_millis(100), Duration::from_secs(600))),
        flag("rps", "NUMBER", "The load, in requests per second").value_parser(text::rate),
        flag("used", "SHARE", "The load of one replica, as a share of what it carries at most")
            .conflicts_with_all(["rps", "replicas"])
            .value_parser(text::used),
    ];
    flags.extend(QUANTILES.map(|(name, _)| {
        flag(name, "DURATION", "The time within which this part of the requests has to be answered")
            .value_parser(text::target)
    }));
    flags.extend([
        flag("shed", "SHARE", "Largest share of requests that may be shed")
            .default_value("0.1%")
            .value_parser(text::share),
        count("replicas", "How this number of replicas fares", 1, 100_000),
        count("spare", "Replicas that may be away", 0, 1000).default_value("1"),
        flag(
            "growth",
            "SHARE",
            "What the load may grow by until a new replica is there, for --hpa",
        )
        .default_value("25%")
        .value_parser(text::growth),
        count("lanes", "Lanes of a replica [default: 1, or the running replica's]", 1, 1024),
        count("slots", "limits.slots [default: 1024, or the running replica's]", 1, 1 << 20),
        count("queue", "limits.queue [default: 1024, or the running replica's]", 0, 1 << 20),
        flag(
            "placement",
            "WORD",
            "hashed, shared or least-loaded [default: hashed, or the replica's]",
        )
        .value_parser(|text: &str| {
            text.parse::<Placement>().map_err(|words| format!("allowed is {words}"))
        }),
        flag("keep-alive", "on|off", "Whether connections carry more than one request")
            .default_value("on")
            .value_parser(["on", "off"]),
        flag("unevenness", "NUMBER", "Load of the busiest lane over the mean [default: 1]")
            .value_parser(text::unevenness),
        time(
            "outside",
            "What a request costs a busy lane beside its handler [default: 10us, or the replica's]",
        ),
        time("wake", "What it costs a lane to sleep and wake up [default: 25us, or the replica's]"),
        time("network", "What a request spends on its way [default: 0us]"),
        count("requests", "Requests that are simulated", 1000, 10_000_000).default_value("200000"),
        count("seed", "Of the simulation: the same seed gives the same answer", 0, u64::MAX)
            .default_value("1"),
        switch("check", "Exit status 1 if the target is not met"),
        switch("json", "The answer as JSON"),
        switch("hpa", "Values of charts/server for its HorizontalPodAutoscaler")
            .requires("rps")
            .requires("quantile"),
    ]);
    flags
}
