//! What a connection is made of, from the words of C.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fusewire_device::udp::{self, Udp};
use fusewire_session::{
    Allow, AllowList, Cipher, ClientConfig, Execution, Fingerprint, HeaderProtection, Identity,
    ServerConfig, Settings as Session, Swap, Trust,
};
use fusewire_stack::transport::{self, Protocol};
use fusewire_stack::{Config, Endpoint, Error};

use super::{failed, wrong};
use crate::errno::Result;

/// In the order of `enum fw_execution`.
pub const EXECUTIONS: [Execution; 3] =
    [Execution::Integrated, Execution::Blocked, Execution::Sequential];

/// What carries the records: `enum fw_carrier`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    Udp,
    KernelTcp,
    Shm,
    Xtp,
}

/// In the order of `enum fw_carrier`.
pub const CARRIERS: [Carrier; 4] = [Carrier::Udp, Carrier::KernelTcp, Carrier::Shm, Carrier::Xtp];

/// What a connection is made of, as its user says it: `struct fw_adu_config`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub identity: String,
    pub peer: String,
    pub ciphers: String,
    pub execution: i32,
    pub element: u32,
    pub max_adu: u32,
    pub idle_ms: u32,
    pub header_protection: u32,
    pub carrier: i32,
}

/// One of a list that C counts through.
fn one_of<T: Copy>(list: &[T], number: i32, what: &str) -> Result<T> {
    let known = usize::try_from(number).ok().and_then(|at| list.get(at));
    known.copied().ok_or_else(|| wrong(what))
}

impl Settings {
    fn identity(&self) -> Result<Arc<Identity>> {
        identity(&self.identity).map(Arc::new)
    }

    fn execution(&self) -> Result<Execution> {
        one_of(&EXECUTIONS, self.execution, "execution: expected one of enum fw_execution")
    }

    /// What carries it.
    ///
    /// # Errors
    /// `EINVAL`.
    pub fn carrier(&self) -> Result<Carrier> {
        one_of(&CARRIERS, self.carrier, "carrier: expected one of enum fw_carrier")
    }

    fn element(&self) -> Result<Swap> {
        match self.element {
            0 | 1 => Ok(Swap::None),
            bytes @ (2 | 4 | 8) => Ok(Swap::of(bytes as usize)),
            _ => Err(wrong("element: expected 0, 2, 4 or 8 bytes")),
        }
    }

    fn session(&self, identity: Arc<Identity>) -> Result<Session> {
        let mut session = Session::new(identity);
        if !self.ciphers.is_empty() {
            let ciphers = self.ciphers.split(',').map(|name| name.trim().parse::<Cipher>());
            let ciphers = ciphers.collect::<std::result::Result<_, _>>();
            session.ciphers = ciphers.map_err(|unknown| wrong(&unknown.to_string()))?;
            session.allow_insecure = session.ciphers.iter().any(|cipher| cipher.is_insecure());
        }
        session.data_pass.execution = self.execution()?;
        if self.idle_ms > 0 {
            session.idle_timeout = Some(Duration::from_millis(self.idle_ms.into()));
        }
        // Over UDP and shared memory the endpoint knows what its memory holds.
        if self.max_adu > 0 && self.carrier()? == Carrier::KernelTcp {
            session.body_len_max = self.max_adu;
        }
        if self.header_protection > 0 {
            let padding = HeaderProtection::with_padding(self.header_protection as usize);
            let expected = "header_protection: expected 0 or a power of two up to 1024";
            session.protection = Some(padding.ok_or_else(|| wrong(expected))?);
        }
        Ok(session)
    }

    pub fn endpoint(&self, local: SocketAddr) -> Result<Endpoint> {
        let device = Udp::bind(local, &udp::Config::default());
        let device = device.map_err(|error| failed(Error::os("binding the UDP socket")(error)))?;
        let max_adu = (self.max_adu > 0).then_some(self.max_adu);
        let protocol = match self.carrier()? {
            Carrier::Xtp => Protocol::Xtp,
            Carrier::Udp | Carrier::KernelTcp | Carrier::Shm => Protocol::Tcp,
        };
        let transport = transport::Config::of_records(protocol);
        let config = Config { max_adu, transport, ..Config::default() };
        Endpoint::new(Box::new(device), config).map_err(failed)
    }

