/* What of the kernel's interface to XDP programs is used here, written out so that no kernel or libbpf headers are needed.
 * Numbers and shapes are the kernel's stable ABI (include/uapi/linux/bpf.h). fib_lookup may be called only by programs whose licence the
 * kernel knows to be compatible with its own, which the MIT licence is; it knows it by the name "Dual MIT/GPL". */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

struct xdp_md {
	u32 data;
	u32 data_end;
	u32 data_meta;
	u32 ingress_ifindex;
	u32 rx_queue_index;
	u32 egress_ifindex;
};

enum { XDP_ABORTED = 0, XDP_PASS = 2, XDP_TX = 3, XDP_REDIRECT = 4 };
enum { BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_PERCPU_ARRAY = 6, BPF_F_MMAPABLE = 1024 };

/* A question about routes, and its answer. */
struct fib {
	u8 family;
	u8 l4_protocol;
	u16 source_port, port;
	u16 len;
	u32 interface;
	u32 tos;
	u32 source[4];
	u32 address[4];
	u32 vlan;
	u8 own_mac[6];
	u8 next_mac[6];
};
_Static_assert(sizeof(struct fib) == 64, "as in the kernel");
enum { AF_INET = 2 };

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static u64 (*const ktime_ns)(void) = (void *)5;
static u32 (*const cpu_id)(void) = (void *)8;
static long (*const redirect)(u32 interface, u64 flags) = (void *)23;
static long (*const adjust_head)(struct xdp_md *, int by) = (void *)44;
static long (*const adjust_tail)(struct xdp_md *, int by) = (void *)65;
static long (*const fib_lookup)(void *ctx, struct fib *, int len, u32 flags) = (void *)69;
static long (*const load_bytes)(struct xdp_md *, u32 offset, void *to, u32 len) = (void *)189;
static long (*const store_bytes)(struct xdp_md *, u32 offset, const void *from, u32 len) = (void *)190;

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))

/* A map's description as loaders read it from the type's BTF. */
#define MAP_NUMBER(name, value) int(*name)[value]
#define MAP_TYPE(name, type) type *name

/* Memory accesses before it are not moved behind it by the compiler, nor the other way. */
#define BARRIER() asm volatile("" ::: "memory")
/* Read once, where it says so. */
#define ONCE(x) (*(const volatile __typeof__(x) *)&(x))
/* Written once, where it says so. */
#define ONCE_TO(x) (*(volatile __typeof__(x) *)&(x))
/* The value as far as the verifier is concerned: what the compiler knew of it is forgotten, so that a check stays where it is. */
#define OPAQUE(x) asm volatile("" : "+r"(x))
