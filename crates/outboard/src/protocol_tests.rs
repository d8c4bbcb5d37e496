//! Messages come back as they went, and nothing else is one.

use super::*;

const HANDLE: Handle = Handle { socket: 7 << 32 | 3, token: [9; 16] };
const OF: SocketType = SocketType { family: Family::V6, kind: Kind::Datagram };
const NAME: OptionName = OptionName { level: 6, name: -11 };

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn requests() -> Vec<Request<'static>> {
    vec![
        Request::Hello { version: VERSION },
        Request::Socket(OF),
        Request::Attach,
        Request::Bind(HANDLE, addr("10.0.0.1:80")),
        Request::Listen(HANDLE, 4096),
        Request::Connect(HANDLE, Some(addr("[fd00::1%7]:443"))),
        Request::Connect(HANDLE, None),
        Request::Local(HANDLE),
        Request::Peer(HANDLE),
        Request::Option(HANDLE, NAME),
        Request::SetOption(HANDLE, NAME, &[5; VALUE_MAX]),
        Request::Region,
        Request::Lease(HANDLE, [6; KEY_LEN]),
        Request::Wake,
        Request::Commands,
    ]
}

#[test]
fn requests_come_back_as_they_went_and_no_shorter_or_longer() {
    for request in requests() {
        let bytes = request.emit();
        assert_eq!(Request::parse(&bytes), Ok(request));
        for len in 0..bytes.len() {
            let cut = Request::parse(&bytes[..len]);
            let is_option = matches!(request, Request::SetOption(..)) && len >= 40;
            assert_eq!(cut.is_ok(), is_option, "{request:?} of {len} bytes");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(Request::parse(&longer).is_err(), "{request:?}");
        let mut odd = bytes.to_vec();
        odd[2] = 1;
        assert!(Request::parse(&odd).is_err(), "{request:?}");
    }
    assert!(Request::parse(&[0xff; 32]).is_err());
}

#[test]
fn answers_come_back_as_they_went() {
    let mut list = Vec::new();
    let all = [("10.0.0.1".parse().unwrap(), 24), ("fd00::2".parse().unwrap(), 64)];
    emit_addresses(all.into_iter(), &mut list);
    let addresses = Addresses::parse(&list).unwrap();
    assert!(addresses.iter().eq(all));
    for reply in [
        Reply::Failed(111),
        Reply::Done,
        Reply::Welcome { instance: 77, interface: 3, addresses },
        Reply::Opened(HANDLE, OF),
        Reply::Address(None),
        Reply::Address(Some(addr("192.0.2.1:9"))),
        Reply::Value(&[1, 2, 3]),
        Reply::Region([6; KEY_LEN]),
        Reply::Leased(63),
        Reply::Commands,
    ] {
        let bytes = reply.emit();
        assert_eq!(Reply::parse(&bytes), Ok(reply));
        (0..32).for_each(|len| assert!(Reply::parse(&bytes[..len]).is_err()));
    }
    assert!(Reply::parse(&Message::new(answer::FAILED, 0, &NOBODY)).is_err());
    list[1] = 33;
    assert!(Addresses::parse(&list).is_err());
}

#[test]
fn an_address_has_a_version_and_nothing_beside_it() {
    let good = emit_address(Some(addr("10.0.0.1:80")));
    assert_eq!(parse_address(&good), Ok(Some(addr("10.0.0.1:80"))));
    for (at, byte) in [(0, 5), (0, 0), (1, 8), (4, 1), (12, 1), (23, 1)] {
        let mut bad = good;
        bad[at] = byte;
        assert!(parse_address(&bad).is_err(), "byte {at}");
    }
}

#[test]
fn offers_and_verdicts_come_back() {
    let offer = Offer { handle: HANDLE, peer: addr("10.0.0.2:5"), local: addr("10.0.0.1:80") };
    assert_eq!(Offer::parse(&offer.emit()), Ok(offer));
    assert!(Offer::parse(&[0; OFFER_LEN]).is_err());
    for verdict in [Verdict::Taken(HANDLE), Verdict::Lost(HANDLE)] {
        assert_eq!(Verdict::parse(&verdict.emit()), Ok(verdict));
    }
    assert!(Verdict::parse(&[0; VERDICT_LEN]).is_err());
}

#[test]
fn names_say_of_whom_they_are() {
    let name = name(0x0123_4567_89ab_cdef, 42);
    assert_eq!(name, *b"fusewire/0123456789abcdef/000000000000002a");
    assert_eq!(parse_name(&name), Some((0x0123_4567_89ab_cdef, 42)));
    for wrong in [&name[1..], &name[..41], b"fusewire/0123456789abcdeF/000000000000002a"] {
        assert_eq!(parse_name(wrong), None);
    }
}

#[test]
fn a_token_is_not_printed() {
    assert_eq!(format!("{HANDLE:?}"), "Handle(700000003)");
}
