//! The catalogue as Markdown and JSON.

use serde_json::json;

use crate::catalogue::{self, Class, Knob, Place, Role, Rule, Values};
use crate::profile::PROFILES;

const HEAD: &str = "\
# Settings of the node tuner

*Reference.* This page is for operators who look up a node setting. It lists all settings that `node-tuner` can change and
their values in each profile, as `node-tuner knobs` prints them. If a cell is empty, the profile does not change the setting.
No profile lowers a limit. With `auto`, each node determines the value. Sources are paths in the kernel's documentation
unless the table names another source.
";

const CLASSES: [(Class, &str, &str); 5] = [
    (
        Class::Host,
        "Host",
        "`node-tuner apply` writes these settings, and `restore` writes the original values back.",
    ),
    (
        Class::Pod,
        "Pod",
        "Every pod has these settings in its own network namespace, so a host profile rejects them. `node-tuner \
         generate service` and `generate gateway` print them as chart values.",
    ),
    (
        Class::Kubelet,
        "Kubelet",
        "`node-tuner generate kubelet` prints the snippet and the steps. `--kubelet-config` compares a file with it.",
    ),
    (
        Class::Runtime,
        "Container runtime",
        "`node-tuner generate containerd` prints a systemd drop-in.",
    ),
    (
        Class::Boot,
        "Boot",
        "`node-tuner generate boot` prints the parameters for the kernel command line.",
    ),
];

pub(super) fn markdown() -> String {
    let mut text = HEAD.to_owned();
    for (class, title, words) in CLASSES {
        text += &format!("\n## {title}\n\n{words}\n\n");
        let head = "| Setting | web-10k | web-100k | web-1m | Effect | Reason | Risk | Source |";
        text += &format!("{head}\n{}|\n", "|---".repeat(8));
        for knob in catalogue::knobs().filter(|knob| knob.class() == class) {
            text += &rows(knob);
        }
    }
    text
}

fn rows(knob: &Knob) -> String {
    let cells = |name: String, values: Values| {
        let values = values.map(|it| if it.is_empty() { String::new() } else { code(it) });
        let values = values.join(" | ");
        let Knob { summary, reason, risk, source, .. } = knob;
        format!("| {name} | {values} | {summary}{} | {reason} | {risk} | {source} |\n", rule(knob))
    };
    let name = code(knob.name);
    let Place::Pod(pods) = knob.place else { return cells(name, knob.values) };
    let safe = match pods.safe {
        Some("") => "safe".to_owned(),
        Some(version) => format!("safe from Kubernetes {version} on"),
        None => "unsafe".to_owned(),
    };
    match (pods.of(Role::Service), pods.of(Role::Gateway)) {
        (service, gateway) if service == gateway => cells(format!("{name} ({safe})"), service),
        (service, gateway) => {
            let of_service = cells(format!("{name} of service ({safe})"), service);
            // Omits a role that no profile sets.
            match service == catalogue::CHOSEN {
                true => cells(format!("{name} of gateway ({safe})"), gateway),
                false => of_service + &cells(format!("{name} of gateway ({safe})"), gateway),
            }
        }
    }
}

fn code(text: &str) -> String {
    format!("`{}`", text.replace(',', ", "))
}

fn rule(knob: &Knob) -> &'static str {
    match knob.rule {
        Rule::AtLeast => " (limit)",
        Rule::Held => " (held)",
        _ => "",
    }
}

pub(super) fn json() -> String {
    let values = |values: Values| {
        let pairs = PROFILES.iter().zip(values).filter(|(_, value)| !value.is_empty());
        pairs
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect::<serde_json::Map<_, _>>()
    };
    let knob = |knob: &Knob| {
        let mut value = json!({
            "name": knob.name,
            "class": knob.class(),
            "allowed": knob.kind.allowed(),
            "summary": knob.summary,
            "reason": knob.reason,
            "source": knob.source,
            "risk": knob.risk,
        });
        match knob.place {
            Place::Pod(pods) => {
                value["safe"] = json!(pods.safe);
                value["service"] = json!(values(pods.service));
                value["gateway"] = json!(values(pods.gateway));
            }
            _ => value["profiles"] = json!(values(knob.values)),
        }
        value
    };
    format!("{:#}\n", json!({ "knobs": catalogue::knobs().map(knob).collect::<Vec<_>>() }))
}
