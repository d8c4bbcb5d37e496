//! `io_uring`: a receive that is asked for once and puts datagrams into buffers of ours, and sends of which one call
//! submits many.
//!
//! ```text
//! buffers ──provided──▶ kernel ──a datagram, with its name and control──▶ completion ──▶ the batch's slot
//!    ▲                                                                                     │ its memory
//!    └──────────────────────────────── exchanged, not copied ──────────────────────────────┘
//! ```

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, Ordering};

use fusewire_base::Lines;
use io_uring::types::{BufRingEntry, CancelBuilder, Fd, RecvMsgOut};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::mmsg::{Control, MAX_MESSAGES, Messages, Run, describe_control, read_name};
use crate::batch::{Filled, SLOT_BYTES};
use crate::{Ecn, Region, RxBatch, TxFrame};

/// Buffers that the kernel may fill at a time, a power of two: as many as stay in a second-level cache.
const BUFFERS: u16 = 16;
/// Bytes of each: a datagram, and before it what the kernel says of it.
const BUFFER_BYTES: usize = SLOT_BYTES + 4096;
const NAME_BYTES: usize = size_of::<libc::sockaddr_in6>();
const CONTROL_BYTES: usize = 96;
/// Our only group of buffers.
const GROUP: u16 = 0;
/// The receive, among completions; sends are counted from 1.
const RECEIVE: u64 = 0;
/// Sends say afterwards whether the kernel copied after all (`IORING_SEND_ZC_REPORT_USAGE`), so
/// (`IORING_NOTIF_USAGE_ZC_COPIED`).
const REPORT_USAGE: u16 = 8;
const COPIED: u32 = 1 << 31;

/// A ring, with one multishot receive on one socket.
pub(crate) struct Ring {
    ring: IoUring,
    provided: Provided,
    /// Buffer `i` is the kernel's from when it is provided until a completion names it.
    buffers: Box<[Lines]>,
    /// What the receive is asked with: lengths alone count.
    template: Box<libc::msghdr>,
    /// The receive has not ended.
    is_armed: bool,
    /// Datagrams that have come and were not taken: buffer, bytes.
    arrived: VecDeque<(u16, usize)>,
    /// What ended the last receive.
    error: Option<i32>,
    /// Results of the sends that were submitted together.
    results: [Option<i32>; MAX_MESSAGES],
    /// Sends without a copy that the kernel has copied after all.
    pub copied: u64,
    /// Nothing may be submitted any more: entries that were not taken describe memory that is gone.
    is_broken: bool,
}

