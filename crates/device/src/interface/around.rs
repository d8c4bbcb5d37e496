//! Interfaces around others: what one does not do otherwise, the other does.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::flows::Flows;
use super::{Capabilities, Change, Interface, RxPacket, Split, TxPacket, intake, relay};
use crate::Waker;

/// An interface that has another within, and does what that one does but where it says otherwise: each method is that of
/// [`Interface`].
#[expect(missing_docs, reason = "they stand in `Interface`")]
#[expect(clippy::missing_errors_doc, reason = "they stand in `Interface`")]
pub trait Around: Send {
    /// What is within.
    type Inner: Interface + ?Sized;

    /// The interface within.
    fn inner(&self) -> &Self::Inner;

    /// The same, to use it.
    fn inner_mut(&mut self) -> &mut Self::Inner;

    fn capabilities(&self) -> &Capabilities {
        self.inner().capabilities()
    }

    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        self.inner_mut().transmit(packets)
    }

    fn receive(&mut self) -> io::Result<usize> {
        self.inner_mut().receive()
    }

    fn packet(&self, index: usize) -> RxPacket<'_> {
        self.inner().packet(index)
    }

    fn receive_split(&mut self, head_len: usize, memory: [&mut [u8]; 2]) -> io::Result<Split> {
        self.inner_mut().receive_split(head_len, memory)
    }

    fn peek(&mut self) -> Option<(RxPacket<'_>, usize)> {
        self.inner_mut().peek()
    }

    fn rejoin(&mut self, memory: [&[u8]; 2]) {
        self.inner_mut().rejoin(memory);
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        self.inner_mut().wait(timeout, want_write)
    }

    fn waker(&self) -> Waker {
        self.inner().waker()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner().as_fd()
    }

    fn index(&self) -> Option<u32> {
        self.inner().index()
    }

    fn steer(&mut self, flows: &Flows) -> io::Result<()> {
        self.inner_mut().steer(flows)
    }

    fn poll_change(&mut self) -> Option<Change> {
        self.inner_mut().poll_change()
    }

    fn dropped(&self) -> u64 {
        self.inner().dropped()
    }

    fn sender(&self) -> io::Result<Box<dyn relay::Sender>> {
        self.inner().sender()
    }

    fn receiver(&mut self) -> io::Result<Box<dyn intake::Receiver>> {
        self.inner_mut().receiver()
    }

    fn queue_packets(&self) -> usize {
        self.inner().queue_packets()
    }
}

impl<A: Around> Interface for A {
    fn capabilities(&self) -> &Capabilities {
        Around::capabilities(self)
    }

    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        Around::transmit(self, packets)
    }

    fn receive(&mut self) -> io::Result<usize> {
        Around::receive(self)
    }

    fn packet(&self, index: usize) -> RxPacket<'_> {
        Around::packet(self, index)
    }

    fn receive_split(&mut self, head_len: usize, memory: [&mut [u8]; 2]) -> io::Result<Split> {
        Around::receive_split(self, head_len, memory)
    }

    fn peek(&mut self) -> Option<(RxPacket<'_>, usize)> {
        Around::peek(self)
    }

    fn rejoin(&mut self, memory: [&[u8]; 2]) {
        Around::rejoin(self, memory);
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        Around::wait(self, timeout, want_write)
    }

    fn waker(&self) -> Waker {
        Around::waker(self)
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Around::as_fd(self)
    }

    fn index(&self) -> Option<u32> {
        Around::index(self)
    }

    fn steer(&mut self, flows: &Flows) -> io::Result<()> {
        Around::steer(self, flows)
    }

    fn poll_change(&mut self) -> Option<Change> {
        Around::poll_change(self)
    }

    fn dropped(&self) -> u64 {
        Around::dropped(self)
    }

    fn sender(&self) -> io::Result<Box<dyn relay::Sender>> {
        Around::sender(self)
    }

    fn receiver(&mut self) -> io::Result<Box<dyn intake::Receiver>> {
        Around::receiver(self)
    }

    fn queue_packets(&self) -> usize {
        Around::queue_packets(self)
    }
}

impl<I: Interface + ?Sized> Around for Box<I> {
    type Inner = I;

    fn inner(&self) -> &I {
        self
    }

    fn inner_mut(&mut self) -> &mut I {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::{Config, Memory, pair};
    use super::*;

    struct Numbered(Memory);

    impl Around for Numbered {
        type Inner = Memory;

        fn inner(&self) -> &Memory {
            &self.0
        }

        fn inner_mut(&mut self) -> &mut Memory {
            &mut self.0
        }

        fn index(&self) -> Option<u32> {
            Some(7)
        }

        fn queue_packets(&self) -> usize {
            9
        }
    }

    #[test]
    fn an_interface_in_a_box_is_what_it_is_without() {
        let (inner, mut other) = pair(Config::default()).unwrap();
        let mut boxed: Box<dyn Interface> = Box::new(Box::new(Numbered(inner)));
        assert_eq!((Interface::index(&boxed), Interface::queue_packets(&boxed)), (Some(7), 9));
        let packet = TxPacket { header: &[1; 60], ..TxPacket::default() };
        assert_eq!(Interface::transmit(&mut boxed, &[packet]).unwrap(), 1);
        assert_eq!(other.receive().unwrap(), 1);
    }
}
