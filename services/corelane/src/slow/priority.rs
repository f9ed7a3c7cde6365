//! The priority of threads.

use rustix::process::setpriority_process;
use thread_priority::ThreadPriority;
use thread_priority::unix::{
    NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

/// The lowest priority in terms of nice(2).
const NICEST: i32 = 19;

/// How the priority of a thread is lowered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Priority {
    /// The priority is not lowered.
    #[default]
    Normal,
    /// Lowered by `nice`: the thread receives a small share of the CPU while other threads run, and
    /// delays them by a time slice.
    Nice,
    /// Lowered by the policy `SCHED_IDLE`: other threads interrupt this thread at once.
    Idle,
}

impl Priority {
    pub(crate) const NAMES: [&'static str; 3] = ["normal", "nice", "idle"];

    pub(crate) fn name(self) -> &'static str {
        Priority::NAMES[self as usize]
    }
}

/// Lowers the priority of the calling thread as far as the system allows. This needs no privilege,
/// but a system call filter (seccomp) may reject it. Threads that this thread starts inherit the
/// priority, and only a privileged process can raise it again.
pub(crate) fn lower_own() -> Priority {
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    if set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle).is_ok() {
        return Priority::Idle;
    }
    // On Linux this call sets the priority of a thread.
    match setpriority_process(None, NICEST) {
        Ok(()) => Priority::Nice,
        Err(_) => Priority::Normal,
    }
}