// SAFETY: the pointers in `template` are null, and those in the ring's entries are dead when a call ends.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring, if the kernel gives one with all that is needed: Linux 6.1, and no rule against it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new() -> io::Result<Ring> {
        let entries = (MAX_MESSAGES as u32 + 1).next_power_of_two();
        let ring = IoUring::builder()
            .setup_cqsize(8 * entries)
            .setup_coop_taskrun()
            .setup_taskrun_flag()
            .build(entries)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::SendMsgZc::CODE) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "it cannot send without a copy",
            ));
        }
        // SAFETY: a C structure of integers and pointers, for which zero is valid.
        let mut template: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        template.msg_namelen = NAME_BYTES as libc::socklen_t;
        template.msg_controllen = CONTROL_BYTES;
        let provided = Provided::new()?;
        // SAFETY: the entries lie in pages of their own that live as long as the ring: `Ring::drop` takes them back
        // from the kernel first, or leaks them.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(
                provided.entries.as_ptr() as u64,
                BUFFERS,
                GROUP,
                0,
            )?;
        }
        let mut ring = Ring {
            ring,
            provided,
            buffers: (0..BUFFERS).map(|_| Lines::new(BUFFER_BYTES)).collect(),
            template: Box::new(template),
            is_armed: false,
            arrived: VecDeque::with_capacity(BUFFERS.into()),
            error: None,
            results: [None; MAX_MESSAGES],
            copied: 0,
            is_broken: false,
        };
        for at in 0..BUFFERS {
            ring.provided.give(at, &mut ring.buffers[usize::from(at)]);
        }
        Ok(ring)
    }

    /// Replaces the batch's contents by what has come on the socket. `WouldBlock` when there is nothing. There is no
    /// system call but to ask again after the receive has ended, or where the kernel waits for one to go on.
    pub fn receive(&mut self, fd: BorrowedFd<'_>, batch: &mut RxBatch) -> io::Result<()> {
        batch.clear();
        self.reap();
        if self.arrived.is_empty() && self.ring.submission().taskrun() {
            self.enter(0)?;
            self.reap();
        }
        self.hand_over(batch);
        if self.ask(fd)? {
            self.hand_over(batch);
        }
        if !batch.is_empty() {
            return Ok(());
        }
        let error = self.error.take().unwrap_or(libc::EAGAIN);
        Err(io::Error::from_raw_os_error(error))
    }

    /// Sends the first `count` messages; returns how many the kernel took before the first that it refused. An error is
    /// the first message's. Nothing waits: what the kernel cannot take at once it refuses.
    ///
    /// With `zero_copy` the kernel holds the frames' pages beyond this call, and reads them until it has sent them: they
    /// must not change until then, or what leaves is not what was given.
    ///
    /// # Panics
    /// As [`Messages::describe_runs`].
    pub fn send(
        &mut self,
        messages: &mut Messages,
        fd: BorrowedFd<'_>,
        v6_socket: bool,
        frames: &[TxFrame<'_>],
        runs: &[Run],
        zero_copy: bool,
    ) -> io::Result<usize> {
        messages.describe_runs(v6_socket, frames, runs);
        let count = runs.len();
        let (fd, flags) = (Fd(fd.as_raw_fd()), (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as u32);
        for i in 0..count {
            let header = messages.header(i);
            let entry = match zero_copy {
                true => {
                    opcode::SendMsgZc::new(fd, header).ioprio(REPORT_USAGE).flags(flags).build()
                }
                false => opcode::SendMsg::new(fd, header).flags(flags).build(),
            };
            // One after the other: none leaves after one that was refused.
            let link = if i + 1 < count { squeue::Flags::IO_LINK } else { squeue::Flags::empty() };
            self.push(&entry.user_data(1 + i as u64).flags(link))?;
        }
        self.results[..count].fill(None);
        if let Err(error) = self.submit().and_then(|()| self.complete(count)) {
            // Those that wait for the one before them look at their messages later.
            self.cancel();
            return Err(error);
        }
        let sent = self.results[..count].iter().map_while(|result| result.filter(|r| *r >= 0));
        match (sent.count(), self.results[0]) {
            (0, Some(error)) if count > 0 => Err(io::Error::from_raw_os_error(-error)),
            (sent, _) => Ok(sent),
        }
    }

    /// Waits until the kernel has done with all `count` sends.
    fn complete(&mut self, count: usize) -> io::Result<()> {
        while self.results[..count].iter().any(Option::is_none) {
            self.enter(1)?;
            self.reap();
        }
        Ok(())
    }

    /// Ends all that was asked for, and returns when it has ended; false when that cannot be told.
    fn cancel(&self) -> bool {
        let ended = self.ring.submitter().register_sync_cancel(None, CancelBuilder::any());
        ended.is_ok() || matches!(ended, Err(e) if e.raw_os_error() == Some(libc::ENOENT))
    }

    /// Becomes readable when there is a completion.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring's descriptor, open as long as `self`.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    /// Asks for datagrams again if the receive has ended; true if it had.
    pub fn ask(&mut self, fd: BorrowedFd<'_>) -> io::Result<bool> {
        let is_armed = self.is_armed;
        if !is_armed {
            self.arm(fd)?;
            self.reap();
        }
        Ok(!is_armed)
    }

    /// Datagrams have come that were not taken.
    pub fn has_arrived(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// What ended the receive, if it is `wanted`.
    pub fn take_error(&mut self, wanted: impl Fn(i32) -> bool) -> bool {
        self.reap();
        self.error.take_if(|error| wanted(*error)).is_some()
    }

    /// Asks for datagrams until buffers are out, or the thread that asked has ended.
    fn arm(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let entry = opcode::RecvMsgMulti::new(Fd(fd.as_raw_fd()), &raw const *self.template, GROUP);
        self.push(&entry.build().user_data(RECEIVE))?;
        // Before it is submitted: it may end at once.
        self.is_armed = true;
        self.submit()
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: what the entry points at is alive until it is submitted, or nothing is submitted any more
        // (`is_broken`): `template` as long as `self`, messages and the frames that they describe as long as `send` runs,
        // which returns when each send has its result: with MSG_DONTWAIT none waits for the network.
        let pushed = unsafe { self.ring.submission().push(entry) };
        self.is_broken |= pushed.is_err();
        pushed.map_err(|_| io::ErrorKind::OutOfMemory.into())
    }

    /// Has the kernel take all entries.
    fn submit(&mut self) -> io::Result<()> {
        while !self.ring.submission().is_empty() {
            self.enter(0)?;
            self.reap();
        }
        Ok(())
    }

    /// One call, which waits for so many completions. Full queues are emptied. After an error there is none any more.
    fn enter(&mut self, completions: usize) -> io::Result<()> {
        if self.is_broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        match self.ring.submit_and_wait(completions) {
            Ok(_) => Ok(()),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EINTR | libc::EBUSY)) => {
                self.reap();
                Ok(())
            }
            Err(e) => {
                self.is_broken = true;
                Err(e)
            }
        }
    }

    /// Takes all completions.
    fn reap(&mut self) {
        for completion in self.ring.completion() {
            let (result, flags) = (completion.result(), completion.flags());
            match completion.user_data() {
                RECEIVE => {
                    self.is_armed &= cqueue::more(flags);
                    match (cqueue::buffer_select(flags), usize::try_from(result)) {
                        (Some(buffer), Ok(len)) => self.arrived.push_back((buffer, len)),
                        // No buffer was left, or the thread that asked has ended: it is asked for again.
                        _ if matches!(-result, 0 | libc::ENOBUFS | libc::ECANCELED) => {}
                        _ => self.error = Some(-result),
                    }
                }
                _ if cqueue::notif(flags) => self.copied += u64::from(result as u32 & COPIED != 0),
                send => {
                    if let Some(place) = self.results.get_mut(send as usize - 1) {
                        *place = Some(result);
                    }
                }
            }
        }
    }

    /// Moves what has come into the batch, and provides the memory that it had.
    fn hand_over(&mut self, batch: &mut RxBatch) {
        while batch.len() < batch.capacity()
            && let Some((at, len)) = self.arrived.pop_front()
        {
            let Some(buffer) = self.buffers.get_mut(usize::from(at)) else { continue };
            if let Ok(out) = RecvMsgOut::parse(&buffer[..len.min(BUFFER_BYTES)], &self.template) {
                let payload = out.payload_data();
                let start = payload.as_ptr() as usize - buffer.as_ptr() as usize;
                // One that was cut off is none.
                let len = if out.is_payload_truncated() { 0 } else { payload.len() };
                let len = len.min(batch.slot_bytes());
                let filled = describe_parts(out.name_data(), out.control_data(), start, len);
                exchange(batch, buffer, filled);
                if buffer.len() < BUFFER_BYTES {
                    // The batch's own, the first time round.
                    *buffer = Lines::new(BUFFER_BYTES);
                }
            }
            self.provided.give(at, buffer);
        }
    }
}

