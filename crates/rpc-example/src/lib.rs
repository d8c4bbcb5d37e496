//! What a crate does that speaks a protocol of ONC RPC: `build.rs` compiles `x/ledger.x`, this includes what
//! came of it and says what a server does. `ledger-server` serves it over TCP and UDP, and with a key file encrypted over
//! XTP, to who has the same key: a call and its reply in a packet each. `ledger-client` calls it.
//!
//! ```text
//! cargo run -p fusewire-rpc-example --bin ledger-server -- 127.0.0.1:4004 key
//! cargo run -p fusewire-rpc-example --bin ledger-client -- 127.0.0.1:4004 pay bank ada 1200
//! LEDGER_KEY=key cargo run -p fusewire-rpc-example --bin ledger-client -- xtp:127.0.0.1:PORT balance ada
//! ```
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use fusewire_device::udp::{self, Udp};
use fusewire_rpc::{Call, Fault};
use fusewire_stack::transport::{Config as Transport, Protocol};
use fusewire_stack::{Config, Endpoint, Error};

include!(concat!(env!("OUT_DIR"), "/ledger.rs"));

/// The account that has what all the others owe: it may go below zero.
pub const BANK: &str = "bank";

/// An endpoint whose connections go over XTP, which has calls beside their streams.
///
/// # Errors
/// The address cannot be bound.
pub fn over_xtp(addr: SocketAddr) -> Result<Endpoint, Error> {
    let device =
        Udp::bind(addr, &udp::Config::default()).map_err(Error::os("binding the UDP socket"))?;
    let config = Config { transport: Transport::of_records(Protocol::Xtp), ..Config::default() };
    Endpoint::new(Box::new(device), config)
}

/// What the server keeps.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    balances: HashMap<String, i64>,
    payments: Vec<Payment>,
}

impl ledger_prog::ledger_vers::Server for Ledger {
    fn pay(&self, _: &Call<'_>, order: Order) -> Result<Outcome, Fault> {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(cents) = i64::try_from(order.cents) else {
            return Ok(Outcome::False(Refusal::NotEnough));
        };
        let balance = match book.balances.get(&order.from) {
            Some(balance) => *balance,
            None if order.from == BANK => 0,
            None => return Ok(Outcome::False(Refusal::NoSuchAccount)),
        };
        if order.from != BANK && balance < cents {
            return Ok(Outcome::False(Refusal::NotEnough));
        }
        let after = balance.checked_sub(cents).ok_or(Fault::System)?;
        book.balances.insert(order.from.clone(), after);
        let to = book.balances.entry(order.to.clone()).or_default();
        *to = to.checked_add(cents).ok_or(Fault::System)?;
        book.payments.push(Payment { from: order.from, to: order.to, cents: order.cents });
        Ok(Outcome::True(book.payments.len() as u32))
    }

    fn balance(&self, _: &Call<'_>, account: Account) -> Result<i64, Fault> {
        let book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(book.balances.get(&account).copied().unwrap_or(0))
    }

    fn history(&self, _: &Call<'_>, account: Account) -> Result<Payments, Fault> {
        let book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |p: &&Payment| p.from == account || p.to == account;
        Ok(book.payments.iter().filter(of).cloned().collect())
    }
}
