//! The proofs of agents as a table for terminals: fits 120 columns unless names are longer.

use std::fmt::Write;

use super::{Check, ContainerProof, NodeProof, PodProof};

/// Columns of a terminal.
const WIDTH: usize = 120;

/// The column of the text: after the longest state and the longest name of a check.
const WORDS: usize = 6 + 16 + 22;

/// Node by node, pod by pod.
pub(crate) fn table(nodes: &[NodeProof]) -> String {
    let mut text = String::new();
    for node in nodes {
        let _ = writeln!(text, "node {}", node.node);
        for pod in &node.pods {
            self::pod(&mut text, pod);
        }
    }
    let pods = nodes.iter().flat_map(|node| &node.pods);
    let (all, proven) = (pods.clone().count(), pods.filter(|pod| pod.proven).count());
    let _ = writeln!(text, "pods proven: {proven} of {all}, nodes: {}", nodes.len());
    text
}

fn pod(text: &mut String, pod: &PodProof) {
    let verdict = if pod.proven { "proven" } else { "NOT PROVEN" };
    let _ = writeln!(text, "  {}/{}: {verdict}", pod.namespace, pod.pod);
    for container in &pod.containers {
        let ContainerProof { container, cpus, checks, cpu_time: _ } = container;
        let cpus = if cpus.is_empty() { "of unknown CPUs" } else { &format!("on CPU {cpus}") };
        let _ = writeln!(text, "    {container} {cpus}");
        for check in checks {
            self::check(text, check);
        }
    }
}

fn check(text: &mut String, check: &Check) {
    let (state, name) = (check.state.text(), check.check.text());
    let mut line = format!("      {state:<16}{name:<22}");
    for word in check.detail.split_whitespace() {
        if line.len() > WORDS && line.len() + word.len() > WIDTH {
            let _ = writeln!(text, "{}", line.trim_end());
            line = " ".repeat(WORDS);
        }
        line.push_str(word);
        line.push(' ');
    }
    let _ = writeln!(text, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::super::{Name, State};
    use super::*;

    #[test]
    fn a_long_reason_goes_on_below_its_beginning() {
        let words = "a-container-of-another-pod may run on CPU 3; ".repeat(4);
        let found =
            Check { check: Name::CpusExclusive, state: State::Failed, detail: words.clone() };
        let mut text = String::new();
        check(&mut text, &found);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].starts_with("      failed          cpus-exclusive        a-container"));
        for line in &lines[1..] {
            assert!(line.starts_with(&" ".repeat(WORDS)) && line.len() <= WIDTH, "{line}");
        }
        let again: Vec<_> = text.split_whitespace().skip(2).collect();
        assert_eq!(again, words.split_whitespace().collect::<Vec<_>>());
    }
}
