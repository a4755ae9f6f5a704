//! What an object holds instead of a value: an address, or an address with a length.

/// Where bytes are: a host pointer, or, with bit 62 set, an offset in accelerator memory. It travels through raw memory as
/// a pointer, so that a host address keeps its provenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Addr(*mut u8);

// SAFETY: an address alone reads and writes nothing; whoever follows it answers for that.
unsafe impl Send for Addr {}
// SAFETY: as above.
unsafe impl Sync for Addr {}

/// User-space pointers are below 2^57 on every machine there is.
const ACC: usize = 1 << 62;

impl Addr {
    /// No address; an object is made of zeros.
    pub const NULL: Addr = Addr(std::ptr::null_mut());

    /// A place in host memory.
    #[inline]
    pub fn host(pointer: *mut u8) -> Addr {
        Addr(pointer)
    }

    /// A place in accelerator memory, bytes from its start.
    #[inline]
    pub fn acc(offset: usize) -> Addr {
        Addr(std::ptr::without_provenance_mut(ACC | offset))
    }

    /// True for accelerator memory.
    #[inline]
    pub fn is_acc(self) -> bool {
        self.0.addr() & ACC != 0
    }

    /// True for [`Addr::NULL`].
    #[inline]
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The host pointer.
    ///
    /// # Panics
    /// In accelerator memory: the host cannot read there. Ask [`Addr::is_acc`], or move the field.
    #[inline]
    pub fn pointer(self) -> *mut u8 {
        assert!(!self.is_acc(), "this field is in accelerator memory: move it to the CPU before reading it");
        self.0
    }

    /// The offset in accelerator memory.
    ///
    /// # Panics
    /// On a host address.
    #[inline]
    pub fn offset(self) -> usize {
        assert!(self.is_acc(), "a host address has no offset in accelerator memory");
        self.0.addr() & !ACC
    }

    /// The address `bytes` further on, in the same memory.
    #[inline]
    pub fn after(self, bytes: usize) -> Addr {
        Addr(self.0.wrapping_add(bytes))
    }

    /// As a number: for messages between places, and for printing. Turn it back with [`Addr::from_bits`].
    #[inline]
    pub fn to_bits(self) -> u64 {
        self.0.expose_provenance() as u64
    }

    /// The address that [`Addr::to_bits`] gave.
    #[inline]
    pub fn from_bits(bits: u64) -> Addr {
        Addr(std::ptr::with_exposed_provenance_mut(bits as usize))
    }
}

/// An array, string or bytes, elsewhere: 16 bytes in the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Ref {
    /// Of the first byte; meaningless when `len` and `capacity` are 0.
    pub addr: Addr,
    /// Elements, or bytes of a string.
    pub len: u32,
    /// Elements that there is room for; 0 when the bytes are borrowed from the input or may not grow in place.
    pub capacity: u32,
}

impl Ref {
    /// Nothing: what zeroed memory reads as.
    pub const EMPTY: Ref = Ref { addr: Addr::NULL, len: 0, capacity: 0 };
}

const _: () = assert!(size_of::<Addr>() == 8 && size_of::<Ref>() == 16);
