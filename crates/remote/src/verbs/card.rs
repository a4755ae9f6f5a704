//! A card, what is registered with it, and queue pairs: each goes with its owner, in the order that the library wants.

use super::sys::{
    self, AhAttr, Context, Cq, Functions, Gid, GidAt8, Mr, Opaque, PortAttr, QpAttr, QpCap, QpInitAttr,
    SendWr, Wc,
};
use crate::regions::Access;
use ring::shm::region::Region;
use std::ffi::{CStr, c_int};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::{fmt, io};

/// The port that is used of a card.
const PORT: u8 = 1;
/// READs and atomics of a queue pair under way at most: what every card has.
const READS: u8 = 4;
/// A packet that is not answered within 4.096 µs × 2^this is sent again, …
const TIMEOUT: u8 = 14;
/// … so often: half a second. Seven means for ever to soft-RoCE, and to all cards of packets for which nothing is ready.
const RETRIES: u8 = 6;

/// Why there is no card.
#[derive(Debug)]
pub enum CardError {
    /// libibverbs is not there.
    Library(libloading::Error),
    /// None of this name, or none at all.
    None(Option<String>),
    /// None with a port that is up and has an address.
    Down,
    /// What was asked of the system, and what it said.
    System(&'static str, io::Error),
}

impl fmt::Display for CardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CardError::Library(error) => {
                write!(f, "libibverbs.so.1 cannot be loaded (packages rdma-core, libibverbs1): {error}")
            }
            CardError::None(Some(name)) => {
                write!(f, "there is no RDMA device {name}; `ibv_devices` lists them")
            }
            CardError::None(None) => f.write_str("there is no RDMA device; `ibv_devices` lists them"),
            CardError::Down => f.write_str("no RDMA device has a port that is up and has an address"),
            CardError::System(what, error) => write!(f, "cannot {what}: {error}"),
        }
    }
}

impl std::error::Error for CardError {}

fn system(what: &'static str) -> CardError {
    CardError::System(what, io::Error::last_os_error())
}

/// A card that is open, and its protection domain.
pub struct Card {
    functions: Functions,
    context: NonNull<Context>,
    domain: NonNull<Opaque>,
    name: String,
    port: PortAttr,
    gid: (u8, Gid),
}

// SAFETY: the library's functions may be called from any thread, as its manual says; what is here is not changed.
unsafe impl Send for Card {}
// SAFETY: as above.
unsafe impl Sync for Card {}

impl Card {
    /// Opens the card of this name, or the first that is up.
    ///
    /// # Errors
    /// [`CardError`].
    pub fn open(wanted: Option<&str>) -> Result<Arc<Card>, CardError> {
        let functions = Functions::load().map_err(CardError::Library)?;
        let (mut found, mut opened) = (false, None);
        let mut count = 0;
        // SAFETY: it writes the count, and gives a list that is ours until it is freed.
        let list = unsafe { (functions.ibv_get_device_list)(&mut count) };
        if list.is_null() {
            return Err(CardError::None(wanted.map(str::to_owned)));
        }
        for at in 0..count as usize {
            // SAFETY: within the list; names are strings that end.
            let (device, name) = unsafe {
                let device = *list.add(at);
                (
                    device,
                    CStr::from_ptr((functions.ibv_get_device_name)(device)).to_string_lossy().into_owned(),
                )
            };
            if wanted.is_some_and(|wanted| wanted != name) {
                continue;
            }
            found = true;
            // SAFETY: a device of the list.
            let Some(context) = NonNull::new(unsafe { (functions.ibv_open_device)(device) }) else {
                continue;
            };
            if let Some((port, gid)) = usable(&functions, context) {
                opened = Some((context, name, port, gid));
                break;
            }
            // SAFETY: it was opened, and nothing is made of it.
            unsafe { (functions.ibv_close_device)(context.as_ptr()) };
        }
        // SAFETY: the list is not used any more; a device that is open stays.
        unsafe { (functions.ibv_free_device_list)(list) };
        let Some((context, name, port, gid)) = opened else {
            return Err(if found { CardError::Down } else { CardError::None(wanted.map(str::to_owned)) });
        };
        // SAFETY: an open device.
        let Some(domain) = NonNull::new(unsafe { (functions.ibv_alloc_pd)(context.as_ptr()) }) else {
            let error = system("make a protection domain");
            // SAFETY: as above.
            unsafe { (functions.ibv_close_device)(context.as_ptr()) };
            return Err(error);
        };
        Ok(Arc::new(Card { functions, context, domain, name, port, gid }))
    }

    /// As the system calls it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        // SAFETY: whatever was made of them has an `Arc` of this, so nothing is left.
        unsafe {
            (self.functions.ibv_dealloc_pd)(self.domain.as_ptr());
            (self.functions.ibv_close_device)(self.context.as_ptr());
        }
    }
}

