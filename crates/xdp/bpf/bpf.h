/* What of the kernel's interface to XDP programs is used here, written out so that no kernel or libbpf headers are needed.
 * Numbers and shapes are the kernel's stable ABI (include/uapi/linux/bpf.h). All helpers may be called whatever the licence. */
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

enum { XDP_ABORTED = 0, XDP_PASS = 2, XDP_TX = 3 };
enum { BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_PERCPU_ARRAY = 6, BPF_F_MMAPABLE = 1024 };

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static u64 (*const ktime_ns)(void) = (void *)5;
static u32 (*const cpu_id)(void) = (void *)8;
static long (*const adjust_head)(struct xdp_md *, int by) = (void *)44;
static long (*const adjust_tail)(struct xdp_md *, int by) = (void *)65;
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
/* The value as far as the verifier is concerned: what the compiler knew of it is forgotten, so that a check stays where it is. */
#define OPAQUE(x) asm volatile("" : "+r"(x))
