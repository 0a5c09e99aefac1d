//! A TCP proxy before a store on this machine: it passes bytes on, or delays, cuts or loses them.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// The most bytes that are passed on at once.
const CHUNK_BYTES: usize = 64 << 10;

/// The time that a store has to finish a request whose answer is held back.
const ANSWER_TIME: Duration = Duration::from_millis(50);

/// The reply in the place of a lost one.
const UNAVAILABLE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// The treatment of bytes and connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They pass.
    Pass,
    /// Each piece of a request or a reply waits so long.
    Delay(Duration),
    /// They pass byte by byte.
    Bytes,
    /// They stand still until the mode changes, and pass then.
    Frozen,
    /// They vanish, and for good: a connection that has lost a byte passes nothing anymore, as
    /// when a router has forgotten it and tells neither end.
    HalfOpen,
    /// New connections are reset; those that are open pass bytes.
    Refused,
    /// Each n-th reply is lost, and its connection closed: the store did what it was asked.
    LostReplies(u32),
    /// Each n-th reply is lost, and its connection reset.
    ResetReplies(u32),
    /// Each n-th reply of an HTTP server is lost, and a 503 comes in its place.
    Unavailable(u32),
}

/// The way a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It is closed.
    Close,
    /// It is reset, by RST.
    Reset,
}

/// The place at which a request is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The store has not seen the request, and never will.
    BeforeRequest,
    /// The store has done what it was asked, and its reply is lost.
    BeforeReply,
}

/// A proxy on a port of its own; it ends its connections when it is dropped.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

/// A request that is held; its connection is closed when this value is dropped.
pub struct Held {
    _release: oneshot::Sender<()>,
}

struct Shared {
    /// The store's port.
    target: Mutex<u16>,
    mode: watch::Sender<Mode>,
    ending: watch::Sender<Ending>,
    replies: AtomicU32,
    trap: Mutex<Option<Trap>>,
}

/// A request that is waited for.
struct Trap {
    /// Bytes that the request has, all of them.
    signs: Vec<Vec<u8>>,
    point: Point,
    met: oneshot::Sender<Held>,
}

/// The two directions of one connection.
struct Connection<'a> {
    shared: &'a Shared,
    /// True once it has lost bytes.
    is_dead: AtomicBool,
    /// The trap that a request met, if its reply is to be held.
    trap: Mutex<Option<Trap>>,
}

impl Proxy {
    /// Starts one before a port of this machine.
    pub async fn before(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let shared = Arc::new(Shared {
            target: Mutex::new(port),
            mode: watch::Sender::new(Mode::Pass),
            ending: watch::Sender::new(Ending::Close),
            replies: AtomicU32::new(0),
            trap: Mutex::new(None),
        });
        let port = listener.local_addr().unwrap().port();
        let accepting = tokio::spawn(accept(listener, shared.clone()));
        Self { port, shared, accepting }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Changes what happens to bytes and connections from now on.
    pub fn set(&self, mode: Mode) {
        self.shared.mode.send_replace(mode);
    }

    /// Ends all connections that are open.
    pub fn end_all(&self, ending: Ending) {
        self.shared.ending.send_replace(ending);
    }

    /// Leads new connections to another port, and closes the others.
    pub fn lead_to(&self, port: u16) {
        *lock(&self.shared.target) = port;
        self.end_all(Ending::Close);
    }

    /// Waits for a request that has all these texts in it, and holds it.
    pub async fn hold(&self, signs: &[&str], point: Point) -> Held {
        let (met, meets) = oneshot::channel();
        let signs = signs.iter().map(|sign| sign.as_bytes().to_vec()).collect();
        *lock(&self.shared.trap) = Some(Trap { signs, point, met });
        meets.await.expect("a trap is kept until a request meets it")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.end_all(Ending::Close);
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let shared = shared.clone();
        tokio::spawn(async move { serve(client, &shared).await });
    }
}

/// Serves one connection until it ends.
async fn serve(mut client: TcpStream, shared: &Shared) {
    let mut endings = shared.ending.subscribe();
    let target = *lock(&shared.target);
    let is_refused = *shared.mode.borrow() == Mode::Refused;
    let server = match is_refused {
        true => None,
        false => TcpStream::connect(("127.0.0.1", target)).await.ok(),
    };
    let Some(mut server) = server else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let connection = Connection { shared, is_dead: AtomicBool::new(false), trap: Mutex::new(None) };
    let ending = {
        let (client_read, client_write) = client.split();
        let (server_read, server_write) = server.split();
        tokio::select! {
            ending = connection.pass_requests(client_read, server_write) => ending,
            ending = connection.pass_replies(server_read, client_write) => ending,
            _ = endings.changed() => *endings.borrow(),
        }
    };
    if ending == Ending::Reset {
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    }
}

impl Connection<'_> {
    async fn pass_requests(&self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> Ending {
        let mut buffer = vec![0; CHUNK_BYTES];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let bytes = &buffer[..count];
            if !self.passes().await {
                continue;
            }
            if let Some(trap) = self.shared.met_trap(bytes) {
                if trap.point == Point::BeforeRequest {
                    trap.hold().await;
                    return Ending::Close;
                }
                *lock(&self.trap) = Some(trap);
            }
            if self.write(&mut to, bytes).await.is_err() {
                break;
            }
        }
        Ending::Close
    }

