//! The command line and the environment.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use corelane_service::{duration, number};

use super::{Agent, Generate, LogFormat, Mode, Output, Proof, Settings, Uninstall, What, file};
use crate::cpus::Cpus;
use crate::kubelet::Kubelet;
use crate::profile::Profile;

/// Environment variables with this prefix are settings.
const PREFIX: &str = "NODE_TUNER_";

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Reads the command line, the environment and the file, or says why the program ends here.
pub(crate) fn read() -> Result<Settings, ExitCode> {
    let plain = command();
    let named = corelane_service::read(&plain, &[PREFIX])?;
    let from_file = match named.get_one::<PathBuf>("config") {
        None => BTreeMap::new(),
        Some(path) => file::read(path).map_err(|words| refuse(ErrorKind::InvalidValue, &words))?,
    };
    let with_file = file::as_defaults(plain, &from_file)
        .map_err(|words| refuse(ErrorKind::UnknownArgument, &words))?;
    let matches = corelane_service::read(&with_file, &[PREFIX])?;
    let mut settings = settings(&matches);
    if settings.restores() {
        // What was wanted does not matter any more, and must not be in the way of what was there.
        settings.knobs.clear();
        settings.housekeeping.clear();
    } else {
        settings.kubelet =
            kubelet(&matches).map_err(|words| refuse(ErrorKind::InvalidValue, &words))?;
    }
    valid(&settings).map_err(|words| refuse(ErrorKind::InvalidValue, &words))?;
    if matches.get_flag("check") {
        return Err(ExitCode::SUCCESS);
    }
    Ok(settings)
}

fn refuse(kind: ErrorKind, words: &str) -> ExitCode {
    corelane_service::refuse(command().error(kind, words))
}

/// What flags by themselves cannot say.
fn valid(settings: &Settings) -> Result<(), String> {
    if !settings.root.is_dir() {
        return Err(format!("root = {:?}: allowed is a folder that is there", settings.root));
    }
    let cpus = &settings.housekeeping;
    if Cpus::from_list(cpus).is_none() {
        return Err(format!("housekeeping = {cpus:?}: allowed is a list of CPUs, such as 0-1,4"));
    }
    Profile::new(settings).map(drop)
}

/// Read once: it may be a pipe.
fn kubelet(matches: &ArgMatches) -> Result<Option<Kubelet>, String> {
    let path = matches.get_one::<PathBuf>("kubelet-config");
    let kubelet = path.map(|path| Kubelet::read(path)).transpose();
    kubelet.map_err(|words| format!("kubelet-config = {words}"))
}

fn settings(matches: &ArgMatches) -> Settings {
    let (name, own) = matches.subcommand().expect("clap demands a command");
    Settings {
        command: match name {
            "agent" => super::Command::Agent,
            "proof" => super::Command::Proof(Proof {
                agents: list(own, "agents"),
                allow_none: own.get_flag("allow-none"),
            }),
            "uninstall" => super::Command::Uninstall(Uninstall {
                namespace: value(own, "namespace"),
                daemonset: value(own, "daemonset"),
                timeout: value(own, "timeout"),
            }),
            "generate" => super::Command::Generate(generate(own)),
            "plan" => super::Command::Plan,
            "apply" => super::Command::Apply,
            "restore" => super::Command::Restore,
            "knobs" => super::Command::Knobs,
            _ => super::Command::Audit,
        },
        profile: value(matches, "profile"),
        knobs: knobs(matches),
        root: value(matches, "root"),
        journal: value(matches, "journal"),
        housekeeping: value(matches, "housekeeping"),
        interfaces: list(matches, "interfaces"),
        kubelet: None,
        output: match value::<String>(matches, "output").as_str() {
            "json" => Output::Json,
            _ => Output::Table,
        },
        log_level: value::<String>(matches, "log.level").parse().expect("a level is one of LEVELS"),
        log_format: match value::<String>(matches, "log.format").as_str() {
            "json" => LogFormat::Json,
            _ => LogFormat::Text,
        },
        agent: agent(matches),
    }
}

fn generate(matches: &ArgMatches) -> Generate {
    Generate {
        what: match value::<String>(matches, "what").as_str() {
            "server" => What::Server,
            "gateway" => What::Gateway,
            "kubelet" => What::Kubelet,
            "containerd" => What::Containerd,
            _ => What::Boot,
        },
        with_unsafe: matches.get_flag("unsafe"),
    }
}

