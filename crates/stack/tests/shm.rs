//! Sessions over shared memory: they work, and a hostile or vanished peer breaks its own connection only.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use fusewire_device::Ecn;
use fusewire_device::shm::{Call, Shm};
use fusewire_session::{
    ClientConfig, Execution, Handshake, Identity, RecordType, Rendezvous, ServerConfig, Trust,
};
use fusewire_stack::shm::{self, Connection, Ends, Invitation, Listener};
use fusewire_stack::{Endpoint, Error, Link};
use rustix::cmsg_space;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketType, connect, recvmsg, sendmsg, socket,
};

const SOON: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(20);
/// Bytes of a file before its ring, and where the head's word lies; as `fusewire_device::shm` has them.
const CONTROL_BYTES: u64 = 1 << 16;
const HEAD_AT: u64 = 64;
const RING: u64 = 1 << 20;

fn identity() -> Arc<Identity> {
    let dir = std::env::temp_dir().join(format!("fusewire-shm-{}", std::process::id()));
    Arc::new(Identity::load_or_create(&dir.join("key")).unwrap())
}

/// What client and server know after a handshake.
fn sessions(name: &[u8], execution: Execution) -> (Rendezvous, Rendezvous) {
    let identity = identity();
    let trust = Trust::Pinned(identity.fingerprint());
    let mut config = ClientConfig::new(Arc::clone(&identity), trust);
    config.shared_memory = true;
    config.settings.data_pass.execution = execution;
    let mut client = Handshake::client(&config).unwrap();
    let mut config = ServerConfig::new(identity);
    config.shared_memory = Some(name.to_vec());
    config.settings.data_pass.execution = execution;
    let mut server = Handshake::server(&config).unwrap();
    let mut bytes = Vec::new();
    let mut done = (None, None);
    for _ in 0..4 {
        client.write(&mut bytes);
        server.read(&bytes).unwrap();
        bytes.clear();
        server.write(&mut bytes);
        client.read(&bytes).unwrap();
        bytes.clear();
        done.0 = done.0.or_else(|| client.poll());
        done.1 = done.1.or_else(|| server.poll());
    }
    let (client, server) = (done.0.unwrap(), done.1.unwrap());
    (*client.rendezvous.unwrap(), *server.rendezvous.unwrap())
}

fn ends() -> Ends {
    Ends { local: ([127, 0, 0, 1], 1).into(), peer: ([127, 0, 0, 1], 2).into() }
}

/// A client and a server that talk.
fn pair(listener: &mut Listener, execution: Execution) -> (Connection, Connection) {
    let (client, server) = sessions(listener.name(), execution);
    let _invitation = listener.invitations().invite(server, ends());
    let called = thread::spawn(move || shm::call(client, ends()).unwrap());
    let server = listener.accept(LONG).unwrap().unwrap();
    (called.join().unwrap(), server)
}

/// A pair goes on unharmed.
fn works((client, server): &mut (Connection, Connection)) {
    let mut memory = [0; 64];
    now(client.try_send(b"still here")).unwrap();
    client.flush().unwrap();
    assert_eq!(now(server.try_recv(&mut memory)).unwrap(), Some(10));
    now(server.try_send(&memory[..10])).unwrap();
    server.flush().unwrap();
    assert_eq!(now(client.try_recv(&mut memory)).unwrap(), Some(10));
    assert_eq!(&memory[..10], b"still here");
}

/// What needs no waiting for.
#[track_caller]
fn now<T>(attempt: Poll<T>) -> T {
    match attempt {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("it would wait"),
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + (i >> 8)) as u8).collect()
}

