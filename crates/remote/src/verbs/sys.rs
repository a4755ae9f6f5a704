//! What is used of libibverbs, which is loaded when it is asked for: who builds needs nothing of it, who runs without a card misses nothing.
//!
//! Layouts are those of rdma-core's `infiniband/verbs.h`. They cannot change: its `ibv_post_send` and `ibv_poll_cq` are inline, so every program that was
//! ever built has them in it, as it has the places of both functions in a context. Sizes and places were printed by a C program that includes the header,
//! and are held below.

use libloading::Library;
use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;

/// An opaque thing of the library.
#[repr(C)]
pub struct Opaque([u8; 0]);

pub const WR_WRITE: c_int = 0;
pub const WR_READ: c_int = 4;
pub const WR_COMPARE_SWAP: c_int = 5;
pub const WR_FETCH_ADD: c_int = 6;
pub const SEND_FENCE: u32 = 1;
pub const SEND_SIGNALED: u32 = 2;
pub const QPT_RC: c_int = 2;
pub const ACCESS_LOCAL_WRITE: c_int = 1;
pub const ACCESS_REMOTE_WRITE: c_int = 2;
pub const ACCESS_REMOTE_READ: c_int = 4;
pub const ACCESS_REMOTE_ATOMIC: c_int = 8;
pub const QPS_INIT: c_int = 1;
pub const QPS_RTR: c_int = 2;
pub const QPS_RTS: c_int = 3;
/// Which fields of [`QpAttr`] count when a queue pair becomes ready to be connected, …
pub const MASK_INIT: c_int = 1 | 16 | 32 | 8;
/// … to receive, …
pub const MASK_RTR: c_int = 1 | 128 | 256 | 1_048_576 | 4096 | 131_072 | 32_768;
/// … and to send.
pub const MASK_RTS: c_int = 1 | 512 | 1024 | 2048 | 65_536 | 8192;
pub const WC_SUCCESS: c_int = 0;
pub const WC_FLUSHED: c_int = 5;
pub const WC_BAD_REQUEST: c_int = 9;
pub const WC_ACCESS: c_int = 10;
pub const PORT_ACTIVE: c_int = 4;
pub const LINK_ETHERNET: u8 = 2;

/// `union ibv_gid`.
pub type Gid = [u8; 16];

/// `struct ibv_sge`.
#[repr(C)]
pub struct Sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

/// `struct ibv_send_wr`; its last unions, which are not used, as bytes.
#[repr(C)]
pub struct SendWr {
    pub wr_id: u64,
    pub next: *mut SendWr,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
    pub opcode: c_int,
    pub send_flags: u32,
    pub imm_data: u32,
    pub wr: Remote,
    rest: [u64; 7],
}

/// Its `wr`: for READ and WRITE, or for atomics.
#[repr(C)]
#[derive(Clone, Copy)]
pub union Remote {
    pub rdma: Rdma,
    pub atomic: Atomic,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Rdma {
    pub remote_addr: u64,
    pub rkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Atomic {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}

impl SendWr {
    /// With one place in local memory, signaled, and not before all before it.
    pub fn new(wr_id: u64, opcode: c_int, sge: &mut Sge, wr: Remote) -> SendWr {
        SendWr {
            wr_id,
            next: std::ptr::null_mut(),
            // Nothing to take from, or to put to, where it is of no bytes.
            num_sge: c_int::from(sge.length > 0),
            sg_list: sge,
            opcode,
            send_flags: SEND_FENCE | SEND_SIGNALED,
            imm_data: 0,
            wr,
            rest: [0; 7],
        }
    }
}

/// `struct ibv_qp_cap`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct QpCap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

/// `struct ibv_qp_init_attr`.
#[repr(C)]
pub struct QpInitAttr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut Opaque,
    pub cap: QpCap,
    pub qp_type: c_int,
    pub sq_sig_all: c_int,
}

/// `struct ibv_ah_attr`, with its `struct ibv_global_route`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct AhAttr {
    pub dgid: GidAt8,
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}

/// A GID as it is aligned in structures.
#[repr(C, align(8))]
#[derive(Clone, Copy, Default)]
pub struct GidAt8(pub Gid);

/// `struct ibv_qp_attr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct QpAttr {
    pub qp_state: c_int,
    pub cur_qp_state: c_int,
    pub path_mtu: c_int,
    pub path_mig_state: c_int,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: u32,
    pub cap: QpCap,
    pub ah_attr: AhAttr,
    pub alt_ah_attr: AhAttr,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub rate_limit: u32,
}

