//! Thread priorities.

use rustix::process::setpriority_process;
use thread_priority::ThreadPriority;
use thread_priority::unix::{
    NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

/// Lowest priority in nice(2) terms.
const NICEST: i32 = 19;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Priority {
    /// The priority was not lowered.
    #[default]
    Normal,
    /// Lowered by `nice`: while other threads run, the thread gets a small share of the CPU and
    /// delays them by a time slice.
    Nice,
    /// Lowered by the policy `SCHED_IDLE`: other threads preempt this thread at once.
    Idle,
}

impl Priority {
    pub(crate) const NAMES: [&'static str; 3] = ["normal", "nice", "idle"];

    pub(crate) fn name(self) -> &'static str {
        Priority::NAMES[self as usize]
    }
}

/// Lowers the calling thread's priority as far as the system allows. Requires no privileges, but a
/// system call filter (seccomp) may reject the call. Threads started by this thread inherit the
/// priority, and only a privileged process can raise it again.
pub(crate) fn lower_own() -> Priority {
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    if set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle).is_ok() {
        return Priority::Idle;
    }
    // On Linux, this call sets the priority of a thread.
    match setpriority_process(None, NICEST) {
        Ok(()) => Priority::Nice,
        Err(_) => Priority::Normal,
    }
}