#[test]
fn adus_of_all_lengths_go_both_ways_in_every_execution() {
    let mut listener = Listener::bind().unwrap();
    for execution in [Execution::Integrated, Execution::Blocked, Execution::Sequential] {
        let (mut client, mut server) = pair(&mut listener, execution);
        let lens = [0, 1, 15, 16, 17, 1000, 65_536, 100_000, client.adu_len()];
        let echo = thread::spawn(move || {
            let mut memory = vec![0; server.adu_len()];
            while let Some(len) = server.recv_timeout(&mut memory, LONG).unwrap() {
                server.send(&memory[..len]).unwrap();
            }
            server.finish().unwrap();
        });
        let mut memory = vec![0; client.adu_len()];
        for round in 0..40 {
            let body = pattern(lens[round % lens.len()]);
            client.send(&body).unwrap();
            client.flush().unwrap();
            let len = client.recv_timeout(&mut memory, LONG).unwrap().unwrap();
            assert!(memory[..len] == body, "{execution:?}, {} bytes", body.len());
        }
        let too_long = client.adu_len() + 1;
        assert!(matches!(client.send(&vec![0; too_long]), Err(Error::TooLong { .. })));
        client.finish().unwrap();
        echo.join().unwrap();
    }
}

#[test]
fn an_endpoint_goes_on_over_shared_memory() {
    let mut listener = Listener::bind().unwrap();
    let identity = identity();
    let server = Endpoint::udp("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut config = ServerConfig::new(Arc::clone(&identity));
    config.shared_memory = Some(listener.name().to_vec());
    let door = server.listen(config).unwrap();
    let address = server.local_addr();
    let served = thread::spawn(move || {
        let mut connection = listener.go_on(door.accept().unwrap()).unwrap();
        connection.send(b"through memory").unwrap();
        connection.finish().unwrap();
        // The next one does not ask for it, and may be gone by now.
        let error = listener.go_on(door.accept().unwrap()).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::NoSharedMemory { .. } | Error::Closed), "{error}");
    });
    let trust = Trust::Pinned(identity.fingerprint());
    let mut config = ClientConfig::new(identity, trust);
    let client = Endpoint::udp("127.0.0.1:0".parse().unwrap()).unwrap();
    config.shared_memory = true;
    let mut connection = shm::go_on(client.connect(address, &config).unwrap()).unwrap();
    let mut memory = [0; 64];
    let len = connection.recv_timeout(&mut memory, LONG).unwrap().unwrap();
    assert_eq!(&memory[..len], b"through memory");
    connection.finish().unwrap();
    config.shared_memory = false;
    let connection = client.connect(address, &config).unwrap();
    assert!(shm::go_on(connection).is_err());
    served.join().unwrap();
}

// ---- who may come ------------------------------------------------------------------------------

#[test]
fn nobody_comes_in_without_the_token_and_nobody_else_is_harmed() {
    let mut listener = Listener::bind().unwrap();
    let mut others = pair(&mut listener, Execution::Integrated);
    let (client, server) = sessions(listener.name(), Execution::Integrated);
    let name = listener.name().to_vec();
    let _invitation = listener.invitations().invite(server, ends());
    // Strangers: silent ones, and more with tokens of their own than can wait.
    let silent: Vec<_> = (0..10).map(|_| stranger(&name)).collect();
    let liars: Vec<_> = (0..70)
        .map(|n| Call::new(&name, &[n; 32], &[0; 32], 1 << 16))
        .filter(Result::is_ok)
        .collect();
    assert!(listener.accept(SOON).unwrap().is_none());
    works(&mut others);
    // Whoever was invited comes in all the same.
    let called = thread::spawn(move || shm::call(client, ends()).unwrap());
    let server = listener.accept(LONG).unwrap().unwrap();
    works(&mut (called.join().unwrap(), server));
    drop((silent, liars));
}

#[test]
fn a_token_opens_once_and_only_while_the_invitation_stands() {
    let mut listener = Listener::bind().unwrap();
    let (_client, server) = sessions(listener.name(), Execution::Integrated);
    let token = server.peer_token;
    let name = listener.name().to_vec();
    let invitation = listener.invitations().invite(server, ends());
    let _first = Call::new(&name, &token, &[0; 32], 1 << 16).unwrap();
    let first = listener.accept(LONG).unwrap();
    assert!(first.is_some());
    let _again = Call::new(&name, &token, &[0; 32], 1 << 16).unwrap();
    assert!(listener.accept(SOON).unwrap().is_none());
    drop(invitation);

    let (client, server) = sessions(&name, Execution::Integrated);
    let token = client.own_token;
    drop(listener.invitations().invite(server, ends()));
    let _late = Call::new(&name, &token, &[0; 32], 1 << 16).unwrap();
    assert!(listener.accept(SOON).unwrap().is_none());
}

