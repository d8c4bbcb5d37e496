//! Law 1 with marshalling as the first stage, both ways: real messages (MPDUs of X.411, as the compiler writes them)
//! through records in each syntax, with every cipher, at every level, by every execution, against records of the body
//! that was marshalled before, sealed in passes of portable code; with each check function, found the slow way.

use fusewire_base::Sum;
use fusewire_codec::ber::{self, Rules};
use fusewire_codec::pipeline::{Message, Placed};
use fusewire_codec::types::Octets;
use fusewire_codec::{lws, oer, xdr};
use fusewire_session::keys::TrafficSecret;
use fusewire_session::record::RecordParams;
use fusewire_session::{
    Check, Cipher, Cxor, DataPass, Execution, Found, Level, RecordReceiver, RecordSender,
    RecordType, Swap,
};
use p1::mpdu::MPDU;

/// A test of the compiler sees that it is up to date.
#[allow(
    dead_code,
    clippy::redundant_closure,
    clippy::upper_case_acronyms,
    reason = "all of the module, of which not all is used, by its names"
)]
mod p1 {
    include!("../../lab/src/codec/p1.rs.in");
}

const EXECUTIONS: [Execution; 3] =
    [Execution::Integrated, Execution::Blocked, Execution::Sequential];

fn sender(cipher: Cipher, data_pass: DataPass) -> RecordSender {
    let params = RecordParams::new(cipher, Swap::None, 1 << 20, data_pass);
    RecordSender::new(params, TrafficSecret::from_bytes([0x33; 32]), 0).unwrap()
}

fn receiver(cipher: Cipher, data_pass: DataPass) -> RecordReceiver {
    let params = RecordParams::new(cipher, Swap::None, 1 << 20, data_pass);
    RecordReceiver::new(params, TrafficSecret::from_bytes([0x33; 32]), 0).unwrap()
}

/// What a check finds, the slow way: beside a tag there is no CXOR.
fn slow(check: Check, cipher: Cipher, record: &[u8]) -> Found {
    match check {
        Check::Internet => Found::Sum(Sum::of(record)),
        Check::Cxor if cipher.tag_len == 0 => Found::Cxor(Cxor::of(record)),
        Check::Cxor | Check::None => Found::Nothing,
    }
}

/// The message, as often as `count` says, with so many bytes of content each.
fn messages(count: usize, content: &[u8]) -> Vec<MPDU<'_>> {
    let real = include_bytes!("../../../fuzz/mpdu.ber");
    let mut real: Vec<MPDU<'_>> = ber::from_bytes(real, Rules::Ber).unwrap();
    let MPDU::User(user) = &mut real[0];
    user.content = Octets::new(content);
    vec![real.swap_remove(0); count]
}

macro_rules! law {
    ($($test:ident: $syntax:ident $(::<$word:ty>)?;)*) => {$(
        #[test]
        fn $test() {
            let levels = Level::available();
            let content: Vec<u8> = (0..9000u32).map(|i| (i * 73 >> 3) as u8).collect();
            for (count, len) in [(0, 0), (1, 0), (1, 13), (2, 700), (7, 64), (1, 9000)] {
                let sent = messages(count, &content[..len]);
                let body = $syntax::to_vec$(::<$word, _>)?(&sent).unwrap();
                let message = Message::$syntax$(::<$word>)?(&sent).unwrap();
                for cipher in Cipher::ALL {
                    let obvious =
                        DataPass { level: Level::PORTABLE, execution: Execution::Sequential };
                    let mut apart = sender(cipher, obvious);
                    let mut wanted = vec![0; apart.record_len(body.len())];
                    let sum = apart.seal(0, RecordType::Adu, &body, &mut wanted).unwrap();
                    assert_eq!(sum, Sum::of(&wanted));
                    for (&level, check) in levels.iter().flat_map(|l| Check::ALL.map(|c| (l, c))) {
                        let sum = slow(check, cipher, &wanted);
                        for execution in EXECUTIONS {
                            let data_pass = DataPass { level, execution };
                            let at = format!("{count} of {len}, {cipher:?}, {check}, {data_pass:?}");
                            let mut record = vec![0xaa; wanted.len()];
                            let (mut sender, mut receiver) =
                                (sender(cipher, data_pass), receiver(cipher, data_pass));
                            sender.set_check(check);
                            receiver.set_check(check);
                            let found = sender.seal_message(0, &message, &mut record).unwrap();
                            assert!(record == wanted, "other bytes: {at}");
                            assert_eq!(found, sum, "{at}");
                            let mut value = None::<Vec<MPDU<'static>>>;
                            let mut placed = Placed::$syntax$(::<$word>)?(&mut value);
                            let opened = receiver
                                .open_message(0, &record, &mut placed, |s| s == sum)
                                .unwrap();
                            placed.finish().unwrap();
                            assert_eq!(opened.sum, sum, "{at}");
                            assert!(value.as_ref() == Some(&sent), "another value: {at}");
                        }
                    }
                }
            }
            println!("levels: {levels:?}");
        }
    )*};
}

law! {
    mpdus_of_lws_16: lws::<u16>;
    mpdus_of_lws_32: lws::<u32>;
    mpdus_of_lws_64: lws::<u64>;
    mpdus_of_oer: oer;
    mpdus_of_xdr: xdr;
}
