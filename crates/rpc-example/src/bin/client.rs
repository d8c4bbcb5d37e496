//! Calls a ledger: ADDRESS pay FROM TO CENTS, ADDRESS balance ACCOUNT, ADDRESS history ACCOUNT; over UDP with
//! `udp:` before the address.
#![forbid(unsafe_code)]

use std::net::TcpStream;

use fusewire_rpc::{Datagrams, Records, Transport};
use fusewire_rpc_example::ledger_prog::ledger_vers::Client;
use fusewire_rpc_example::{Order, Outcome};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let addr = arguments.first().ok_or("ADDRESS pay|balance|history …")?;
    let transport: Box<dyn Transport> = match addr.strip_prefix("udp:") {
        Some(addr) => Box::new(Datagrams::connect(addr.parse()?)?),
        None => Box::new(Records::new(TcpStream::connect(addr)?)),
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
