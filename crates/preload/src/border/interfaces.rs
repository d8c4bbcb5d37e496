//! Which interfaces and addresses there are: libc's answer, and behind it those of the outboard.
//!
//! These calls return memory that the program frees, so they allocate, as libc's do; programs do not make them between `vfork`
//! and `exec` nor in signal handlers.

use std::ffi::{c_char, c_int, c_ulong, c_void};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

use libc::{addrinfo, ifaddrs, sockaddr};
use rustix::io::Errno;

use super::{ByLibc, Ours, answer, kernel};
use crate::interfaces::{self, Address, Interface, NAME_LEN};
use crate::library::{library, ours};
use crate::sockaddr::{Laid, MAX};
use crate::sys;

static GETIFADDRS: ByLibc = ByLibc::new("getifaddrs\0");
static FREEIFADDRS: ByLibc = ByLibc::new("freeifaddrs\0");
static GETADDRINFO: ByLibc = ByLibc::new("getaddrinfo\0");
static IF_NAMEINDEX: ByLibc = ByLibc::new("if_nameindex\0");

/// Flags of an interface that the kernel does not have.
const FLAGS: c_int = libc::IFF_UP | libc::IFF_BROADCAST | libc::IFF_RUNNING | libc::IFF_MULTICAST;

/// An entry of ours: its name directly follows the part that programs see, which is true of none of libc's.
#[repr(C)]
struct Entry {
    seen: ifaddrs,
    name: [u8; NAME_LEN],
    /// Address, mask, and address of all on the network.
    addresses: [Space; 3],
}

/// Room for an address.
#[repr(C, align(8))]
struct Space([u8; MAX]);

impl Space {
    fn of(laid: Option<Laid>) -> Space {
        let mut bytes = [0; MAX];
        if let Some(laid) = &laid {
            bytes[..laid.len()].copy_from_slice(laid);
        }
        Space(bytes)
    }
}

/// Lists interfaces with their addresses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getifaddrs(list: *mut *mut ifaddrs) -> c_int {
    type Getifaddrs = unsafe extern "C" fn(*mut *mut ifaddrs) -> c_int;
    let own = GETIFADDRS.get();
    if own.is_null() {
        return answer(Err(Errno::NOSYS)) as c_int;
    }
    // SAFETY: what libc has under this name is of this type; the list is the caller's, and complete when it returns 0.
    unsafe {
        let done = std::mem::transmute::<*mut c_void, Getifaddrs>(own)(list);
        if done == 0
            && let Some(interface) = interfaces::interface()
        {
            extend(list, &interface);
        }
        done
    }
}

/// Adds the addresses that a list does not have to its end. Without memory it stays as it is.
///
/// # Safety
/// `list` points to a list of libc's.
unsafe fn extend(list: *mut *mut ifaddrs, interface: &Interface) {
    // SAFETY: the caller's obligation; entries are initialised before anything points to them.
    unsafe {
        let is_new = |address: &Address| !has(*list, address.ip);
        let count = interface.addresses().filter(is_new).count();
        let first = libc::calloc(count, size_of::<Entry>()).cast::<Entry>();
        if count == 0 || first.is_null() {
            return libc::free(first.cast());
        }
        let mut end = list;
        let mut flags = None;
        while !(*end).is_null() {
            let entry = *end;
            if names(entry, &interface.name) {
                flags = Some((*entry).ifa_flags);
            }
            end = &raw mut (*entry).ifa_next;
        }
        for (at, address) in interface.addresses().filter(is_new).take(count).enumerate() {
            let entry = first.add(at);
            let spaces = [Some(address.laid), Some(address.mask), address.broadcast].map(Space::of);
            // All zeros are an entry.
            (*entry).name = interface.name;
            (*entry).addresses = spaces;
            let [own, mask, broadcast] =
                [0, 1, 2].map(|which| (&raw mut (*entry).addresses[which]).cast::<sockaddr>());
            let seen = &mut (*entry).seen;
            seen.ifa_name = entry.cast::<ifaddrs>().add(1).cast::<c_char>();
            seen.ifa_flags = flags.unwrap_or(FLAGS as u32);
            (seen.ifa_addr, seen.ifa_netmask) = (own, mask);
            seen.ifa_ifu = if address.broadcast.is_some() { broadcast } else { null_mut() };
            if let Some(next) = (at + 1 < count).then(|| first.add(at + 1)) {
                seen.ifa_next = next.cast();
            }
        }
        *end = first.cast();
    }
}

