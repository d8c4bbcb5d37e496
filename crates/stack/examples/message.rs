//! One encrypted message and its answer over UDP, with nothing of the stack but that:
//! `cargo run -p fusewire-stack --no-default-features --example message`.

use std::error::Error;
use std::sync::Arc;
use std::thread;

use fusewire_session::{ClientConfig, Identity, ServerConfig, Trust};
use fusewire_stack::{Endpoint, Result};

fn main() -> std::result::Result<(), Box<dyn Error>> {
    // A program that stays uses `Identity::load_or_create`.
    let identity = Arc::new(Identity::ephemeral()?);
    let server = Endpoint::udp("127.0.0.1:0".parse()?)?;
    let listener = server.listen(ServerConfig::new(identity.clone()))?;
    let served = thread::spawn(move || -> Result<()> {
        let connection = listener.accept()?;
        let mut message = [0; 64];
        while let Some(len) = connection.recv(&mut message)? {
            message[..len].make_ascii_uppercase();
            connection.send(&message[..len])?;
        }
        connection.finish()
    });

    let client = Endpoint::udp("127.0.0.1:0".parse()?)?;
    let config = ClientConfig::new(identity.clone(), Trust::Pinned(identity.fingerprint()));
    let connection = client.connect(server.local_addr(), &config)?;
    connection.send(b"one message")?;
    let mut answer = [0; 64];
    let len = connection.recv(&mut answer)?.ok_or("no answer")?;
    assert_eq!(&answer[..len], b"ONE MESSAGE");
    connection.finish()?;
    served.join().expect("the server's thread does not panic")?;
    println!("{}", String::from_utf8_lossy(&answer[..len]));
    Ok(())
}
