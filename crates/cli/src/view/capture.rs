//! `fusewire capture`.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use clap::Args;
use fusewire_device::pcapng;
use fusewire_device::pcapng::read::{Block, Splitter};
use fusewire_view::client::Capturing;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::filter::Filter;
use super::{reports, who};
use crate::output::{Code, Failure, LOCAL_EXIT_CODES, Result, count, printable};

/// Blocks that wait for the file.
const QUEUE: usize = 1024;
/// How often it is looked whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// How long what is there already may take to come.
const PATIENCE: Duration = Duration::from_secs(3);

/// Whose packets, where to, for how long. Packets that were dropped, held or sent again say so in a comment.
#[derive(Args)]
#[command(after_help = LOCAL_EXIT_CODES)]
pub struct Capture {
    /// The processes; each of their stacks becomes an interface of the file.
    #[arg(value_name = "PID")]
    pids: Vec<u32>,
    /// All processes that this user may ask.
    #[arg(long, conflicts_with = "pids")]
    all: bool,
    /// The pcapng file to write; - is standard output.
    #[arg(short, long, value_name = "FILE")]
    write: PathBuf,
    /// Stop after so many seconds [default: at Ctrl-C].
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Bytes of each packet to keep [default: all].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=65_600))]
    snap_len: Option<u32>,
    #[command(flatten)]
    filter: Filter,
}

/// What comes from the threads that read.
enum News {
    Block(usize, Block),
    /// A stack's capture has ended: in order, or why not.
    End(io::Result<()>),
}

/// Captures until it is enough.
pub fn run(capture: &Capture) -> Result {
    if capture.pids.is_empty() && !capture.all {
        let what = "which processes? PID..., or --all of this user (fusewire ss names them)";
        return Err(Failure::new(Code::Usage, what).into());
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let (sender, news) = sync_channel(QUEUE);
    let (mut streams, mut names) = (Vec::new(), Vec::new());
    for (process, report) in reports(&capture.pids)? {
        for stack in report.stacks.iter().filter(|stack| stack.kind != "lines") {
            let name = format!("{} {}", who(&report), printable(&stack.device));
            let stream = process
                .capture(stack.id, capture.snap_len.map(|len| len as usize))
                .map_err(|e| Failure::new(Code::Failed, printable(&format!("{name}: {e}"))))?;
            streams.push(stream);
            names.push(name);
        }
    }
    if streams.is_empty() {
        return Err(Failure::new(Code::Failed, "there is no running stack to capture").into());
    }
    let mut file = Merged::new(open(&capture.write)?, names, &capture.filter)?;
    for (number, stream) in streams.iter().enumerate() {
        let (stream, sender) = (stream.try_clone()?, sender.clone());
        let read = move || {
            let end = read(number, stream, &sender);
            let _ = sender.send(News::End(end));
        };
        std::thread::Builder::new().name("capture".into()).spawn(read)?;
    }
    drop(sender);
    let deadline = capture.seconds.map(|s| Instant::now() + Duration::from_secs(s));
    let result = collect(&mut file, &news, &streams, || {
        stop.load(Ordering::Relaxed) || deadline.is_some_and(|at| Instant::now() >= at)
    });
    eprintln!("{} captured", count(file.packets, "packet"));
    result
}

fn open(path: &Path) -> Result<Box<dyn Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdout()));
    }
    let file = File::create(path)
        .map_err(|e| Failure::new(Code::Failed, format!("cannot write {}: {e}", path.display())))?;
    Ok(Box::new(file))
}

/// Passes the blocks of one stack on.
fn read(number: usize, mut stream: Capturing, sender: &SyncSender<News>) -> io::Result<()> {
    let (mut splitter, mut buffer) = (Splitter::default(), vec![0; 1 << 16]);
    loop {
        let len = stream.read(&mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        splitter.push(&buffer[..len]);
        loop {
            let next = splitter.next();
            match next.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))? {
                Some(block) => {
                    // Nobody writes any more.
                    if sender.send(News::Block(number, block)).is_err() {
                        return Ok(());
                    }
                }
                None => break,
            }
        }
    }
}

/// Writes what comes until all captures have ended; tells them to when it is time.
fn collect(
    file: &mut Merged<'_>,
    news: &Receiver<News>,
    streams: &[Capturing],
    is_over: impl Fn() -> bool,
) -> Result {
    let (mut stopped, mut ended, mut failed) = (None, 0, None);
    // A process that stands still does not end its stream.
    let gone = |stopped: &Option<Instant>| stopped.is_some_and(|at| at.elapsed() > PATIENCE);
    while ended < streams.len() && !gone(&stopped) {
        match news.recv_timeout(LOOK) {
            Ok(News::Block(number, block)) => file.write(number, block)?,
            Ok(News::End(end)) => {
                ended += 1;
                failed = failed.or(end.err());
            }
            // A reader of the file may as well see what there is.
            Err(RecvTimeoutError::Timeout) => file.out.flush()?,
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if stopped.is_none() && is_over() {
            stopped = Some(Instant::now());
            for stream in streams {
                // One that has ended by itself need not be told.
                let _ = stream.stop();
            }
        }
    }
    file.out.flush()?;
    match failed {
        Some(error) => {
            Err(Failure::new(Code::Failed, format!("the capture broke: {error}")).into())
        }
        None => Ok(()),
    }
}

/// Captures of several stacks in one section: each is an interface of its own.
struct Merged<'a> {
    out: BufWriter<Box<dyn Write>>,
    names: Vec<String>,
    filter: &'a Filter,
    /// The interface's number in the file and its link type, by the stack's number.
    interfaces: Vec<Option<(u32, u16)>>,
    known: u32,
    packets: u64,
}

impl Merged<'_> {
    fn new(out: Box<dyn Write>, names: Vec<String>, filter: &Filter) -> io::Result<Merged<'_>> {
        let mut out = BufWriter::new(out);
        let mut section = Vec::new();
        pcapng::section(&mut section);
        out.write_all(&section)?;
        let interfaces = vec![None; names.len()];
        Ok(Merged { out, names, filter, interfaces, known: 0, packets: 0 })
    }

    fn write(&mut self, number: usize, block: Block) -> io::Result<()> {
        if let Some((link_type, snap_len)) = block.interface() {
            if self.interfaces[number].is_none() {
                let mut interface = Vec::new();
                pcapng::interface(&mut interface, link_type, &self.names[number], snap_len);
                self.out.write_all(&interface)?;
                self.interfaces[number] = Some((self.known, link_type));
                self.known += 1;
            }
            return Ok(());
        }
        // Numbers of endpoints are a stack's own, so their names would contradict each other.
        if block.kind() == pcapng::NAMES && self.names.len() > 1 {
            return Ok(());
        }
        let Some((interface, link_type)) = self.interfaces[number] else { return Ok(()) };
        if block.packet().is_some_and(|(packet, _)| !self.filter.keeps(link_type, packet)) {
            return Ok(());
        }
        self.packets += u64::from(block.kind() == pcapng::PACKET);
        match block.renumbered(interface) {
            Some(block) => self.out.write_all(block.bytes()),
            None => Ok(()),
        }
    }
}