    async fn pass_replies(&self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> Ending {
        let mut buffer = vec![0; CHUNK_BYTES];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let bytes = &buffer[..count];
            if !self.passes().await {
                continue;
            }
            let trap = lock(&self.trap).take();
            if let Some(trap) = trap {
                // The reply may still be that of an earlier request.
                sleep(ANSWER_TIME).await;
                trap.hold().await;
                return Ending::Close;
            }
            if let Some(ending) = self.shared.lost_reply(bytes) {
                if matches!(*self.shared.mode.borrow(), Mode::Unavailable(_)) {
                    let _ = self.write(&mut to, UNAVAILABLE).await;
                }
                return ending;
            }
            if self.write(&mut to, bytes).await.is_err() {
                break;
            }
        }
        Ending::Close
    }

    /// Waits until the mode lets bytes pass; false if they are lost.
    async fn passes(&self) -> bool {
        let mut modes = self.shared.mode.subscribe();
        loop {
            let mode = *modes.borrow_and_update();
            if self.is_dead.load(Ordering::Relaxed) {
                return false;
            }
            match mode {
                Mode::Frozen => {
                    let _ = modes.changed().await;
                }
                Mode::HalfOpen => self.is_dead.store(true, Ordering::Relaxed),
                Mode::Delay(time) => {
                    sleep(time).await;
                    return true;
                }
                _ => return true,
            }
        }
    }

    async fn write(&self, to: &mut WriteHalf<'_>, bytes: &[u8]) -> io::Result<()> {
        let is_slow = *self.shared.mode.borrow() == Mode::Bytes;
        if !is_slow {
            return to.write_all(bytes).await;
        }
        for byte in bytes {
            to.write_all(&[*byte]).await?;
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

impl Shared {
    /// Takes the trap away if a request meets it.
    fn met_trap(&self, request: &[u8]) -> Option<Trap> {
        let has = |sign: &Vec<u8>| request.windows(sign.len()).any(|bytes| bytes == &sign[..]);
        lock(&self.trap).take_if(|trap| trap.signs.iter().all(has))
    }

    /// The end of a connection whose reply is to be lost.
    fn lost_reply(&self, bytes: &[u8]) -> Option<Ending> {
        let (every, ending) = match *self.mode.borrow() {
            // Not within a reply.
            Mode::Unavailable(_) if !bytes.starts_with(b"HTTP/") => return None,
            Mode::LostReplies(every) | Mode::Unavailable(every) => (every, Ending::Close),
            Mode::ResetReplies(every) => (every, Ending::Reset),
            _ => return None,
        };
        let number = self.replies.fetch_add(1, Ordering::Relaxed) + 1;
        number.is_multiple_of(every.max(1)).then_some(ending)
    }
}

impl Trap {
    /// Says that it was met, and waits until it is released.
    async fn hold(self) {
        let (release, released) = oneshot::channel();
        if self.met.send(Held { _release: release }).is_ok() {
            let _ = released.await;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
