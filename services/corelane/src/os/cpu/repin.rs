//! Keeps lanes pinned while the server runs.
//!
//! The kubelet rewrites the cpusets of running containers. The kernel then moves threads away from
//! removed CPUs. Before Linux 6.2, it also discarded their affinity. The admin thread is never
//! pinned, so its mask shows the new cpuset. If a pod is resized in place, the quota and the weight
//! in the cgroup's files change.

use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::time::ClockId;
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity};
use tokio::time::{MissedTickBehavior, interval};

use super::plan::{CpuPlan, replan};
use super::view::{CpuView, affinity_of_this_thread};
use super::{Lanes, Pin};

/// Check interval. A check costs one system call per lane, about a microsecond, and a few small
/// files.
const EVERY: Duration = Duration::from_secs(1);

/// [`LaneCpu::cpu`] of a lane that is not pinned.
const UNPINNED: usize = usize::MAX;

/// A lane's CPU. The admin thread writes it, and all threads may read it.
#[derive(Debug)]
pub(crate) struct LaneCpu {
    thread: OwnThread,
    slow_thread: OwnThread,
    cpu: AtomicUsize,
    repins: AtomicU64,
}

impl LaneCpu {
    pub(crate) fn new(cpu: Option<usize>) -> Self {
        LaneCpu {
            thread: OwnThread::default(),
            slow_thread: OwnThread::default(),
            cpu: AtomicUsize::new(cpu.unwrap_or(UNPINNED)),
            repins: AtomicU64::new(0),
        }
    }

    pub(crate) fn get(&self) -> Option<usize> {
        Some(self.cpu.load(Relaxed)).filter(|&cpu| cpu != UNPINNED)
    }

    pub(crate) fn repins(&self) -> u64 {
        self.repins.load(Relaxed)
    }

    pub(crate) fn time(&self) -> Duration {
        self.thread.time()
    }

    pub(crate) fn slow_time(&self) -> Duration {
        self.slow_thread.time()
    }

    /// Time that the slow lane's thread was runnable while another thread ran, or 0 if there is no
    /// slow lane or the kernel does not report this time.
    pub(crate) fn slow_wait(&self) -> Duration {
        let stat = self.slow_thread.id().and_then(|thread| {
            let thread = thread.as_raw_nonzero();
            std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()
        });
        let wait = stat.as_deref().and_then(|stat| stat.split(' ').nth(1)?.parse().ok());
        wait.map_or(Duration::ZERO, Duration::from_nanos)
    }

    /// Registers the calling thread as the lane's thread and pins it, until the guard is dropped.
    pub(crate) fn enter(&self) -> io::Result<Occupied<'_>> {
        self.occupy(&self.thread)
    }

    pub(crate) fn enter_slow(&self) -> io::Result<Occupied<'_>> {
        self.occupy(&self.slow_thread)
    }

    fn occupy<'a>(&self, thread: &'a OwnThread) -> io::Result<Occupied<'a>> {
        thread.id.store(gettid().as_raw_nonzero().get(), Relaxed);
        let occupied = Occupied(thread);
        if let Some(cpu) = self.get() {
            sched_setaffinity(None, &mask(&[cpu]))?;
        }
        Ok(occupied)
    }

    fn threads(&self) -> impl Iterator<Item = Pid> {
        self.thread.id().into_iter().chain(self.slow_thread.id())
    }

    fn set(&self, cpu: Option<usize>) {
        self.cpu.store(cpu.unwrap_or(UNPINNED), Relaxed);
        self.repins.fetch_add(1, Relaxed);
    }
}

/// A thread, and the CPU time of threads that have ended.
#[derive(Debug, Default)]
struct OwnThread {
    id: AtomicI32,
    ended_at: AtomicU64,
}

impl OwnThread {
    fn id(&self) -> Option<Pid> {
        Pid::from_raw(self.id.load(Acquire))
    }

    /// CPU time of the thread, or 0 if there has been no thread.
    fn time(&self) -> Duration {
        // The thread may end between the two calls.
        self.id().and_then(time_of).unwrap_or(Duration::from_nanos(self.ended_at.load(Relaxed)))
    }
}

/// CPU time of a thread of this process, or `None` after the thread has exited.
fn time_of(thread: Pid) -> Option<Duration> {
    // Equals pthread_getcpuclockid(3) for a thread id of this process: the inverted bits, then the
    // flags of a per-thread clock (4) for scheduler time (2).
    let clock = ClockId::from_raw(!thread.as_raw_nonzero().get() << 3 | 4 | 2);
    clock.now().ok().map(Duration::from)
}

/// Guards the lane's thread id, because the kernel reuses ids of exited threads.
#[derive(Debug)]
#[must_use]
pub(crate) struct Occupied<'a>(&'a OwnThread);

impl Drop for Occupied<'_> {
    fn drop(&mut self) {
        self.0.ended_at.store(self.0.time().as_nanos() as u64, Relaxed);
        self.0.id.store(0, Release);
    }
}

#[derive(Debug)]
pub(crate) struct Cpus {
    lanes: Lanes,
    pin: Pin,
    view: Mutex<CpuView>,
}

impl Cpus {
    pub(crate) fn new(lanes: Lanes, pin: Pin, view: CpuView) -> Self {
        Cpus { lanes, pin, view: Mutex::new(view) }
    }

