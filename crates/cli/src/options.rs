//! What several commands take alike, and what becomes of it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use clap::{Args, ValueEnum};
use fusewire_device::Device;
use fusewire_device::capture::Capture;
use fusewire_files::net::BODY_LEN_MAX;
use fusewire_files::{Element, Hashing};
use fusewire_model::{Implementation, Machine, choose_transform};
use fusewire_session::suites::Standing;
use fusewire_session::{
    Allow, AllowList, Check, Cipher, DataPass, Execution, Executions, Fingerprint,
    HeaderProtection, Identity, KeyLogFile, Level, Settings, Swap,
};
use fusewire_stack::{Config, Stack};
use fusewire_transport::congestion::Algorithm;
use fusewire_transport::either::{self, Protocol};
use fusewire_transport::machine::{KeepAlive, Secrets};

use crate::output::{Code, Failure, Result};

/// The data pass, the ciphers and the device: both sides have these.
#[derive(Args, Clone, Debug)]
pub struct Common {
    #[arg(long, value_name = "LIST", value_delimiter = ',', help = format!("Ciphers, best first: {}", cipher_names()))]
    cipher: Vec<Cipher>,
    #[command(flatten)]
    protecting: Protecting,
    /// How the data pass runs: one loop, strip by strip, or stage by stage; auto is what
    /// `fusewire model calibrate` found to be fastest here with the cipher, and one loop where it has not run.
    #[arg(long, value_enum, default_value_t)]
    execution: ExecutionChoice,
    /// CPU level of the data pass [default: the best of this machine].
    #[arg(long, value_name = "LEVEL")]
    cpu_level: Option<Level>,
    /// Largest UDP payload to send and to take [default: what the path carries].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(576..=65_507))]
    datagram_bytes: Option<u32>,
    /// What carries the records over UDP and interfaces: tcp or xtp. Both sides have the same.
    #[arg(long, value_name = "NAME", default_value_t)]
    transport: Protocol,
    /// What proves records that have no tag, with `--transport xtp`: internet, its checksum; cxor, a trailer, if the other
    /// side wants it too; none, if the other side says so too. Where the cipher makes a tag, that is it.
    #[arg(long, value_name = "NAME", default_value_t)]
    check: Check,
    #[arg(long, value_name = "NAME", help = format!("Congestion control of what this side sends: {} [default: {}; to a group bbr]", congestion_names(), Algorithm::default()))]
    congestion: Option<Algorithm>,
    /// Write every datagram to a pcapng file.
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// Append session keys to a file, for debugging: who reads it reads everything.
    #[arg(long, value_name = "FILE")]
    key_log: Option<PathBuf>,
}

/// What is not to be seen of records: both sides have these.
#[derive(Args, Clone, Copy, Debug)]
pub struct Protecting {
    /// Encipher what records are, too: type, length, index (as RFC 9001, section 5.4). A server agrees with a client that
    /// asks; one that asks itself refuses who does not.
    #[arg(long)]
    header_protection: bool,
    /// The same, and fill records up to multiples of so many bytes, a power of two up to 1024: a TPDU with one
    /// record tells its length by its own.
    #[arg(long, value_name = "BYTES", value_parser = padding)]
    record_padding: Option<HeaderProtection>,
}

impl Protecting {
    /// What was asked for.
    pub fn asked(self) -> Option<HeaderProtection> {
        self.record_padding.or_else(|| self.header_protection.then(HeaderProtection::default))
    }
}

fn padding(text: &str) -> std::result::Result<HeaderProtection, String> {
    let found = text.parse().ok().and_then(HeaderProtection::with_padding);
    found.ok_or_else(|| {
        format!("expected a power of two from 1 to {}", HeaderProtection::PADDING_MAX)
    })
}

/// The record of a datagram on a path without fragments, for which the model is asked.
const MESSAGE_BYTES: f64 = 1408.0;

/// How the data pass runs.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ExecutionChoice {
    /// What the model takes.
    #[default]
    Auto,
    Integrated,
    Blocked,
    Sequential,
}

/// What contents are marshalled as.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum ElementChoice {
    #[default]
    Octets,
    Int16,
    Int32,
    Int64,
}

impl From<ElementChoice> for Element {
    fn from(choice: ElementChoice) -> Element {
        match choice {
            ElementChoice::Octets => Element::Octets,
            ElementChoice::Int16 => Element::Int16,
            ElementChoice::Int32 => Element::Int32,
            ElementChoice::Int64 => Element::Int64,
        }
    }
}

