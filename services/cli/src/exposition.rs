//! Parses Prometheus and OpenMetrics text.

use std::collections::HashMap;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    labels: HashMap<String, String>,
    pub(crate) value: f64,
}

impl Series {
    pub(crate) fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }

    pub(crate) fn is(&self, other: &Series) -> bool {
        self.labels == other.labels
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Exposition(HashMap<String, Vec<Series>>);

impl Exposition {
    pub(crate) fn read(text: &str) -> Exposition {
        let mut all = Exposition::default();
        for (name, series) in text.lines().filter_map(line) {
            all.0.entry(name).or_default().push(series);
        }
        all
    }

    pub(crate) fn series(&self, name: &str) -> &[Series] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn sum(&self, name: &str) -> Option<f64> {
        let series = self.0.get(name)?;
        Some(series.iter().map(|series| series.value).sum())
    }
}

fn line(line: &str) -> Option<(String, Series)> {
    let end = line.find(['{', ' ']).filter(|_| !line.starts_with('#'))?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = HashMap::new();
    if let Some(mut inside) = rest.strip_prefix('{') {
        while let Some((label, after)) = inside.trim_start_matches(',').split_once("=\"") {
            if label.starts_with('}') {
                break;
            }
            let (value, after) = quoted(after)?;
            labels.insert(label.to_owned(), value);
            inside = after;
        }
        rest = inside.strip_prefix('}')?;
    }
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some((name.to_owned(), Series { labels, value }))
}

fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match characters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_read() {
        let text = "# TYPE a counter\na_total{x=\"1\",y=\"q\\\"=\\\\}\"} 2.5\na_total{x=\"2\"} 1e-3 17\nb 4\n\
                    broken{x=\"1} 3\nc{} +Inf\n# EOF\n";
        let all = Exposition::read(text);
        assert_eq!(
            (all.sum("a_total"), all.sum("b"), all.sum("broken")),
            (Some(2.501), Some(4.0), None)
        );
        assert_eq!(all.series("a_total")[0].label("y"), "q\"=\\}");
        assert_eq!(all.series("a_total")[1].label("y"), "");
        assert_eq!(all.series("c")[0].value, f64::INFINITY);
    }
}
