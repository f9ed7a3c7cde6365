//! Clients that send requests cut anywhere, alone and in pipelines, with pauses, and check each
//! byte of what they get.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use rustls::ClientConfig;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::ledger::Ledger;
use crate::recipe::{Carry, Recipe, Take, cut, one_of};
use crate::tls;
use crate::wire::{Heard, Inbox, Transport};

/// Longest pipeline.
const LONGEST: usize = 600;

/// What clients send most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    /// Everything, some of it together.
    Mixed,
    /// Everything, one request at a time.
    Single,
    /// Hundreds of requests together.
    Long,
    /// Two requests whose bodies are read late, the second of which comes in two parts.
    Late,
}

/// What clients of a run share.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) habit: Habit,
    /// Longest wait for the replies to what was sent together.
    pub(crate) patience: Duration,
    /// No new request is sent.
    pub(crate) over: AtomicBool,
    /// A drain begins: connections may end between two requests.
    pub(crate) draining: AtomicBool,
}

impl World {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }
}

/// What a connection is good for after a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Open,
    Ended,
}

/// What a client sends in one go, and how it ends.
struct Script {
    requests: Vec<Recipe>,
    ending: Ending,
    /// It is cut here, and not anywhere.
    cut: Option<usize>,
}

/// How a script ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Another follows on the same connection.
    Open,
    /// The last request ends the connection.
    Last,
    /// The client closes its side behind the last request.
    HalfClose,
    /// What follows the last request is none.
    Nonsense,
    /// The client is gone, somewhere.
    Vanish,
}

const NONSENSE: &[u8] = b"GET\x01/ HTTP/1.1\r\nHost: chaos\r\n\r\n";

/// One client: a connection after another, each with one script after another.
pub(crate) async fn live(world: Arc<World>, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    while !world.is_over() {
        let ended = match &world.tls {
            None => match connect(&world, &mut rng).await {
                Ok(socket) => talk(&world, socket, &mut rng).await,
                Err(error) => Err(format!("no connection: {error}")),
            },
            Some(config) => match connect_tls(&world, config, &mut rng).await {
                Ok(socket) => talk(&world, socket, &mut rng).await,
                Err(error) => Err(format!("no connection: {error}")),
            },
        };
        if let Err(what) = ended {
            if world.is_draining() && what.starts_with("no connection") {
                return;
            }
            world.ledger.fault(format!("seed {seed}: {what}"));
            yield_now().await;
        }
    }
}