/// The ciphers to choose from, and what is to be known of them.
pub fn cipher_names() -> String {
    let of = |standing| {
        let names = Cipher::ALL.iter().filter(|cipher| cipher.standing == standing);
        let names = names.map(|cipher| match cipher.parameter {
            Some(parameter) => format!("{}[:{}]", cipher.name, parameter.what.to_uppercase()),
            None => cipher.name.to_string(),
        });
        names.collect::<Vec<_>>().join(", ")
    };
    let (standard, insecure) = (of(Standing::Standard), of(Standing::Insecure));
    let drafts = of(Standing::Draft);
    format!("{standard}; to be named on both sides, drafts: {drafts}; insecure: {insecure}")
}

/// Every congestion control.
pub fn congestion_names() -> String {
    Algorithm::ALL.iter().map(|a| a.name()).collect::<Vec<_>>().join(", ")
}

/// Who hashes, as the user names it.
const HASHING: [(&str, Hashing); 3] =
    [("both", Hashing::Both), ("receiver", Hashing::Receiver), ("none", Hashing::Nobody)];

/// Who hashes contents.
pub fn hashing(text: &str) -> std::result::Result<Hashing, String> {
    let found = HASHING.iter().find(|(name, _)| *name == text).map(|(_, hashing)| *hashing);
    found.ok_or_else(|| format!("expected {}", HASHING.map(|(name, _)| name).join(", ")))
}

/// The name of it.
pub fn hashing_name(hashing: Hashing) -> &'static str {
    HASHING.iter().find(|(_, other)| *other == hashing).map_or("both", |(name, _)| name)
}

/// Bytes a second: a number with k, M or G behind it.
pub fn rate(text: &str) -> std::result::Result<u64, String> {
    let wrong = || "expected bytes a second, for example 500k, 20M or 1G".to_string();
    let (digits, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1_000),
        Some((at, 'M')) => (&text[..at], 1_000_000),
        Some((at, 'G')) => (&text[..at], 1_000_000_000),
        _ => (text, 1),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(unit).filter(|n| *n > 0).ok_or_else(wrong)
}

/// Bytes: a number with kB, MB, GB (or k, M, G), KiB, MiB or GiB behind it.
pub fn bytes(text: &str) -> std::result::Result<u64, String> {
    const UNITS: [(&str, u64); 10] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("", 1),
    ];
    let wrong = || "expected bytes, for example 4096, 20MB or 1GiB".to_string();
    let unit = UNITS.iter().find_map(|(name, n)| Some((text.strip_suffix(name)?, n)));
    let (digits, unit) = unit.ok_or_else(wrong)?;
    let number: u64 = digits.trim_end().parse().map_err(|_| wrong())?;
    number.checked_mul(*unit).ok_or_else(wrong)
}

/// The longest silence that a server agrees to: more than a client's longest `--timeout`.
pub const SILENCE_MAX: Duration = Duration::from_secs(4500);

impl Common {
    /// What a client and a server of the file transfer say alike, with `more` ciphers than were asked for.
    ///
    /// # Errors
    /// The file that keys are logged to cannot be opened.
    pub fn settings(&self, identity: Arc<Identity>, more: &[Cipher]) -> Result<Settings> {
        let (ciphers, allow_insecure) = self.ciphers(more);
        self.settle_level();
        Ok(Settings {
            ciphers,
            allow_insecure,
            body_len_max: BODY_LEN_MAX,
            protection: self.protecting.asked(),
            data_pass: self.data_pass(),
            executions: self.executions(),
            key_log: self.key_log()?,
            ..Settings::new(identity)
        })
    }

    /// The ciphers, and whether an insecure one is among them.
    fn ciphers(&self, more: &[Cipher]) -> (Vec<Cipher>, bool) {
        let mut ciphers = self.cipher.clone();
        if ciphers.is_empty() {
            ciphers = Cipher::DEFAULT.to_vec();
        }
        for cipher in more {
            if !ciphers.contains(cipher) {
                ciphers.push(*cipher);
            }
        }
        let insecure = ciphers.iter().any(|c| c.is_insecure());
        let chosen = ciphers.iter().filter(|cipher| !more.contains(cipher));
        for warning in chosen.filter_map(|cipher| cipher.warning()) {
            eprintln!("fusewire: warning: {warning}");
        }
        (ciphers, insecure)
    }

