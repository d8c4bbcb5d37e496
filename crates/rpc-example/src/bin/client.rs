//! Calls a ledger: ADDRESS pay FROM TO CENTS, ADDRESS balance ACCOUNT, ADDRESS history ACCOUNT; over UDP with
//! `udp:` before the address, and with `xtp:` over XTP, by the key that the variable LEDGER_KEY names.
#![forbid(unsafe_code)]

use std::net::TcpStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use fusewire_rpc::{Datagrams, Records, Transactions, Transport};
use fusewire_rpc_example::ledger_prog::ledger_vers::Client;
use fusewire_rpc_example::{Order, Outcome, over_xtp};
use fusewire_session::{ClientConfig, Identity, Trust};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ledger-client: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let addr = arguments.first().ok_or("ADDRESS pay|balance|history …")?;
    let transport: Box<dyn Transport> = match addr.split_once(':') {
        Some(("udp", addr)) => Box::new(Datagrams::connect(addr.parse()?)?),
        Some(("xtp", addr)) => Box::new(transactions(addr)?),
        _ => Box::new(Records::new(TcpStream::connect(addr)?)),
    };
    let mut ledger = Client::new(transport);
    let words: Vec<&str> = arguments[1..].iter().map(String::as_str).collect();
    match words[..] {
        ["pay", from, to, cents] => {
            let order = Order { from: from.into(), to: to.into(), cents: cents.parse()? };
            match ledger.pay(&order)? {
                Outcome::True(number) => println!("payment {number}"),
                Outcome::False(why) => println!("refused: {why:?}"),
            }
        }
        ["balance", account] => println!("{}", ledger.balance(account)?),
        ["history", account] => {
            for payment in ledger.history(account)? {
                println!("{} {} {}", payment.from, payment.to, payment.cents);
            }
        }
        _ => return Err("ADDRESS pay FROM TO CENTS, balance ACCOUNT or history ACCOUNT".into()),
    }
    Ok(())
}

/// Calls to a server that has the same key.
fn transactions(addr: &str) -> Result<Transactions, Box<dyn std::error::Error>> {
    let key = std::env::var_os("LEDGER_KEY").ok_or("LEDGER_KEY names the file of the key")?;
    let identity = Arc::new(Identity::load_or_create(Path::new(&key))?);
    let trust = Trust::Pinned(identity.fingerprint());
    let endpoint = over_xtp("0.0.0.0:0".parse()?)?;
    let connection = endpoint.connect(addr.parse()?, &ClientConfig::new(identity, trust))?;
    Ok(Transactions::client(connection)?)
}
