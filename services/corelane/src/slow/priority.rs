//! The priority of threads.

use rustix::process::setpriority_process;
use thread_priority::ThreadPriority;
use thread_priority::unix::{
    NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

/// The lowest priority by nice(2).
const NICEST: i32 = 19;

/// How the priority of a thread is lowered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Priority {
    /// It is not.
    #[default]
    Normal,
    /// By `nice`: the thread gets a small share while others run, and delays them by a slice.
    Nice,
    /// By the policy `SCHED_IDLE`: others interrupt the thread at once.
    Idle,
}

impl Priority {
    pub(crate) const NAMES: [&'static str; 3] = ["normal", "nice", "idle"];

    pub(crate) fn name(self) -> &'static str {
        Priority::NAMES[self as usize]
    }
}

/// Lowers the priority of the calling thread as far as the system allows. It needs no privilege, but a
/// filter of system calls (seccomp) may reject it. The threads that this one starts inherit it, and only
/// a privileged process can raise it again.
pub(crate) fn lower_own() -> Priority {
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    if set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle).is_ok() {
        return Priority::Idle;
    }
    // On Linux the priority of this call is that of a thread.
    match setpriority_process(None, NICEST) {
        Ok(()) => Priority::Nice,
        Err(_) => Priority::Normal,
    }
}