/// Gives `batch` `memory`, in which `filled` lies, as its next slot, and takes the slot's own for it: as long as a slot
/// at least.
fn exchange(batch: &mut RxBatch, memory: &mut Lines, filled: Filled) {
    debug_assert!(memory.len() >= batch.slot_bytes() && filled.start + filled.len <= memory.len());
    let next = batch.len();
    std::mem::swap(&mut batch.memory[next], memory);
    batch.fill(filled);
}

/// A datagram that a multishot receive has laid out: its name, its control messages.
fn describe_parts(name: &[u8], control: &[u8], start: usize, len: usize) -> Filled {
    // SAFETY: C structures of integers and pointers, for which zero is valid.
    let (mut storage, mut header): (libc::sockaddr_storage, libc::msghdr) =
        unsafe { (MaybeUninit::zeroed().assume_init(), MaybeUninit::zeroed().assume_init()) };
    let name_len = name.len().min(size_of::<libc::sockaddr_storage>());
    // SAFETY: as many bytes as both have; every pattern of bytes is a valid storage.
    unsafe {
        ptr::copy_nonoverlapping(name.as_ptr(), (&raw mut storage).cast::<u8>(), name_len);
    }
    let mut aligned = Control([0; 128]);
    let control_len = control.len().min(aligned.0.len());
    aligned.0[..control_len].copy_from_slice(&control[..control_len]);
    let peer = read_name(&storage);
    let mut filled = Filled { peer, start, len, segment_len: len, ecn: Ecn::NotEct };
    header.msg_control = (&raw mut aligned).cast();
    header.msg_controllen = control_len;
    // SAFETY: the control buffer is alive, aligned and as long as said.
    unsafe { describe_control(&raw const header, &mut filled) };
    filled
}