    /// The server's side.
    ///
    /// # Errors
    /// `EINVAL`; what the file of the key gives.
    pub fn server(&self) -> Result<ServerConfig> {
        let settings = self.session(self.identity()?)?;
        if self.element > 1 {
            return Err(wrong("element: who connects says it"));
        }
        let config = ServerConfig { settings, allow: self.allow()?, shared_memory: None };
        // What it refuses would else be told to the first client.
        fusewire_session::Handshake::server(&config).map_err(failed)?;
        Ok(config)
    }

    /// The client's side.
    ///
    /// # Errors
    /// `EINVAL`; what the file of the key gives.
    pub fn client(&self) -> Result<ClientConfig> {
        let identity = self.identity()?;
        let trust = match self.peer.trim() {
            "" => identity.fingerprint(),
            print => print.parse().map_err(|error: fusewire_session::Error| failed(error))?,
        };
        let settings = self.session(identity.clone())?;
        let mut config = ClientConfig::new(identity, Trust::Pinned(trust));
        (config.settings, config.element) = (settings, self.element()?);
        Ok(config)
    }

    /// Who may connect.
    fn allow(&self) -> Result<Allow> {
        match self.peer.trim() {
            "" => Ok(Allow::OwnKey),
            "any" => Ok(Allow::Public),
            list => {
                let prints = list.split(',').map(|print| print.trim().parse::<Fingerprint>());
                let list = prints.collect::<std::result::Result<AllowList, _>>().map_err(failed)?;
                Ok(Allow::List(Arc::new(list)))
            }
        }
    }
}

/// The key in a file, made there on first use.
///
/// # Errors
/// `EINVAL` without a name, `EPERM` when the file is open to others or not the user's, what the kernel says.
pub fn identity(path: &str) -> Result<Identity> {
    if path.is_empty() {
        return Err(wrong("identity: expected a file for the key"));
    }
    Identity::load_or_create(Path::new(path)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno::Errno;
    use crate::open;

    #[test]
    fn settings_that_mean_nothing_are_refused_with_a_reason() {
        let identity = || Arc::new(Identity::ephemeral().unwrap());
        let good = Settings::default();
        assert!(good.session(identity()).is_ok() && good.element() == Ok(Swap::None));
        for (wrong, says) in [
            (Settings { execution: 3, ..good.clone() }, "fw_execution"),
            (Settings { execution: -1, ..good.clone() }, "fw_execution"),
            (Settings { ciphers: "rot13".into(), ..good.clone() }, "rot13"),
            (Settings { header_protection: 3, ..good.clone() }, "power of two"),
            (Settings { header_protection: 2048, ..good.clone() }, "power of two"),
        ] {
            assert_eq!(wrong.session(identity()).err(), Some(Errno(libc::EINVAL)), "{wrong:?}");
            assert!(open::reason().contains(says), "{}", open::reason());
        }
        for carrier in [-1, 4] {
            let wrong = Settings { carrier, ..good.clone() };
            assert_eq!(wrong.carrier(), Err(Errno(libc::EINVAL)));
            assert!(open::reason().contains("fw_carrier"), "{}", open::reason());
        }
        for element in [3, 5, 16, u32::MAX] {
            let wrong = Settings { element, ..good.clone() };
            assert_eq!(wrong.element(), Err(Errno(libc::EINVAL)));
        }
        let wrong = Settings { peer: "fw1:short".into(), ..good.clone() };
        assert_eq!(wrong.allow().err(), Some(Errno(libc::EINVAL)));
        assert_eq!(super::identity("").err(), Some(Errno(libc::EINVAL)));
    }
}
