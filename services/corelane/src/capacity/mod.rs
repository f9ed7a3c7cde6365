//! How much a replica carries, and how many replicas a load needs.
//!
//! A lane is one server, so queueing theory knows what happens to it: what the load table has
//! learnt of each kind of request says how many a lane can do, and how long they wait for each
//! other at a load. `docs/capacity.md` tells what is assumed and how well it was found to hold.
//!
//! | question | answered by |
//! |---|---|
//! | What comes, and what does it take? | [`Mix`] of [`Kind`]s, each with its [`Time`]s |
//! | Who serves it? | [`Replica`], [`Sharing`] |
//! | How much can it carry at most, and what binds it? | [`Model::knee`], [`pauley`] |
//! | How long is the wait at a load? | [`Model::estimate`] by formulas, [`Model::simulate`] by the lane's own discipline, [`Waiting`] as a whole distribution |
//! | Which load keeps a quantile? | [`Model::highest`] |
//! | How many replicas, and when to add one? | [`Model::plan`], [`Model::autoscaling`] |
//!
//! ```
//! use corelane::capacity::{Bound, Model, Replica, Simulation, Target};
//!
//! # fn main() -> Result<(), corelane::capacity::CapacityError> {
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
mod model;
mod plan;
mod replica;
mod simulation;
mod time;
pub mod wait;

pub use error::CapacityError;
pub use exact::Waiting;
pub use mix::{Kind, Mix};
pub use model::{Bound, Estimated, Knee, Model, pauley};
pub use plan::{Autoscaling, Plan, Target};
pub use replica::{Replica, Sharing};
pub use simulation::{Simulated, Simulation};
pub use time::Time;