/// The port and the address of a card, if it is up.
fn usable(functions: &Functions, context: NonNull<Context>) -> Option<(PortAttr, (u8, Gid))> {
    let mut port = PortAttr::default();
    // SAFETY: an open device, and a structure with room for more than the library writes.
    let failed = unsafe { (functions.ibv_query_port)(context.as_ptr(), PORT, &mut port) };
    if failed != 0 || port.state != sys::PORT_ACTIVE {
        return None;
    }
    let gid = |index: u8| {
        let mut gid = Gid::default();
        // SAFETY: as above.
        let failed =
            unsafe { (functions.ibv_query_gid)(context.as_ptr(), PORT, c_int::from(index), &mut gid) };
        (failed == 0 && gid != Gid::default()).then_some((index, gid))
    };
    let count = u8::try_from(port.gid_tbl_len).unwrap_or(u8::MAX);
    // RoCE that is routed, as everybody configures it, before what is for this link alone.
    let is_ipv4 = |(_, gid): &(u8, Gid)| gid[..10] == [0; 10] && gid[10..12] == [0xFF; 2];
    let chosen = (0..count).filter_map(gid).find(is_ipv4).or_else(|| (0..count).find_map(gid));
    match chosen {
        None if port.link_layer == sys::LINK_ETHERNET => None,
        gid => Some((port, gid.unwrap_or_default())),
    }
}

/// Memory that a card may reach.
pub struct Registered {
    card: Arc<Card>,
    memory: NonNull<Mr>,
    base: u64,
}

// SAFETY: as of the card; the registration is not changed.
unsafe impl Send for Registered {}
// SAFETY: as above.
unsafe impl Sync for Registered {}

impl Registered {
    /// A region, for peers that may do this; for this process's own queues without any. The caller keeps the region for as long.
    ///
    /// # Errors
    /// The card's, or the system's: memory that may be locked is bounded (`ulimit -l`).
    ///
    /// # Safety
    /// The region lives for as long as this.
    pub unsafe fn new(
        card: &Arc<Card>,
        region: &Region,
        peers: Option<Access>,
    ) -> Result<Registered, CardError> {
        let mut flags = sys::ACCESS_LOCAL_WRITE;
        for (access, flag) in [
            (Access::READ, sys::ACCESS_REMOTE_READ),
            (Access::WRITE, sys::ACCESS_REMOTE_WRITE),
            (Access::ATOMIC, sys::ACCESS_REMOTE_ATOMIC),
        ] {
            if peers.is_some_and(|peers| peers.has(access)) {
                flags |= flag;
            }
        }
        let base = region.base();
        // SAFETY: memory of this length is there, and stays by the caller's promise; all else that reaches it does so by atomics.
        let memory = unsafe {
            (card.functions.ibv_reg_mr)(card.domain.as_ptr(), base.as_ptr().cast(), region.len(), flags)
        };
        let memory = NonNull::new(memory).ok_or_else(|| system("register memory"))?;
        Ok(Registered { card: Arc::clone(card), memory, base: base.as_ptr() as u64 })
    }

    /// What the owner's own works name it by.
    pub fn local_key(&self) -> u32 {
        // SAFETY: it is registered.
        unsafe { self.memory.as_ref() }.lkey
    }

    /// What peers' works name it by.
    pub fn remote_key(&self) -> u32 {
        // SAFETY: as above.
        unsafe { self.memory.as_ref() }.rkey
    }

    /// Its address.
    pub fn base(&self) -> u64 {
        self.base
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: it is registered, and nobody names it any more who is to be obeyed.
        unsafe { (self.card.functions.ibv_dereg_mr)(self.memory.as_ptr()) };
    }
}

/// Where an end of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The number of its queue pair.
    pub number: u32,
    /// The number of its first packet.
    pub first: u32,
    /// Its port's, on InfiniBand.
    pub lid: u16,
    /// Its address.
    pub gid: Gid,
    /// Bytes of a packet, as the specification numbers them.
    pub mtu: u8,
}

/// A queue pair and its completion queue.
pub struct Pair {
    card: Arc<Card>,
    pair: NonNull<sys::Qp>,
    completions: NonNull<Cq>,
    first: u32,
}

// SAFETY: it has one user at a time, whatever thread that is on.
unsafe impl Send for Pair {}

impl Pair {
    /// With room for so many works.
    ///
    /// # Errors
    /// The card's.
    pub fn new(card: &Arc<Card>, depth: u32) -> Result<Pair, CardError> {
        let (functions, context) = (&card.functions, card.context.as_ptr());
        // SAFETY: an open device; no events, no channel.
        let completions =
            unsafe { (functions.ibv_create_cq)(context, depth as c_int, null_mut(), null_mut(), 0) };
        let completions = NonNull::new(completions).ok_or_else(|| system("make a completion queue"))?;
        let mut attributes = QpInitAttr {
            qp_context: null_mut(),
            send_cq: completions.as_ptr(),
            recv_cq: completions.as_ptr(),
            srq: null_mut(),
            cap: QpCap {
                max_send_wr: depth,
                max_recv_wr: 1,
                max_send_sge: 1,
                max_recv_sge: 1,
                ..QpCap::default()
            },
            qp_type: sys::QPT_RC,
            sq_sig_all: 0,
        };
        // SAFETY: a domain, and attributes that name what is there.
        let pair = unsafe { (functions.ibv_create_qp)(card.domain.as_ptr(), &mut attributes) };
        let Some(pair) = NonNull::new(pair) else {
            let error = system("make a queue pair");
            // SAFETY: nothing uses it.
            unsafe { (functions.ibv_destroy_cq)(completions.as_ptr()) };
            return Err(error);
        };
        let first = u32::from_ne_bytes(base::key::random()) >> 8;
        Ok(Pair { card: Arc::clone(card), pair, completions, first })
    }

