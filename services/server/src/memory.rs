//! Returns memory of closed and parked connections to the system.
//!
//! mimalloc returns a freed page after at least a second. It also needs a trigger on that thread:
//! another freed page, or 10,000 allocations on its slow path. A lane whose connections were just
//! parked has none, so thousands of connections would keep unused memory (mimalloc v3, src/page.c:
//! `_mi_page_free`; src/options.c: `purge_delay`).

use std::hint::black_box;
use std::time::Duration;

use tokio::time::sleep;

/// Interval; longer than mimalloc keeps freed pages for reuse.
const PAUSE: Duration = Duration::from_secs(2);

/// Large enough to be returned when it is freed. Smaller blocks are kept for reuse.
const LARGE: usize = 1 << 20;

/// Triggers the allocator while the lane runs, for half a microsecond each time.
pub(crate) async fn give_back() {
    loop {
        sleep(PAUSE).await;
        drop(black_box(Vec::<u8>::with_capacity(LARGE)));
    }
}