async fn connect(world: &World, rng: &mut Rng) -> io::Result<tokio::net::TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if rng.u8(0..5) == 0 {
        // Large replies then wait for it.
        socket.set_recv_buffer_size(8 << 10)?;
    }
    let stream = socket.connect(world.address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn connect_tls(
    world: &World,
    config: &Arc<ClientConfig>,
    rng: &mut Rng,
) -> io::Result<tokio_rustls::client::TlsStream<tokio::net::TcpStream>> {
    let socket = connect(world, rng).await?;
    TlsConnector::from(Arc::clone(config)).connect(tls::name(), socket).await
}

/// The life of one connection.
async fn talk(world: &World, mut io: impl Transport, rng: &mut Rng) -> Result<(), String> {
    let mut inbox = Inbox::default();
    while !world.is_over() {
        let after = if rng.u8(0..40) == 0 {
            expect(world, &mut io, &mut inbox, rng).await?
        } else {
            let script = Script::any(world, rng);
            let what = script.requests.clone();
            let played = play(world, &mut io, &mut inbox, &script, rng);
            match timeout(world.patience, played).await {
                Ok(after) => after?,
                Err(_) => return Err(format!("no reply in time to {what:?}")),
            }
        };
        if after == After::Ended {
            return Ok(());
        }
        pause(rng).await;
    }
    Ok(())
}

impl Script {
    fn any(world: &World, rng: &mut Rng) -> Script {
        let chance = rng.u8(0..40);
        match world.habit {
            Habit::Late => return Script::late(world, rng),
            Habit::Mixed if chance == 0 => return Script::late(world, rng),
            Habit::Mixed if chance == 1 => return Script::dropped(world, rng),
            _ => {}
        }
        let ending = match rng.u8(0..100) {
            _ if world.habit == Habit::Long => Ending::Open,
            0..3 => Ending::Last,
            3 => Ending::HalfClose,
            4 => Ending::Nonsense,
            5 => Ending::Vanish,
            _ => Ending::Open,
        };
        let count = match rng.u16(0..1000) {
            _ if world.habit == Habit::Single => 1,
            _ if world.habit == Habit::Long => rng.usize(200..=LONGEST),
            0 => rng.usize(50..=LONGEST),
            1..120 => rng.usize(2..12),
            _ => 1,
        };
        let simple = count > 50 || ending == Ending::HalfClose;
        let mut requests: Vec<_> = (0..count)
            .map(|_| {
                let number = world.ledger.issue();
                if simple { Recipe::simple(number) } else { Recipe::any(number, rng) }
            })
            .collect();
        if ending == Ending::Last {
            let last = requests.last_mut().expect("there is one");
            *last = last.last(rng);
        }
        Script { requests, ending, cut: None }
    }

    /// Two requests whose bodies are read when both were answered. The second is cut in its body.
    fn late(world: &World, rng: &mut Rng) -> Script {
        let late = |length| {
            let number = world.ledger.issue();
            Recipe { carry: Carry::Length(length), take: Take::Late, ..Recipe::simple(number) }
        };
        let requests = vec![late(80), late(400)];
        let mut script = Script { requests, ending: Ending::Open, cut: None };
        script.cut = Some(script.words().len() - rng.usize(1..400));
        script
    }

    /// Requests whose bodies nobody reads, and which come whole: they end nothing.
    fn dropped(world: &World, rng: &mut Rng) -> Script {
        let requests = (0..rng.usize(1..4)).map(|_| {
            let carry = Carry::Length(rng.usize(1..200));
            Recipe { carry, take: Take::Drop, ..Recipe::simple(world.ledger.issue()) }
        });
        let requests = requests.collect();
        let mut script = Script { requests, ending: Ending::Open, cut: None };
        script.cut = Some(script.words().len());
        script
    }

    /// Whether the server ends the connection with bytes of the client unread: their reset may take
    /// replies with it that are not read in time (RFC 9112 section 9.6).
    fn may_be_reset(&self) -> bool {
        match self.ending {
            Ending::Nonsense => true,
            Ending::Last => self.requests.iter().any(Recipe::may_be_cut),
            _ => false,
        }
    }

    fn words(&self) -> Vec<u8> {
        let mut words = Vec::new();
        for recipe in &self.requests {
            let (head, body) = recipe.words("");
            words.extend(head);
            words.extend(body);
        }
        if self.ending == Ending::Nonsense {
            words.extend(NONSENSE);
        }
        words
    }
}

/// Sends what a script has, and hears the replies meanwhile.
async fn play(
    world: &World,
    io: &mut impl Transport,
    inbox: &mut Inbox,
    script: &Script,
    rng: &mut Rng,
) -> Result<After, String> {
    let mut words = script.words();
    if script.ending == Ending::Vanish {
        words.truncate(rng.usize(0..=words.len()));
        script.requests.iter().for_each(|recipe| world.ledger.give_up(recipe.number));
    }
    let (mut input, mut output) = tokio::io::split(io);
    // A drain that begins behind the last byte loses nothing of it.
    let sent_in_time = Cell::new(false);
    let mut pauses = rng.fork();
    let parts = match script.cut {
        Some(at) => vec![0..at, at..words.len()],
        None => cut(words.len(), rng),
    };
    let writing = async {
        for part in parts {
            output.write_all(&words[part]).await?;
            output.flush().await?;
            match script.cut {
                Some(_) => sleep(Duration::from_millis(3)).await,
                None => pause(&mut pauses).await,
            }
        }
        if script.ending == Ending::HalfClose {
            output.shutdown().await?;
        }
        sent_in_time.set(!world.is_draining());
        io::Result::Ok(())
    };
    let mut pauses = rng.fork();
    let hearing = async {
        if script.ending == Ending::Vanish {
            return Ok(After::Ended);
        }
        for (at, recipe) in script.requests.iter().enumerate() {
            if pauses.u8(0..8) == 0 {
                pause(&mut pauses).await;
            }
            let heard = inbox.reply(&mut input, recipe).await;
            let broken = heard.as_ref().is_err_and(|what| what.contains("os error"));
            if broken && script.may_be_reset() {
                script.requests[at..].iter().for_each(|recipe| world.ledger.give_up(recipe.number));
                return Ok(After::Ended);
            }
            if broken && world.is_draining() && !sent_in_time.get() {
                return Ok(After::Ended);
            }
            match heard.map_err(|what| format!("request {at} of {script:?}: {what}"))? {
                Heard::Reply { last } => {
                    world.ledger.answer(recipe.number);
                    let is_last = at + 1 == script.requests.len();
                    if last && world.is_draining() {
                        return Ok(After::Ended);
                    }
                    if last && !(is_last && script.ending == Ending::Last) {
                        return Err(format!("request {at} of {script:?} ended the connection"));
                    }
                }
                Heard::End if world.is_draining() && !sent_in_time.get() => {
                    return Ok(After::Ended);
                }
                Heard::End => return Err(format!("no reply to request {at} of {script:?}")),
            }
        }
        if script.ending == Ending::Nonsense {
            match inbox.head(&mut input).await {
                Ok(Some(head)) if head.starts_with("http/1.1 400 ") => return Ok(After::Ended),
                Ok(None) if world.is_draining() => return Ok(After::Ended),
                Err(what) if what.contains("os error") => return Ok(After::Ended),
                said => return Err(format!("{said:?} to nonsense behind {script:?}")),
            }
        }
        Ok(After::Open)
    };
    // What is not sent when the last reply is there will not be asked for.
    let (sent, heard) = tokio::join!(writing, hearing);
    let after = heard?;
    if after == After::Ended {
        return Ok(after);
    }
    if script.may_be_reset() {
        return Ok(After::Ended);
    }
    sent.map_err(|error| format!("{error} while sending {script:?}"))?;
    match script.ending {
        Ending::Open => Ok(After::Open),
        _ => {
            inbox.end(&mut input).await.map_err(|what| format!("{script:?}: {what}"))?;
            Ok(After::Ended)
        }
    }
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (first, last) = (self.requests.first(), self.requests.last());
        let (count, ending) = (self.requests.len(), self.ending);
        write!(f, "{count} requests, {first:?} to {last:?}, {ending:?}")
    }
}