/// Returns `true` if a list has an address.
///
/// # Safety
/// `list` is a list of libc's.
unsafe fn has(mut list: *const ifaddrs, ip: IpAddr) -> bool {
    // SAFETY: the caller's obligation.
    while let Some(entry) = unsafe { list.as_ref() } {
        // SAFETY: as above.
        if unsafe { ip_of(entry) } == Some(ip) {
            return true;
        }
        list = entry.ifa_next;
    }
    false
}

/// The address of an entry, if it has one of IP.
///
/// # Safety
/// The entry is of a list of libc's.
unsafe fn ip_of(entry: &ifaddrs) -> Option<IpAddr> {
    let at = entry.ifa_addr;
    // SAFETY: the caller's obligation: an address is as long as its family says.
    unsafe {
        match i32::from(at.as_ref()?.sa_family) {
            libc::AF_INET => {
                let v4 = at.cast::<libc::sockaddr_in>().read_unaligned();
                Some(IpAddr::from(v4.sin_addr.s_addr.to_ne_bytes()))
            }
            libc::AF_INET6 => {
                let v6 = at.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(IpAddr::from(v6.sin6_addr.s6_addr))
            }
            _ => None,
        }
    }
}

/// Returns `true` if an entry is of the interface of this name.
///
/// # Safety
/// `entry` points to one.
unsafe fn names(entry: *const ifaddrs, name: &[u8; NAME_LEN]) -> bool {
    // SAFETY: the caller's obligation: a name is a string.
    let found = unsafe { std::ffi::CStr::from_ptr((*entry).ifa_name) }.to_bytes();
    name.strip_prefix(found).is_some_and(|rest| rest.first() == Some(&0))
}

/// Frees such a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freeifaddrs(list: *mut ifaddrs) {
    type Freeifaddrs = unsafe extern "C" fn(*mut ifaddrs);
    let mut head = list;
    // SAFETY: a list that `getifaddrs` has made: ours is one piece of memory at its end, of which nothing is used any more.
    unsafe {
        let mut place = &raw mut head;
        while !(*place).is_null() {
            let entry = *place;
            if (*entry).ifa_name == entry.add(1).cast::<c_char>() {
                *place = null_mut();
                libc::free(entry.cast());
                break;
            }
            place = &raw mut (*entry).ifa_next;
        }
    }
    let own = FREEIFADDRS.get();
    if !own.is_null() && !head.is_null() {
        // SAFETY: what libc has under this name is of this type; the rest of the list is its own.
        unsafe { std::mem::transmute::<*mut c_void, Freeifaddrs>(own)(head) }
    }
}

/// Lists interfaces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn if_nameindex() -> *mut libc::if_nameindex {
    type Own = unsafe extern "C" fn() -> *mut libc::if_nameindex;
    let own = IF_NAMEINDEX.get();
    if own.is_null() {
        answer(Err(Errno::NOSYS));
        return null_mut();
    }
    // SAFETY: what libc has under this name is of this type. It returns an array from `malloc` whose end has the number 0, and
    // names from `malloc`: `if_freenameindex` frees each.
    unsafe {
        let list = std::mem::transmute::<*mut c_void, Own>(own)();
        let Some(interface) = interfaces::interface().filter(|interface| !interface.is_here) else {
            return list;
        };
        if list.is_null() {
            return list;
        }
        let count = (0..).take_while(|at| (*list.add(*at)).if_index != 0).count();
        let name = libc::strdup(interface.name.as_ptr().cast());
        let len = (count + 2) * size_of::<libc::if_nameindex>();
        let longer = libc::realloc(list.cast(), len).cast::<libc::if_nameindex>();
        if name.is_null() || longer.is_null() {
            libc::free(name.cast());
            return if longer.is_null() { list } else { longer };
        }
        longer.add(count + 1).write(longer.add(count).read());
        longer.add(count).write(libc::if_nameindex { if_index: interface.index, if_name: name });
        longer
    }
}

