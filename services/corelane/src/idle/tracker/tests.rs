//! Tests of the tracker against a model of hyper's side of a connection, which has the true state.

use super::*;
use crate::random::Random;

/// The state of a connection in hyper and the socket, as in `proto/h1/{dispatch,conn,io}.rs`.
#[derive(Default)]
struct Hyper {
    tracker: Tracker,
    /// Frames of the request's body that hyper has not finished: in its buffer, and not read.
    inside: u32,
    outside: u32,
    /// Bodies that a service still holds: frames ready for it, whether hyper has finished the
    /// message, and its watch.
    bodies: Vec<Body>,
    /// The reply is being made.
    replying: bool,
    /// The message is not completely in the buffer.
    answering: bool,
    buffered: u32,
    unsent: u32,
}

struct Body {
    request: u32,
    frames: u32,
    complete: bool,
    watch: Arc<BodyWatch>,
}

impl Hyper {
    /// Whether the connection could be taken apart without a loss.
    fn is_idle(&self) -> bool {
        let written = !self.replying && !self.answering && self.buffered + self.unsent == 0;
        written && self.inside + self.outside == 0
    }

    /// hyper reads the next head only after it has finished and flushed both directions of the
    /// previous message.
    fn begin(&mut self, request: u32, inside: u32, outside: u32) {
        if !self.is_idle() {
            return;
        }
        self.tracker.asks();
        self.tracker.followed(outside == 0);
        (self.inside, self.outside, self.replying, self.answering) = (inside, outside, true, true);
        let watch = (inside + outside > 0).then(Arc::<BodyWatch>::default);
        self.tracker.begin_request(watch.clone());
        if let Some(watch) = watch {
            self.bodies.push(Body { request, frames: 0, complete: false, watch });
        }
    }

    /// hyper reads a frame of the body, whether or not a reader holds it.
    fn decode(&mut self, request: u32) {
        if self.inside == 0 {
            // hyper reads from the socket only now.
            self.tracker.asks();
            if self.outside == 0 {
                return;
            }
            self.outside -= 1;
            self.inside = 1;
            self.tracker.followed(self.outside == 0);
        }
        self.inside -= 1;
        if let Some(body) = self.bodies.iter_mut().find(|body| body.request == request) {
            body.frames += 1;
            body.complete = self.inside + self.outside == 0;
        }
    }

    /// A service reads all available data of one of its bodies, early or late.
    fn read(&mut self, index: usize) {
        let Some(body) = self.bodies.get_mut(index) else { return };
        body.frames = 0;
        if body.complete {
            body.watch.set_seen();
            self.bodies.remove(index);
        }
    }

    fn drop_body(&mut self, index: usize) {
        if index < self.bodies.len() {
            self.bodies.remove(index);
        }
    }

    /// The end of the reply is put into the buffer, and its body is dropped.
    fn answer(&mut self) {
        if std::mem::take(&mut self.replying) {
            self.buffered += 1;
            self.answering = false;
            self.tracker.end_request();
        }
    }

    /// hyper flushes to the socket, which may have room and may send the data.
    fn flush(&mut self, room: bool, sent: bool) {
        if self.buffered > 0 {
            self.tracker.writing();
            if !room {
                return;
            }
            self.unsent += std::mem::take(&mut self.buffered);
        }
        if sent {
            self.unsent = 0;
        }
        if self.unsent == 0 {
            self.tracker.flushed();
        }
    }
}

/// Runs random lives of connections. Returns how often one was `idle`, and the first wrong result.
fn lives(idle: impl Fn(&Tracker) -> bool) -> (u32, Option<String>) {
    let mut times = 0;
    for seed in 0..2000 {
        let random = Random::seeded(seed);
        let below = |n: u64| random.next() % n;
        let (mut hyper, mut request) = (Hyper::default(), 0);
        for step in 0..200 {
            match below(8) {
                0 => {
                    request += u32::from(hyper.is_idle());
                    hyper.begin(request, below(3) as u32, below(3) as u32);
                }
                1 | 2 => hyper.decode(request),
                3 => hyper.read(below(3) as usize),
                4 if below(4) == 0 => hyper.drop_body(below(2) as usize),
                5 => hyper.answer(),
                _ => hyper.flush(below(4) > 0, below(4) > 0),
            }
            let says = idle(&hyper.tracker);
            if says && !hyper.is_idle() {
                return (times, Some(format!("seed {seed}, step {step}")));
            }
            times += u32::from(says && request > 0);
        }
    }
    (times, None)
}

#[test]
fn it_is_never_idle_when_hyper_is_not() {
    let (times, wrong) = lives(Tracker::is_idle);
    assert_eq!(wrong, None);
    assert!(times > 10_000, "{times}");
}

#[test]
fn each_rule_is_needed() {
    type Rules = fn(&Tracker) -> bool;
    let broken: [(&str, Rules); 4] = [
        ("1: the reply", |tracker| tracker.is_flushed() && tracker.is_body_seen()),
        ("2: the body", |tracker| tracker.has_replied() && tracker.is_flushed()),
        ("2: all of it came", |tracker| {
            tracker.has_replied() && tracker.is_flushed() && !tracker.within_body.get()
        }),
        ("3: the flush", |tracker| tracker.has_replied() && tracker.is_body_seen()),
    ];
    for (rule, idle) in broken {
        assert!(lives(idle).1.is_some(), "{rule}");
    }
}

#[test]
fn it_is_idle_again_after_each_request_that_was_read_and_answered() {
    let mut hyper = Hyper::default();
    for request in 0..10 {
        assert!(hyper.tracker.is_idle());
        hyper.begin(request, request % 3, request % 2);
        (0..4).for_each(|_| hyper.decode(request));
        hyper.read(0);
        assert!(!hyper.tracker.is_idle());
        hyper.answer();
        assert!(!hyper.tracker.is_idle(), "its end waits in hyper's buffer");
        hyper.flush(true, false);
        assert!(!hyper.tracker.is_idle(), "or in that of TLS");
        hyper.flush(true, true);
    }
}

#[test]
fn a_body_that_nobody_read_has_ended_when_hyper_reads_on() {
    let mut hyper = Hyper::default();
    hyper.begin(0, 1, 1);
    hyper.drop_body(0);
    hyper.answer();
    hyper.flush(true, true);
    assert!(!hyper.tracker.is_idle(), "a part of it is in the buffer");
    hyper.decode(0);
    hyper.decode(0);
    assert!(!hyper.tracker.is_idle(), "nobody saw where it ends");
    hyper.decode(0);
    assert!(hyper.tracker.is_idle(), "hyper reads for a next request");
}

#[test]
fn a_late_reader_says_nothing_of_the_next_request() {
    let mut hyper = Hyper::default();
    hyper.begin(0, 1, 0);
    hyper.decode(0);
    hyper.answer();
    hyper.flush(true, true);
    hyper.begin(1, 1, 0);
    hyper.read(0);
    hyper.answer();
    hyper.flush(true, true);
    assert!(!hyper.tracker.is_idle(), "the body of the second was not read");
}

#[test]
fn what_ends_is_never_idle() {
    let ends: [fn(&Tracker); 3] = [
        |tracker| tracker.end(),
        |tracker| tracker.set_last(true),
        |tracker| tracker.followed(false),
    ];
    for end in ends {
        let tracker = Tracker::default();
        tracker.begin_request(None);
        tracker.end_request();
        tracker.flushed();
        assert!(tracker.is_idle());
        end(&tracker);
        assert!(!tracker.is_idle());
    }
}
