//! `GET /work?ops=N`: N iterations of arithmetic.

use std::hint::black_box;

use serde::Deserialize;

/// The query of `GET /work?ops=N`.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Work {
    /// How many iterations to run.
    pub ops: u64,
}

impl Work {
    /// Parses `ops=N`, for peers without a query parser.
    pub fn parse(query: &str) -> Option<Work> {
        Some(Work { ops: query.strip_prefix("ops=")?.parse().ok()? })
    }

    /// The body of the reply. The loop is that of the reference service.
    pub fn reply(self) -> String {
        let mut state = 1u64;
        for _ in 0..self.ops {
            state = black_box(
                state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407),
            );
        }
        format!("{state:016x}\n")
    }
}