#[test]
fn a_client_takes_no_answer_but_its_session_s() {
    // Somebody else listens under the server's name.
    let mut impostor = fusewire_device::shm::Listener::bind().unwrap();
    let (client, _) = sessions(impostor.name(), Execution::Integrated);
    let called = thread::spawn(move || shm::call(client, ends()));
    let start = Instant::now();
    let mut caller = loop {
        match impostor.accept().unwrap() {
            Some(caller) => break caller,
            None => assert!(start.elapsed() < LONG),
        }
    };
    while caller.poll().unwrap().is_none() {}
    let _shm = caller.answer(&[7; 32], 1 << 16, ends()).unwrap();
    let error = called.join().unwrap().map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("not the session's"), "{error}");
    // And where nobody listens, it says so.
    let (mut client, _) = sessions(b"x", Execution::Integrated);
    client.name = b"fusewire-test-nobody".to_vec();
    let error = shm::call(client, ends()).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("another host"), "{error}");
}

// ---- memory that is not what it should be ------------------------------------------------------

/// Somebody who connects and says nothing.
fn stranger(name: &[u8]) -> OwnedFd {
    let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    connect(&socket, &SocketAddrUnix::new_abstract_name(name).unwrap()).unwrap();
    socket
}

/// A caller with the right token and a file of its own making. The socket, with the answer read.
fn forge(name: &[u8], token: &[u8; 32], file: &OwnedFd) -> OwnedFd {
    let socket = stranger(name);
    let mut hello = b"fwshm\0\0\x01".to_vec();
    hello.extend(token);
    hello.extend(RING.to_le_bytes());
    let files = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    sendmsg(&socket, &[IoSlice::new(&hello)], &mut control, SendFlags::empty()).unwrap();
    socket
}

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE);

/// A file with a head index and the first bytes of a ring, sealed like that.
fn file(head: u64, ring: &[u8], seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("forged", flags).unwrap();
    ftruncate(&file, CONTROL_BYTES + RING).unwrap();
    rustix::io::pwrite(&file, &head.to_le_bytes(), HEAD_AT).unwrap();
    rustix::io::pwrite(&file, ring, CONTROL_BYTES).unwrap();
    fcntl_add_seals(&file, seals).unwrap();
    file
}

#[test]
fn memory_that_its_owner_could_take_away_is_refused() {
    let mut listener = Listener::bind().unwrap();
    let mut others = pair(&mut listener, Execution::Integrated);
    for seals in [SealFlags::empty(), SealFlags::GROW, SealFlags::SHRINK | SealFlags::GROW] {
        let (client, server) = sessions(listener.name(), Execution::Integrated);
        let _invitation = listener.invitations().invite(server, ends());
        let socket = forge(listener.name(), &client.own_token, &file(0, &[], seals));
        assert!(listener.accept(SOON).unwrap().is_none());
        // It was sent away.
        let mut control = RecvAncillaryBuffer::new(&mut []);
        let mut byte = [0];
        let got =
            recvmsg(&socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::empty());
        assert_eq!(got.map_or(0, |message| message.bytes), 0);
    }
    works(&mut others);
}

