//! Settings as `NAME=VALUE`.

/// The settings of one flag, or of the variable.
#[derive(Clone, Debug)]
pub(super) struct Pairs(pub(super) Vec<(String, String)>);

/// `NAME=VALUE`, separated by commas or semicolons. A part without `=` belongs to the value before
/// it, because lists of CPUs contain commas too.
pub(super) fn pairs(text: &str) -> Result<Pairs, String> {
    let mut found: Vec<(String, String)> = Vec::new();
    for part in text.split([';', ',']).filter(|part| !part.trim().is_empty()) {
        match (part.split_once('='), found.last_mut()) {
            // An option within a value: names of settings contain a dot.
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
}