    /// This end.
    pub fn end(&self) -> End {
        let Card { port, gid, .. } = &*self.card;
        // SAFETY: it was made.
        let number = unsafe { self.pair.as_ref() }.qp_num;
        End { number, first: self.first, lid: port.lid, gid: gid.1, mtu: port.active_mtu as u8 }
    }

    /// Joins it with the other end.
    ///
    /// # Errors
    /// The card's; no packet reaches that end, for one.
    pub fn connect(&self, other: &End) -> Result<(), CardError> {
        let Card { port, gid, .. } = &*self.card;
        let peers = sys::ACCESS_REMOTE_READ | sys::ACCESS_REMOTE_WRITE | sys::ACCESS_REMOTE_ATOMIC;
        let mut at = QpAttr { qp_state: sys::QPS_INIT, port_num: PORT, ..QpAttr::default() };
        at.qp_access_flags = peers as u32;
        self.become_(&mut at, sys::MASK_INIT)?;
        let is_global = port.link_layer == sys::LINK_ETHERNET || other.lid == 0;
        let mut at = QpAttr {
            qp_state: sys::QPS_RTR,
            path_mtu: c_int::from(other.mtu).clamp(1, port.active_mtu.max(1)),
            dest_qp_num: other.number,
            rq_psn: other.first & 0xFF_FFFF,
            max_dest_rd_atomic: READS,
            min_rnr_timer: 12,
            ah_attr: AhAttr {
                dgid: GidAt8(other.gid),
                sgid_index: gid.0,
                hop_limit: 64,
                dlid: other.lid,
                is_global: u8::from(is_global),
                port_num: PORT,
                ..AhAttr::default()
            },
            ..QpAttr::default()
        };
        self.become_(&mut at, sys::MASK_RTR)?;
        let mut at = QpAttr {
            qp_state: sys::QPS_RTS,
            sq_psn: self.first & 0xFF_FFFF,
            max_rd_atomic: READS,
            timeout: TIMEOUT,
            retry_cnt: RETRIES,
            rnr_retry: RETRIES,
            ..QpAttr::default()
        };
        self.become_(&mut at, sys::MASK_RTS)
    }

    fn become_(&self, attributes: &mut QpAttr, mask: c_int) -> Result<(), CardError> {
        // SAFETY: it was made; of the attributes those count that the mask names.
        match unsafe { (self.card.functions.ibv_modify_qp)(self.pair.as_ptr(), attributes, mask) } {
            0 => Ok(()),
            error => Err(CardError::System("connect a queue pair", io::Error::from_raw_os_error(error))),
        }
    }

    /// Has works done; how many the card took.
    ///
    /// # Safety
    /// What they name of local memory is registered and stays until they are completed.
    pub unsafe fn post(&mut self, works: &mut [SendWr]) -> usize {
        let count = works.len();
        let start = works.as_mut_ptr();
        for at in 1..count {
            // SAFETY: both are within the slice.
            unsafe { (*start.add(at - 1)).next = start.add(at) };
        }
        if count == 0 {
            return 0;
        }
        let mut refused = null_mut();
        // SAFETY: the pair was made by this context, whose functions are there; works are a list, and what they name stays by the caller's promise.
        let failed = unsafe {
            let post = (*self.pair.as_ref().context).post_send.expect("every card has it");
            post(self.pair.as_ptr(), start, &mut refused)
        };
        match works.iter().position(|work| std::ptr::eq(work, refused)) {
            Some(at) if failed != 0 => at,
            _ if failed != 0 => 0,
            _ => count,
        }
    }

    /// What has become of works, as the card has told it.
    pub fn poll(&mut self, into: &mut [Wc]) -> usize {
        let count = into.len() as c_int;
        // SAFETY: the queue was made by this context; it writes as many as there is room for.
        let got = unsafe {
            let poll = (*self.completions.as_ref().context).poll_cq.expect("every card has it");
            poll(self.completions.as_ptr(), count, into.as_mut_ptr())
        };
        usize::try_from(got).unwrap_or(0)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: the pair before the queue that it names.
        unsafe {
            (self.card.functions.ibv_destroy_qp)(self.pair.as_ptr());
            (self.card.functions.ibv_destroy_cq)(self.completions.as_ptr());
        }
    }
}