/// Resolves a name. Which versions of IP the host has (`AI_ADDRCONFIG`) is judged here, because libc would look at the kernel's
/// addresses alone.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const addrinfo,
    result: *mut *mut addrinfo,
) -> c_int {
    type Own = unsafe extern "C-unwind" fn(
        *const c_char,
        *const c_char,
        *const addrinfo,
        *mut *mut addrinfo,
    ) -> c_int;
    let own = GETADDRINFO.get();
    if own.is_null() {
        answer(Err(Errno::NOSYS));
        return libc::EAI_SYSTEM;
    }
    // SAFETY: the caller's obligation; what libc has under this name is of this type.
    unsafe {
        let mut changed = hints.as_ref().copied();
        let is_changed = changed.as_mut().is_some_and(judge);
        let hints =
            if is_changed { changed.as_ref().map_or(hints, std::ptr::from_ref) } else { hints };
        std::mem::transmute::<*mut c_void, Own>(own)(node, service, hints, result)
    }
}

/// Takes the question which versions the host has out of hints; false: it is libc's to answer.
fn judge(hints: &mut addrinfo) -> bool {
    if hints.ai_flags & libc::AI_ADDRCONFIG == 0 {
        return false;
    }
    let Some(interface) = interfaces::interface() else { return false };
    let has_own = |is_v4: bool| interface.addresses().any(|address| address.ip.is_ipv4() == is_v4);
    let (of_v4, of_v6) = (has_own(true), has_own(false));
    match hints.ai_family {
        libc::AF_INET if of_v4 => {}
        libc::AF_INET6 if of_v6 => {}
        libc::AF_UNSPEC if of_v4 || of_v6 => {
            // SAFETY: libc's list, which lives until it is freed below.
            let (kernel_v4, kernel_v6) = unsafe { kernel_has() };
            match (of_v4 || kernel_v4, of_v6 || kernel_v6) {
                (true, false) => hints.ai_family = libc::AF_INET,
                (false, true) => hints.ai_family = libc::AF_INET6,
                _ => {}
            }
        }
        _ => return false,
    }
    hints.ai_flags &= !libc::AI_ADDRCONFIG;
    true
}

/// Whether the kernel has an address of each version, but that of loopback.
///
/// # Safety
/// None but that of libc's functions.
unsafe fn kernel_has() -> (bool, bool) {
    type Getifaddrs = unsafe extern "C" fn(*mut *mut ifaddrs) -> c_int;
    let (own, mut list, mut found) = (GETIFADDRS.get(), null_mut(), (false, false));
    // SAFETY: what libc has under this name is of this type; its list is complete when it returns 0.
    unsafe {
        if own.is_null() || std::mem::transmute::<*mut c_void, Getifaddrs>(own)(&mut list) != 0 {
            return found;
        }
        let mut next = list.cast_const();
        while let Some(entry) = next.as_ref() {
            match ip_of(entry) {
                Some(IpAddr::V4(v4)) if v4 != Ipv4Addr::LOCALHOST => found.0 = true,
                Some(IpAddr::V6(v6)) if v6 != Ipv6Addr::LOCALHOST => found.1 = true,
                _ => {}
            }
            next = entry.ifa_next;
        }
        freeifaddrs(list);
    }
    found
}

/// Requests about all interfaces, and about one.
const SIOCGIFCONF: c_ulong = 0x8912;
const SIOCGIFADDR: c_ulong = 0x8915;
const SIOCGIFBRDADDR: c_ulong = 0x8919;
const SIOCGIFNETMASK: c_ulong = 0x891b;
/// Requests about network interfaces: the first and the last.
const ALL: std::ops::RangeInclusive<c_ulong> = 0x8910..=0x89ff;

/// An entry of what `SIOCGIFCONF` stores.
#[repr(C)]
struct Request {
    name: [u8; NAME_LEN],
    address: [u8; 16],
    rest: [u8; 8],
}

