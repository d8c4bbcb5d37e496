//! An end that receives, where its session has no room, and where the group is announced from elsewhere.

use std::thread;

use super::*;
use crate::group::sender::tests::Host;

/// That it hears is said once there is room for it.
#[test]
fn what_has_no_room_is_said_again() {
    let host = Host::new();
    let mut receiver = host.come();
    host.hold(|| {
        // The session's driver may make room meanwhile, as far as the other side has some.
        while matches!(receiver.connection.try_send(&[0; 80]), Poll::Ready(Ok(()))) {
            while matches!(receiver.connection.try_send(&[0; 80]), Poll::Ready(Ok(()))) {}
            thread::sleep(Duration::from_millis(50));
        }
        receiver.ears.iter_mut().flatten().for_each(|ear| ear.hears = true);
        receiver.say_ready();
        assert!(!receiver.is_ready);
    });
}

/// Who hears the group announced from another address than its session has is told that it is so.
#[test]
fn another_address_is_named_as_the_cause() {
    let host = Host::new();
    let mut receiver = host.come();
    for ear in receiver.ears.iter_mut().flatten() {
        ear.from.0 = Ipv4Addr::new(127, 0, 0, 9).into();
    }
    let ended = receiver.recv(Some(Duration::from_secs(15)), |_, _| true);
    let is_said = |ended: &Result<_>| match ended {
        Err(Error::Group(why)) => why.contains("from another address"),
        _ => false,
    };
    assert!(is_said(&ended), "{ended:?}");
}