/// A request whose client asks first whether its body is wanted.
async fn expect(
    world: &World,
    io: &mut impl Transport,
    inbox: &mut Inbox,
    rng: &mut Rng,
) -> Result<After, String> {
    let number = world.ledger.issue();
    let carry = *one_of(rng, &[Carry::Length(500), Carry::Chunks(500, 70)]);
    let recipe = Recipe { carry, take: Take::Read, ..Recipe::simple(number) };
    let (head, body) = recipe.words("Expect: 100-continue\r\n");
    let asked = async {
        for part in cut(head.len(), rng) {
            io.write_all(&head[part]).await.map_err(|error| error.to_string())?;
            io.flush().await.map_err(|error| error.to_string())?;
            pause(rng).await;
        }
        match inbox.head(io).await? {
            Some(said) if said.starts_with("http/1.1 100 ") => {}
            None if world.is_draining() => return Ok(After::Ended),
            said => return Err(format!("{said:?} where 100 is expected")),
        }
        for part in cut(body.len(), rng) {
            io.write_all(&body[part]).await.map_err(|error| error.to_string())?;
            io.flush().await.map_err(|error| error.to_string())?;
            pause(rng).await;
        }
        match inbox.reply(io, &recipe).await? {
            Heard::Reply { last } => {
                world.ledger.answer(number);
                Ok(if last { After::Ended } else { After::Open })
            }
            Heard::End => Err("no reply".to_owned()),
        }
    };
    match timeout(world.patience, asked).await {
        // The server may go between two parts of a request.
        Ok(Err(_)) if world.is_draining() => Ok(After::Ended),
        Ok(after) => after.map_err(|what| format!("{what}: {recipe:?}")),
        Err(_) => Err(format!("no reply in time to {recipe:?}")),
    }
}

/// Most often none, else up to 2 ms.
async fn pause(rng: &mut Rng) {
    match rng.u8(0..10) {
        0..5 => {}
        5..8 => yield_now().await,
        _ => sleep(Duration::from_micros(rng.u64(0..2000))).await,
    }
}
