//! A PPP link over PPPoE, put together with the kernel's own interfaces: no daemon and no negotiation, both ends are told all they need.

use std::fs::{File, OpenOptions};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result, ensure};

use crate::netns::Netns;

// From linux/ppp-ioctl.h and linux/if_pppox.h.
const PPPIOCGCHAN: libc::Ioctl = 0x8004_7437;
const PPPIOCATTCHAN: libc::Ioctl = 0x4004_7438;
const PPPIOCCONNECT: libc::Ioctl = 0x4004_743a;
const PPPIOCNEWUNIT: libc::Ioctl = 0xc004_743e;
const AF_PPPOX: libc::c_int = 24;
const PX_PROTO_OE: libc::c_int = 0;

/// Session number of the one session.
const SESSION: u16 = 1;

/// `struct sockaddr_pppox` for PPPoE.
#[repr(C, packed)]
struct Address {
    family: libc::sa_family_t,
    protocol: libc::c_uint,
    session: u16,
    remote: [u8; 6],
    device: [u8; 16],
}

/// One end of a PPP link. Its interface goes when it is dropped.
#[derive(Debug)]
pub struct End {
    /// Name of its interface.
    pub interface: String,
    _unit: File,
    _channel: File,
    _session: OwnedFd,
}

impl End {
    /// Makes the PPP interface for the session with `remote` over the Ethernet interface `over`.
    ///
    /// # Errors
    /// Without root, or on a kernel without PPP or PPPoE.
    pub fn make(namespace: &Netns, over: &str, remote: [u8; 6]) -> Result<Self> {
        namespace.run(|| make(over, remote))?
    }
}

fn make(over: &str, remote: [u8; 6]) -> Result<End> {
    let session = session(over, remote)?;
    let mut channel_number: libc::c_int = 0;
    control(
        &session,
        PPPIOCGCHAN,
        &mut channel_number,
        "asking for the channel",
    )?;
    let channel = open()?;
    control(
        &channel,
        PPPIOCATTCHAN,
        &mut channel_number,
        "taking the channel",
    )?;
    let unit = open()?;
    let mut number: libc::c_int = -1; // any
    control(&unit, PPPIOCNEWUNIT, &mut number, "making an interface")?;
    control(
        &channel,
        PPPIOCCONNECT,
        &mut number,
        "joining interface and channel",
    )?;
    Ok(End {
        interface: format!("ppp{number}"),
        _unit: unit,
        _channel: channel,
        _session: session,
    })
}

fn session(over: &str, remote: [u8; 6]) -> Result<OwnedFd> {
    // SAFETY: creates a descriptor that nothing else owns.
    let raw = unsafe {
        libc::socket(
            AF_PPPOX,
            libc::SOCK_STREAM | libc::SOCK_CLOEXEC,
            PX_PROTO_OE,
        )
    };
    ensure!(
        raw >= 0,
        "this kernel has no PPPoE sockets: {}",
        io::Error::last_os_error()
    );
    // SAFETY: just created, owned by nobody.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    let mut address = Address {
        family: libc::sa_family_t::try_from(AF_PPPOX)?,
        protocol: 0,
        session: SESSION.to_be(),
        remote,
        device: [0; 16],
    };
    let mut device = [0; 16];
    for (to, from) in device.iter_mut().take(15).zip(over.bytes()) {
        *to = from;
    }
    address.device = device;
    // SAFETY: the address lives during the call and its size is given.
    let done = unsafe {
        libc::connect(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            libc::socklen_t::try_from(size_of::<Address>())?,
        )
    };
    ensure!(
        done == 0,
        "PPPoE session over {over}: {}",
        io::Error::last_os_error()
    );
    Ok(socket)
}

fn open() -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/ppp")
        .context("this kernel has no PPP")
}

fn control(
    file: &impl AsRawFd,
    request: libc::Ioctl,
    value: &mut libc::c_int,
    what: &str,
) -> Result<()> {
    // SAFETY: each of these requests reads or writes one int, which lives during the call.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), request, ptr_to(value)) };
    ensure!(done == 0, "PPP, {what}: {}", io::Error::last_os_error());
    Ok(())
}

fn ptr_to(value: &mut libc::c_int) -> *mut libc::c_int {
    value
}

// 2 + 4 + 2 + 6 + 16: the kernel compares the size.
const _: () = assert!(mem::size_of::<Address>() == 30);