    /// The code of the data pass.
    fn data_pass(&self) -> DataPass {
        let execution = match self.execution {
            ExecutionChoice::Auto | ExecutionChoice::Integrated => Execution::Integrated,
            ExecutionChoice::Blocked => Execution::Blocked,
            ExecutionChoice::Sequential => Execution::Sequential,
        };
        DataPass { level: self.level(), execution }
    }

    fn level(&self) -> Level {
        self.cpu_level.unwrap_or_else(Level::detect)
    }

    /// Takes the CPU level for arrays of numbers, too, whose encoders and decoders have no way to be told each: before
    /// the first of them.
    fn settle_level(&self) {
        fusewire_codec::vectors::use_level(self.level());
    }

    /// What the model says is fastest for each cipher, if it is asked and this machine is calibrated.
    fn executions(&self) -> Executions {
        if !matches!(self.execution, ExecutionChoice::Auto) {
            return Executions::default();
        }
        match crate::machine::kept_machine() {
            Ok(Some(machine)) => self.known(&machine),
            Ok(None) => Executions::default(),
            Err(error) => {
                tracing::warn!(%error, "--execution auto: one loop");
                Executions::default()
            }
        }
    }

    fn known(&self, machine: &Machine) -> Executions {
        let level = self.level().name();
        let elements = [Swap::None, Swap::Bytes16, Swap::Bytes32, Swap::Bytes64];
        let all =
            Cipher::ALL.into_iter().flat_map(|cipher| elements.map(|element| (cipher, element)));
        Executions::new(all.filter_map(|(cipher, element)| {
            let (name, bytes) = (cipher.to_string(), element.bytes() as u32);
            let choice = choose_transform(machine, &name, bytes, level, MESSAGE_BYTES)?;
            tracing::debug!(%cipher, ?element, execution = choice.name(), "the model's choice");
            let execution = match choice {
                Implementation::Integrated => Execution::Integrated,
                Implementation::Blocked => Execution::Blocked,
                Implementation::Sequential => Execution::Sequential,
            };
            Some((cipher, element, execution))
        }))
    }

    /// Where keys are logged.
    fn key_log(&self) -> Result<Option<Arc<KeyLogFile>>> {
        let Some(path) = &self.key_log else { return Ok(None) };
        eprintln!("fusewire: warning: session keys are written to {}", path.display());
        Ok(Some(Arc::new(KeyLogFile::open(path)?)))
    }

    /// What a group is sent has its headers in the clear, and its key goes over sessions: the cipher of its records, the
    /// first of those that are asked for.
    ///
    /// # Errors
    /// Headers are to be protected; a cipher is insecure.
    pub fn check_group(&self) -> Result<Cipher> {
        if let Some(cipher) = self.cipher.iter().find(|cipher| cipher.is_insecure()) {
            let text = format!(
                "--cipher {cipher}: what a group is sent, and the sessions that its key goes over, need a cipher with tags"
            );
            return Err(Failure::new(Code::Usage, text).into());
        }
        let protecting = &self.protecting;
        let option = match (protecting.record_padding, protecting.header_protection) {
            (Some(_), _) => "--record-padding",
            (None, true) => "--header-protection",
            (None, false) => return Ok(self.cipher.first().copied().unwrap_or(Cipher::DEFAULT[0])),
        };
        let text = format!(
            "{option}: the records that a group is sent have their headers in the clear, and their lengths"
        );
        Err(Failure::new(Code::Usage, text).into())
    }

    /// What proves records without a tag.
    ///
    /// # Errors
    /// The transport has it not, or the cipher needs none.
    pub fn check(&self) -> Result<Check> {
        let (check, transport) = (self.check, self.transport);
        let what = if check == Check::Internet {
            return Ok(check);
        } else if transport != Protocol::Xtp {
            format!("needs --transport xtp, not {transport}, which has the internet checksum alone")
        } else if self.cipher.iter().all(|cipher| cipher.tag_len > 0) {
            "needs a --cipher that makes no tag: where there is one, that is the check".to_owned()
        } else {
            return Ok(check);
        };
        Err(Failure::new(Code::Usage, format!("--check {check} {what}")).into())
    }

