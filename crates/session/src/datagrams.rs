//! Keys of datagrams beside a session's stream: each is a record by itself, sealed under its number and opened once, in
//! whatever order it comes. `docs/records.md`, section 12.

use crate::Error;
use crate::config::DataPass;
use crate::exporter::Exporter;
use crate::handshake::{Options, Side};
use crate::keys::TrafficSecret;
use crate::record::{NumberedReceiver, NumberedSender, RecordParams};
use fusewire_kernels::Swap;
use zeroize::Zeroize;

/// Seals and opens the datagrams of one session.
#[derive(Debug)]
pub struct Datagrams {
    /// Names the session in packets. It is no secret.
    pub id: u32,
    /// What this end sends.
    pub sender: NumberedSender,
    /// What the peer does.
    pub receiver: NumberedReceiver,
}

impl Datagrams {
    /// Of a session of which `options` were agreed on, at the end that is `side`. Header protection is the stream's alone, and so are
    /// its elements: these bodies are bytes.
    ///
    /// # Errors
    /// Its records have no tag.
    pub fn new(
        exporter: &Exporter,
        side: Side,
        options: &Options,
        data_pass: DataPass,
    ) -> Result<Datagrams, Error> {
        let (own, peer) = match side {
            Side::Client => (b'c', b's'),
            Side::Server => (b's', b'c'),
        };
        let secret = |says: u8| {
            let mut bytes = [0; 32];
            exporter.export(b"datagrams", &[says], &mut bytes);
            let secret = TrafficSecret::from_bytes(bytes);
            bytes.zeroize();
            secret
        };
        let mut id = [0; 4];
        exporter.export(b"datagrams", b"id", &mut id);
        let like = |max| RecordParams::new(options.cipher, Swap::None, max, data_pass);
        Ok(Datagrams {
            id: u32::from_be_bytes(id),
            sender: NumberedSender::new(like(options.send_body_len_max), secret(own))?,
            receiver: NumberedReceiver::new(like(options.receive_body_len_max), secret(peer))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cipher;

    #[test]
    fn both_ends_have_the_same_keys_and_each_direction_its_own() {
        let options = Options {
            version: 1,
            cipher: Cipher::AES_128_GCM,
            element: Swap::None,
            send_body_len_max: 1 << 16,
            receive_body_len_max: 1 << 16,
            idle_timeout: None,
            protection: None,
        };
        let exporter = Exporter::new([7; 32]);
        let of = |side| Datagrams::new(&exporter, side, &options, DataPass::detect()).unwrap();
        let (mut client, mut server) = (of(Side::Client), of(Side::Server));
        assert_eq!(client.id, server.id);
        let record = client.sender.seal(3, &b"asked"[..]).unwrap();
        assert!(client.receiver.open(3, &record).is_err(), "it is not the server's");
        assert_eq!(server.receiver.open(3, &record).unwrap(), b"asked");
        let record = server.sender.seal(3, &b"said"[..]).unwrap();
        assert_eq!(client.receiver.open(3, &record).unwrap(), b"said");
        let other = Exporter::new([8; 32]);
        let mut other = Datagrams::new(&other, Side::Client, &options, DataPass::detect()).unwrap();
        assert!(other.id != client.id && other.receiver.open(3, &record).is_err());
        let tagless = Options { cipher: Cipher::NONE, ..options };
        assert!(Datagrams::new(&exporter, Side::Client, &tagless, DataPass::detect()).is_err());
    }
}
