//! What generated ends seal is read by who knows the modules alone (`fusewire-asn1-values`), from the bytes that come to an end which
//! hands them over as they are; and is what he would have written.

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fusewire_asn1::names::World;
use fusewire_asn1::{File, Source};
use fusewire_asn1_values::{Encoding, Limits, Schema, Syntax, notation};
use fusewire_generate::make::Chosen;
use fusewire_generate::plan::Codec;
use fusewire_generate_example::{mixed, rich, seldom};
use fusewire_service::datagram::session::{self, Heard, Session};
use fusewire_service::group::{Place, Receiver};
use fusewire_service::profile::{Adu, AduType, Machine, Network, Profile};
use fusewire_service::{Allow, Fingerprint, Identity, Stream, datagram, stream};

/// An end of another's profile that reads no values.
macro_rules! raw {
    ($name:ident($inner:ident)) => {
        struct $name<P: Profile>($inner<$name<P>>, PhantomData<P>);

        impl<P: Profile> From<$inner<$name<P>>> for $name<P> {
            fn from(end: $inner<$name<P>>) -> $name<P> {
                $name(end, PhantomData)
            }
        }

        raw!(@profile $name);
    };
    (@profile $name:ident) => {
        impl<P: Profile> Profile for $name<P> {
            const NAME: &'static str = P::NAME;
            const CLAUSES: &'static [&'static str] = P::CLAUSES;
            const MACHINE: Machine = P::MACHINE;
            const SENDS: &'static [Adu] = P::SENDS;
            const TAKES: &'static [Adu] = P::TAKES;
            const MTU: usize = P::MTU;
            const RATES: (u64, u64) = P::RATES;
            const SENDS_BESIDE: &'static [Adu] = P::SENDS_BESIDE;
            const TAKES_BESIDE: &'static [Adu] = P::TAKES_BESIDE;
            const NETWORK: Network = P::NETWORK;
            const RECEIVERS: (usize, usize) = P::RECEIVERS;
            const CAST_RATES: [u32; 2] = P::CAST_RATES;
            const CAST_BUFFERS: [usize; 2] = P::CAST_BUFFERS;
        }
    };
}

raw!(OfStream(Stream));
raw!(OfSession(Session));
struct OfGroup<P>(PhantomData<P>);
raw!(@profile OfGroup);

const LONG: Duration = Duration::from_secs(30);

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn identity() -> (Arc<Identity>, Fingerprint) {
    let identity = Arc::new(Identity::ephemeral().unwrap());
    let key = identity.fingerprint();
    (identity, key)
}

/// Reads an ADU of a specification by its number, as value notation without spaces.
fn reads(specification: &str, number: u8, body: &[u8]) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("specifications");
    let plan = Chosen::of(&folder.join(format!("{specification}.toml"))).unwrap().choice.plan;
    let adu = plan.adus.iter().find(|adu| adu.number == number).expect("a type has it");
    let (module, name) = &adu.asn1;
    let path = folder.join(format!("{module}.asn1"));
    let text = std::fs::read(&path).unwrap();
    let file = File::parse(0, Source::new(path.to_str().unwrap(), &text));
    let world = World::new([&file]);
    let mut schema = Schema::new(&world);
    let ty = schema.type_named(&format!("{module}.{name}")).unwrap();
    let encoding = match adu.codec {
        Codec::Lws => Encoding::Forward(Syntax::Lws(4)),
        Codec::Xdr => Encoding::Forward(Syntax::Xdr),
        Codec::Oer => Encoding::Forward(Syntax::Oer),
        other => panic!("no code is made of {other:?}"),
    };
    let value = encoding.decode(&schema, ty, body, Limits::default());
    let value = value.unwrap_or_else(|error| panic!("{}: {error}: {body:02x?}", adu.name));
    assert_eq!(encoding.encode(&schema, ty, &value).unwrap(), body, "{}", adu.name);
    let text = notation::to_text(&schema, &value, ty);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn of_a_stream_and_its_calls() {
    let (identity, key) = identity();
    let listener = stream::Listener::<OfStream<rich::Keeper>>::bind(
        loopback(),
        identity.clone(),
        Allow::OwnKey,
    );
    let listener = listener.unwrap();
    let at = listener.local_addr();
    let asking = identity.clone();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut asker = rich::Asker::connect(at, asking, key).unwrap();
            let text = "it runs".try_into().expect("UTF-8");
            asker
                .send_part(&rich::Part { offset: 70_000, bytes: b"\x00\xff\x10"[..].into() })
                .unwrap();
            asker.send_note(&rich::Note { text }).unwrap();
            asker.send_whole(&rich::Name { name: 65_535 }).unwrap();
            assert_eq!(asker.ask_ask(&rich::Name { name: 9 }).unwrap().offset, 5);
            asker.finish().unwrap();
        });
        let OfStream(mut keeper, _) = listener.accept().unwrap();
        for expected in
            ["{ offset 70000, bytes '00FF10'H }", "{ text \"it runs\" }", "{ name 65535 }"]
        {
            let (number, body) = keeper.receiving.recv().unwrap().expect("it comes");
            assert_eq!(reads("rich", number, body), expected);
        }
        let (number, body, answer) = keeper.receiving.next_call().unwrap().expect("it asks");
        assert_eq!(reads("rich", number, body), "{ name 9 }");
        let found = rich::Part { offset: 5, bytes: b""[..].into() };
        answer.send::<rich::adu::Found, _>(&found).unwrap();
        keeper.receiving.finish().unwrap();
    });
    // The other way round: the answer of a generated end.
    let listener = rich::Keeper::listen(loopback(), identity.clone(), Allow::OwnKey).unwrap();
    let at = listener.local_addr();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut keeper = listener.accept().unwrap();
            let rich::AskKeeper::Ask(_, answer) = keeper.next_call().unwrap().expect("it asks");
            answer.send(&rich::Part { offset: 1, bytes: b"four"[..].into() }).unwrap();
            keeper.finish().unwrap();
        });
        let OfStream(mut asker, _) =
            stream::connect::<OfStream<rich::Asker>>(at, identity, key).unwrap();
        let found = asker.sending.call::<rich::adu::Ask, _>(&rich::Name { name: 9 }).unwrap();
        let number = <rich::adu::Found as AduType>::ADU.number;
        assert_eq!(reads("rich", number, found), "{ offset 1, bytes '666F7572'H }");
        asker.sending.finish();
        asker.receiving.finish().unwrap();
    });
}