    /// Largest UDP payload, where it is named.
    pub fn datagram_bytes(&self) -> Option<usize> {
        self.datagram_bytes.map(|n| n as usize)
    }

    /// Congestion control, where it is named.
    pub fn congestion(&self) -> Option<Algorithm> {
        self.congestion
    }

    /// What carries a group, whose packets are captured beside those of sessions: `x.group.pcapng` beside `x.pcapng`.
    ///
    /// # Errors
    /// The capture file cannot be made.
    pub fn captured_group(&self, device: Box<dyn Device>) -> Result<Box<dyn Device>> {
        let Some(path) = &self.capture else { return Ok(device) };
        let end = path.extension().unwrap_or_else(|| "pcapng".as_ref()).to_string_lossy();
        captured(device, &path.with_extension(format!("group.{end}")), fusewire_wire::xtp::NUMBER)
    }

    /// What carries the records.
    pub fn transport(&self) -> Protocol {
        self.transport
    }

    /// A stack over `device`; `probe` says when an idle connection is asked whether it lives, and
    /// `handshake_timeout` how long a handshake may take.
    ///
    /// # Errors
    /// The capture file cannot be made, or the check be had.
    pub fn stack(
        &self,
        device: Box<dyn Device>,
        probe: KeepAlive,
        handshake_timeout: Duration,
    ) -> Result<Stack> {
        let mut config = Config {
            level: self.level(),
            datagram_bytes: self.datagram_bytes.map(|n| n as usize),
            handshake_timeout,
            check: self.check()?,
            ..Config::default()
        };
        config.transport = either::Config::of_records(self.transport);
        config.transport.set_congestion(self.congestion.unwrap_or_default());
        config.transport.set_keep_alive(Some(probe));
        // The silence that both ends agreed on ends a connection before.
        config.transport.set_user_timeout(2 * SILENCE_MAX);
        let device = match &self.capture {
            Some(path) => captured(device, path, config.protocol())?,
            None => device,
        };
        let mut stack = Stack::new(device, config, &fusewire_device::random()?);
        if let Err(error) = stack.observe() {
            tracing::info!(%error, "not visible to fusewire ss");
        }
        Ok(stack)
    }
}

fn captured(device: Box<dyn Device>, path: &Path, protocol: u8) -> Result<Box<dyn Device>> {
    match Capture::to_file(device, path, protocol) {
        Ok(device) => Ok(Box::new(device)),
        Err(error) => {
            let what = format!("cannot write {}: {error}", path.display());
            Err(Failure::new(Code::Failed, what).into())
        }
    }
}

/// Reads the list that `--allow` names, and adds `own`: the user's own key is always allowed.
///
/// # Errors
/// The errors of [`AllowList::load`].
pub fn allow_list(
    path: &Path,
    own: Fingerprint,
) -> std::result::Result<AllowList, fusewire_session::Error> {
    let mut list = AllowList::load(path)?;
    if !list.contains(own) {
        list.insert(own, "own key");
    }
    Ok(list)
}

/// Returns the clients that `--allow` and `--public` admit; without either, those with the key `own`.
///
/// # Errors
/// The errors of [`allow_list`].
pub fn allow(path: Option<&Path>, public: bool, own: Fingerprint) -> Result<Allow> {
    Ok(match path {
        Some(path) => Allow::Changing(Arc::new(RwLock::new(allow_list(path, own)?))),
        None if public => Allow::Public,
        None => Allow::OwnKey,
    })
}

/// What a listener keys its sequence numbers and cookies with.
///
/// # Errors
/// The system has no randomness.
pub fn secrets() -> Result<Secrets> {
    Ok(Secrets { isn: fusewire_device::random()?, cookie: fusewire_device::random()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("256MiB"), Ok(256 << 20));
        assert_eq!(bytes("5 kB"), Ok(5_000));
        assert_eq!((bytes("1M"), bytes("2k")), (Ok(1_000_000), Ok(2_000)));
        assert_eq!(bytes("0"), Ok(0));
        for wrong in ["", "MiB", "1m", "-1", "99999999999GiB"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_have_units() {
        assert_eq!(rate("500k"), Ok(500_000));
        assert_eq!(rate("20M"), Ok(20_000_000));
        assert_eq!(rate("7"), Ok(7));
        for wrong in ["", "k", "0", "-1", "1.5M", "99999999999G", "1m"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
