//! Why there is no answer.

/// What of the question was not allowed. Each says the value and what is allowed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CapacityError {
    /// A mean or a standard deviation is no duration.
    #[error(
        "mean {mean} s, deviation {deviation} s: allowed are finite times from 0, and a deviation of \
         at most 1000000 means"
    )]
    Time {
        /// In seconds.
        mean: f64,
        /// In seconds.
        deviation: f64,
    },
    /// A mix has no kind, or too many.
    #[error("a mix of {0} kinds: allowed are 1 to {max}", max = super::mix::KINDS)]
    Kinds(usize),
    /// Two kinds of a mix have one name.
    #[error("{0:?}: a kind may be in a mix once")]
    Twice(String),
    /// A part of a mix's text is not of the form.
    #[error("{0:?}: allowed is {form}", form = super::mix::FORM)]
    Form(String),
    /// A share is none, or the shares are not the whole.
    #[error("the shares add up to {0}%: allowed is 100%, each above 0%")]
    Shares(f64),
    /// The requests of a mix take less than a nanosecond, on average.
    #[error(
        "a request takes less than 1 ns: allowed is a mean, or what it costs beside its handler, of 1 \
         ns and more"
    )]
    NoTime,
    /// A setting of the replica is out of bounds.
    #[error("{name} {value}: allowed is {allowed}")]
    Setting {
        /// Its name.
        name: &'static str,
        /// What was given.
        value: f64,
        /// What may be.
        allowed: &'static str,
    },
}