#[test]
fn of_datagrams_and_what_is_beside() {
    let (identity, key) = identity();
    let listener = datagram::session::Listener::<OfSession<mixed::Player>>::bind(
        loopback(),
        identity.clone(),
        Allow::OwnKey,
    );
    let listener = listener.unwrap();
    let at = listener.local_addr();
    let opening = thread::spawn(move || session_of(at, identity, key));
    let OfSession(mut player, _) = listener.accept().unwrap();
    let mut game = opening.join().unwrap();
    let state = mixed::State { time: 4_000_000_000, places: vec![-100_000, 0, 100_000] };
    game.send_state(&state).unwrap();
    game.send_event(&mixed::Event { time: 3, what: 65_535 }).unwrap();
    let (mut seen, until) = (Vec::new(), Instant::now() + LONG);
    while seen.len() < 2 && Instant::now() < until {
        game.recv(Duration::from_millis(1)).unwrap();
        let (number, body) = match player.recv(Duration::from_millis(1)).unwrap() {
            Some(Heard::Adu(lane, body, _)) => (mixed::Player::TAKES[lane].number, body),
            Some(Heard::Beside(number, body, _)) => (number, body),
            _ => continue,
        };
        seen.push(reads("mixed", number, body));
    }
    seen.sort();
    let places = "{ time 4000000000, places { -100000, 0, 100000 } }";
    assert_eq!(seen, ["{ time 3, what 65535 }", places]);
}

fn session_of(at: SocketAddr, identity: Arc<Identity>, key: Fingerprint) -> mixed::Game {
    session::connect::<mixed::Game>(at, identity, key).unwrap()
}

#[test]
fn of_a_group() {
    let (identity, key) = identity();
    let port = 30_000 + std::process::id() as u16 % 15_000 * 2;
    let place = Place::new(loopback(), ([239, 255, 19, 7], port).into());
    let place = Place { interface: Some("lo".into()), ..place };
    let station = seldom::Station::open(&place, identity.clone(), Allow::OwnKey).unwrap();
    let at = station.local_addr();
    let joining = thread::spawn(move || {
        let mut desk =
            Receiver::<OfGroup<seldom::Desk>>::join(at, Some("lo"), identity, key).unwrap();
        let mut seen = Vec::new();
        while let Some((number, body)) = desk.recv(Some(LONG), |_, _| true).unwrap() {
            seen.push(reads("seldom", number, body));
        }
        seen.sort();
        seen
    });
    station.wait_for_receivers(LONG).unwrap();
    assert!(station.send_level(&seldom::Level { gauge: 7, millimetres: 65_535 }).unwrap());
    assert!(station.send_flood(&seldom::Flood(b"high"[..].into())).unwrap());
    station.finish(LONG).unwrap();
    let level = "{ gauge 7, millimetres 65535 }";
    assert_eq!(joining.join().unwrap(), ["'68696768'H", level]);
}
