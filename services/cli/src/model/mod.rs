//! Capacity of a replica, and replicas for a load.
//!
//! In terms of queueing theory a lane is a single server. The model computes its capacity and its
//! waiting times from the load table's data about each kind of request. `docs/capacity.md`
//! describes the assumptions and how well they hold.
//!
//! | question | answered by |
//! |---|---|
//! | Which requests arrive, and what do they cost? | [`Mix`] of [`Kind`]s, each with its [`Time`]s |
//! | What serves them? | [`Replica`], [`Sharing`] |
//! | What is the maximum load, and what limits it? | [`Model::knee`], [`pauley`] |
//! | How long is the wait at a load? | [`Model::estimate`] by formulas, [`Model::simulate`] with the scheduling of a lane, [`Waiting`] as a whole distribution |
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

mod error;
mod exact;
mod gamma;
mod lane;
mod mix;
mod plan;
mod predict;
mod replica;
mod simulation;
mod time;
pub mod wait;

pub use error::CapacityError;
pub use exact::Waiting;
pub use mix::{Kind, Mix};
pub use plan::{Autoscaling, Plan, Target};
pub use predict::{Bound, Estimated, Knee, Model, pauley};
pub use replica::{Replica, Sharing};
pub use simulation::{Simulated, Simulation};
pub use time::Time;
