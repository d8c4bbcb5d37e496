//! Options of sockets: their values, and what a change of one does to a socket that the stack knows.

use std::net::SocketAddr;

use fusewire_base::Instant;
use fusewire_stack::ip::Stack;
use fusewire_stack::ip::posix::{self, Effect, Options};
use rustix::io::Errno;

use super::{Answer, Result, bind_datagrams};
use crate::protocol::{Kind, OptionName};
use crate::server::pipe::number_of;
use crate::server::table::{Listens, Socket, State};

/// The value of an option that is what was set.
pub(super) fn value_of(
    stack: &Stack,
    options: &Options,
    name: OptionName,
    is_tcp: bool,
) -> Result<Vec<u8>> {
    let (config, hops) = (stack.config(), stack.layer().config().hop_limit);
    let value = options.value((name.level, name.name), config, hops, is_tcp);
    value.map_err(Errno::from_raw_os_error)
}

/// Applies the effect of an option to a socket that the stack knows.
pub(super) fn apply(
    stack: &mut Stack,
    now: Instant,
    socket: &Socket,
    effect: Effect,
) -> Result<Answer> {
    match (effect, &socket.state) {
        (
            Effect::Tune | Effect::Push,
            State::Stream(id)
            | State::Connecting { id, .. }
            | State::Listening { to: Listens::Tcp(id), .. },
        ) => {
            socket.options.tune(stack, now, *id).map_err(number_of)?;
            if let (Effect::Push, State::Stream(id)) = (effect, &socket.state) {
                stack.tcp_machine(*id).map_err(number_of)?.push();
            }
        }
        (Effect::Marking, state) => {
            if let Some(id) = state.id() {
                stack.set_marking(id, socket.options.marking).map_err(number_of)?;
            }
        }
        (Effect::Room, State::Datagrams { id, .. }) => {
            socket.options.make_room(stack, *id).map_err(number_of)?;
        }
        _ => {}
    }
    Ok(Answer::Done)
}

/// Joins a group, or leaves it.
pub(super) fn change_membership(
    stack: &mut Stack,
    now: Instant,
    (socket, any): (&mut Socket, SocketAddr),
    (name, value): (OptionName, &[u8]),
) -> Result<Answer> {
    let (group, change) =
        posix::membership(name.level, name.name, value).map_err(Errno::from_raw_os_error)?;
    if !group.is_multicast() || socket.of.kind != Kind::Datagram {
        return Err(Errno::INVAL);
    }
    if matches!(socket.state, State::Fresh) {
        bind_datagrams(stack, socket, any)?;
    }
    let State::Datagrams { id, .. } = socket.state else { return Err(Errno::INVAL) };
    stack.udp_change_membership(now, id, group, change).map_err(number_of)?;
    Ok(Answer::Done)
}

/// Checks that a socket was not bound to another interface than the stack's (`SO_BINDTOIFINDEX`).
pub(super) fn is_here(stack: &Stack, socket: &Socket) -> Result<()> {
    socket.options.is_here(stack.interface().index()).map_err(Errno::from_raw_os_error)
}
