//! Setting values.

use crate::cpus::Cpus;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Number {
        min: u64,
        max: u64,
    },
    /// A whole number, or `auto`, which is determined per target.
    NumberOrAuto {
        min: u64,
        max: u64,
    },
    Three {
        max: u64,
    },
    Word(&'static [&'static str]),
    /// A list of CPUs, or `auto`, which is determined per target.
    Cpus,
    Auto,
    Names,
}

/// The desired value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Number(u64),
    Three([u64; 3]),
    Word(String),
    Cpus(Cpus),
    Auto,
    Names(Vec<String>),
}

impl Kind {
    /// The error describes the expected value.
    pub(crate) fn parse(self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        let value = match self {
            Kind::NumberOrAuto { .. } | Kind::Cpus | Kind::Auto | Kind::Names if text == "auto" => {
                Some(Value::Auto)
            }
            Kind::Number { min, max } | Kind::NumberOrAuto { min, max } => {
                let number = text.parse().ok().filter(|number| (min..=max).contains(number));
                number.map(Value::Number)
            }
            Kind::Three { max } => three(text, max).map(Value::Three),
            Kind::Word(words) => words.contains(&text).then(|| Value::Word(text.to_owned())),
            Kind::Cpus => Cpus::from_list(text).filter(|it| !it.is_empty()).map(Value::Cpus),
            Kind::Auto => None,
            Kind::Names => names(text).map(Value::Names),
        };
        value.ok_or_else(|| self.allowed())
    }

    pub(crate) fn allowed(self) -> String {
        match self {
            Kind::Number { min, max } => format!("a whole number from {min} to {max}"),
            Kind::NumberOrAuto { min, max } => {
                format!("auto or a whole number from {min} to {max}")
            }
            Kind::Three { max } => {
                format!("three whole numbers from 1 to {max} that do not fall, such as 1 2 3")
            }
            Kind::Word(words) => words.join(", "),
            Kind::Cpus => "auto or a list of CPUs, such as 0-1,4".to_owned(),
            Kind::Auto => "auto".to_owned(),
            Kind::Names => "auto or names with commas between them".to_owned(),
        }
    }
}

fn three(text: &str, max: u64) -> Option<[u64; 3]> {
    let numbers: Vec<u64> =
        text.split_whitespace().map(|it| it.parse().ok()).collect::<Option<_>>()?;
    let three: [u64; 3] = numbers.try_into().ok()?;
    (three.is_sorted() && three[0] > 0 && three[2] <= max).then_some(three)
}

fn names(text: &str) -> Option<Vec<String>> {
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    let plain = |it: char| it.is_ascii_alphanumeric() || "-_.*/=".contains(it);
    names.iter().all(|name| !name.is_empty() && name.chars().all(plain)).then_some(names)
}

impl Value {
    pub(crate) fn text(&self) -> String {
        match self {
            Value::Number(number) => number.to_string(),
            Value::Three(numbers) => numbers.map(|it| it.to_string()).join(" "),
            Value::Word(word) => word.clone(),
            Value::Cpus(cpus) => cpus.list(),
            Value::Auto => "auto".to_owned(),
            Value::Names(names) => names.join(","),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_by_their_kind() {
        let number = Kind::Number { min: 1, max: 9 };
        assert_eq!(number.parse(" 9 "), Ok(Value::Number(9)));
        for text in ["0", "10", "-1", "1.5", "auto", ""] {
            assert_eq!(number.parse(text), Err("a whole number from 1 to 9".to_owned()));
        }
        let three = Kind::Three { max: 9 };
        assert_eq!(three.parse("1\t2  3"), Ok(Value::Three([1, 2, 3])));
        for text in ["1 2", "3 2 1", "0 1 2", "1 2 10", "1 2 3 4"] {
            three.parse(text).expect_err(text);
        }
        let word = Kind::Word(&["always", "never"]);
        assert_eq!(word.parse("never"), Ok(Value::Word("never".to_owned())));
        assert_eq!(word.parse("maybe"), Err("always, never".to_owned()));
    }

    #[test]
    fn cpus_may_be_left_to_the_program() {
        assert_eq!(Kind::Cpus.parse("auto"), Ok(Value::Auto));
        assert_eq!(Kind::Cpus.parse("0-1,4").map(|it| it.text()), Ok("0-1,4".to_owned()));
        for text in ["", "all", "1-"] {
            Kind::Cpus.parse(text).expect_err(text);
        }
        assert_eq!(Kind::NumberOrAuto { min: 0, max: 9 }.parse("auto"), Ok(Value::Auto));
        Kind::Auto.parse("1").expect_err("only auto");
    }
}
