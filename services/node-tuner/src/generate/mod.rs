//! Generates files for settings that do not belong to the host.

mod documents;
mod kubelet;
mod sysctls;

use std::process::ExitCode;

use corelane_service::process;

use crate::catalogue::Role;
use crate::node;
use crate::profile::Profile;
use crate::settings::{Generate, Output, Settings, What};
use crate::tree::Tree;

/// systemd's hard limit on open files for services (systemd-system.conf(5), DefaultLimitNOFILE).
const SYSTEMD: u64 = 524_288;

const NR_OPEN: u64 = 1_048_576;

pub(crate) fn run(settings: &Settings, generate: Generate) -> ExitCode {
    let profile =
        Profile::new(&settings.profile, &settings.knobs).expect("the settings were validated");
    let text = match generate.what {
        What::Service => Ok(sysctls::values(&profile, Role::Service, generate.with_unsafe)),
        What::Gateway => Ok(sysctls::values(&profile, Role::Gateway, generate.with_unsafe)),
        What::Kubelet => {
            if let Some(note) = node::split_of(&Tree::new(&settings.root), settings) {
                tracing::warn!("{note}");
            }
            kubelet::snippet(&profile, &settings.housekeeping, generate.with_unsafe)
        }
        What::Containerd => Ok(containerd(&profile)),
        What::Boot => Ok(boot(&profile)),
    };
    match text {
        Ok(text) => {
            process::print(&text);
            ExitCode::SUCCESS
        }
        Err(words) => {
            tracing::error!("{words}");
            process::usage()
        }
    }
}

pub(crate) fn knobs(output: Output) -> ExitCode {
    process::print(&match output {
        Output::Table => documents::markdown(),
        Output::Json => documents::json(),
    });
    ExitCode::SUCCESS
}

fn comment(indent: &str, text: &str) -> String {
    let mut lines = String::new();
    let mut line = format!("{indent}#");
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > 100 {
            lines += &line;
            lines.push('\n');
            line = format!("{indent}#");
        }
        line.push(' ');
        line += word;
    }
    lines + &line + "\n"
}

fn containerd(profile: &Profile) -> String {
    let Some(nofile) = profile.nofile() else {
        return comment("", "Nothing: containerd.nofile is not in the profile");
    };
    let name = &profile.name;
    if nofile <= SYSTEMD {
        let words = format!(
            "Nothing: profile {name} needs {nofile} open files, and systemd's own hard limit is {SYSTEMD}. The \
             server and Envoy raise their soft limit themselves"
        );
        return comment("", &words);
    }
    let head = comment(
        "",
        &format!(
            "Open files of containers, profile {name}: /etc/systemd/system/containerd.service.d/nofile.conf. \
             Then drain the node, `systemctl daemon-reload` and `systemctl restart containerd`: pods that start \
             later have the limit. The soft limit stays: who needs more raises it"
        ),
    );
    let first = match nofile > NR_OPEN {
        true => comment(
            "",
            &format!(
                "systemd cannot give more than fs.nr_open when containerd starts, and that is before the agent \
                 does: /etc/sysctl.d/nr-open.conf with `fs.nr_open = {nofile}` comes first"
            ),
        ),
        false => String::new(),
    };
    format!("{head}{first}[Service]\nLimitNOFILE=1024:{nofile}\n")
}

fn boot(profile: &Profile) -> String {
    use crate::catalogue::{Place, knobs};

    let word = |knob: &crate::catalogue::Knob| {
        let value = profile.wanted(knob).filter(|_| matches!(knob.place, Place::Boot(_)))?;
        Some(format!("{}={}", knob.name.strip_prefix("boot.")?, value.text()))
    };
    let words: Vec<String> = knobs().filter_map(word).collect();
    match words.as_slice() {
        [] => comment("", &format!("Nothing: profile {} needs no parameters", profile.name)),
        words => format!("{}\n", words.join(" ")),
    }
}
