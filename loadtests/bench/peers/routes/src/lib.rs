//! What the servers of many routes share: their command line, and the routes as the load generator asks them.

use axum::Router;
use axum::routing::get;
use clap::Parser;
use peers::{HELLO, Options};

/// Routes below one path that they share.
pub const AREA: u32 = 100;

/// The command line.
#[derive(Clone, Copy, Debug, Parser)]
pub struct Command {
    /// That of every peer.
    #[command(flatten)]
    pub options: Options,
    /// How many routes there are beside `/hello`.
    #[arg(long)]
    pub routes: u32,
}

/// A route by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route(pub u32);

impl Route {
    /// All routes of a server that has so many.
    pub fn all(count: u32) -> impl Iterator<Item = Route> {
        (0..count).map(Route)
    }

    /// Its template: two names that it shares with others, and a parameter.
    pub fn template(self) -> String {
        format!("{}{}", self.area(), self.within())
    }

    /// The part of the template that 100 routes have in common.
    pub fn area(self) -> String {
        format!("/area-{}", self.0 / AREA)
    }

    /// What follows it.
    pub fn within(self) -> String {
        format!("/kind-{}/{{id}}", self.0 % AREA)
    }

    /// The body of its reply: as long as that of `/hello`.
    pub fn body(self) -> String {
        format!("route {:07}", self.0)
    }
}

/// An axum `Router` of all routes and `/hello`.
pub fn axum_router(count: u32) -> Router {
    let hello = Router::new().route("/hello", get(async || HELLO));
    Route::all(count).fold(hello, |router, route| {
        router.route(&route.template(), get(async move || route.body()))
    })
}