fn agent(matches: &ArgMatches) -> Agent {
    Agent {
        mode: match value::<String>(matches, "agent.mode").as_str() {
            "apply" => Mode::Apply,
            "restore" => Mode::Restore,
            _ => Mode::Audit,
        },
        repair: value::<String>(matches, "agent.drift") == "repair",
        interval: value(matches, "agent.interval"),
        listen: value(matches, "agent.listen"),
        node: value(matches, "agent.node"),
        kubeconfig: matches.get_one("agent.kubeconfig").cloned(),
        cgroups: value(matches, "agent.cgroups"),
        pods: value(matches, "agent.pods"),
        nofile: matches.get_one("agent.nofile").copied(),
        taint: value(matches, "agent.taint"),
    }
}

/// The value of a flag that has a default.
fn value<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> T {
    matches.get_one::<T>(name).cloned().expect("the flag has a default")
}

fn list(matches: &ArgMatches, name: &str) -> Vec<String> {
    let given = matches.get_many::<String>(name).into_iter().flatten();
    given.filter(|word| !word.is_empty()).cloned().collect()
}

fn knobs(matches: &ArgMatches) -> BTreeMap<String, String> {
    let given = matches.get_many::<Pairs>("knobs");
    given.into_iter().flatten().flat_map(|it| it.0.clone()).collect()
}

/// Knobs of one flag, or of the variable.
#[derive(Clone, Debug)]
struct Pairs(Vec<(String, String)>);

/// `NAME=VALUE`, more of them after commas or semicolons. A part without `=` belongs to the value before it:
/// lists of CPUs have commas too.
fn pairs(text: &str) -> Result<Pairs, String> {
    let mut found: Vec<(String, String)> = Vec::new();
    for part in text.split([';', ',']).filter(|part| !part.trim().is_empty()) {
        match (part.split_once('='), found.last_mut()) {
            // Of a policy's options: names of knobs have a dot.
            (Some((name, _)), Some((_, value))) if !name.contains('.') => {
                value.push_str(&format!(",{}", part.trim()));
            }
            (Some((name, value)), _) => {
                found.push((name.trim().to_owned(), value.trim().to_owned()));
            }
            (None, Some((_, value))) => value.push_str(&format!(",{}", part.trim())),
            (None, None) => {
                return Err("allowed is NAME=VALUE, such as fs.file-max=2000000".to_owned());
            }
        }
    }
    Ok(Pairs(found))
}

/// A flag for every command, with its variable.
fn global(name: &'static str, default: &'static str) -> Arg {
    let variable: String = PREFIX.to_owned() + &name.to_uppercase().replace(['.', '-'], "_");
    // Named once per process: clap keeps names for as long as the program runs.
    let variable: &'static str = Box::leak(variable.into_boxed_str());
    let argument = Arg::new(name).long(name).env(variable).global(true);
    if default.is_empty() { argument } else { argument.default_value(default) }
}

/// All that can be said.
pub(super) fn command() -> Command {
    Command::new("node-tuner")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Prepares a Kubernetes node for many connections")
        .after_help("A flag wins over the environment, and that over the file.")
        .subcommand_required(true)
        .args(general())
        .args(of_the_agent())
        .subcommands([
            Command::new("audit").about("Show what differs from the profile; change nothing"),
            Command::new("plan").about("Show what apply would write, and why"),
            Command::new("apply").about("Note what is there, then write what differs"),
            Command::new("restore").about("Write back what was there"),
            Command::new("agent").about("Audit, apply or restore again and again"),
            proof(),
            generated(),
            uninstall(),
            Command::new("knobs").about("List all knobs, with reasons and risks"),
        ])
}

fn general() -> Vec<Arg> {
    vec![
        global("config", "")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("Configuration file, in YAML"),
        global("check", "").action(ArgAction::SetTrue).help("Validate the settings and exit"),
        global("profile", "web-10k")
            .value_parser(PossibleValuesParser::new(["web-10k", "web-100k", "web-1m", "custom"]))
            .help("What is wanted of the node"),
        global("knobs", "")
            .value_name("NAME=VALUE")
            .action(ArgAction::Append)
            .value_parser(pairs)
            .help("Knobs beside the profile's; VALUE off takes one out"),
        global("root", "/")
            .value_parser(value_parser!(PathBuf))
            .help("What /proc, /sys, /dev and /etc are below"),
        global("journal", "/var/lib/corelane/node-tuner")
            .value_parser(value_parser!(PathBuf))
            .help("Folder of the journal"),
        global("housekeeping", "").default_value("").help("CPUs for interrupts, such as 0-1"),
        global("interfaces", "")
            .value_delimiter(',')
            .action(ArgAction::Append)
            .help("Network devices; none: those with hardware"),
        global("kubelet-config", "")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("The kubelet's configuration or what its /configz says, to be compared"),
        global("output", "table")
            .value_parser(PossibleValuesParser::new(["table", "json"]))
            .help("Form of what is printed"),
        global("log.level", "info")
            .value_parser(PossibleValuesParser::new(LEVELS))
            .help("Least severe messages to log"),
        global("log.format", "text")
            .value_parser(PossibleValuesParser::new(["text", "json"]))
            .help("Form of log lines"),
    ]
}

