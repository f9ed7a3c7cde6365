//! Returns memory to the system that connections no longer need.
//!
//! mimalloc returns a freed page after a second at the earliest. It also needs an occasion: another page
//! of that thread is freed, or 10,000 allocations took its slow path. A lane whose connections were just
//! parked has none. Thousands of connections would keep unused memory (mimalloc v3, src/page.c: `_mi_page_free`; src/options.c: `purge_delay`).

use std::hint::black_box;
use std::time::Duration;

use tokio::time::sleep;

/// How often; longer than mimalloc keeps freed pages for those who come next.
const PAUSE: Duration = Duration::from_secs(2);

/// Too large to be kept when it is freed: smaller ones wait for the next of their size.
const LARGE: usize = 1 << 20;

/// Reminds the allocator for as long as the calling lane runs; half a microsecond each time.
pub(crate) async fn give_back() {
    loop {
        sleep(PAUSE).await;
        drop(black_box(Vec::<u8>::with_capacity(LARGE)));
    }
}
