//! The clients: a thread for each connection that transfers, one more for all that only stay open.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use fusewire_device::udp;
use fusewire_files::RemotePath;
use fusewire_files::client::{Event, get};
use fusewire_files::net::{BODY_LEN_MAX, Call, Client};
use fusewire_session::{ClientConfig, Identity, Trust};
use fusewire_stack::{Config, Event as StackEvent, Keep, PORT, Stack};

use crate::server::Server;
use crate::{Error, Result};

/// The file that is served.
pub const NAME: &str = "file";
/// Handshakes of connections that only stay open, under way at once.
const OPENING: usize = 32;
/// How often a thread that waits looks whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What came of one transfer.
pub struct Transfer {
    pub took: Duration,
    /// The tree hash of what came, if all of it did.
    pub hash: Option<[u8; 32]>,
}

/// Connections that are open.
pub struct Clients {
    go: Vec<Sender<()>>,
    workers: Vec<JoinHandle<Result<Transfer>>>,
    holder: JoinHandle<Result<()>>,
    stop: Arc<AtomicBool>,
}

impl Clients {
    /// Opens `open` connections, `transferring` of them to transfer.
    pub fn open(
        server: &Server,
        identity: Arc<Identity>,
        open: usize,
        transferring: usize,
    ) -> Result<Clients> {
        let trust = Trust::Pinned(identity.fingerprint());
        let mut config = ClientConfig::new(identity, trust);
        config.settings.body_len_max = BODY_LEN_MAX;
        let remote = server.address;
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = channel();
        let (mut go, mut workers) = (Vec::new(), Vec::new());
        for _ in 0..transferring {
            let (sender, may_go) = channel();
            let (config, ready) = (config.clone(), ready.clone());
            go.push(sender);
            workers.push(spawn(move || transfer(remote, &config, ready, &may_go)));
        }
        let idle = open - transferring;
        let held = Arc::clone(&stop);
        let holder = spawn(move || hold(remote, &config, idle, ready, &held));
        // A client that fails drops its end; what it says is heard when it is joined.
        let clients = Clients { go, workers, holder, stop };
        let count = is_ready.iter().take(transferring + 1).count();
        if count == transferring + 1 { Ok(clients) } else { Err(clients.why()) }
    }

    /// The first failure of those that could not even connect.
    fn why(self) -> Error {
        drop(self.go);
        self.stop.store(true, Ordering::Relaxed);
        let unknown = Error::Unsupported("a connection could not be opened".into());
        let failed = self.workers.into_iter().filter_map(|w| w.join().ok()?.err()).next();
        let held = self.holder.join().ok().and_then(|r| r.err());
        held.or(failed).unwrap_or(unknown)
    }

    /// Lets the transfers go, all at once, and waits for them: what they got, and what went wrong.
    pub fn transfer(self) -> (Vec<Transfer>, Vec<String>) {
        let mut failures = Vec::new();
        for go in &self.go {
            // One whose thread has ended tells why below.
            let _ = go.send(());
        }
        let mut transfers = Vec::new();
        for worker in self.workers {
            match worker.join() {
                Ok(Ok(transfer)) => transfers.push(transfer),
                Ok(Err(error)) => failures.push(error.to_string()),
                Err(_) => failures.push("a client panicked".into()),
            }
        }
        self.stop.store(true, Ordering::Relaxed);
        match self.holder.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => failures.push(error.to_string()),
            Err(_) => failures.push("the clients at rest panicked".into()),
        }
        (transfers, failures)
    }
}

fn stack() -> Result<Stack> {
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let device = udp::Udp::bind(any, &udp::Config::default())
        .map_err(Error::os("binding a client's socket"))?;
    let seed = fusewire_device::random().map_err(Error::os("asking for randomness"))?;
    Ok(Stack::new(Box::new(device), Config::default(), &seed))
}

/// Connects, says so, waits for leave, and gets the file.
fn transfer(
    remote: SocketAddr,
    config: &ClientConfig,
    ready: Sender<()>,
    may_go: &Receiver<()>,
) -> Result<Transfer> {
    let refuse = &mut |_| Err(fusewire_stack::Error::Closed);
    let mut link = Client::over_stack(stack()?, &Call::new(remote, config), refuse)?;
    let _ = ready.send(());
    drop(ready);
    let found = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&found);
    let observer = move |event: Event<'_>| {
        if let Event::Done { hash, .. } = event {
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = hash;
        }
    };
    let options = get::Options { forget: true, ..get::Options::default() };
    let path =
        RemotePath::from_user(NAME.as_bytes()).map_err(|e| Error::Unsupported(e.to_string()))?;
    let nowhere = get::Destination::from_path(Path::new("/dev/null"), &path)?;
    let plan = get::Plan::new(path, nowhere, options, Box::new(observer));
    let mut worker = plan.worker(link.element());
    if may_go.recv().is_err() {
        return Ok(Transfer { took: Duration::ZERO, hash: None });
    }
    let (began, never) = (Instant::now(), AtomicBool::new(false));
    let mut took = None;
    link.run(&never, &mut |channel, scratch, now| {
        let turn = worker.turn(channel, scratch, now)?;
        if turn.finished {
            took = Some(began.elapsed());
        }
        Ok(turn)
    })?;
    if let Some(error) = plan.take_error() {
        return Err(error.into());
    }
    let hash = *found.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Transfer { took: took.unwrap_or_else(|| began.elapsed()), hash })
}

/// Opens `count` connections over one stack and keeps them alive until `stop`. One that ends is an error.
fn hold(
    remote: SocketAddr,
    config: &ClientConfig,
    count: usize,
    ready: Sender<()>,
    stop: &AtomicBool,
) -> Result<()> {
    let mut stack = stack()?;
    let (mut begun, mut open, mut ready) = (0, 0, Some(ready));
    loop {
        while begun < count && begun - open < OPENING {
            stack.connect(remote, PORT, config)?;
            begun += 1;
        }
        while let Some((_, event)) = stack.poll_event() {
            match event {
                StackEvent::Connected { .. } => open += 1,
                StackEvent::Closed(error) => {
                    return Err(error.unwrap_or(fusewire_stack::Error::Closed).into());
                }
                _ => {}
            }
        }
        if open == count
            && let Some(ready) = ready.take()
        {
            let _ = ready.send(());
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        if !stack.poll(&mut Keep)? {
            stack.wait(Some(LOOK_EVERY))?;
        }
    }
}
