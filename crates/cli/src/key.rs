//! `fusewire key …`.

use clap::Subcommand;
use fusewire_session::{Identity, KnownHosts, paths};

use crate::output::{Code, Failure, Result, printable};
use crate::url::known_host;

/// Your own key, and those of servers.
#[derive(Subcommand)]
pub enum Key {
    /// Prints the fingerprint of your key, which is made on first use.
    Show {
        /// The servers that you trust, too.
        #[arg(long)]
        hosts: bool,
    },
    /// Replaces your key. Servers that allow the old one must be told; servers of yours get a new fingerprint.
    Rotate,
    /// Forgets the key of a server, so that the next connection asks again.
    Forget {
        /// host or host:port.
        host: String,
    },
}

/// Runs it.
pub fn run(key: &Key) -> Result {
    let paths = paths()?;
    match key {
        Key::Show { hosts } => {
            println!("{}", Identity::load_or_create(&paths.identity)?.fingerprint());
            if *hosts {
                for (host, fingerprint) in KnownHosts::load(&paths.known_hosts)?.entries() {
                    println!("{} {fingerprint}", printable(host));
                }
            }
        }
        Key::Rotate => {
            // The first use is no rotation, but gives what was asked for.
            let identity = match paths.identity.exists() {
                true => Identity::rotate(&paths.identity)?,
                false => Identity::load_or_create(&paths.identity)?,
            };
            println!("{}", identity.fingerprint());
        }
        Key::Forget { host } => {
            let host = known_host(host).map_err(|error| Failure::new(Code::Usage, error))?;
            if !KnownHosts::forget(&paths.known_hosts, &host)? {
                return Err(Failure::new(Code::Failed, format!("{host} was not known")).into());
            }
        }
    }
    Ok(())
}