/// `struct ibv_port_attr`, with room beyond it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct PortAttr {
    pub state: c_int,
    pub max_mtu: c_int,
    pub active_mtu: c_int,
    pub gid_tbl_len: c_int,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    pub link_layer: u8,
    pub flags: u8,
    pub port_cap_flags2: u16,
    room: [u64; 8],
}

/// `struct ibv_wc`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Wc {
    pub wr_id: u64,
    pub status: c_int,
    pub opcode: c_int,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub imm_data: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: u32,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}

/// The beginning of `struct ibv_context`, with those of its functions that are called.
#[repr(C)]
pub struct Context {
    device: *mut Opaque,
    before_poll: [*const c_void; 11],
    pub poll_cq: Option<unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int>,
    before_post: [*const c_void; 13],
    pub post_send: Option<unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int>,
}

/// The beginning of `struct ibv_cq`.
#[repr(C)]
pub struct Cq {
    pub context: *mut Context,
}

/// The beginning of `struct ibv_qp`.
#[repr(C)]
pub struct Qp {
    pub context: *mut Context,
    others: [*mut c_void; 5],
    handle: u32,
    pub qp_num: u32,
}

/// The beginning of `struct ibv_mr`.
#[repr(C)]
pub struct Mr {
    context: *mut Context,
    pd: *mut Opaque,
    addr: *mut c_void,
    length: usize,
    handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

const _: () = {
    assert!(size_of::<Sge>() == 16 && size_of::<SendWr>() == 128 && offset_of!(SendWr, wr) == 40);
    assert!(offset_of!(SendWr, opcode) == 28 && offset_of!(SendWr, send_flags) == 32);
    assert!(size_of::<QpInitAttr>() == 64 && offset_of!(QpInitAttr, cap) == 32);
    assert!(offset_of!(QpInitAttr, qp_type) == 52);
    assert!(size_of::<QpAttr>() == 144 && offset_of!(QpAttr, ah_attr) == 56);
    assert!(offset_of!(QpAttr, pkey_index) == 120 && offset_of!(QpAttr, port_num) == 129);
    assert!(offset_of!(QpAttr, timeout) == 130 && size_of::<AhAttr>() == 32);
    assert!(offset_of!(PortAttr, lid) == 34 && offset_of!(PortAttr, link_layer) == 46);
    assert!(size_of::<Wc>() == 48 && offset_of!(Wc, status) == 8);
    assert!(offset_of!(Context, poll_cq) == 8 + 88 && offset_of!(Context, post_send) == 8 + 200);
    assert!(offset_of!(Qp, qp_num) == 52 && offset_of!(Mr, lkey) == 36 && offset_of!(Mr, rkey) == 40);
};

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $gives:ty)?;)*) => {
        /// The library's functions.
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $gives)?,)*
            // After what points into it.
            _library: Library,
        }

        impl Functions {
            /// Loads the library.
            ///
            /// # Errors
            /// It is not there, or not all of this.
            pub fn load() -> Result<Functions, libloading::Error> {
                // SAFETY: what libibverbs does when it is loaded (it reads its drivers' names) is sound in any thread.
                let library = unsafe { Library::new("libibverbs.so.1")? };
                // SAFETY: these are the types of its functions, by its header.
                unsafe {
                    Ok(Functions {
                        $($name: *library.get(concat!(stringify!($name), "\0").as_bytes())?,)*
                        _library: library,
                    })
                }
            }
        }
    };
}

functions! {
    ibv_get_device_list: fn(*mut c_int) -> *mut *mut Opaque;
    ibv_free_device_list: fn(*mut *mut Opaque);
    ibv_get_device_name: fn(*mut Opaque) -> *const c_char;
    ibv_open_device: fn(*mut Opaque) -> *mut Context;
    ibv_close_device: fn(*mut Context) -> c_int;
    ibv_query_port: fn(*mut Context, u8, *mut PortAttr) -> c_int;
    ibv_query_gid: fn(*mut Context, u8, c_int, *mut Gid) -> c_int;
    ibv_alloc_pd: fn(*mut Context) -> *mut Opaque;
    ibv_dealloc_pd: fn(*mut Opaque) -> c_int;
    ibv_reg_mr: fn(*mut Opaque, *mut c_void, usize, c_int) -> *mut Mr;
    ibv_dereg_mr: fn(*mut Mr) -> c_int;
    ibv_create_cq: fn(*mut Context, c_int, *mut c_void, *mut Opaque, c_int) -> *mut Cq;
    ibv_destroy_cq: fn(*mut Cq) -> c_int;
    ibv_create_qp: fn(*mut Opaque, *mut QpInitAttr) -> *mut Qp;
    ibv_modify_qp: fn(*mut Qp, *mut QpAttr, c_int) -> c_int;
    ibv_destroy_qp: fn(*mut Qp) -> c_int;
}
