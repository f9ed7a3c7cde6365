//! Keeps a lane's sessions open: one task connects, and another drives each session.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, timeout};

use super::pool::Pool;
use super::session::{Connection, Order, Session, open, why};
use super::settings::Settings;
use super::tls::Tls;

/// Pause between connection attempts, doubled from the first to the last value. Each pause is
/// shortened by a random part of up to half, so that lanes and replicas do not connect at the same
/// time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// A session that ends sooner was useless. A proxy that has no server may close sessions like this.
const SOON: Duration = Duration::from_secs(1);

pub(super) async fn supervise(pool: Rc<Pool>, settings: Arc<Settings>) {
    let mut pauses = Pauses { next: FIRST_PAUSE, last: Instant::now() };
    let mut warned = String::new();
    loop {
        let all_open = pool.open() == settings.connections;
        if all_open {
            pool.ended.notified().await;
        }
        // Pauses if a server accepts connections only to close them.
        if pool.ended_soon.take() || all_open {
            pauses.wait().await;
            continue;
        }
        let discards = pool.discards();
        match open(&settings).await {
            // This session was requested before all sessions were discarded, so its server may no
            // longer be writable.
            Ok(_) if pool.discards() != discards => {}
            Ok((session, connection, tls)) => {
                warned.clear();
                let session = Rc::new(session);
                let minder = mind(Rc::clone(&pool), Rc::clone(&session), connection, tls);
                pool.add(session);
                spawn_local(minder);
            }
            Err(reason) => {
                if pool.open() == 0 {
                    pool.fail(reason);
                } else if reason != warned {
                    tracing::warn!(
                        reason,
                        open = pool.open(),
                        "no further connection to the database"
                    );
                    warned = reason;
                }
                pauses.wait().await;
            }
        }
    }
}

struct Pauses {
    next: Duration,
    last: Instant,
}

impl Pauses {
    async fn wait(&mut self) {
        sleep(self.next(self.last.elapsed())).await;
        self.last = Instant::now();
    }

    /// The next pause; `since` is the time since the previous pause ended.
    fn next(&mut self, since: Duration) -> Duration {
        if since > 2 * LAST_PAUSE {
            self.next = FIRST_PAUSE;
        }
        let pause = self.next.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.next = LAST_PAUSE.min(self.next * 2);
        pause
    }
}

/// Drives a connection until it ends or is discarded.
async fn mind(pool: Rc<Pool>, session: Rc<Session>, mut connection: Connection, tls: Tls) {
    let opened = Instant::now();
    let (reason, running) = loop {
        let order = tokio::select! {
            ended = &mut connection => break (why(ended), false),
            order = session.order() => order,
        };
        if let Order::Discard(reason) = order {
            break (reason.to_owned(), true);
        }
        // The response comes after the abandoned statement ends, and statement_timeout limits how
        // long that takes.
        tokio::select! {
            ended = &mut connection => break (why(ended), false),
            settled = timeout(pool.longest_statement, session.client.check_connection()) => {
                if !matches!(settled, Ok(Ok(()))) {
                    break ("a statement did not end".to_owned(), true);
                }
            }
        }
        pool.give(Rc::clone(&session));
    };
    if opened.elapsed() < SOON {
        pool.ended_soon.set(true);
    }
    pool.remove(&session, reason);
    drop(connection);
    if running {
        // The cancel request uses another connection, where a server that hangs does not respond
        // either.
        let cancel = session.client.cancel_token();
        let _ = timeout(LAST_PAUSE, cancel.cancel_query(tls)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_the_last_and_start_again_after_peace() {
        let mut pauses = Pauses { next: FIRST_PAUSE, last: Instant::now() };
        for whole in [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000] {
            let whole = Duration::from_millis(whole);
            let pause = pauses.next(2 * LAST_PAUSE);
            assert!((whole / 2..=whole).contains(&pause), "{pause:?} of {whole:?}");
        }
        assert!(pauses.next(3 * LAST_PAUSE) <= FIRST_PAUSE);
    }
}
