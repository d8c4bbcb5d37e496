//! What a reader of a stream is told who comes late, whose peer has reset it, or whose memory is too short.

use std::io::ErrorKind;
use std::task::Poll;
use std::time::Duration;

use fusewire_kernels::stages::Swap;
use fusewire_stack::ip::{Config, Error, Framing, TcpConfig};

use crate::host::{at, hosts};
use crate::net::{Net, kinds, pattern};
use crate::tcp::connected;

/// The window is full of the first part of a message when its reader comes: the peer hears at once that it is wider now, and
/// no probe has to ask.
#[test]
fn a_late_reader_of_a_long_message_is_not_waited_for() {
    for kind in kinds() {
        let tcp = TcpConfig { initial_recv_window: 20_000, ..TcpConfig::default() };
        let mut net = Net::new(kind, 1500, Config { tcp, ..Config::default() });
        let (client, server) = connected(&mut net, 80);
        let sent = pattern(3, 0, 40_000);
        assert_eq!(net.stacks[0].tcp_write(client, &sent), Ok(sent.len()));
        net.run(Duration::from_millis(100));
        let waits = net.stacks[1].tcp_room(server).unwrap().0;
        assert!(waits < sent.len(), "{kind:?}: all of it fits");
        let (each, mut message) = (Framing::Each(sent.len()), Vec::new());
        let polled = net.stacks[1].tcp_read_message(server, each, &mut message);
        assert_eq!(polled, Ok(Poll::Pending), "{kind:?}");
        // The clock stands still.
        net.settle();
        let now_waits = net.stacks[1].tcp_room(server).unwrap().0;
        assert!(now_waits > waits, "{kind:?}: the peer was not told");
        net.run(Duration::from_millis(100));
        let polled = net.stacks[1].tcp_read_message(server, each, &mut message);
        assert_eq!(polled, Ok(Poll::Ready(Some(sent.len()))), "{kind:?}");
        assert!(message == sent, "{kind:?}");
    }
}

/// Half a word before a reset is no last one: the stream was cut off.
#[test]
fn a_reset_within_a_word_is_not_the_end() {
    for kind in kinds() {
        for resets in [true, false] {
            let mut net = Net::new(kind, 1500, Config::default());
            let (client, server) = connected(&mut net, 80);
            net.stacks[0].tcp_write(client, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).unwrap();
            net.settle();
            match resets {
                true => net.stacks[0].abort(net.now, client).unwrap(),
                false => net.stacks[0].tcp_finish(client).unwrap(),
            }
            net.settle();
            let (stack, mut word) = (&mut net.stacks[1], [0; 8]);
            assert_eq!(stack.tcp_read_with(server, &Swap::<8>, &mut word), Ok(Some(8)));
            assert_eq!(word, [8, 7, 6, 5, 4, 3, 2, 1]);
            let rest = stack.tcp_read_with(server, &Swap::<8>, &mut word);
            match resets {
                true => assert_eq!(rest, Err(Error::Reset), "{kind:?}"),
                false => assert_eq!((rest, &word[..2]), (Ok(Some(2)), &[9, 10][..]), "{kind:?}"),
            }
        }
    }
}

/// Memory for less than a block is an error for who asks and for a task, and takes nothing.
#[test]
fn memory_for_less_than_a_block_is_told() {
    let mut net = Net::new(kinds()[0], 1500, Config::default());
    let (client, server) = connected(&mut net, 80);
    net.stacks[0].tcp_write(client, &[1, 2, 3, 4]).unwrap();
    net.settle();
    for len in 0..4 {
        let (stack, memory) = (&mut net.stacks[1], &mut [0; 4][..len]);
        let read = stack.tcp_read_with(server, &Swap::<4>, memory);
        assert!(matches!(read, Err(Error::Misuse(_))), "{len}: {read:?}");
        assert!(memory.iter().all(|byte| *byte == 0));
    }
    let mut word = [0; 4];
    assert_eq!(net.stacks[1].tcp_read_with(server, &Swap::<4>, &mut word), Ok(Some(4)));
    assert_eq!(word, [4, 3, 2, 1]);

    let [ours, theirs] = hosts();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let listener = theirs.tcp_listen(at(1, 9), 1).unwrap();
        let client = fusewire_stack::ip::AsyncTcpStream::connect(&ours, at(1, 9)).await.unwrap();
        let (server, _) = listener.accept_async().await.unwrap();
        client.send_with(&Swap::<4>, &[1, 2, 3, 4]).await.unwrap();
        let short = server.recv_with(&Swap::<4>, &mut [0; 3]).await.map_err(|e| e.kind());
        assert_eq!(short, Err(ErrorKind::InvalidInput));
        let mut word = [0; 4];
        assert_eq!(server.recv_with(&Swap::<4>, &mut word).await.unwrap(), 4);
        assert_eq!(word, [1, 2, 3, 4]);
    });
}
