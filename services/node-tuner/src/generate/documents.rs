//! The catalogue as Markdown and JSON.

use serde_json::json;

use crate::catalogue::{self, Class, Knob, Place, Role, Rule, Values};
use crate::profile::PROFILES;

const HEAD: &str = "\
# Settings of the node tuner

*Reference.* All settings that `node-tuner` can change, and their values in its profiles: the output of `node-tuner knobs`. A
setting with an empty cell is not changed. A limit is never lowered. `auto` is determined on each node. Sources are
paths in the documentation of the kernel, unless stated otherwise.
";

const CLASSES: [(Class, &str, &str); 5] = [
    (
        Class::Host,
        "Host",
        "Written by `node-tuner apply`; `restore` writes back the original values.",
    ),
    (
        Class::Pod,
        "Pod",
        "Every pod has its own, in its network namespace: a host profile rejects them. `node-tuner generate \
         service` and `generate gateway` print them as values of the charts.",
    ),
    (
        Class::Kubelet,
        "Kubelet",
        "`node-tuner generate kubelet` prints the snippet with the steps; `--kubelet-config` compares.",
    ),
    (
        Class::Runtime,
        "Container runtime",
        "`node-tuner generate containerd` prints a drop-in for systemd.",
    ),
    (
        Class::Boot,
        "Boot",
        "`node-tuner generate boot` prints the parameters for the kernel's command line.",
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
