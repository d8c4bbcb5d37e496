//! Devices around devices: what they leave to the one within.

/// Methods of [`Device`](crate::Device) as another device does them: in an implementation,
/// `forward!(self => self.inner; caps waker)`.
#[macro_export]
macro_rules! forward {
    (@caps $self:ident $to:expr) => {
        fn caps(&$self) -> &$crate::Capabilities { $to.caps() }
    };
    (@local_addr $self:ident $to:expr) => {
        fn local_addr(&$self) -> ::std::net::SocketAddr { $to.local_addr() }
    };
    (@named $self:ident $to:expr) => {
        fn named(&$self, peer: ::std::net::SocketAddr) -> ::std::net::SocketAddr { $to.named(peer) }
    };
    (@transmit $self:ident $to:expr) => {
        fn transmit(&mut $self, frames: &[$crate::TxFrame<'_>]) -> ::std::io::Result<usize> {
            $to.transmit(frames)
        }
    };
    (@transmit_from $self:ident $to:expr) => {
        fn transmit_from(
            &mut $self,
            region: &$crate::Region,
            frames: &[$crate::TxFrame<'_>],
        ) -> ::std::io::Result<usize> {
            $to.transmit_from(region, frames)
        }
    };
    (@region $self:ident $to:expr) => {
        fn region(&$self, len: usize) -> $crate::Region { $to.region(len) }
    };
    (@takes_memory $self:ident $to:expr) => {
        fn takes_memory(&$self, peer: ::std::net::SocketAddr) -> bool { $to.takes_memory(peer) }
    };
    (@receive $self:ident $to:expr) => {
        fn receive(&mut $self, batch: &mut $crate::RxBatch) -> ::std::io::Result<usize> {
            $to.receive(batch)
        }
    };
    (@wait $self:ident $to:expr) => {
        fn wait(
            &mut $self,
            timeout: Option<::std::time::Duration>,
            want_write: bool,
        ) -> ::std::io::Result<bool> {
            $to.wait(timeout, want_write)
        }
    };
    (@next_timeout $self:ident $to:expr) => {
        fn next_timeout(&$self) -> Option<::std::time::Duration> { $to.next_timeout() }
    };
    (@waker $self:ident $to:expr) => {
        fn waker(&$self) -> $crate::Waker { $to.waker() }
    };
    (@as_fd $self:ident $to:expr) => {
        fn as_fd(&$self) -> Option<::std::os::fd::BorrowedFd<'_>> { $to.as_fd() }
    };
    (@drops $self:ident $to:expr) => {
        fn drops(&$self) -> Vec<(&'static str, u64)> { $to.drops() }
    };
    (@poll_event $self:ident $to:expr) => {
        fn poll_event(&mut $self) -> Option<$crate::Event> { $to.poll_event() }
    };
    ($self:ident => $to:expr; $($method:ident)+) => {
        $($crate::forward!(@$method $self $to);)+
    };
}
