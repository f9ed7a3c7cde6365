//! CPU sets in the kernel's two forms: lists (`0-3,8`) and masks (`1,0000000f`).

use std::collections::BTreeSet;
use std::fmt::{self, Write};

const MOST: u32 = 8192;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cpus(BTreeSet<u32>);

impl Cpus {
    /// An empty list contains no CPUs.
    pub(crate) fn from_list(text: &str) -> Option<Cpus> {
        let mut found = BTreeSet::new();
        for part in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            if first > last || last >= MOST {
                return None;
            }
            found.extend(first..=last);
        }
        Some(Cpus(found))
    }

    /// Parses a mask: groups of eight hexadecimal digits, the highest first.
    pub(crate) fn from_mask(text: &str) -> Option<Cpus> {
        let digits: String = text.trim().trim_start_matches("0x").replace(',', "");
        if digits.is_empty() {
            return None;
        }
        let mut found = BTreeSet::new();
        for (place, digit) in (0u32..).step_by(4).zip(digits.chars().rev()) {
            let digit = digit.to_digit(16)?;
            found.extend((0..4).filter(|bit| digit & (1 << bit) != 0).map(|bit| place + bit));
        }
        Some(Cpus(found))
    }

    pub(crate) fn list(&self) -> String {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for &cpu in &self.0 {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                _ => runs.push((cpu, cpu)),
            }
        }
        let run = |(first, last): (u32, u32)| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        };
        runs.into_iter().map(run).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn mask(&self) -> String {
        let mut groups = vec![0u32; self.0.last().map_or(1, |last| *last as usize / 32 + 1)];
        for &cpu in &self.0 {
            groups[cpu as usize / 32] |= 1 << (cpu % 32);
        }
        let mut groups = groups.into_iter().rev();
        let mut text = format!("{:x}", groups.next().unwrap_or(0));
        for group in groups {
            // Writing to a string cannot fail.
            let _ = write!(text, ",{group:08x}");
        }
        text
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }

    pub(crate) fn within(&self, other: &Cpus) -> bool {
        self.0.is_subset(&other.0)
    }

    pub(crate) fn and(&self, other: &Cpus) -> Cpus {
        Cpus(&self.0 & &other.0)
    }

    pub(crate) fn add(&mut self, other: &Cpus) {
        self.0.extend(&other.0);
    }

    /// The CPUs that the other set does not contain.
    pub(crate) fn without(&self, other: &Cpus) -> Cpus {
        Cpus(&self.0 - &other.0)
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.list())
    }
}

impl FromIterator<u32> for Cpus {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Cpus(cpus.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_masks_say_the_same() {
        for (list, mask) in [
            ("", "0"),
            ("0", "1"),
            ("0-1", "3"),
            ("1,3", "a"),
            ("0-3,8", "10f"),
            ("31-32", "1,80000000"),
            ("64", "1,00000000,00000000"),
        ] {
            let cpus = Cpus::from_list(list).expect(list);
            assert_eq!((cpus.list().as_str(), cpus.mask().as_str()), (list, mask));
            assert_eq!(Cpus::from_mask(mask), Some(cpus));
        }
        assert_eq!(Cpus::from_mask("00000000,00000003\n"), Cpus::from_list(" 0-1\n"));
    }

    #[test]
    fn what_is_no_set_of_cpus_is_refused() {
        for text in ["x", "3-1", "1,", "0-99999", "-1"] {
            assert_eq!(Cpus::from_list(text), None, "{text}");
        }
        assert_eq!((Cpus::from_mask(""), Cpus::from_mask("0g")), (None, None));
    }
}
