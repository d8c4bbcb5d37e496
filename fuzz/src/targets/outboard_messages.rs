//! What an application and an outboard say to each other, read by the other: whatever comes is refused, or is what its
//! bytes say and nothing beside.
use fusewire_outboard::protocol::{
    ABOUT_LEN, About, Ancillary, Family, HEADING_LEN, Handle, Heading, Kind, OFFER_LEN, Offer,
    OptionName, Reply, Request, SocketType, VERDICT_LEN, Verdict, ancillary, name, parse_name,
};
use fusewire_outboard::record::{HEAD_LEN, Head, MESSAGE_MAX};

/// Runs one input.
pub fn run(data: &[u8]) {
    if let Ok(request) = Request::parse(data) {
        assert_eq!(request.emit()[..], *data, "{request:?}");
    }
    if let Ok(reply) = Reply::parse(data) {
        assert_eq!(reply.emit()[..], *data, "{reply:?}");
        assert!(Request::parse(data).is_err(), "{reply:?} is no request");
        if let Reply::Welcome { addresses, .. } = reply {
            for (address, len) in addresses.iter() {
                assert!(len <= if address.is_ipv4() { 32 } else { 128 });
            }
        }
    }
    if let Some(bytes) = data.first_chunk::<OFFER_LEN>()
        && let Ok(offer) = Offer::parse(bytes)
    {
        assert_eq!(offer.emit(), *bytes);
    }
    if let Some(bytes) = data.first_chunk::<VERDICT_LEN>()
        && let Ok(verdict) = Verdict::parse(bytes)
    {
        assert_eq!(verdict.emit(), *bytes);
    }
    if let Some(bytes) = data.first_chunk::<ABOUT_LEN>()
        && let Ok(about) = About::parse(bytes)
    {
        assert_eq!(about.emit(), *bytes);
    }
    if let Some((first, second)) = data.split_first_chunk::<HEAD_LEN>()
        && let Ok(head) = Head::parse(first, || second.first_chunk().copied().unwrap_or_default())
    {
        let (laid, len) = (head.emit(), head.head_len().min(data.len()));
        assert!(head.len <= MESSAGE_MAX && laid[..len] == data[..len]);
    }
    if let Some(bytes) = data.first_chunk::<HEADING_LEN>()
        && let Ok(heading) = Heading::parse(bytes)
    {
        assert_eq!(heading.emit(), *bytes);
    }
    for is_v6 in [false, true] {
        let Ok(beside) = ancillary::parse(data, is_v6) else { continue };
        let (told, mut out) = (Ancillary { as_v4: true, as_v6: is_v6, ..beside }, [0; 128]);
        let (len, is_cut) = ancillary::emit(&told, is_v6, &mut out);
        assert!(!is_cut && ancillary::parse(&out[..len], is_v6).is_ok());
    }
    if let Some((instance, socket)) = parse_name(data) {
        assert_eq!(name(instance, socket), *data);
    }
}

/// One of each message.
pub fn seeds() -> Vec<Vec<u8>> {
    let handle = Handle { socket: 3, token: [7; 16] };
    let of = SocketType { family: Family::V6, kind: Kind::Datagram };
    let (peer, local) = (([192, 0, 2, 1], 80).into(), ([192, 0, 2, 2], 81).into());
    let option = OptionName { level: 6, name: 1 };
    let requests = [
        Request::Hello { version: 1 },
        Request::Socket(of),
        Request::Attach,
        Request::Bind(handle, "[fd00::1]:80".parse().expect("an address")),
        Request::Listen(handle, 128),
        Request::Connect(handle, Some(peer)),
        Request::Connect(handle, None),
        Request::Local(handle),
        Request::Peer(handle),
        Request::Option(handle, option),
        Request::SetOption(handle, option, &[1, 0, 0, 0]),
    ];
    let replies = [
        Reply::Failed(111),
        Reply::Done,
        Reply::Opened(handle, of),
        Reply::Address(Some(peer)),
        Reply::Address(None),
        Reply::Value(b"reno"),
    ];
    let mut all: Vec<Vec<u8>> = requests.iter().map(|request| request.emit().to_vec()).collect();
    all.extend(replies.iter().map(|reply| reply.emit().to_vec()));
    all.push(Offer { handle, peer, local }.emit().to_vec());
    all.push(Verdict::Taken(handle).emit().to_vec());
    all.push(Verdict::Lost(handle).emit().to_vec());
    all.push(name(1, 2).to_vec());
    let beside = Ancillary {
        local: Some(local.ip()),
        interface: 2,
        traffic_class: Some(0),
        hop_limit: Some(64),
        is_shared: true,
        as_v4: true,
        as_v6: true,
    };
    for beside in [beside, Ancillary::default()] {
        let heading = Heading { address: Some(peer), beside };
        all.push(heading.emit().to_vec());
        all.push(Head { len: 1400, heading }.emit().to_vec());
        let mut items = vec![0; 128];
        let (len, _) = ancillary::emit(&beside, false, &mut items);
        items.truncate(len);
        all.push(items);
    }
    all.push(About { tag: Some(7), sort: Some(1), is_broken: true }.emit().to_vec());
    all
}
