//! Raw messages over loopback UDP by contexts, beside an endpoint's ADUs without a cipher over the same transport.
//!
//! `context_rate [SECONDS [NDU]]`: for messages of 2,000 to 16,384 bytes, in packets of NDU bytes (0, the default: what the
//! device carries), MB/s of each, by turns, three times; the median, and contexts ÷ endpoint.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fusewire_device::udp::{self, Udp};
use fusewire_session::{Cipher, ClientConfig, Identity, ServerConfig, Trust};
use fusewire_stack::Endpoint;
use fusewire_stack::context::{About, Check, Config, Contexts, ControlBlock, Event, Kept};
use fusewire_stack::transport::{self, Protocol};
use fusewire_transport::machine::Secrets;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const LENS: [usize; 5] = [2000, 4000, 6000, 9000, 16_384];
const SERVICE: u16 = 9293;

fn device() -> Result<Box<Udp>> {
    Ok(Box::new(Udp::bind(([127, 0, 0, 1], 0).into(), &udp::Config::default())?))
}

/// Bytes a second that the receiver has.
fn contexts(len: usize, ndu: Option<usize>, check: Check, time: Duration) -> Result<f64> {
    let mut server = Contexts::new(device()?, Config::default(), &[1; 32]);
    let mut client = Contexts::new(device()?, Config::default(), &[2; 32]);
    let block = ControlBlock { packet_bytes: ndu, check, ..ControlBlock::default() };
    server.listen(SERVICE, block.clone(), &Secrets { isn: [3; 16], cookie: [4; 16] });
    let to = server.local_addr();
    let sender = std::thread::spawn(move || -> Result<()> {
        let message = vec![7; len];
        let context = client.context(block)?;
        client.connect(context, to, SERVICE)?;
        let (start, mut finished) = (Instant::now(), false);
        loop {
            while !finished && client.send(context, &[IoSlice::new(&message)], About::default())? {
                if start.elapsed() > time {
                    client.finish(context);
                    finished = true;
                }
            }
            client.poll(&mut Kept)?;
            while let Some((_, event)) = client.poll_event() {
                if matches!(event, Event::Closed(_)) {
                    return Ok(());
                }
            }
            client.wait(None)?;
        }
    });
    let (mut bytes, mut first, mut last) = (0, None, Instant::now());
    'all: loop {
        server.poll(&mut Kept)?;
        while let Some((context, event)) = server.poll_event() {
            match event {
                Event::Message(message) => {
                    assert!(server.message(context, &message)[0].first() == Some(&7));
                    first.get_or_insert_with(Instant::now);
                    bytes += message.len();
                    server.release(context, &message);
                }
                Event::Finished => {
                    last = Instant::now();
                    server.finish(context);
                }
                Event::Closed(_) => break 'all,
                _ => {}
            }
        }
        server.wait(None)?;
    }
    sender.join().expect("the sender ends")?;
    Ok(bytes as f64 / (last - first.unwrap_or(last)).as_secs_f64())
}

fn endpoint(len: usize, ndu: Option<usize>, time: Duration) -> Result<f64> {
    let identity = Arc::new(Identity::ephemeral()?);
    let config = || fusewire_stack::Config {
        transport: transport::Config::of_records(Protocol::Xtp),
        datagram_bytes: ndu,
        ..fusewire_stack::Config::default()
    };
    let server = Endpoint::new(device()?, config())?;
    let client = Endpoint::new(device()?, config())?;
    let mut serve = ServerConfig::new(identity.clone());
    let mut call = ClientConfig::new(identity.clone(), Trust::Pinned(identity.fingerprint()));
    for settings in [&mut serve.settings, &mut call.settings] {
        settings.ciphers = vec!["none".parse::<Cipher>()?];
        settings.allow_insecure = true;
    }
    let listener = server.listen(serve)?;
    let to = server.local_addr();
    let sender = std::thread::spawn(move || -> Result<()> {
        let message = vec![7; len];
        let connection = client.connect(to, &call)?;
        let start = Instant::now();
        while start.elapsed() < time {
            connection.send(&message)?;
        }
        connection.finish()?;
        Ok(())
    });
    let connection = listener.accept()?;
    let mut memory = vec![0; len];
    let (mut bytes, mut first, mut last) = (0, None, Instant::now());
    while let Some(len) = connection.recv(&mut memory)? {
        first.get_or_insert_with(Instant::now);
        bytes += len;
        last = Instant::now();
    }
    connection.finish()?;
    sender.join().expect("the sender ends")?;
    Ok(bytes as f64 / (last - first.unwrap_or(last)).as_secs_f64())
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(0.3), |text| text.parse())?;
    let ndu: usize = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let (time, ndu) = (Duration::from_secs_f64(seconds), (ndu > 0).then_some(ndu));
    println!("bytes  contexts MB/s  with CXOR MB/s  endpoint MB/s  contexts / endpoint");
    for len in LENS {
        let mut runs = [const { Vec::new() }; 3];
        for _ in 0..3 {
            runs[0].push(contexts(len, ndu, Check::Internet, time)?);
            runs[1].push(contexts(len, ndu, Check::Cxor, time)?);
            runs[2].push(endpoint(len, ndu, time)?);
        }
        let [a, b, c] = runs.map(|mut run| {
            run.sort_by(f64::total_cmp);
            run[1] / 1e6
        });
        println!("{len:5}  {a:13.0}  {b:14.0}  {c:13.0}  {:19.2}", a / c);
    }
    Ok(())
}