/// The argument of `SIOCGIFCONF`.
#[repr(C)]
struct Conf {
    len: c_int,
    at: *mut Request,
}

/// `ioctl` about interfaces: the kernel's answer, and the addresses of IPv4 that only the outboard has.
///
/// # Safety
/// The argument is what the request asks.
pub unsafe fn ask(fd: c_int, request: c_ulong, argument: usize) -> Ours {
    let request = request & 0xffff_ffff;
    if !ALL.contains(&request) || library()?.is_confined() {
        return None;
    }
    let is_ours = ours(fd).is_some();
    let is_shown = matches!(request, SIOCGIFCONF | SIOCGIFADDR | SIOCGIFBRDADDR | SIOCGIFNETMASK);
    if !is_ours && !is_shown {
        return None;
    }
    let any = match is_ours {
        true => Some(sys::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0)),
        false => None,
    };
    let any = match any.transpose() {
        Ok(any) => any,
        Err(error) => return Some(Err(error)),
    };
    let number = any.as_ref().map_or(fd, |any| any.as_raw_fd());
    // SAFETY: the caller's obligation.
    let ask = || unsafe { kernel(libc::SYS_ioctl, [number as usize, request as usize, argument]) };
    if argument == 0 || !is_shown {
        return Some(ask());
    }
    // SAFETY: as above; not null.
    Some(unsafe {
        match request {
            SIOCGIFCONF => {
                let conf = argument as *mut Conf;
                let room = (*conf).len;
                ask().inspect(|_| extend_conf(conf, room))
            }
            _ => match ask() {
                Err(Errno::ADDRNOTAVAIL | Errno::NODEV) => {
                    about_one(request, argument as *mut Request).map(|()| 0)
                }
                done => done,
            },
        }
    })
}

/// # Safety
/// `conf` is what the kernel has filled, where there was this much room.
unsafe fn extend_conf(conf: *mut Conf, room: c_int) {
    const LEN: usize = size_of::<Request>();
    let Some(interface) = interfaces::interface() else { return };
    // SAFETY: the caller's obligation.
    unsafe {
        let list = (*conf).at;
        for address in interface.addresses().filter(|address| address.ip.is_ipv4()) {
            let count = usize::try_from((*conf).len).unwrap_or(0) / LEN;
            if !list.is_null() {
                let known = |at: usize| list.add(at).read_unaligned().address;
                let has = (0..count).any(|at| known(at)[4..8] == address.laid[4..8]);
                if has {
                    continue;
                }
                if (count + 1) * LEN > usize::try_from(room).unwrap_or(0) {
                    return;
                }
                let mut entry = Request { name: interface.name, address: [0; 16], rest: [0; 8] };
                entry.address.copy_from_slice(&address.laid);
                list.add(count).write_unaligned(entry);
            }
            (*conf).len = ((count + 1) * LEN) as c_int;
        }
    }
}

/// Stores what is asked of the interface, which has no address to the kernel.
///
/// # Safety
/// `at` points to a request.
unsafe fn about_one(request: c_ulong, at: *mut Request) -> fusewire_outboard::client::Result<()> {
    let interface = interfaces::interface().ok_or(Errno::NODEV)?;
    // SAFETY: the caller's obligation.
    let name = unsafe { (*at).name };
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_LEN);
    let is_it = interface.name.strip_prefix(&name[..end]).and_then(<[u8]>::first) == Some(&0);
    if !is_it {
        return Err(Errno::NODEV);
    }
    let mut all = interface.addresses().filter(|address| address.ip.is_ipv4());
    let address = all.next().ok_or(Errno::ADDRNOTAVAIL)?;
    let laid = match request {
        SIOCGIFADDR => Some(address.laid),
        SIOCGIFNETMASK => Some(address.mask),
        _ => address.broadcast,
    };
    let laid = laid.ok_or(Errno::ADDRNOTAVAIL)?;
    // SAFETY: as above.
    unsafe { (*at).address.copy_from_slice(&laid) };
    Ok(())
}