impl Region {
    /// The same, where the kernel may read frames from it after they were given to it.
    pub(crate) fn lent(len: usize) -> Region {
        let mut region = Region::private(len);
        (region.is_lent, region.is_far) = (true, !crate::caches::shares_last_cache());
        region
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The kernel gives a ring up some time after it was closed, and might fill a buffer until then.
        if !self.cancel() || self.ring.submitter().unregister_buf_ring(GROUP).is_err() {
            std::mem::forget(std::mem::take(&mut self.buffers));
            self.provided.is_leaked = true;
        }
    }
}

/// The entries by which the kernel finds buffers to fill; the tail lies in the first.
struct Provided {
    entries: NonNull<BufRingEntry>,
    tail: u16,
    is_leaked: bool,
}

impl Provided {
    const BYTES: usize = 4096;

    fn new() -> io::Result<Provided> {
        const { assert!(BUFFERS as usize * size_of::<BufRingEntry>() <= Provided::BYTES) };
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping at an address of the kernel's choice touches nothing.
        let base =
            unsafe { mmap_anonymous(ptr::null_mut(), Self::BYTES, protection, MapFlags::PRIVATE)? };
        let entries = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Provided { entries, tail: 0, is_leaked: false })
    }

    /// Gives the kernel a buffer to fill, which nobody touches until a completion names it.
    fn give(&mut self, id: u16, buffer: &mut [u8]) {
        let at = usize::from(self.tail & (BUFFERS - 1));
        // SAFETY: within the mapped page (`at < BUFFERS`, asserted above to fit), aligned, and read by the kernel only
        // below the tail. No reference is made to the tail, which lies in a field of the first entry that is not written.
        let tail = unsafe {
            let entry = &mut *self.entries.as_ptr().add(at);
            entry.set_addr(buffer.as_mut_ptr() as u64);
            entry.set_len(buffer.len() as u32);
            entry.set_bid(id);
            AtomicU16::from_ptr(BufRingEntry::tail(self.entries.as_ptr()).cast_mut())
        };
        self.tail = self.tail.wrapping_add(1);
        tail.store(self.tail, Ordering::Release);
    }
}

impl Drop for Provided {
    fn drop(&mut self) {
        if !self.is_leaked {
            // SAFETY: exactly what `new` mapped, which the kernel has given back. Failing would only leak addresses.
            let _ = unsafe { munmap(self.entries.as_ptr().cast(), Self::BYTES) };
        }
    }
}