#[test]
fn wrong_indices_and_lengths_end_their_connection_and_no_other() {
    let mut listener = Listener::bind().unwrap();
    let mut others = pair(&mut listener, Execution::Integrated);
    let mut frame = |head: u64, len: u32| {
        let mut ring = len.to_le_bytes().to_vec();
        ring.resize(256, 1);
        let (client, server) = sessions(listener.name(), Execution::Integrated);
        let _invitation = listener.invitations().invite(server, ends());
        let _socket = forge(listener.name(), &client.own_token, &file(head, &ring, SEALS));
        let mut connection = listener.accept(LONG).unwrap().unwrap();
        let mut memory = vec![0; 1 << 20];
        // Whatever it waits for, it waits no longer, and it stays broken.
        connection.wait(Some(LONG)).unwrap();
        let error = now(connection.try_recv(&mut memory)).unwrap_err().to_string();
        assert!(now(connection.try_recv(&mut memory)).is_err());
        assert!(memory.iter().all(|&b| b == 0), "nothing of it is shown");
        error
    };
    for head in [1, 63, RING + 64, u64::MAX, 1 << 63] {
        let error = frame(head, 48);
        assert!(error.contains("receiving over shared memory"), "{error}");
    }
    for len in [0, 113, 1 << 19, u32::MAX] {
        let error = frame(128, len);
        assert!(error.contains("receiving over shared memory"), "{error}");
    }
    for len in [1, 15, 16, 31, 32, 48, 112] {
        // Within the ring, and no record.
        frame(128, len);
    }
    works(&mut others);
}

/// A peer with the session's keys that puts what it likes into its ring.
struct Rogue {
    shm: Shm,
    session: Rendezvous,
}

fn rogue(listener: &mut Listener) -> (Rogue, Connection, Invitation) {
    let (session, server) = sessions(listener.name(), Execution::Integrated);
    let invitation = listener.invitations().invite(server, ends());
    let mut call =
        Call::new(&session.name, &session.own_token, &session.peer_token, 1 << 20).unwrap();
    let connection = listener.accept(LONG).unwrap().unwrap();
    let shm = loop {
        match call.poll(ends()).unwrap() {
            Ok(shm) => break shm,
            Err(waiting) => call = waiting,
        }
    };
    (Rogue { shm, session }, connection, invitation)
}

impl Rogue {
    fn seal(&mut self, kind: RecordType, body: &[u8]) -> Vec<u8> {
        let sender = &mut self.session.sender;
        let mut record = vec![0; sender.record_len(body.len())];
        sender.seal(sender.next_offset(), kind, body, &mut record).unwrap();
        record
    }

    fn put(&mut self, frame: &[u8]) {
        self.shm.reserve(frame.len()).unwrap().unwrap().copy_from_slice(frame);
        self.shm.commit(Ecn::NotEct);
        self.shm.publish();
    }
}

#[test]
fn forged_replayed_and_torn_records_end_their_connection_and_no_other() {
    type Trick = fn(&mut Rogue, Vec<u8>) -> Vec<Vec<u8>>;
    let tricks: [(&str, Trick); 7] = [
        ("tag", |_, mut record| {
            *record.last_mut().unwrap() ^= 1;
            vec![record]
        }),
        ("ciphertext", |_, mut record| {
            record[20] ^= 1;
            vec![record]
        }),
        ("index", |_, mut record| {
            record[15] ^= 1;
            vec![record]
        }),
        ("replay", |_, record| vec![record.clone(), record]),
        ("lost", |rogue, _| vec![rogue.seal(RecordType::Adu, b"second")]),
        ("torn", |_, record| vec![record[..40].to_vec(), record[40..].to_vec()]),
        ("two in one", |rogue, record| vec![[record, rogue.seal(RecordType::Adu, b"x")].concat()]),
    ];
    let mut listener = Listener::bind().unwrap();
    let mut others = pair(&mut listener, Execution::Integrated);
    for (what, trick) in tricks {
        let (mut rogue, mut connection, _invitation) = rogue(&mut listener);
        let record = rogue.seal(RecordType::Adu, &[9; 100]);
        let frames = trick(&mut rogue, record);
        for frame in &frames {
            rogue.put(frame);
        }
        let mut memory = [0; 256];
        if what == "replay" {
            assert_eq!(now(connection.try_recv(&mut memory)).unwrap(), Some(100));
            memory = [0; 256];
        }
        assert!(now(connection.try_recv(&mut memory)).is_err(), "{what}");
        assert_eq!(memory, [0; 256], "{what}");
        assert!(now(connection.try_recv(&mut memory)).is_err(), "{what}: it stays broken");
    }
    works(&mut others);
}

