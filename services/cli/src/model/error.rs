//! Errors of the capacity model, and the limits that they name.

/// Maximum kinds of a mix: as many as the load table has.
pub(super) const KINDS: usize = 650;

/// The text form of one kind.
pub(super) const FORM: &str = "KIND=SHARE%[:MEAN[:DEVIATION]][+WAIT[:DEVIATION]], such as \
                               GET /work=10%:7ms:500us, or GET /projects=5%:200us+2ms:1ms. Times \
                               have a unit (ns, us, ms, s) and are at most 3600s, deviations at \
                               most 1000000 times the mean";

/// An invalid input. Each error gives the value and what is allowed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CapacityError {
    /// A mean or a standard deviation is not a valid duration.
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
    /// A mix has no kinds, or too many.
    #[error("a mix of {0} kinds: allowed are 1 to {max}", max = KINDS)]
    Kinds(usize),
    /// Two kinds of a mix have the same name.
    #[error("{0:?}: a kind may occur only once in a mix")]
    Twice(String),
    /// A part of a mix's text does not have the right form.
    #[error("{0:?}: allowed is {form}", form = FORM)]
    Form(String),
    /// A share is 0, or the shares do not add up to 1.
    #[error("the shares add up to {0}%: allowed is 100%, each above 0%")]
    Shares(f64),
    /// The requests of a mix take less than a nanosecond, on average.
    #[error(
        "a request takes less than 1 ns: allowed is a mean, or a cost outside the handler, of at least \
         1 ns"
    )]
    NoTime,
    /// A setting of the replica is out of bounds.
    #[error("{name} {value}: allowed is {allowed}")]
    Setting {
        /// The name of the setting.
        name: &'static str,
        /// The given value.
        value: f64,
        /// What is allowed.
        allowed: &'static str,
    },
}