fn of_the_agent() -> Vec<Arg> {
    vec![
        global("agent.mode", "audit")
            .value_parser(PossibleValuesParser::new(["audit", "apply", "restore"]))
            .help("What the agent does"),
        global("agent.drift", "repair")
            .value_parser(PossibleValuesParser::new(["repair", "report"]))
            .help("What the agent does about drift"),
        // Alerts take an agent that has not looked for 15 minutes for one that hangs.
        global("agent.interval", "30s")
            .value_parser(duration(Duration::from_secs(1), Duration::from_secs(300)))
            .help("Time between two passes"),
        global("agent.listen", "0.0.0.0:9905")
            .value_parser(value_parser!(std::net::SocketAddr))
            .help("Where probes, metrics and reports are served"),
        global("agent.node", "").default_value("").help("Name of the node; empty: no Kubernetes"),
        global("agent.kubeconfig", "")
            .value_parser(value_parser!(PathBuf))
            .help("How to reach the API server; without it, as a pod does"),
        global("agent.cgroups", "/sys/fs/cgroup")
            .value_parser(value_parser!(PathBuf))
            .help("Where cgroups are mounted"),
        global("agent.pods", "app.kubernetes.io/name in (corelane-server, corelane-gateway)")
            .help("Selector of the pods whose pinning is proven"),
        global("agent.nofile", "")
            .value_parser(number(1, 1 << 30))
            .help("Open files that such a pod needs"),
        global("agent.taint", "")
            .default_value("")
            .help("Key of the taint of nodes that are not prepared"),
    ]
}

fn generated() -> Command {
    let what = Arg::new("what")
        .required(true)
        .value_parser(["server", "gateway", "kubelet", "containerd", "boot"])
        .help("For whom");
    let with_unsafe = Arg::new("unsafe")
        .long("unsafe")
        .action(ArgAction::SetTrue)
        .help("Also sysctls that the kubelet must allow");
    Command::new("generate")
        .about("Print what does not belong to the host, as a file to use")
        .args([what, with_unsafe])
}

fn proof() -> Command {
    let agents = Arg::new("agents")
        .long("agents")
        .env("NODE_TUNER_AGENTS")
        .value_delimiter(',')
        .action(ArgAction::Append)
        .default_value("http://127.0.0.1:9905")
        .help("Agents to ask; a name means all of its addresses");
    let allow_none = Arg::new("allow-none")
        .long("allow-none")
        .env("NODE_TUNER_ALLOW_NONE")
        .action(ArgAction::SetTrue)
        .help("Take it as well if no agent knows a pod");
    Command::new("proof")
        .about("Show whether the pods have their CPUs alone")
        .args([agents, allow_none])
}

fn uninstall() -> Command {
    let text = |name: &'static str, variable: &'static str| {
        Arg::new(name).long(name).env(variable).required(true)
    };
    let timeout = Arg::new("timeout")
        .long("timeout")
        .env("NODE_TUNER_TIMEOUT")
        .default_value("5m")
        .value_parser(duration(Duration::from_secs(1), Duration::from_secs(3600)));
    Command::new("uninstall")
        .about("Let every node be restored before the DaemonSet is deleted")
        .args([
            text("namespace", "NODE_TUNER_NAMESPACE").help("Namespace of the DaemonSet"),
            text("daemonset", "NODE_TUNER_DAEMONSET").help("The DaemonSet"),
            timeout.help("Longest time until all nodes are restored"),
        ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_are_between_knobs_and_in_values() {
        for (text, wanted) in [
            ("a.b=1", vec![("a.b", "1")]),
            ("a.b=1,c.d=2", vec![("a.b", "1"), ("c.d", "2")]),
            ("a.b = 0,2-3 ; c.d=1 2 3", vec![("a.b", "0,2-3"), ("c.d", "1 2 3")]),
            ("a.b=x=true,y-z=false,c.d=1", vec![("a.b", "x=true,y-z=false"), ("c.d", "1")]),
            ("", vec![]),
        ] {
            let found = pairs(text).expect(text).0;
            let found: Vec<_> = found.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            assert_eq!(found, wanted, "{text}");
        }
        pairs("a.b").expect_err("no value");
    }

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }
}