    /// The CPUs at startup or after the last change to a mask, the quota or the weight.
    pub(crate) fn view(&self) -> CpuView {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Checks masks, quota and weight periodically. Must run on an unpinned thread.
pub(crate) async fn watch(cpus: &Cpus, lanes: Vec<&LaneCpu>) {
    let mut watch = CpuWatch::new(cpus, lanes);
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = watch.look() {
            tracing::warn!(%error, "cannot read the CPUs of this process");
        }
    }
}

struct CpuWatch<'a> {
    cpus: &'a Cpus,
    lanes: Vec<&'a LaneCpu>,
    affinity: Vec<usize>,
    /// The mask of each lane, if it was ever set.
    masks: Vec<Option<CpuSet>>,
}

impl<'a> CpuWatch<'a> {
    fn new(cpus: &'a Cpus, lanes: Vec<&'a LaneCpu>) -> Self {
        let affinity = cpus.view().affinity;
        let pinned = lanes.iter().map(|lane| lane.get());
        let masks = pinned.map(|cpu| cpu.map(|cpu| mask(&[cpu]))).collect();
        CpuWatch { cpus, lanes, affinity, masks }
    }

    fn look(&mut self) -> io::Result<()> {
        let affinity = affinity_of_this_thread()?;
        let strayed = (0..self.masks.len()).any(|lane| self.has_strayed(lane));
        if affinity == self.affinity && !strayed && self.cpus.view().has_present_share() {
            return Ok(());
        }
        let view = CpuView::read()?;
        let Cpus { lanes, pin, .. } = *self.cpus;
        let before = self.present();
        let plan = replan(&view, lanes, pin, &before);
        for (lane, &cpu) in plan.lanes.iter().enumerate() {
            self.settle(lane, cpu, &view);
        }
        self.affinity.clone_from(&view.affinity);
        *self.cpus.view.lock().unwrap_or_else(PoisonError::into_inner) = view;
        let now = self.present();
        self.report(&plan, &now);
        Ok(())
    }

    fn present(&self) -> Vec<Option<usize>> {
        self.lanes.iter().map(|lane| lane.get()).collect()
    }

    /// Whether a lane may run on CPUs other than the configured ones.
    fn has_strayed(&self, lane: usize) -> bool {
        let Some(wanted) = self.masks[lane] else { return false };
        // Fails if the thread has exited.
        let strays = |thread| sched_getaffinity(Some(thread)).is_ok_and(|mask| mask != wanted);
        self.lanes[lane].threads().any(strays)
    }

    /// Sets a lane's mask if it must change: to its CPU, or to all CPUs of the view if it was
    /// pinned.
    fn settle(&mut self, lane: usize, cpu: Option<usize>, view: &CpuView) {
        let all = || self.masks[lane].map(|_| mask(&view.cpus()));
        let Some(wanted) = cpu.map(|cpu| mask(&[cpu])).or_else(all) else { return };
        let state = self.lanes[lane];
        // With a single CPU, the mask is the same whether or not the lane is pinned.
        let same = self.masks[lane] == Some(wanted) && state.get() == cpu;
        if same && !self.has_strayed(lane) {
            return;
        }
        // Lanes that have not started yet pin themselves.
        let mut threads = state.threads();
        match threads.try_for_each(|thread| sched_setaffinity(Some(thread), &wanted)) {
            Ok(()) => {
                self.masks[lane] = Some(wanted);
                state.set(cpu);
            }
            // The cpuset has changed again, which the next check will detect.
            Err(error) => tracing::warn!(lane, ?cpu, %error, "cannot pin a lane again"),
        }
    }

    fn report(&self, plan: &CpuPlan, now: &[Option<usize>]) {
        let (cpus, quota) = (&self.affinity, self.cpus.view().quota);
        match &plan.unpinned_because {
            Some(reason) => {
                tracing::warn!(?cpus, ?quota, reason, "CPUs changed: lanes are not pinned");
            }
            None => tracing::info!(?cpus, ?quota, lanes = ?now, "CPUs changed"),
        }
    }
}

fn mask(cpus: &[usize]) -> CpuSet {
    let mut mask = CpuSet::new();
    for &cpu in cpus {
        mask.set(cpu);
    }
    mask
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::thread;

    use super::*;

    #[test]
    fn a_lane_that_moves_is_counted() {
        let view = CpuView::read().expect("a view");
        let (first, last) = (view.cpus()[0], *view.cpus().last().expect("a CPU"));
        let cpus = Cpus::new(Lanes::Count(1), Pin::On, view);
        let state = Arc::new(LaneCpu::new(Some(last)));

        let (entered, wait_for_entry) = mpsc::channel();
        let (finish, wait_for_end) = mpsc::channel::<()>();
        let lane = Arc::clone(&state);
        let lane = thread::spawn(move || {
            let _occupied = lane.enter().expect("a CPU to run on");
            entered.send(()).expect("a test that listens");
            let _ = wait_for_end.recv();
            affinity_of_this_thread().expect("a mask")
        });
        wait_for_entry.recv().expect("a lane that begins");

        let mut watch = CpuWatch::new(&cpus, vec![&state]);
        watch.look().expect("a look");
        assert_eq!(state.get(), Some(last), "nothing has changed");

        watch.affinity.clear();
        watch.look().expect("a look");
        drop(finish);
        assert_eq!(lane.join().expect("a mask"), [first]);
        assert_eq!(state.get(), Some(first));
        assert_eq!(state.thread.id(), None, "the lane has ended");
        // With a single CPU, a lane cannot move.
        assert_eq!(state.repins(), u64::from(first != last));
    }
}
