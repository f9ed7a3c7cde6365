//! Predicts a replica's capacity and the number of replicas that a load needs.
//!
//! In queueing terms, a lane is a single server. The model computes capacity and waiting times from
//! the load table's statistics for each kind of request. `docs/lanes.md` lists the assumptions and
//! the limits of the model.
//!
//! | question | answered by |
//! |---|---|
//! | Which requests arrive, and what do they cost? | [`Mix`] of [`Kind`]s, each with its [`Time`]s |
//! | What serves them? | [`Replica`], [`Sharing`] |
//! | What is the maximum load, and what limits it? | [`Model::knee`], [`pauley`] |
//! | How long is the wait at a load? | [`Model::estimate`] by formulas, [`Model::simulate`] with the scheduling of a lane and its slow lane, [`Waiting`] as a whole distribution |
//! | Which load meets a latency target? | [`Model::highest`] |
//! | How many replicas, and when to add one? | [`Model::plan`], [`Model::autoscaling`] |
//!
//! ```
//! use corelane_cli::model::{Bound, Model, Replica, Simulation, Target};
//!
//! # fn main() -> Result<(), corelane_cli::model::CapacityError> {
//! let mix = "GET /hello=90%, GET /work=10%:7ms".parse()?;
//! let model = Model::new(mix, Replica { lanes: 2, ..Replica::default() })?;
//! assert_eq!(model.knee().bound, Bound::Lanes);
//! let target = Target { share: 0.99, within: 0.020, shed: 0.001 };
//! let simulation = Simulation { requests: 20_000, ..Simulation::default() };
//! let plan = model.plan(5000.0, &target, 1, &simulation)?;
//! assert!(plan.carried < model.knee().rate);
//! assert!(plan.replicas > plan.needed);
//! # Ok(())
//! # }
//! ```

mod exact;
mod gamma;
mod job;
mod lane;
mod mix;
mod plan;
mod predict;
mod replica;
mod simulation;
mod slow;
mod time;
pub mod wait;

pub use exact::Waiting;
pub use mix::{Kind, Mix};
pub use plan::{Autoscaling, Plan, Target};
pub use predict::{Bound, Estimated, Knee, Model, pauley};
pub use replica::{Replica, Sharing};
pub use simulation::{Simulated, Simulation};
pub use time::Time;

/// Maximum number of kinds in a mix: the size of the load table.
const KINDS: usize = 650;

const FORM: &str = "KIND=SHARE%[:MEAN[:DEVIATION]][+WAIT[:DEVIATION]][@slow], such as \
                               GET /work=10%:7ms:500us@slow, or GET /projects=5%:200us+2ms:1ms. Times \
                               have a unit (ns, us, ms, s) and are at most 3600s, deviations at \
                               most 1000000 times the mean";

/// An invalid input. Each error contains the value and what the model expects.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CapacityError {
    /// A mean or a standard deviation is not a valid duration.
    #[error(
        "mean {mean} s, deviation {deviation} s: expected finite times from 0, and a deviation of \
         at most 1000000 means"
    )]
    Time {
        /// Mean in seconds.
        mean: f64,
        /// Deviation in seconds.
        deviation: f64,
    },
    /// The mix has no kinds, or too many.
    #[error("a mix of {0} kinds: expected 1 to {max}", max = KINDS)]
    Kinds(usize),
    /// Two kinds of the mix have the same name.
    #[error("{0:?}: a kind may occur only once in a mix")]
    Twice(String),
    /// Part of the mix text is malformed.
    #[error("{0:?}: expected {form}", form = FORM)]
    Form(String),
    /// A share is 0, or the shares do not add up to 1.
    #[error("the shares add up to {0}%: expected 100%, each above 0%")]
    Shares(f64),
    /// The mean request of the mix takes less than a nanosecond.
    #[error(
        "a request takes less than 1 ns: expected a mean, or a cost outside the handler, of at least \
         1 ns"
    )]
    NoTime,
    /// A setting of the replica is out of bounds.
    #[error("{name} {value}: expected {allowed}")]
    Setting {
        /// The name of the setting.
        name: &'static str,
        /// The given value.
        value: f64,
        /// The allowed values.
        allowed: &'static str,
    },
}