#[test]
fn a_record_after_the_end_is_not_read_and_an_adu_without_room_is_an_error() {
    let mut listener = Listener::bind().unwrap();
    let (mut rogue, mut connection, _invitation) = rogue(&mut listener);
    let (long, end) =
        (rogue.seal(RecordType::Adu, &[5; 300]), rogue.seal(RecordType::EndOfStream, &[]));
    rogue.put(&long);
    rogue.put(&end);
    rogue.put(&long);
    let mut memory = [0; 64];
    let error = now(connection.try_recv(&mut memory)).unwrap_err();
    assert!(matches!(error, Error::NoRoom { len: 300, room: 64 }), "{error}");
    assert_eq!(now(connection.try_recv(&mut memory)).unwrap(), None);
}

// ---- ends --------------------------------------------------------------------------------------

#[test]
fn a_peer_that_vanishes_is_an_error_after_what_it_sent() {
    let mut listener = Listener::bind().unwrap();
    let (mut client, server) = pair(&mut listener, Execution::Integrated);
    let mut memory = [0; 64];
    let waiting = thread::spawn(move || {
        let mut server = server;
        now(server.try_send(b"last words")).unwrap();
        server.flush().unwrap();
        // Dropped: as if the process were gone.
    });
    waiting.join().unwrap();
    assert_eq!(now(client.try_recv(&mut memory)).unwrap(), Some(10));
    client.wait(Some(LONG)).unwrap();
    let error = now(client.try_recv(&mut memory)).unwrap_err();
    assert!(
        error.to_string().contains("truncated") || error.to_string().contains("end"),
        "{error}"
    );
    // Sending does not hang either, once the ring is full.
    let full = (0..1000).find_map(|_| client.send(&[0; 60_000]).err());
    assert!(full.is_some());
    assert!(client.finish().is_err());
}

#[test]
fn a_sleeping_peer_is_woken_by_data_by_room_and_by_the_end() {
    let mut listener = Listener::bind().unwrap();
    let (mut client, mut server) = pair(&mut listener, Execution::Integrated);
    let receiver = thread::spawn(move || {
        let mut memory = vec![0; 1 << 17];
        let mut total = 0;
        loop {
            match server.try_recv(&mut memory) {
                Poll::Ready(len) => match len.unwrap() {
                    Some(len) => total += len,
                    None => break,
                },
                // The sender fills the ring and sleeps too.
                Poll::Pending => {
                    thread::sleep(Duration::from_millis(3));
                    server.wait(Some(LONG)).unwrap();
                }
            }
        }
        server.finish().unwrap();
        total
    });
    let body = vec![3; 100_000];
    for n in 0..100 {
        client.send(&body).unwrap();
        if n % 10 == 0 {
            client.flush().unwrap();
            thread::sleep(Duration::from_millis(2));
        }
    }
    client.finish().unwrap();
    assert_eq!(receiver.join().unwrap(), 100 * body.len());
}

#[test]
fn a_sender_without_room_sleeps_though_there_is_something_to_receive() {
    /// Time that this thread has had a processor for (`proc_pid_schedstat`).
    fn on_processor() -> Duration {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
    }
    let mut listener = Listener::bind().unwrap();
    let (mut client, mut server) = pair(&mut listener, Execution::Integrated);
    now(server.try_send(b"unread")).unwrap();
    server.flush().unwrap();
    let body = pattern(100_000);
    while client.try_send(&body).is_ready() {}
    let sender = thread::spawn(move || {
        let before = on_processor();
        client.send(&body).unwrap();
        (client, on_processor() - before)
    });
    thread::sleep(SOON);
    assert!(!sender.is_finished());
    let mut memory = vec![0; server.adu_len()];
    while !sender.is_finished() {
        let _ = server.recv_timeout(&mut memory, SOON);
    }
    let (mut client, busy) = sender.join().unwrap();
    assert!(busy < SOON / 4, "it was busy for {busy:?}");
    assert_eq!(now(client.try_recv(&mut memory)).unwrap(), Some(6));
}
